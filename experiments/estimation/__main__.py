"""Optimisation error and estimation error of settings that are fitted on few topics.

A certificate bounds the distance of a setting to the best one on its training topics. The remaining loss is
estimation error. Methods that do not choose the highest mean use one array: the measure of all topics at all
settings of a grid. The protocol is PROTOCOL.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Results, chart, each, main
from experiments.datasets import load_pool, short_name, usable_topics
from experiments.estimation.choices import OPTIMUM, Grid, Vector, crossed_halves, decompose
from experiments.methods import Methods, disjoint_sets
from experiments.resampling import topics_and_sets
from lmtune import CertifiedOptimum
from lmtune.measures import equivalence_test, parse_measure
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.significance.tests import mean_interval
from lmtune.tuning.experiment.result import APPROX, DIRECT, RANKNET
from lmtune.tuning.surrogate import ALPHAS

QUICK = {"models": ("bm25",), "sizes": (5, 10), "draws": 4, "grid": (8, 8), "topics": 60}
TOGETHER, FEWEST = 5, 20
"""Training sets in a task, and the minimum number of test topics."""
CONFIDENCE = 0.9
KEYS = ["collection", "model", "size", "set"]
CELL = ["model", "size", "method"]
FIGURES = ["train", "test", "optimisation", "unproven", "below", "above", "part"]
REFERENCES = ("below", "above")


@dataclass(frozen=True)
class Fitting:
    """Options of the fits and the topics.

    Attributes
    ----------
    measure : str
        AP, P@k, nDCG@k
    draws : int
        training sets of each size: disjoint while topics last, then drawn again
    tolerance : float
        tolerance of the certificate; 0: no certificate, the best setting found replaces it
    grid : tuple of int
        grid points along the parameters
    topics : int
        number of topics, sampled with the seed; 0 for all
    seed : int
        seed of topics, training sets and the methods' starts
    """

    measure: str = "AP"
    draws: int = 20
    tolerance: float = 0.001
    grid: tuple[int, ...] = (20, 26)
    topics: int = 0
    seed: int = 0


FITTING = Fitting()


def experiment(
    fitting: Fitting = FITTING,
    *,
    datasets: tuple[str, ...] = ("pydocs",),
    models: tuple[str, ...] = ("bm25", "two-stage"),
    sizes: tuple[int, ...] = (5, 10, 25, 50, 100, 200),
    margin: float = 0.005,
) -> Results:
    """Fit by several methods on many training sets, and split each loss into the two errors.

    Parameters
    ----------
    fitting : Fitting
        the options of a fit
    datasets : tuple of str
        collections: names or paths for lmtune.load
    models : tuple of str
        bm25, two-stage
    sizes : tuple of int
        numbers of training topics; 20 test topics must be left
    margin : float
        equivalence margin

    Returns
    -------
    dict
        ``answer`` has means over collections, ``cells`` those of each collection, and ``fits`` a row for
        each training set. In ``cells``, ``low`` and ``high`` are the ends of the 90% interval of ``part``, or
        of the estimation gap in the rows ``below`` and ``above``. Topics and sets are treated as random.
    """
    calls = [
        {"fitting": fitting, "dataset": dataset, "model": model, "size": size, "first": first}
        for dataset in datasets
        for available in [fitting.topics or len(usable_topics(dataset))]
        for model in models
        for size in sizes
        if size <= available - FEWEST
        for first in range(0, fitting.draws, TOGETHER)
    ]
    results = each(examine, calls)
    fits = pd.DataFrame([row for result in results for row in result["fits"]])
    cells = pd.DataFrame(_cells(fits, pd.DataFrame([row for result in results for row in result["sums"]])))
    answer = pd.DataFrame(_answer(cells, margin))
    methods = answer[~answer["method"].isin([OPTIMUM, RANKNET])]
    lost = methods.assign(lost=-methods["part"], low=-methods["high"], high=-methods["low"])
    return {
        "answer": answer,
        "cells": cells,
        "fits": fits,
        "gaps": draw_gaps(answer),
        "methods": chart(
            lost,
            "size",
            "lost",
            line="method",
            panel="model",
            between=("low", "high"),
            dots=True,
            levels=(-margin, 0.0, margin),
        ),
    }


def draw_gaps(answer: pd.DataFrame) -> Any:
    """Plot the two estimates of the estimation error and Direct's optimisation error by number of topics."""
    names = {"above": "few topics, at most", "below": "few topics, at least", "optimisation": "the search"}
    direct = answer[answer["method"] == DIRECT].rename(columns=names)
    long = direct.melt(CELL, [*names.values()], "gap", "lost on average")
    return chart(long, "size", "lost on average", line="gap", panel="model", log="x", levels=(0.0,))


