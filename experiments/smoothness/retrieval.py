"""Smoothness of a measure in lambda and mu of two-stage smoothing, by the number of topics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.common import Results, chart, each, gather, main, power_law
from experiments.datasets import load_pool, usable_topics
from experiments.landscape import roughness
from lmtune import CandidatePool, ParameterSpace
from lmtune.measures import parse_measure
from lmtune.measures.evaluate import measure_settings
from lmtune.tuning.direct import Surface

QUICK = {"measures": ("AP",), "topics": (10, 100, 1000), "samples": 5, "points": 191, "zoom_points": 101}
LAMBDA, MU = "lambda", "mu"
COLUMN = "topics_"
"""Prefix of columns of the table ``curves``; the number of topics follows."""
STRIDES = (1, 2, 5, 10, 25, 50)
"""Steps between points of a line; only divisors of its length are used."""
GRID = (20, 26)

Vector = NDArray[np.float64]


def experiment(
    *,
    dataset: str = "pydocs",
    measures: tuple[str, ...] = ("AP", "Bpref", "p@10"),
    topics: tuple[int, ...] = (10, 30, 100, 300, 1000),
    samples: int = 20,
    points: int = 951,
    zoom_points: int = 301,
    zoom: float = 0.02,
    smooth: float = 0.1,
    seed: int = 0,
) -> Results:
    """Measure along lambda and log mu, through the best grid point of all topics.

    For one topic a measure is a step function of the parameters. The mean over n topics has n times as many
    steps of 1/n of the height, so the total variation at the finest scale may not fall. More topics smooth
    the curve at a given step. Roughness is therefore measured at several steps.

    Parameters
    ----------
    dataset : str
        collection: a name or path for lmtune.load
    measures : tuple of str
        AP, P@k, Bpref, nDCG@k ...
    topics : tuple of int
        numbers of topics; the number of all topics is added
    samples : int
        samples for each number of topics
    points : int
        points along each parameter; 951 give steps of 0.001 in lambda
    zoom_points : int
        points of the zoomed section
    zoom : float
        share of the range that the section covers
    smooth : float
        a curve is smooth if its total variation exceeds that of one hill by at most this share
    seed : int
        seed of the samples
    """
    available = len(usable_topics(dataset))
    sizes = [*sorted({size for size in topics if size < available}), available]
    common = {"dataset": dataset, "sizes": sizes, "samples": samples, "seed": seed}
    common |= {"points": points, "zoom_points": zoom_points, "zoom": zoom}
    tables = gather(each(measure_lines, [{**common, "measure": measure} for measure in measures]))
    rough = _medians(tables["roughness"])
    needed = pd.DataFrame(
        [
            (*keys, smooth_from(part["topics"].tolist(), part["excess"].tolist(), smooth))
            for keys, part in rough.groupby(["measure", "line", "step"], sort=False)
        ],
        columns=["measure", "line", "step", "topics"],
    )
    between = needed[(needed["topics"] > min(topics)) & np.isfinite(needed["topics"])]
    drawn = rough.assign(
        excess=100.0 * rough["excess"],
        step=rough["step"].map("step {:.2g}".format),
        panel=rough["measure"] + ", " + rough["line"],
    )
    return {
        "best": tables["best"],
        "needed": needed,
        "powers": power_law(between, ["measure", "line"], "step", "topics"),
        "single": tables["single"],
        "roughness": rough,
        "curves": tables["curves"],
        "excess": chart(
            drawn, "topics", "excess", line="step", panel="panel", log="x", levels=[100.0 * smooth]
        ),
        "lines": _draw_curves(tables["curves"], sizes),
    }


def _medians(rough: pd.DataFrame) -> pd.DataFrame:
    """Return medians over samples, and the 10th and 90th percentiles of the excess."""
    grouped = rough.groupby(["measure", "line", "topics", "step"], sort=False)
    summary = grouped[["total_variation", "range", "ratio", "excess", "maxima"]].median()
    summary.insert(0, "samples", grouped.size())
    for name, share in (("excess_10", 0.1), ("excess_90", 0.9)):
        summary[name] = grouped["excess"].quantile(share)
    return summary.reset_index()


def _draw_curves(curves: pd.DataFrame, sizes: Sequence[int]) -> Any:
    columns = [
        f"{COLUMN}{size}" for size in dict.fromkeys((sizes[0], sizes[(len(sizes) - 1) // 2], sizes[-1]))
    ]
    keys = ["measure", "line", "part", "position"]
    long = curves.melt(keys, columns, "topics", "value")
    long["panel"] = long["measure"] + ", " + long["line"] + ", " + long["part"]
    return chart(long, "position", "value", line="topics", panel="panel")


def measure_lines(
    *,
    dataset: str,
    measure: str,
    sizes: Sequence[int],
    samples: int,
    seed: int,
    points: int,
    zoom_points: int,
    zoom: float,
) -> dict[str, Any]:
    """Return rows of ``best``, ``curves``, ``single``, and of ``roughness`` (one for each sample).

    Parameters
    ----------
    dataset, measure, samples, seed, points, zoom_points, zoom
        As for `experiment`.
    sizes : sequence of int
        Numbers of topics, ascending; the last is that of all topics. Samples are nested: larger ones contain
        the smaller ones.
    """
    pool, space, judged_by = load_pool(dataset), ParameterSpace.of(), parse_measure(measure)
    surface = Surface.compute(pool, [judged_by], space=space, shape=GRID)
    best = surface.best(judged_by, pool.positions())[0]
    at = surface.setting(best)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(pool.topics)) for _ in range(samples)]
    strides = [stride for stride in STRIDES if (points - 1) % stride == 0]
    curves, rough, single = [], [], []
    for line in (LAMBDA, MU):
        keys = {"measure": str(judged_by), "line": line}
        steps = {stride: stride * (_width(line) / (points - 1)) for stride in strides}
        sections = positions(space, line, at, points, zoom_points, zoom)
        values = [along(pool, judged_by, line, at, position) for position in sections]
        for part, position, by_topic in zip(("whole", "section"), sections, values, strict=True):
            means = {f"{COLUMN}{size}": mean(by_topic, orders[0][:size]) for size in sizes}
            curves += pd.DataFrame({**keys, "part": part, "position": position, **means}).to_dict("records")
        for stride, step in steps.items():
            variation = np.abs(np.diff(values[0][:, ::stride])).sum(axis=1).mean()
            single.append({**keys, "step": step, "total_variation": float(variation)})
        rough += [
            {**keys, "topics": size, "step": step, **roughness(curve[::stride])._asdict()}
            for size in sizes
            for order in orders[: 1 if size == sizes[-1] else None]
            for curve in [mean(values[0], order[:size])]
            for stride, step in steps.items()
        ]
    top = {"measure": str(judged_by), **at, "value": float(surface.means(judged_by, pool.positions())[best])}
    return {"best": [top], "roughness": rough, "single": single, "curves": curves}


def mean(values: Vector, places: NDArray[np.int64]) -> Vector:
    """Average topics in the pool's order, so that equal sets of topics give identical results."""
    averaged: Vector = values[np.sort(places)].mean(axis=0)
    return averaged


