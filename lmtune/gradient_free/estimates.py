"""Gradients estimated from values: simultaneous perturbations, and finite differences."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from lmtune.errors import InputError
from lmtune.gradient_free.points import Box, Counted, Objective, Vector, inside

# Finite differences ask for this many coordinates at once: memory for 128 points at a time.
_COORDINATES = 64


def random_signs(rng: np.random.Generator, perturbations: int, d: int) -> Vector:
    """Draw perturbations: each coordinate -1 or +1, with equal chances.

    Returns
    -------
    numpy.ndarray of float64, shape (perturbations, d)
    """
    return np.where(rng.integers(0, 2, size=(perturbations, d), dtype=np.int8) > 0, 1.0, -1.0)


def spsa_gradient(
    objective: Objective,
    x: ArrayLike,
    c: float,
    signs: ArrayLike,
    *,
    box: Box | None = None,
    together: bool = False,
) -> Vector:
    r"""Estimate a gradient by simultaneous perturbations, two evaluations each.

    .. math:: \hat g_i = \mathrm{mean}_\Delta
        \frac{L(x + c \Delta) - L(x - c \Delta)}{2 c\, \Delta_i}

    (Spall 1992; Yue and Burges 2007, section 4.1, average F/2 of them in SPSA:F.) Over random
    signs its mean is the gradient up to O(c^2); for a quadratic L, exactly.

    Parameters
    ----------
    objective : callable
        L.
    x : array_like of float, shape (d,)
        Where.
    c : float
        Above 0.
    signs : array_like of float, shape (perturbations, d) or (d,)
        Each -1 or +1.
    box, together
        As of `minimise`. A point outside the box is moved to its edge, and the difference divided
        by the distance that is left.

    Returns
    -------
    numpy.ndarray of float64, shape (d,)

    Raises
    ------
    InputError
        For shapes or numbers that do not fit, or an objective that is not finite.
    """
    at, low, high = inside(x, box)
    rows = np.atleast_2d(np.asarray(signs, np.float64))
    if rows.ndim != 2 or rows.shape[1] != at.size or not (np.abs(rows) == 1.0).all() or not len(rows):
        raise InputError(
            "bad signs", value=rows.shape, accepted=f"-1 and 1, of shape (perturbations, {at.size})"
        )
    ask = Counted(objective, together)
    mean: Vector = differences(ask, at, checked_width(c), rows, low, high).mean(axis=0)
    return mean


def fdsa_gradient(
    objective: Objective, x: ArrayLike, c: float, *, box: Box | None = None, together: bool = False
) -> Vector:
    r"""Estimate a gradient one coordinate at a time, by 2 d evaluations.

    .. math:: \hat g_i = \frac{L(x + c e_i) - L(x - c e_i)}{2 c}

    Parameters and errors are those of `spsa_gradient`, without signs; returned is the same.
    """
    at, low, high = inside(x, box)
    return one_by_one(Counted(objective, together), at, checked_width(c), low, high)


def differences(ask: Counted, x: Vector, c: float, signs: Vector, low: Vector, high: Vector) -> Vector:
    """Return the estimate of each row of signs; 0 along coordinates that cannot move."""
    above, below = np.clip(x + c * signs, low, high), np.clip(x - c * signs, low, high)
    values = ask(np.stack((above, below), axis=1).reshape(-1, x.size))
    apart = above - below
    change = np.broadcast_to((values[0::2] - values[1::2])[:, None], apart.shape)
    slopes: Vector = np.divide(change, apart, out=np.zeros_like(apart), where=apart != 0.0)
    return slopes


def one_by_one(ask: Counted, x: Vector, c: float, low: Vector, high: Vector) -> Vector:
    """Return central differences; 0 along coordinates that cannot move."""
    slope = np.empty(x.size)
    for first in range(0, x.size, _COORDINATES):
        axes = np.arange(first, min(first + _COORDINATES, x.size))
        points = np.repeat(x[None], 2 * axes.size, axis=0)
        rows = 2 * np.arange(axes.size)
        points[rows, axes] = np.minimum(x[axes] + c, high[axes])
        points[rows + 1, axes] = np.maximum(x[axes] - c, low[axes])
        values = ask(points)
        apart = points[rows, axes] - points[rows + 1, axes]
        change = values[0::2] - values[1::2]
        slope[axes] = np.divide(change, apart, out=np.zeros(axes.size), where=apart != 0.0)
    return slope


def check_even(evaluations: int) -> int:
    """Return a number of evaluations that makes pairs."""
    if evaluations < 2 or evaluations % 2:
        raise InputError("bad number of evaluations a step", value=evaluations, accepted="2, 4, 6 ...")
    return evaluations


def checked_width(c: float) -> float:
    """Return a width that can be divided by."""
    if not (math.isfinite(c) and c > 0.0):
        raise InputError("bad width c", value=c, accepted="a positive number")
    return c
