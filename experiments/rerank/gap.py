"""Why a set's plain PyTorch baseline differs from lmtune's defaults: all combinations of what differs.

python -m experiments.rerank.gap --data FEATURES.txt --output results/gap
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from experiments.common import Results, each, main
from experiments.rerank.table import PlainListNet, PlainRankNet, folds
from lmtune.measures import confidence_interval, paired_t_test
from lmtune.measures.significance.tests import adjusted
from lmtune.rerank import Loss, Ranker, Settings
from lmtune.rerank.comparison import compare

QUICK = {"data": "artificial:20x10", "losses": ("ranknet",), "trials": 2}

LEVELS: dict[str, dict[str, tuple[Any, Any]]] = {
    "ranknet": {"loop": ("lmtune", "plain"), "epochs": (30, 100), "mean": ("lists", "batch")},
    "listnet": {"loop": ("lmtune", "plain"), "epochs": (30, 100), "rate": (3e-4, 1e-3)},
}
"""What differs, by loss: lmtune's default and the plain baseline. 100 epochs have a patience of 15."""


def experiment(
    *, data: str = "artificial:60", losses: tuple[str, ...] = ("ranknet", "listnet"), trials: int = 10
) -> Results:
    """Train all combinations, on the table's folds and on folds drawn for each seed.

    Parameters
    ----------
    data : str
        a file of features (five folds), or artificial:QUERIES[xDOCUMENTS]
    losses : tuple of str
        ranknet, listnet
    trials : int
        seeds of weights and batches, from 0
    """
    calls = [
        {"data": data, "loss": loss, "cell": cell, "seed": seed, "drawn": drawn}
        for loss in losses
        for cell in product(*LEVELS[loss].values())
        for drawn in (False, True)
        for seed in range(trials)
    ]
    values = pd.DataFrame(calls).assign(ndcg10=each(measure, calls))
    cells = values.groupby(["drawn", "loss", "cell"], sort=False)["ndcg10"].agg(["mean", "std"])
    effects = pd.concat([_effects(part).assign(drawn=drawn) for drawn, part in values.groupby("drawn")])
    return {"cells": cells.reset_index(), "effects": effects, "values": values}


def measure(*, data: str, loss: str, cell: tuple[Any, ...], seed: int, drawn: bool) -> float:
    """Return the mean test nDCG@10 of one combination and seed, over all folds."""
    torch.set_num_threads(1)
    at = dict(zip(LEVELS[loss], cell, strict=True))
    epochs, rate = at["epochs"], at.get("rate", 1e-3)
    by_list = at.get("mean") == "lists"
    settings = Settings(epochs=epochs, patience=15 if epochs == 100 else None, learning_rate=rate, seed=seed)
    if at["loop"] == "plain":
        base = {"ranknet": _ByList if by_list else PlainRankNet, "listnet": PlainListNet}[loss]
        options = {"epochs": epochs, "patience": settings.patience or epochs, "rate": rate}
        method: Any = Ranker.of(type("Cell", (base,), options))
    else:
        is_batch = at.get("mean") == "batch"
        method = Loss.of(batch_ranknet) if is_batch else Loss(loss)
    [outcome] = compare(folds(data, seed if drawn else 0), [method], settings, rates=[rate], trials=1)
    return float(outcome.by_trial("skip", settings.validation_measure)[0])


def batch_ranknet(scores: Tensor, labels: Tensor, *, mask: Tensor) -> Tensor:
    """Return plain RankNet's loss, the mean over a batch's pairs."""
    return PlainRankNet.loss(scores, labels, mask)


class _ByList(PlainRankNet):
    """Plain RankNet with the mean over each list's pairs, then over lists."""

    @staticmethod
    def loss(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the mean over lists."""
        better = (labels.unsqueeze(2) > labels.unsqueeze(1)) & mask.unsqueeze(2) & mask.unsqueeze(1)
        costs = nn.functional.softplus(scores.unsqueeze(1) - scores.unsqueeze(2)) * better
        return (costs.sum((1, 2)) / better.sum((1, 2)).clamp(min=1)).mean()


def _effects(values: pd.DataFrame) -> pd.DataFrame:
    """Return each factor's effect, plain's level minus lmtune's, as means over the other factors."""
    rows = []
    for loss, of_loss in values.groupby("loss", sort=False):
        table = of_loss.pivot_table("ndcg10", "seed", "cell", sort=False)
        cells: list[Any] = [*table.columns]
        ours, *_, plain = cells
        differences = {"all": table[plain] - table[ours]}
        for place, (factor, levels) in enumerate(LEVELS[str(loss)].items()):
            sides = [[cell for cell in cells if cell[place] == level] for level in levels]
            differences[factor] = table[sides[1]].mean(axis=1) - table[sides[0]].mean(axis=1)
        for factor, of_seeds in differences.items():
            mean, half = confidence_interval(of_seeds.tolist())
            rows.append((loss, factor, mean, mean - half, mean + half, paired_t_test(of_seeds, 0.0)))
    effects = pd.DataFrame(rows, columns=["loss", "factor", "mean", "low", "high", "p"])
    return effects.assign(holm=adjusted(effects["p"].tolist()))


if __name__ == "__main__":
    main(__spec__)
