"""Measure SONG's step for lists of increasing length, sampled and whole.

    python benchmarks/long_lists.py

A step draws samples for 64 users and computes the loss on raw scores and its gradient. "with scorer" also
gathers 32 features per item, runs an MLP 64-32 forward and backward, and updates it with Adam. Figures are
processor milliseconds of this process, the median of repeated steps. In brackets is the number of torch
operations per step without views, an estimate of a GPU's kernel launches.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from lmtune.losses.songs import KSong, ListSampler, RelevantPairs, Song

USERS, BATCH, FEATURES = 512, 64, 32


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    print(f"{platform.processor() or platform.machine()}, torch {torch.__version__}, ", end="")
    print(f"{options.threads} threads; milliseconds of processor time a step of {BATCH} lists")
    steps(options.lengths)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def steps(lengths: Sequence[int]) -> None:
    """Print the cost of a step for each length."""
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
    """Draw each user's relevant items: a tenth of the list, at most 1,000."""
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
    """Return the median processor milliseconds of a step, after warm-up steps that visit every user."""
    for number in range(16 if count > 16 else 1):
        step(number)
    times = []
    for number in range(count):
        start = time.process_time()
        step(number)
        times.append(1_000 * (time.process_time() - start))
    return statistics.median(times)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts torch's operations, without views."""

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


if __name__ == "__main__":
    main()
