"""A measure along lambda and along log mu, on nested samples of a collection's topics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.tuning.space import ParameterSpace

LAMBDA, MU = "lambda", "mu"


def mean(values: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average topics, in the pool's order, so that equal sets of topics give equal bits."""
    averaged: NDArray[np.float64] = values[np.sort(places)].mean(axis=0)
    return averaged


def positions(
    space: ParameterSpace, line: str, at: Mapping[str, float], points: int, inside: int, zoom: float
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


def along(
    pool: CandidatePool, measure: Measure, line: str, at: Mapping[str, float], position: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Measure every topic along a line, shape (topics, positions)."""
    settings = [{**at, line: value} for value in position.tolist()]
    return measure_settings(pool, settings, [measure])[:, :, 0]
