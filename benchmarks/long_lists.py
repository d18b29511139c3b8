"""Measure SONG's step at growing lists, sampled and whole; train on MovieLens-100K.

    python benchmarks/long_lists.py
    python benchmarks/long_lists.py --ratings ../shared/data/movielens100k/ratings.tsv

A step draws the sample of 64 users, makes the loss on raw scores and goes backward; "with scorer"
adds gathering 32 features an item, an MLP 64-32 forward and backward, and Adam. Milliseconds are
processor time of this process, the median of repeated steps.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lmtune.reranking.long_lists import LONG_LISTS, fit, score_all
from lmtune.reranking.loss_names import parse_loss
from lmtune.reranking.ratings import held_out_ndcg, leave_out, read_ratings
from lmtune.reranking.song import KSong, ListSampler, RelevantPairs, Song

USERS, BATCH, FEATURES = 512, 64, 32
LOSSES = ["song", "k-song:theoretical=false", "k-song", "cross-entropy"]


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    print(f"{platform.processor() or platform.machine()}, torch {torch.__version__}, ", end="")
    print(f"{options.threads} threads; milliseconds of processor time a step of {BATCH} lists")
    if options.ratings is None or not options.skip_steps:
        steps(options.lengths)
    if options.ratings is not None:
        movielens(options.ratings, options.epochs, options.all_items)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ratings", type=Path, help="train on these, too")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--all-items", action="store_true", help="train on whole lists, too")
    parser.add_argument("--skip-steps", action="store_true", help="only train")
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
        print(
            f"{length:8,} {len(pairs.items):10,}" + "".join(f"{value:19.2f}" for value in figures), flush=True
        )


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


def movielens(path: Path, epochs: int, all_items: bool) -> None:
    """Train each loss, and print NDCG on each user's last five ratings beside popularity's."""
    ratings = read_ratings(path)
    split = leave_out(ratings, validation=5, test=5)
    seen = np.concatenate([split.train, split.validation])
    cutoffs = (10, 20, 50)
    users, items = len(ratings.user_ids), len(ratings.item_ids)
    print(f"\n{users:,} users, {items:,} items; NDCG of 5 held-out items among all not seen")
    print(f"{'':36}" + "".join(f"{f'@{cutoff}':>9}" for cutoff in cutoffs) + f"{'CPU s':>9}")

    def line(name: str, scores: NDArray[np.floating], seconds: float) -> None:
        values = held_out_ndcg(scores, ratings, split.test, seen, cutoffs).mean(0)
        figures = "".join(f"{value:9.4f}" for value in values)
        print(f"{name:36}{figures}{seconds:9.1f}", flush=True)

    popularity = np.bincount(ratings.items[split.train], minlength=items).astype(np.float64)
    line("popularity", np.tile(popularity, (users, 1)), 0.0)
    for others in (30, 0) if all_items else (30,):
        for loss in LOSSES:
            settings = replace(
                LONG_LISTS,
                loss=parse_loss(loss),
                epochs=epochs,
                list_size=10 + others if others else None,
                list_relevant=10 if others else None,
            )
            start = time.process_time()
            fitted = fit(ratings, split, settings, cutoffs=cutoffs)
            seconds = time.process_time() - start
            name = f"{loss}, {'10 + 30 items' if others else 'all items'}"
            line(name, score_all(fitted.network), seconds)


if __name__ == "__main__":
    main()
