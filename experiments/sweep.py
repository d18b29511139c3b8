"""Sweeps: the same training at several values of one option, with several trials each.

All trials use the same data and differ only in the seed, as in Bruch et al. (2019, section 3.2). Intervals
therefore describe the variation over seeds, not over data. Trial t has the same seed at every value, and
differences between values are paired by trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from experiments.common import Results, chart, each, intervals
from experiments.datasets import load_split
from lmtune.losses.songs import RelevantPairs
from lmtune.losses.table import SONGS
from lmtune.measures import Measurer, ndcg, paired_t_test
from lmtune.measures.lists import mean_over_lists
from lmtune.measures.significance.tests import adjusted, mean_interval
from lmtune.rerank import Loss, RankingData, RankingSplit, Settings, fit, parse_loss
from lmtune.rerank.data import batches
from lmtune.rerank.learners.feature_networks import FeatureFeed
from lmtune.rerank.reranker import learner_of
from lmtune.rerank.training.loop import TrainingRun

Pair = tuple[str, str]
QUERIES = ("validation", "test")
COURSES = ("objective", "training", "validation")
LISTS = 64
"""Batch size, in lists, for computing the objective."""


def run_trials(
    cases: Mapping[str, Mapping[str, Any]], trials: int, seed: int, **common: Any
) -> tuple[list[tuple[str, int]], list[dict[str, Any]]]:
    """Train each case in each trial; return (name, trial from 1) of each training, and the results.

    Parameters
    ----------
    cases : mapping of str to mapping
        Names and the cases' own settings of `train`.
    trials, seed : int
        Number of trials, and the seed of the first one.
    **common
        Other arguments of `train`, with the ``settings`` that all cases share.
    """
    keys = [(name, trial) for name in cases for trial in range(trials)]
    settings = common.pop("settings")
    calls = [
        {**common, "settings": {**settings, **cases[name], "seed": seed + trial}} for name, trial in keys
    ]
    return [(name, trial + 1) for name, trial in keys], each(train, calls)


def sweep(
    cases: Mapping[str, Mapping[str, Any]],
    comparisons: Sequence[Sequence[Pair]],
    *,
    trials: int,
    seed: int,
    cutoffs: Sequence[int] = (1, 5, 10),
    name: str,
    **common: Any,
) -> Results:
    """Train each case and compare them.

    Parameters
    ----------
    cases, trials, seed, **common
        As in `run_trials`.
    comparisons : sequence of sequence of (str, str)
        Families of pairs of cases to compare; p-values are corrected within each family.
    cutoffs : sequence of int
        Cutoffs of NDCG.
    name : str
        Name of the figure.

    Returns
    -------
    dict
        ``trials``: one row per value, trial, query set and cutoff. ``summary``: means with 95% confidence
        intervals. ``differences``: results of the comparisons. ``courses``: one row per value, trial and
        epoch.
    """
    keys, found = run_trials(cases, trials, seed, data_seed=seed, cutoffs=list(cutoffs), **common)
    rows = trial_rows(zip(keys, found, strict=True), cutoffs)
    courses = [
        {"value": value, "trial": trial, "epoch": epoch, **dict(zip(kinds, at, strict=True))}
        for (value, trial), run in zip(keys, found, strict=True)
        for kinds in [[kind for kind in COURSES if kind in run["courses"]]]
        for epoch, at in enumerate(zip(*map(run["courses"].get, kinds), strict=True), 1)
    ]
    results = {**compared(rows, comparisons), "trials": rows}
    results[name] = draw_summary(results["summary"])
    if courses:
        results["courses"] = pd.DataFrame(courses)
        if "objective" in results["courses"]:
            ends = results["courses"].query("epoch == epoch.max()")
            results["ends"] = ends.groupby("value", sort=False)["objective"].mean().reset_index()
        results[f"{name}-courses"] = draw_courses(results["courses"])
    return results


def trial_rows(runs: Any, cutoffs: Sequence[int]) -> pd.DataFrame:
    """Return one row per value, trial, query set (validation or test) and cutoff."""
    rows = [
        (value, trial, queries, cutoff, reached, run["best_epoch"])
        for (value, trial), run in runs
        for queries in QUERIES
        for cutoff, reached in zip(cutoffs, run[queries], strict=True)
    ]
    return pd.DataFrame(rows, columns=["value", "trial", "queries", "cutoff", "ndcg", "best_epoch"])


def compared(trials: pd.DataFrame, comparisons: Sequence[Sequence[Pair]]) -> Results:
    """Return the tables ``summary`` and ``differences`` of the trials."""
    summary = intervals(trials, ["value", "queries", "cutoff"], "ndcg").rename(columns={"count": "trials"})
    families = [differences(trials, pairs) for pairs in comparisons if pairs]
    return {"summary": summary, "differences": pd.concat(families, ignore_index=True)}


def differences(trials: pd.DataFrame, pairs: Sequence[Pair]) -> pd.DataFrame:
    """Compare pairs of values, paired by trial.

    Returns
    -------
    pandas.DataFrame
        One row per pair, query set and cutoff: the mean of a minus b, its 95% confidence interval, the
        p-value of the paired t-test, and the p-value with Holm's correction over all pairs with the same
        query set and cutoff.
    """
    rows = []
    for (queries, cutoff), part in trials.groupby(["queries", "cutoff"], sort=False):
        table = part.pivot(index="trial", columns="value", values="ndcg")
        both = [(table[a].to_numpy(), table[b].to_numpy()) for a, b in pairs]
        p_values = [paired_t_test(*values) for values in both]
        rows += [
            (*pair, queries, cutoff, float(np.mean(one - other)), *mean_interval(one, other), p, p_holm)
            for pair, (one, other), p, p_holm in zip(pairs, both, p_values, adjusted(p_values), strict=True)
        ]
    columns = ["a", "b", "queries", "cutoff", "difference", "low", "high", "p", "p_holm"]
    return pd.DataFrame(rows, columns=columns)


def draw_summary(summary: pd.DataFrame) -> Any:
    """Draw means with intervals by value, one panel per cutoff."""
    drawn = summary.assign(panel=summary["cutoff"].map("nDCG@{}".format))
    return chart(drawn, "value", "mean", line="queries", panel="panel", between=("low", "high"), dots=True)


def draw_courses(courses: pd.DataFrame) -> Any:
    """Draw means with intervals by epoch, one panel per kind of value in `COURSES`."""
    kinds = [kind for kind in COURSES if kind in courses]
    long = courses.melt(["value", "epoch"], kinds, "kind", "reached")
    means = intervals(long, ["kind", "value", "epoch"], "reached")
    return chart(means, "epoch", "mean", line="value", panel="kind", between=("low", "high"))


def train(
    *,
    data: str,
    data_seed: int,
    settings: Mapping[str, Any],
    cutoffs: Sequence[int],
    least: int = 1,
    watched: bool = False,
    least_steps: int = 1,
) -> dict[str, Any]:
    """Train a network, or LambdaMART, and measure it.

    Parameters
    ----------
    data, data_seed
        As in `experiments.datasets.load_split`.
    settings : mapping
        Fields of `lmtune.rerank.Settings`; losses by name.
    cutoffs : sequence of int
        Cutoffs of NDCG.
    least : int
        The lowest relevant grade: labels are reduced by `least` - 1, but not below 0.
    watched : bool
        Whether to compute the exact objective on all training lists after each epoch; only for losses of
        `lmtune.losses.table.SONGS`.
    least_steps : int
        Minimum number of steps per epoch; the batch size is reduced to reach it.

    Returns
    -------
    dict
        ``validation`` and ``test``: NDCG at each cutoff, with the weights of the best epoch on the validation
        queries. ``best_epoch``. ``courses``: values by epoch, with ``validation``, the settings' measure. If
        watched, also ``objective``, and ``training``, the measure on the training queries.
    """
    fold = with_least_grade(load_split(data, data_seed), least)
    losses = {name: parse_loss(settings[name]) for name in ("loss", "warm_up_loss") if name in settings}
    asked = Settings(**{**settings, **losses})
    most = max(1, len(fold.train.queries) // least_steps)
    asked = replace(asked, batch_size=min(asked.batch_size, most))
    learner = learner_of(asked)
    if not learner.scorer.has_rate:
        grown = learner.fit(fold.train, fold.validation)
        return {**_measured(grown.score, fold, cutoffs), "best_epoch": 0, "courses": {}}
    courses: dict[str, list[float]] = {}
    if watched:
        courses = {"objective": [], "training": []}
        pairs = RelevantPairs.from_lists(fold.train.starts, np.asarray(fold.train.labels))
        feed = FeatureFeed(fold.train, "cpu")
        measurer = Measurer(asked.validation_measure, fold.train)

    def watch(run: TrainingRun) -> None:
        scores = feed.scores(run.task.network).numpy()
        courses["objective"].append(whole_objective(pairs, fold.train, scores, asked.loss))
        courses["training"].append(measurer.mean(scores))

    trained = fit(fold.train, fold.validation, asked, watch=watch if watched else None)
    courses["validation"] = [row.validation for row in trained.history]
    return {**_measured(trained.score, fold, cutoffs), "best_epoch": trained.best_epoch, "courses": courses}


def whole_objective(
    pairs: RelevantPairs, data: RankingData, scores: NDArray[np.floating], asked: Loss
) -> float:
    """Compute the exact objective of a loss of `SONGS` on all items of all lists.

    Unlike the estimate during training, this is the value at the weights that produced the scores, without
    sampling and running estimates.
    """
    options = {name: value for name, value in asked.options.items() if name != "eta"}
    loss = SONGS[asked.name](pairs, **options | {"gamma": 1.0}).eval()
    total, counted = 0.0, 0
    for batch in batches(data, size=LISTS, seed=0, epoch=0, shuffle=False):
        count = int((batch.labels > 0).any(axis=1).sum())
        own = np.where(batch.mask, np.take(scores, batch.rows, mode="clip"), 0.0)
        with torch.no_grad():
            loss(
                torch.from_numpy(np.asarray(own, np.float64)),
                torch.from_numpy(np.asarray(batch.labels, np.float64)),
                queries=torch.from_numpy(batch.queries),
                # Item ids of `RelevantPairs.from_lists` are rows.
                items=torch.from_numpy(batch.rows),
            )
        if count:
            total, counted = total + float(loss.objective) * count, counted + count
    return total / max(counted, 1)


def with_least_grade(fold: RankingSplit, least: int) -> RankingSplit:
    """Make `least` the lowest relevant grade: reduce all labels by `least` - 1, but not below 0."""
    if least == 1:
        return fold

    def lowered(data: RankingData) -> RankingData:
        return replace(data, labels=np.maximum(data.labels - (least - 1), 0).astype(np.float32))

    return fold.map(lowered)


def _measured(
    score: Callable[[RankingData], NDArray[np.floating]], fold: RankingSplit, cutoffs: Sequence[int]
) -> dict[str, list[float]]:
    parts = {"validation": fold.validation, "test": fold.test}
    return {
        name: [float(value) for value in mean_over_lists(ndcg(score(part), part, list(cutoffs)))]
        for name, part in parts.items()
    }


def loss_text(name: str, **options: Any) -> str:
    """Format a loss with its options in the syntax of `lmtune.rerank.parse_loss`."""
    return ":".join([name, *(f"{key}={str(value).lower()}" for key, value in options.items())])
