"""Gradients of smooth measures compared with direct search, for lambda and mu."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.common import Results, chart, each, gather, main
from experiments.datasets import load_pool, short_name, usable_topics
from experiments.methods import Fitted, Methods, compare_on, continuation, disjoint_sets
from experiments.resampling import corrected_resampling, topics_and_sets
from experiments.surrogates.causes import find_causes
from experiments.surrogates.made_up import HIDDEN, search
from lmtune.measures import Measure, equivalence_test, parse_measure, parse_measures
from lmtune.measures.significance.tests import mean_interval
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL
from lmtune.tuning.surrogate import parse_objective

QUICK = {
    "topics": 60,
    "measures": ("AP",),
    "sizes": (10, 0),
    "fits": 4,
    "alphas": (8.0,),
    "objectives": ("ranknet",),
    "grid": (6, 8),
    "parameters": (2, 5),
    "draws": 1,
    "evaluations": 40,
}
TOGETHER = 5
"""Training sets in a task."""
CONFIDENCE, LEVEL = 0.9, 0.05
JUDGED = f"method not in {(DIRECT, OPTIMAL)}"
BY = ["dataset", "size", "topics", "measure", "method"]
# other rows named RankNet are the paper's
NAMES = {"ranknet": "RankNet over lists"}

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Tuning:
    """Surrogates, measures and topics of the comparison.

    Attributes
    ----------
    topics : int
        number of topics, sampled with the seed; 0 for all
    measures : tuple of str
        AP, P@k, Bpref, nDCG@k, RR
    alphas : tuple of float
        final steepness of the smooth AP; other measures use the first value
    objectives : tuple of str
        further surrogates for AP; lambda-ap is slow
    grid : tuple of int
        Direct's grid points along lambda and mu
    seed : int
        seed of topics, training sets and the methods' starts
    """

    topics: int = 0
    measures: tuple[str, ...] = ("AP", "nDCG@10", "P@10", "Bpref", "RR")
    alphas: tuple[float, ...] = (32.0, 4.0, 8.0, 16.0)
    objectives: tuple[str, ...] = ("softmax", "ranknet", "song")
    grid: tuple[int, ...] = (20, 26)
    seed: int = 0


TUNING = Tuning()


def experiment(
    tuning: Tuning = TUNING,
    *,
    datasets: tuple[str, ...] = ("pydocs",),
    sizes: tuple[int, ...] = (10, 25, 50, 0),
    fits: int = 20,
    margin: float = 0.002,
    parameters: tuple[int, ...] = (2, 5, 20),
    draws: int = 5,
    made_up: str = "synthetic:1000x40",
    evaluations: int = 400,
) -> Results:
    """Tune by RankNet, variants of it and smooth measures, and compare them with direct search.

    Metzler (SIGIR 2007) finds RankNet worse than direct search, and asks for a better gradient. Methods are
    fitted on many small disjoint sets of topics and evaluated on the other topics. Differences are compared
    with an equivalence margin, by tests that account for the overlap of splits.

    Parameters
    ----------
    tuning : Tuning
        options of a fit
    datasets : tuple of str
        collections: names or paths for lmtune.load
    sizes : tuple of int
        numbers of training topics, at most half of all; 0: half
    fits : int
        training sets of each size: disjoint while topics last, then drawn again
    margin : float
        equivalence margin
    parameters : tuple of int
        numbers of parameters of generated models
    draws : int
        generated models for each number of parameters
    made_up : str
        collection of documents that generated models rank
    evaluations : int
        budget of evaluations for SPSA and FDSA on generated models

    Returns
    -------
    dict
        Tables:

        - ``levels``: methods compared with Direct over collections and sizes
        - ``equivalence``: a row for each collection, size, measure and method, with the difference from
          Direct on the test topics, and interval and p-values by `corrected_resampling`. Columns that end in
          ``_crossed`` are by `topics_and_sets`.
        - ``collections``: rows of `over_collections`
        - ``work``: costs of the methods, and ``shares`` of Direct's
        - ``fits``: a row for each training set
        - ``causes`` and ``surfaces``: rows of `find_causes`
        - ``parameters``: generated models
    """
    calls = [
        {"tuning": tuning, "dataset": dataset, "size": size, "first": first, "fits": fits}
        for dataset in datasets
        for half in [(tuning.topics or len(usable_topics(dataset))) // 2]
        for size in sizes
        if 1 <= (size or half) <= half
        for first in range(0, fits, TOGETHER)
    ]
    results = each(compare, calls)
    if parse_measure("AP") in fitted_by(tuning):
        results += each(causes, [{"tuning": tuning, "dataset": name} for name in datasets])
    models = [(dimensions, draw) for dimensions in parameters for draw in range(draws)]
    shared = {"dataset": made_up, "evaluations": evaluations}
    results += each(search, [{**shared, "dimensions": d, "seed": tuning.seed + draw} for d, draw in models])
    tables = gather(results)
    summed = tables.pop("sums")
    equivalence = _equivalence(tables["fits"], summed, margin)
    work = tables["fits"].groupby(BY, sort=False)[["evaluations", "documents", "seconds"]].mean()
    work = work.dropna().reset_index()
    return {
        "levels": _levels(equivalence, margin),
        "collections": pd.DataFrame(over_collections(equivalence, margin)),
        "equivalence": equivalence,
        "shares": _shares(work),
        "work": work,
        **tables,
        **_pictures(tables, equivalence, margin),
    }


def fitted_by(tuning: Tuning) -> dict[Measure, list[Fitted]]:
    """Return each measure's surrogates."""
    fitted: dict[Measure, list[Fitted]] = {}
    for measure in parse_measures(tuning.measures):
        is_ap = measure == parse_measure("AP")
        objective = parse_objective(f"approx-{measure}")
        fitted[measure] = [
            (f"{objective}, alpha {alpha:g}", str(objective), continuation(alpha))
            for alpha in (tuning.alphas if is_ap else tuning.alphas[:1])
        ]
        for name in tuning.objectives if is_ap else ():
            further = str(parse_objective(name))
            fitted[measure].append((NAMES.get(further, further), further, continuation(tuning.alphas[0])))
    return fitted


