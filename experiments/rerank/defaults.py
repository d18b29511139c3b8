"""Defaults of rerankers on features, by validation on training data: recipes, learning rates, trees.

    python -m experiments.rerank.defaults SET.txt ... --part rates --output defaults_rates.csv

Each argument is a file of training data in LETOR format. The protocol is docs/protocols/reranker-defaults.md.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lmtune.measures.lists import mean_over_lists, ndcg
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners import feature_networks, trees
from lmtune.rerank.learners.learner import Scorer
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.rankers import TreeSettings
from lmtune.rerank.settings import Settings

RECIPES: dict[str, tuple[str, int, int]] = {
    "old": ("b256", 64, 30),
    "small-30": ("mlp:64-32", 16, 30),
    "small-60": ("mlp:64-32", 16, 60),
    "small-100": ("mlp:64-32", 16, 100),
    "wide-60": ("mlp:128-64", 16, 60),
    "linear-60": ("linear", 16, 60),
}
"""Network, batch size and epochs by name."""

_RECIPE = ("network", "batch_size", "epochs")

LOSSES = ("lambdarank", "ranknet", "listnet", "song")

MORE_LOSSES = (
    *LOSSES,
    *("ndcgloss2++", "approxndcg", "neuralndcg", "listmle", "k-song"),
    *("binary-cross-entropy", "margin-mse", "adr-mse"),
)
"""Losses whose learning rates are compared."""

LISTNET = "listnet at 0.001"
LISTNET_RATES: dict[str, Any] = {"listnet": 0.0003, LISTNET: 0.001}

RATES = (0.0003, 0.001, 0.003)

STEPS = (0, 150, 300, 600, 1200)
"""Least numbers of steps of a training."""

PATIENCE = {"30": (30, None), "100 with patience 15": (100, 15)}
"""Epochs and patience by name."""

_LEAVES: dict[str, Any] = {"min_rows": 20, "min_hessian": 1e-3, "row_share": 1.0}
TREES: dict[str, dict[str, Any]] = {
    "example": {"rounds": 1000, "patience": 50, "min_rows": 50, "min_hessian": 5.0, "row_share": 0.9},
    "lightgbm-100": {"rounds": 100, "patience": 100, **_LEAVES},
    "lightgbm-1000": {"rounds": 1000, "patience": 50, **_LEAVES},
}
"""LambdaMART: the settings of LightGBM's example, and LightGBM's own with at most 100 or 1,000 trees."""

_MOST = 200

Fit = Callable[[RankingData, RankingData], Scorer]


def parts_of(data: RankingData, seed: int) -> list[RankingData]:
    """Split up to 200 queries with a relevant document at random: 60%, 20% and 20%."""
    useful = [q for q in range(len(data.queries)) if data.labels[data.rows(q)].max(initial=0) > 0]
    drawn = np.random.default_rng(seed).permutation(useful)[:_MOST]
    cuts = [round(0.6 * len(drawn)), round(0.8 * len(drawn))]
    train, *others = (data.take(np.sort(part)) for part in np.split(drawn, cuts))
    normaliser = Normalisation().fit(train)
    return [normaliser.transform(part) for part in (train, *others)]


def candidates(part: str, seed: int, queries: int) -> Iterator[tuple[str, str, Fit]]:
    """Yield the loss, the candidate's name and its training for one part of the protocol."""
    if part in ("steps", "patience"):
        for loss in (*LOSSES, LISTNET):
            rate: Any = LISTNET_RATES.get(loss)
            usual = Settings(loss=parse_loss(loss.split()[0]), learning_rate=rate, seed=seed)
            stops = {str(steps): (_epochs(steps, queries, usual), None) for steps in STEPS}
            for name, (epochs, patience) in (PATIENCE if part == "patience" else stops).items():
                changed = replace(usual, epochs=epochs, patience=patience)
                yield loss, name, partial(feature_networks.fit, settings=changed)
        return
    if part == "trees":
        for name, options in TREES.items():
            yield "lambdamart", name, partial(trees.fit, settings=TreeSettings(seed=seed, **options))
        return
    for loss in LOSSES if part == "recipes" else MORE_LOSSES:
        usual = Settings(loss=parse_loss(loss), seed=seed)
        of_name: dict[str, dict[str, Any]]
        if part == "rates":
            of_name = {f"{rate:g}": {"learning_rate": rate} for rate in RATES}
        else:
            of_name = {
                name: dict[str, Any](zip(_RECIPE, recipe, strict=True)) for name, recipe in RECIPES.items()
            }
        for name, options in of_name.items():
            yield loss, name, partial(feature_networks.fit, settings=replace(usual, **options))


def _epochs(steps: int, queries: int, settings: Settings) -> int:
    return max(30, math.ceil(steps / math.ceil(queries / settings.batch_size)))


def main() -> None:
    """Train each candidate on each set, and write nDCG@10 and CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--part", choices=("recipes", "rates", "trees", "steps", "patience"), required=True)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="number of the first split")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.output.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["set", "split", "loss", "recipe", "ndcg@10", "cpu_s"])
        for path in options.sets:
            data = RankingData.read(path, cache=False, repeated="last")
            for split in range(options.first, options.first + options.splits):
                train, validation, held_out = parts_of(data, split)
                for loss, name, fit in candidates(options.part, split, len(train.queries)):
                    started = time.process_time()
                    scores = fit(train, validation).score(held_out)
                    spent = time.process_time() - started
                    value = mean_over_lists(ndcg(scores, held_out, [10]))[0]
                    rows.writerow([path.stem, split, loss, name, f"{value:.4f}", f"{spent:.1f}"])
                    file.flush()


if __name__ == "__main__":
    main()
