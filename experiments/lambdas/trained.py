"""Networks trained by lambdas for winner takes all and for AUC, compared with RankNet (Burges 2005)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from experiments.common import Results, each, main
from experiments.datasets import load_split, short_name
from experiments.lambdas import examples
from experiments.sweep import with_least_grade
from lmtune.measures import ComparisonOptions, Measurer, compare
from lmtune.rerank import Settings, fit, make_network, parse_loss

QUICK = {"data": ("artificial:30x20",), "trials": 2, "epochs": 3}
MEASURES = ("wta", "pairwise-error")
UNTRAINED = "untrained"


def experiment(
    *,
    data: tuple[str, ...] = ("artificial:300x50",),
    losses: tuple[str, ...] = ("ranknet", "winner", "lambdarank:k=1", "soft_errors"),
    least: int = 3,
    measure: str = "mrr@1",
    network: str = "mlp:64-32",
    epochs: int = 30,
    batch_size: int = 16,
    learning_rate: float = 0.001,
    trials: int = 3,
    seed: int = 0,
) -> Results:
    """Train by each loss; compare the measures of test queries, means over trials, with the first loss.

    Parameters
    ----------
    data : tuple of str
        sets: artificial:QUERIES[xDOCUMENTS] or folders of LETOR files
    losses : tuple of str
        losses with options, and names of functions of `experiments.lambdas.examples`
    least : int
        smallest relevant label of artificial data
    measure : str
        validation measure that chooses the epoch; mrr@1 is 1 minus winner takes all
    network : str
        the scorer
    epochs : int
        passes over the training queries
    batch_size : int
        queries in a step
    learning_rate : float
        Adam's rate
    trials : int
        seeds for each loss
    seed : int
        seed of artificial data and of the first trial
    """
    settings = {"network": network, "epochs": epochs, "batch_size": batch_size, "measure": measure}
    settings |= {"learning_rate": learning_rate}
    methods = (*losses, UNTRAINED)
    keys = list(product(data, methods, range(trials)))
    calls = [
        {"data": name, "data_seed": seed, "least": least, "loss": loss}
        | {"settings": {**settings, "seed": seed + trial}}
        for name, loss, trial in keys
    ]
    found = iter(each(train, calls))
    summary, compared = [], []
    for name in data:
        means = {method: np.mean([next(found) for _ in range(trials)], axis=0) for method in methods}
        for method, values in means.items():
            row = dict(zip(MEASURES, np.nanmean(values, axis=1), strict=True))
            summary.append({"set": short_name(name), "loss": method, **row})
        for number, one in enumerate(MEASURES):
            counted = ~np.isnan(means[losses[0]][number])
            first, *rest = (values[number][counted] for values in means.values())
            others = dict(zip(methods[1:], rest, strict=True))
            options = ComparisonOptions()
            table = compare(first, others, options, baseline=losses[0], measures=[one]).to_frame()
            compared.append(table.assign(set=short_name(name)))
    return {"summary": pd.DataFrame(summary), "comparison": pd.concat(compared)}


def train(
    *, data: str, data_seed: int, least: int, loss: str, settings: dict[str, Any]
) -> NDArray[np.float64]:
    """Train once; return the measures of the test queries, shape (measures, queries)."""
    split = load_split(data, data_seed)
    if data.startswith("artificial:"):
        split = with_least_grade(split, least)
    if loss == UNTRAINED:
        torch.manual_seed(0)
        network: Any = make_network(
            str(settings["network"]), split.test.features.shape[1], seed=settings["seed"]
        )
        with torch.no_grad():
            scores = network.items(torch.from_numpy(split.test.features)).numpy()
    else:
        own = f"lambdas:{Path(examples.__file__)}:{loss}" if hasattr(examples, loss) else loss
        trained = fit(split.train, split.validation, Settings(loss=parse_loss(own), **settings))
        scores = trained.score(split.test)
    return np.stack([Measurer(one, split.test).values(scores) for one in MEASURES])


if __name__ == "__main__":
    main(__spec__)
