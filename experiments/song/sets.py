"""Losses, or options of a loss, on several data sets, paired by set (Qiu et al. 2022, table 1)."""

from __future__ import annotations

import pandas as pd

from experiments.common import Results, main
from experiments.sweep import compared, draw_summary, run_trials, trial_rows

QUICK = {"data": "artificial:30,artificial:20x60", "epochs": 5}


def experiment(
    *,
    data: str = "artificial:60,artificial:100x20,artificial:20x300",
    losses: tuple[str, ...] = ("ranknet", "lambdarank", "listnet", "approxndcg", "song", "k-song"),
    network: str = "b64",
    learning_rate: float = 0.001,
    trials: int = 2,
    epochs: int = 30,
    batch_size: int = 64,
    list_size: int = 0,
    seed: int = 0,
) -> Results:
    """Train with several losses on several data sets; sets replace the trials of other sweeps.

    Parameters
    ----------
    data : str
        two or more sets: artificial:QUERIES[xDOCUMENTS], folders of LETOR files
    losses : tuple of str
        losses with options, NAME:OPTION=VALUE; the others are compared with the first
    network : str
        the scorer, except of trees
    learning_rate : float
        Adam's rate
    trials : int
        seeds for each loss and set; results are averaged
    epochs : int
        passes over the training queries
    batch_size : int
        queries in a step, at most a quarter of a set's
    list_size : int
        documents of a query in a step, sampled in each epoch; 0: all
    seed : int
        seed of artificial data and of the first trial
    """
    settings = {"network": network, "learning_rate": learning_rate, "list_size": list_size or None}
    settings |= {"epochs": epochs, "batch_size": batch_size, "measure": "ndcg@10"}
    how = {"data_seed": seed, "cutoffs": [10], "least_steps": 4, "settings": settings}
    cases = {loss: {"loss": loss} for loss in losses}
    sets = []
    for name in data.split(","):
        keys, found = run_trials(cases, trials, seed, data=name.strip(), **how)
        rows = trial_rows(zip(keys, found, strict=True), [10])
        means = rows.groupby(["value", "queries", "cutoff"], sort=False)[["ndcg", "best_epoch"]].mean()
        sets.append(means.reset_index().assign(set=name.strip()))
    reached = pd.concat(sets)
    reached = reached.sort_values("value", key=lambda value: value.map(losses.index), kind="stable")
    pairs = [(loss, losses[0]) for loss in losses[1:]]
    results = compared(reached.rename(columns={"set": "trial"}), [pairs])
    return {**results, "sets": reached, "by-loss": draw_summary(results["summary"])}


if __name__ == "__main__":
    main(__spec__)
