"""Measure SONG's step at growing lists, sampled and whole; ratings of MovieLens-20M's shape.

    python benchmarks/long_lists.py
    python benchmarks/long_lists.py --make 138493x26744x20000263 --ratings made.csv
    python benchmarks/long_lists.py --ratings made.csv --threads 2

A step draws the sample of 64 users, makes the loss on raw scores and goes backward; "with scorer"
adds gathering 32 features an item, an MLP 64-32 forward and backward, and Adam. Milliseconds are
processor time of this process, the median of repeated steps, and behind them the step's operations of
torch, views aside: what a GPU would be sent. Of ratings: seconds and the most
memory so far, after reading, holding 5 + 5 out, measuring a NeuMF on every user, and some steps of
training.
"""

from __future__ import annotations

import argparse
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from lmtune.formats.ratings import read_ratings
from lmtune.reranking.long_lists.learning import LongListTask
from lmtune.reranking.long_lists.ratings import NeuMF, RatingLists
from lmtune.reranking.long_lists.settings import LONG_LISTS
from lmtune.reranking.losses.names import parse_loss
from lmtune.reranking.song import KSong, ListSampler, RelevantPairs, Song
from lmtune.reranking.training.loop import TrainingRun

USERS, BATCH, FEATURES = 512, 64, 32
LOSSES = ["song", "listnet"]


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    print(f"{platform.processor() or platform.machine()}, torch {torch.__version__}, ", end="")
    print(f"{options.threads} threads; milliseconds of processor time a step of {BATCH} lists")
    if options.make is not None:
        users, items, count = map(int, options.make.split("x"))
        make(users, items, count, options.ratings)
    elif options.ratings is not None:
        at_scale(options.ratings, options.steps)
    else:
        steps(options.lengths)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--make", help="USERSxITEMSxRATINGS, to write to --ratings")
    parser.add_argument("--ratings", type=Path, help="read and measure these")
    parser.add_argument("--steps", type=int, default=100, help="of training, by each of two losses")
    return parser.parse_args()


def steps(lengths: Sequence[int]) -> None:
    """Print the cost of a step at each length."""
    names = ["SONG", "K-SONG", "with scorer", "SONG, all items", "K-SONG, all items"]
    print(f"{'items':>8} {'pairs':>10}" + "".join(f"{name:>19}" for name in names))
    for length in lengths:
        pairs = made_pairs(length)
        sampler = ListSampler(pairs, length, relevant=10, others=30, seed=0)
        song, k_song = Song(pairs), KSong(pairs)
        sampled = [raw_step(loss, sampler, length, whole=False) for loss in (song, k_song)]
        sampled.append(scorer_step(song, sampler, length))
        whole = [raw_step(loss, sampler, length, whole=True) for loss in (song, k_song)]
        figures = [median(step, 30) for step in sampled] + [median(step, 3) for step in whole]
        counts = [operations(step) for step in sampled + whole]
        cells = "".join(f"{value:13.2f} ({count:3})" for value, count in zip(figures, counts, strict=True))
        print(f"{length:8,} {len(pairs.items):10,}{cells}", flush=True)


def made_pairs(length: int) -> RelevantPairs:
    """Give each user relevant items: a tenth of the list, at most 1,000."""
    random = np.random.default_rng(length)
    count = min(length // 10, 1_000)
    items = np.concatenate([random.permutation(length)[:count] for _ in range(USERS)])
    users = np.repeat(np.arange(USERS), count)
    labels = random.integers(1, 5, len(items))
    return RelevantPairs.from_rows(users, items, labels, lengths=length)


def raw_step(loss: Song, sampler: ListSampler, length: int, *, whole: bool) -> Callable[[int], None]:
    scores = torch.randn(BATCH, length if whole else 40).requires_grad_()
    positions = positions_of(length)[: 1 if whole else None]

    def step(number: int) -> None:
        chosen = positions[number % len(positions)]
        sample = sampler.all_items(chosen) if whole else sampler.draw(chosen, epoch=0, step=number)
        value = loss(
            scores,
            torch.from_numpy(sample.labels),
            queries=torch.from_numpy(chosen),
            items=torch.from_numpy(sample.items),
        )
        torch.autograd.grad(value, scores)

    return step


def scorer_step(loss: Song, sampler: ListSampler, length: int) -> Callable[[int], None]:
    features = torch.randn(length, FEATURES)
    network = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 1),
    )
    optimiser = torch.optim.Adam(network.parameters())
    positions = positions_of(length)

    def step(number: int) -> None:
        chosen = positions[number % len(positions)]
        sample = sampler.draw(chosen, epoch=0, step=number)
        items = torch.from_numpy(sample.items)
        scores = network(features[items]).squeeze(-1)
        labels = torch.from_numpy(sample.labels)
        value = loss(scores, labels, queries=torch.from_numpy(chosen), items=items)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()

    return step


