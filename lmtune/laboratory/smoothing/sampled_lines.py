"""A measure along lambda and along log mu, on nested samples of a collection's topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.laboratory.collections import load_pool
from lmtune.laboratory.roughness import roughness
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.tuning.grid import Surface
from lmtune.tuning.space import ParameterSpace

LAMBDA, MU = "lambda", "mu"

# Every so many points of a line, where they go into it.
_STRIDES = (1, 2, 5, 10, 25, 50)
_GRID = (20, 26)


def measure_lines(
    *,
    dataset: str,
    measure: str,
    sizes: Sequence[int],
    samples: int,
    points: int,
    zoom_points: int,
    zoom: float,
    seed: int,
) -> dict[str, Any]:
    """Measure along lambda and along log mu through the best grid point of all topics.

    Parameters
    ----------
    dataset
        See `lmtune.laboratory.collections.load_pool`.
    measure : str
        What to measure.
    sizes : sequence of int
        Numbers of topics, ascending; the last is that of all topics.
    samples : int
        Samples of each size but the last. The samples of one number are nested: each holds the
        smaller ones.
    points, zoom_points : int
        Points of a line and of its section.
    zoom : float
        The section's share of the line, around the best grid point.
    seed : int
        Of the samples.

    Returns
    -------
    dict
        ``measure``, ``topics`` (all), ``best`` (lambda, mu and value) and ``lines``, for lambda and
        mu: ``position`` and ``curves`` (the first sample's mean by number of topics), the same of
        the section as ``zoom_position`` and ``zoom_curves``, ``single`` (by stride the mean total
        variation of single topics) and ``roughness`` (dicts: topics, sample, stride and
        `Roughness`' fields).
    """
    pool = load_pool(dataset)
    what, space = parse_measure(measure), ParameterSpace.of()
    surface = Surface.compute(pool, [what], space=space, shape=_GRID)
    best = surface.best(what, pool.positions())[0]
    at = surface.setting(best)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(pool.topics)) for _ in range(samples)]
    lines = {}
    for line in (LAMBDA, MU):
        position, section = _positions(space, line, at, points, zoom_points, zoom)
        values = _along(pool, what, line, at, position)
        zoomed = _along(pool, what, line, at, section)
        lines[line] = {
            "position": position.tolist(),
            "curves": _first_curves(values, sizes, orders[0]),
            "zoom_position": section.tolist(),
            "zoom_curves": _first_curves(zoomed, sizes, orders[0]),
            "single": {
                str(stride): float(np.abs(np.diff(values[:, ::stride])).sum(axis=1).mean())
                for stride in _strides(points)
            },
            "roughness": [
                {"topics": size, "sample": sample, "stride": stride} | roughness(curve[::stride])._asdict()
                for size in sizes
                for sample, order in enumerate(orders[: 1 if size == sizes[-1] else None])
                for curve in [_mean(values, order[:size])]
                for stride in _strides(points)
            ],
        }
    best_value = float(surface.means(what, pool.positions())[best])
    return {
        "measure": str(what),
        "topics": len(pool.topics),
        "best": {**at, "value": best_value},
        "lines": lines,
    }


def _strides(points: int) -> list[int]:
    return [stride for stride in _STRIDES if (points - 1) % stride == 0]


def _mean(values: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    # In the pool's order, so that equal sets of topics give equal bits.
    mean: NDArray[np.float64] = values[np.sort(places)].mean(axis=0)
    return mean


def _first_curves(
    values: NDArray[np.float64], sizes: Sequence[int], order: NDArray[np.int64]
) -> dict[str, list[float]]:
    return {str(size): _mean(values, order[:size]).tolist() for size in sizes}


def _positions(
    space: ParameterSpace, line: str, at: dict[str, float], points: int, inside: int, zoom: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a line's positions, evenly spaced in lambda or log mu, and a section's."""
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


def _along(
    pool: CandidatePool, measure: Measure, line: str, at: dict[str, float], position: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Measure every topic along a line, shape (topics, positions)."""
    settings = [{**at, line: value} for value in position.tolist()]
    return measure_settings(pool, settings, [measure])[:, :, 0]