def compare(*, tuning: Tuning, dataset: str, size: int, first: int, fits: int) -> dict[str, Any]:
    """Compare the methods over a few training sets.

    Returns
    -------
    dict
        Rows of tables: ``fits``, from `experiments.methods.compare_on`, with dataset, size and set; ``sums``,
        by measure and method, with the sums over sets of each test topic's difference from Direct, and
        ``counts``, the number of sets in which a topic was a test topic.
    """
    methods, fitted = _methods(dataset, tuning), fitted_by(tuning)
    every = methods.pool.topics
    train = size or len(every) // 2
    keys = {"dataset": short_name(dataset), "size": size, "topics": train}
    rows: list[dict[str, Any]] = []
    counts = np.zeros(len(every), np.int64)
    sums: defaultdict[tuple[str, str], Vector] = defaultdict(lambda: np.zeros(len(every)))
    sets = disjoint_sets(every, train, fits, seed=tuning.seed)
    for number, subset in islice(enumerate(sets), first, first + TOGETHER):
        compared = compare_on(methods, fitted, subset)
        rows += [{**keys, "set": number, **row} for row in compared.rows]
        counts[compared.test] += 1
        for case, values in compared.differences.items():
            sums[case][compared.test] += values[compared.test]
    times = counts.tolist()
    summed = [
        {**keys, "measure": measure, "method": method, "sums": by_topic.tolist(), "counts": times}
        for (measure, method), by_topic in sums.items()
    ]
    return {"fits": rows, "sums": summed}


def causes(*, tuning: Tuning, dataset: str) -> dict[str, Any]:
    """Compute RankNet's cost, variants of it and the smooth AP over the grid, on all topics."""
    tables = find_causes(_methods(dataset, tuning), tuning.alphas[0])
    return {name: [{"dataset": short_name(dataset), **row} for row in rows] for name, rows in tables.items()}


@lru_cache(maxsize=2)
def _methods(dataset: str, tuning: Tuning) -> Methods:
    pool = load_pool(dataset, topics=tuning.topics, seed=tuning.seed)
    return Methods.over(pool, tuple(fitted_by(tuning)), tuning.grid, tuning.seed)


def _equivalence(fits: pd.DataFrame, summed: pd.DataFrame, margin: float) -> pd.DataFrame:
    """Compare each method with Direct, by collection, size and measure."""
    grouped, sums = fits.groupby(BY, sort=False), summed.groupby(BY, sort=False)
    rows = []
    for case, group in grouped:
        direct, method = grouped.get_group((*case[:-1], DIRECT)), case[-1]
        means = {"fits": len(group), "direct": direct["test"].mean(), "test": group["test"].mean()}
        difference = group["test"].to_numpy() - direct["test"].to_numpy()
        row = dict(zip(BY, case, strict=True)) | means | {"difference": float(difference.mean())}
        if method not in (DIRECT, OPTIMAL) and len(group) > 1:
            row |= _judged(sums.get_group(case), int(group["topics"].iloc[0]), difference, margin)
        rows.append(row)
    return pd.DataFrame(rows)