def positions(
    space: ParameterSpace, line: str, at: Mapping[str, float], points: int, inside: int, zoom: float
) -> tuple[Vector, Vector]:
    """Return positions on a line, evenly spaced in lambda or log mu, and on its zoomed section."""
    bounds = space.ranges[line]
    low, high, here = bounds[0], bounds[1], at[line]
    if line == MU:
        low, high, here = np.log([low, high, here])
    whole = np.linspace(low, high, points)
    half = 0.5 * zoom * (high - low)
    begin = min(max(here - half, low), high - 2.0 * half)
    section = np.linspace(begin, begin + 2.0 * half, inside)
    if line == LAMBDA:
        return whole.clip(*bounds), section
    return np.exp(whole).clip(*bounds), np.exp(section).clip(*bounds)


def along(pool: CandidatePool, measure: Any, line: str, at: Mapping[str, float], position: Vector) -> Vector:
    """Evaluate every topic along a line, shape (topics, positions)."""
    settings = [{**at, line: value} for value in position.tolist()]
    return measure_settings(pool, settings, [measure])[:, :, 0]


def _width(line: str) -> float:
    low, high = ParameterSpace.of().ranges[line]
    return high - low if line == LAMBDA else math.log(high / low)


def smooth_from(topics: Sequence[int], excess: Sequence[float], smooth: float) -> float:
    """Return the number of topics from which on the excess is at most `smooth`.

    Interpolated linearly in the logarithms of topics and excess. It is the first number of topics if all are
    smooth, and infinity if the last is not.

    Parameters
    ----------
    topics : sequence of int
        Ascending.
    excess : sequence of float
        `experiments.landscape.Roughness.excess` for each.
    smooth : float
        Above 0.

    Examples
    --------
    >>> round(smooth_from([10, 100, 1000], [1.0, 0.4, 0.025], 0.1))
    316
    """
    rough = [number for number, value in enumerate(excess) if value > smooth]
    if not rough:
        return float(topics[0])
    before = rough[-1]
    if before == len(topics) - 1:
        return math.inf
    high, low = math.log(excess[before]), math.log(max(excess[before + 1], 1e-9))
    share = (high - math.log(smooth)) / (high - low)
    begin, end = math.log(topics[before]), math.log(topics[before + 1])
    return math.exp(begin + share * (end - begin))


if __name__ == "__main__":
    main(__spec__)
