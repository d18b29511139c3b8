"""Minimum detectable differences between settings and between models, by number of topics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.common import Results, chart, each, gather, main
from experiments.datasets import load_pool, short_name
from lmtune import ParameterSpace
from lmtune.measures import parse_measure
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.significance.tests import LEVEL, detectable_difference
from lmtune.tuning.direct import Surface

QUICK = {"topics": 60, "sizes": (10, 50), "grid": (8, 8)}
SAMPLES = 4000
MODELS = "bm25", "two-stage"

Vector = NDArray[np.float64]


def experiment(
    *,
    datasets: tuple[str, ...] = ("pydocs",),
    measure: str = "AP",
    sizes: tuple[int, ...] = (10, 25, 50, 100, 250, 1000),
    grid: tuple[int, ...] = (20, 26),
    topics: int = 0,
    seed: int = 0,
) -> Results:
    """Compute the differences that a paired t-test detects with a power of 80%, by number of topics.

    Pairs are the defaults of two models, the default and the best setting of all topics, and neighbours on a
    grid. The power is checked on topics drawn with replacement, with differences shifted to that mean.

    Parameters
    ----------
    datasets : tuple of str
        collections: names or paths for lmtune.load
    measure : str
        AP, P@k, nDCG@k
    sizes : tuple of int
        numbers of topics
    grid : tuple of int
        grid points along the parameters
    topics : int
        number of topics, sampled with the seed; 0 for all
    seed : int
        seed of topics and samples
    """
    common = {"measure": measure, "sizes": sizes, "grid": grid, "topics": topics, "seed": seed}
    seen = gather(each(examine, [{**common, "dataset": dataset} for dataset in datasets]))["seen"]
    detected = f"detectable difference in {measure}"
    drawn = seen.rename(columns={"size": "topics", "seen_from": detected})
    return {
        "seen": seen,
        "power": chart(drawn, "topics", detected, line="pair", panel="collection", log="xy"),
    }


def examine(
    *, dataset: str, measure: str, sizes: tuple[int, ...], grid: tuple[int, ...], topics: int, seed: int
) -> dict[str, Any]:
    """Return rows of ``seen``: collection, pair, topics, detectable difference, share of detections."""
    rng, rows = np.random.default_rng(seed), []
    for pair, differences in _pairs(dataset, measure, grid, topics, seed):
        deviation = float(differences.std(ddof=1))
        row = {"collection": short_name(dataset), "pair": pair, "difference": float(differences.mean())}
        for size in sizes:
            least = detectable_difference(deviation, size)
            found = found_share(differences, size, least, rng)
            own = {"deviation": deviation, "size": size, "seen_from": least, "found": found}
            rows.append({**row, **own})
    return {"seen": rows}


def _pairs(
    dataset: str, measure: str, grid: tuple[int, ...], topics: int, seed: int
) -> Iterator[tuple[str, Vector]]:
    """Yield names of pairs and their differences by topic."""
    judged_by, defaults = parse_measure(measure), {}
    for model in MODELS:
        pool = load_pool(dataset, model=model, topics=topics, seed=seed)
        space = ParameterSpace.of(pool.formula)
        values = Surface.compute(pool, [judged_by], space=space, shape=grid).values[:, :, 0]
        defaults[model] = measure_settings(pool, space.vector({})[None], [judged_by])[:, 0, 0]
        yield f"{model}: best, default", values[:, values.mean(axis=0).argmax()] - defaults[model]
        square = values.reshape(len(values), *grid)
        for axis, name in enumerate(space.names, 1):
            steps = np.diff(square, axis=axis).reshape(len(values), -1)
            spread = steps.std(axis=0)
            # the middle pair represents all
            yield f"{model}: a step of {name}", steps[:, np.argsort(spread)[spread.size // 2]]
    first, second = MODELS
    yield f"{first}, {second}: defaults", defaults[first] - defaults[second]


def found_share(differences: Vector, size: int, mean: float, rng: np.random.Generator) -> float:
    """Return the share of samples with replacement in which a paired t-test detects a mean difference.

    Parameters
    ----------
    differences : numpy.ndarray of float64, shape (topics,)
        Differences, which are shifted to `mean`.
    size : int
        Number of topics in a sample.
    mean : float
    rng : numpy.random.Generator
        Draws the samples.
    """
    from scipy.special import stdtrit

    shifted = differences - differences.mean() + mean
    critical = float(stdtrit(size - 1, 1.0 - LEVEL / 2.0)) / math.sqrt(size)
    found = 0
    for _ in range(SAMPLES):
        drawn = shifted[rng.integers(shifted.size, size=size)]
        found += bool(abs(drawn.mean()) > critical * drawn.std(ddof=1))
    return found / SAMPLES


if __name__ == "__main__":
    main(__spec__)
