"""A measure along lambda and along log mu, on nested samples of a collection's topics."""

from __future__ import annotations

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
    space: ParameterSpace, line: str, at: tuple[float, float], points: int, inside: int, zoom: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a line's positions, evenly spaced in lambda or log mu, and a section's."""
    low, high, here = (
        (space.lambda_low, space.lambda_high, at[0])
        if line == LAMBDA
        else (np.log(space.mu_low), np.log(space.mu_high), np.log(at[1]))
    )
    whole = np.linspace(low, high, points)
    half = 0.5 * zoom * (high - low)
    begin = min(max(here - half, low), high - 2.0 * half)
    section = np.linspace(begin, begin + 2.0 * half, inside)
    if line == LAMBDA:
        return whole.clip(space.lambda_low, space.lambda_high), section
    return (
        np.exp(whole).clip(space.mu_low, space.mu_high),
        np.exp(section).clip(space.mu_low, space.mu_high),
    )


def along(
    pool: CandidatePool, measure: Measure, line: str, at: tuple[float, float], position: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Measure every topic along a line, shape (topics, positions)."""
    fixed = np.full(position.size, at[1] if line == LAMBDA else at[0])
    setting = (position, fixed) if line == LAMBDA else (fixed, position)
    return measure_settings(pool, setting[0], setting[1], [measure])[:, :, 0]