def _judged(summed: pd.DataFrame, train: int, difference: Vector, margin: float) -> dict[str, float]:
    """Return p-values and intervals of a method's differences from Direct."""
    counts, sums = (np.sum(summed[column].tolist(), axis=0) for column in ("counts", "sums"))
    topics = counts.size
    estimates = {
        "": corrected_resampling(difference, train=train, test=topics - train),
        "_crossed": topics_and_sets(
            difference, sums[counts > 0] / counts[counts > 0], independent=topics // train
        ),
    }
    judged: dict[str, float] = {}
    for suffix, estimate in estimates.items():
        low, high = estimate.interval(CONFIDENCE)
        both = estimate.equivalence(margin)
        judged |= {f"low{suffix}": low, f"high{suffix}": high, f"p_value{suffix}": estimate.p_value}
        judged |= {f"p_not_worse{suffix}": both.not_worse, f"p_equivalent{suffix}": both.equivalent}
    return judged


def over_collections(table: pd.DataFrame, margin: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each measure, method and size of two or more collections, treated as random.

    A row has the mean of the collections' differences, its 90% interval by Student's t, and the p-values of
    `lmtune.measures.equivalence_test`.
    """
    keys = ["measure", "method", "size"]
    for values, rows in table.query(JUDGED).groupby(keys, sort=False):
        differences = rows["difference"].to_numpy()
        if differences.size < 2:
            continue
        low, high = mean_interval(differences, 0.0, 0.9)
        tested = equivalence_test(differences, 0.0, margin)
        within = int((np.abs(differences) < margin).sum())
        row = dict(zip(keys, values, strict=True)) | {"collections": differences.size, "within": within}
        row |= {"difference": float(differences.mean()), "low": low, "high": high}
        yield row | {"p_not_worse": tested.not_worse, "p_equivalent": tested.equivalent}


def _levels(equivalence: pd.DataFrame, margin: float) -> pd.DataFrame:
    """Count the cells in which methods are near Direct, equivalent to it, or significantly below or above."""
    rows = equivalence.query(JUDGED)
    marked = rows["p_value_crossed"] < LEVEL
    rows = rows.assign(
        near=rows["difference"].abs() < margin,
        equivalent=rows["p_equivalent"] < LEVEL,
        equivalent_crossed=rows["p_equivalent_crossed"] < LEVEL,
        below=marked & (rows["difference"] < 0.0),
        above=marked & (rows["difference"] > 0.0),
    )
    groups = rows.groupby(["measure", "method"], sort=False)
    counts = groups[["near", "equivalent", "equivalent_crossed", "below", "above"]].sum()
    return groups["difference"].agg(["size", "mean", "min", "max"]).join(counts).reset_index()


def _shares(work: pd.DataFrame) -> pd.DataFrame:
    """Return the range of the methods' costs relative to Direct's."""
    keys, columns = ["dataset", "size", "measure"], ["evaluations", "documents", "seconds"]
    direct = work.query(f"method == '{DIRECT}'").set_index(keys)[columns]
    others = work.query(f"method != '{DIRECT}'").set_index([*keys, "method"])[columns]
    groups = others.div(direct).groupby("method", sort=False)
    return groups.min().add_suffix("_from").join(groups.max().add_suffix("_to")).reset_index()


def _pictures(tables: Mapping[str, pd.DataFrame], equivalence: pd.DataFrame, margin: float) -> Results:
    """Plot differences from Direct, optima of each objective, and generated models."""
    drawn = equivalence.query(JUDGED).assign(panel=lambda rows: rows["measure"] + ", " + rows["dataset"])
    between = ("low_crossed", "high_crossed")
    levels = (-margin, 0.0, margin)
    pictures = {
        "differences": chart(
            drawn,
            "topics",
            "difference",
            line="method",
            panel="panel",
            between=between,
            dots=True,
            levels=levels,
        )
    }
    if "causes" in tables:
        below = tables["causes"].assign(below=lambda rows: 100.0 * (1.0 - rows["AP"] / rows["best"]))
        pictures["below-best"] = chart(below, "below", "objective", line="dataset", dots=True)
    if "parameters" in tables:
        means = tables["parameters"].groupby(["parameters", "method"], sort=False)[["train", "test"]].mean()
        hidden = means.xs(HIDDEN, level="method")
        rest = means.drop(HIDDEN, level="method").sub(hidden).reset_index()
        long = rest.melt(
            ["parameters", "method"], ["train", "test"], "topics", "MAP minus the hidden weights'"
        )
        y = "MAP minus the hidden weights'"
        pictures["made-up"] = chart(long, "parameters", y, line="method", panel="topics", levels=[0.0])
    return pictures


if __name__ == "__main__":
    main(__spec__)