def examine(*, fitting: Fitting, dataset: str, model: str, size: int, first: int) -> dict[str, Any]:
    """Fit by every method on a few training sets, and split the losses.

    Returns
    -------
    dict
        Rows of tables: ``fits`` has a row for each set and method. ``sums`` has, by method, the sums over
        the sets of each test topic's loss relative to the optimum (for references the gain), and the number
        of sets, ``counts``.
    """
    methods, table = _prepared(dataset, model, fitting)
    every = methods.pool.topics
    rows: list[dict[str, Any]] = []
    counts, sums = np.zeros(len(every), np.int64), dict[str, Vector]()
    sets = disjoint_sets(every, size, fitting.draws, seed=fitting.seed)
    for number, subset in islice(enumerate(sets), first, first + TOGETHER):
        train = methods.pool.positions(subset)
        test = np.setdiff1d(methods.pool.positions(), train)
        rng = np.random.default_rng([fitting.seed, size, number])
        settings, by_topic, bound = _fitted(methods, table, subset, rng, fitting)
        parts = decompose(by_topic, train, test)
        best = [*by_topic.values(), table.values[:, table.values[test].mean(axis=0).argmax()]]
        above = max(best, key=lambda topics: float(topics[test].mean()))[test]
        references = {"below": crossed_halves(table.values, test, rng), "above": above}
        held_out = parts[OPTIMUM]["test"]
        common = {name: float(own.mean()) - held_out for name, own in references.items()}
        common["unproven"] = bound - parts[OPTIMUM]["train"]
        keys = dict(zip(KEYS, (short_name(dataset), model, size, number), strict=True))
        rows += [
            {**keys, "method": name, **methods.space.named(settings[name]), **part, **common}
            for name, part in parts.items()
        ]
        counts[test] += 1
        optimum = by_topic[OPTIMUM][test]
        gains = {name: own - optimum for name, own in references.items()}
        for name, own in (gains | {name: optimum - own[test] for name, own in by_topic.items()}).items():
            sums.setdefault(name, np.zeros(len(every)))[test] += own
    cell = dict(zip(KEYS[:3], (short_name(dataset), model, size), strict=True))
    summed = [
        {**cell, "method": name, "sums": own.tolist(), "counts": counts.tolist()}
        for name, own in sums.items()
    ]
    return {"fits": rows, "sums": summed}


def _fitted(
    methods: Methods, grid: Grid, subset: Sequence[str], rng: np.random.Generator, fitting: Fitting
) -> tuple[dict[str, Vector], dict[str, Vector], float]:
    """Return settings and topic values by method, and an upper bound of the mean on the training topics."""
    pool, space, judged_by = methods.pool, methods.space, parse_measure(fitting.measure)
    train = pool.positions(subset)
    fits = {
        DIRECT: methods.direct(judged_by, subset),
        APPROX: methods.surrogate(f"approx-{judged_by}", ALPHAS, subset),
        "softmax": methods.surrogate("softmax", ALPHAS[:1], subset),
        RANKNET: methods.ranknet(subset),
    }
    settings = grid.choices(train, rng)
    settings |= {name: space.vector(choice.tuner.best_params_) for name, choice in fits.items()}
    bound, tried = math.nan, list(settings.values())
    if fitting.tolerance:
        starts = [space.named(own) for own in tried]
        proven = CertifiedOptimum(judged_by, tolerance=fitting.tolerance, space=space, starts=starts)
        bound = proven.fit(pool, topics=subset).bound_
        tried.insert(0, space.vector(proven.best_params_))
    values = measure_settings(pool, np.array(tried), [judged_by])[:, :, 0].T
    means = [float(own[train].mean()) for own in values]
    best = int(np.argmax(means))
    by_topic = dict(zip(settings, values[-len(settings) :], strict=True))
    return ({OPTIMUM: tried[best], **settings}, {OPTIMUM: values[best], **by_topic}, max(bound, means[best]))


def _cells(fits: pd.DataFrame, summed: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a row for each collection, model, size and method or reference: means, interval of ``part``."""
    for keys, group in summed.groupby([*KEYS[:3], "method"], sort=False):
        *cell, method = keys
        own = (fits[KEYS[:3]] == cell).all(axis=1)
        rows = fits[own & (fits["method"] == (OPTIMUM if method in REFERENCES else method))]
        by_set = rows[method if method in REFERENCES else "part"].to_numpy()
        sums, counts = (np.sum(group[column].tolist(), axis=0) for column in ("sums", "counts"))
        seen = counts > 0
        independent = max(counts.size // int(rows["size"].iloc[0]), 1)
        estimate = topics_and_sets(by_set, sums[seen] / counts[seen], independent=independent)
        low, high = estimate.interval(CONFIDENCE)
        means = {name: float(rows[name].mean()) for name in FIGURES} | {"part": estimate.mean}
        yield dict(zip([*KEYS[:3], "method"], keys, strict=True)) | means | {"low": low, "high": high}


def _answer(cells: pd.DataFrame, margin: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each model, size and method: means over collections, with Student's t."""
    for case, rows in cells[~cells["method"].isin(REFERENCES)].groupby(CELL, sort=False):
        parts, (low, high), equivalent = rows["part"].to_numpy(), (math.nan, math.nan), math.nan
        if parts.size > 1:
            low, high = mean_interval(parts, 0.0, CONFIDENCE)
            equivalent = equivalence_test(parts, 0.0, margin).equivalent
        means = {name: float(rows[name].mean()) for name in FIGURES}
        tested = {"low": low, "high": high, "p_equivalent": equivalent, "collections": parts.size}
        yield dict(zip(CELL, case, strict=True)) | means | tested


@lru_cache(maxsize=2)
def _prepared(dataset: str, model: str, fitting: Fitting) -> tuple[Methods, Grid]:
    pool = load_pool(dataset, model=model, topics=fitting.topics, seed=fitting.seed)
    what = parse_measure(fitting.measure)
    methods = Methods.over(pool, [what], fitting.grid, fitting.seed)
    default = methods.space.vector({})
    values = measure_settings(pool, default[None], [what])[:, :, 0]
    settings = np.concatenate([methods.surface.settings, default[None]])
    return methods, Grid(methods.space, settings, np.hstack([methods.surface.values[:, :, 0], values]))


if __name__ == "__main__":
    main(__spec__)