def positions_of(length: int) -> list[NDArray[np.int64]]:
    random = np.random.default_rng(length)
    return [random.permutation(USERS)[:BATCH] for _ in range(16)]


def median(step: Callable[[int], None], count: int) -> float:
    """Milliseconds of processor time, after warm-up steps that visit every user of the step."""
    for number in range(16 if count > 16 else 1):
        step(number)
    times = []
    for number in range(count):
        start = time.process_time()
        step(number)
        times.append(1_000 * (time.process_time() - start))
    return statistics.median(times)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what torch does, but for views."""

    views = ("view", "expand", "unsqueeze", "squeeze", "slice", "select", "transpose", "detach", "alias")
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.name().removeprefix("aten::").partition(".")[0] not in self.views
        return func(*args, **(kwargs or {}))


def operations(step: Callable[[int], None]) -> int:
    counted = Operations()  # type: ignore[no-untyped-call]
    with counted:
        step(0)
    return counted.count


def make(users: int, items: int, count: int, path: Path) -> None:
    """Write ratings: some users and items have far more than others, each user has 11 or more."""
    random = np.random.default_rng(0)
    sizes = random.lognormal(0.0, 1.2, users)
    sizes = 11 + np.minimum(sizes * (1.25 * count - 11 * users) / sizes.sum(), 0.3 * items)
    owners = np.repeat(np.arange(users, dtype=np.int64), sizes.astype(np.int64))
    keys = np.unique(owners * items + (random.random(len(owners)) ** 2.5 * items).astype(np.int64))
    kept = np.sort(random.permutation(len(keys))[:count])
    with path.open("w") as stream:
        stream.write("userId,movieId,rating,timestamp\n")
        for part in np.array_split(keys[kept], 100):
            rated = random.integers(1, 11, len(part)) / 2
            times = random.integers(789_652_009, 1_427_784_002, len(part))
            columns = (part // items + 1, part % items + 1, rated, times)
            rows = zip(*(own.tolist() for own in columns), strict=True)
            stream.writelines(f"{user},{item},{value},{time}\n" for user, item, value, time in rows)


def at_scale(path: Path, count: int) -> None:
    """Print what reading, measuring and some steps of training take."""
    begin = time.perf_counter(), time.process_time()

    def line(what: str) -> None:
        nonlocal begin
        wall, processor = time.perf_counter() - begin[0], time.process_time() - begin[1]
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{what:48} {wall:8.1f} s {processor:8.1f} CPU s {most:6.2f} GB", flush=True)
        begin = time.perf_counter(), time.process_time()

    lists = RatingLists(read_ratings(path))
    users, items = len(lists.ratings.user_ids), len(lists.ratings.item_ids)
    line(f"{len(lists.ratings.users):,} ratings read")
    held = lists.test
    line(f"{len(held.users):,} of {users:,} users have 5 + 5 held out")
    network = NeuMF(users, items)
    network.ndcg(held.sample(1_000, 0), [10])
    line("NDCG over all items, of 1,000 users")
    network.ndcg(held, [10, 20, 50])
    line(f"NDCG over all {items:,} items, of all users")
    for loss in LOSSES:
        settings = replace(LONG_LISTS, loss=parse_loss(loss), warm_up=0)
        task = LongListTask(lists, settings, "cpu")
        run = TrainingRun(task, settings, "cpu")
        line(f"{loss}: made ready")
        for batch in islice(run.staged(0, 0, run.objective), count):
            run.make_step(batch, run.objective)
        line(f"{loss}: {count} of {task.steps:,} steps of an epoch")


if __name__ == "__main__":
    main()
