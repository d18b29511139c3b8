"""Whether a function of two parameters, known on a grid, is concave or at least has one hill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError

_ROUNDING = 1e-12


class Concavity(NamedTuple):
    """How a surface fares in the midpoint tests.

    A function is concave if its value midway between any two points is at least the mean of
    theirs, and quasi-concave (all its level sets are convex: one hill, without side valleys) if it
    is at least the lower of the two.

    Attributes
    ----------
    pairs : int
        Pairs of grid points whose midpoint is a grid point.
    concave, quasi_concave : float
        The shares of pairs that pass; NaN without pairs.
    worst, quasi_worst : float
        The largest shortfall of a midpoint, as a share of the surface's range.
    maxima : int
        Local maxima among the whole grid's points: connected points of equal value, diagonals
        included, none of whose neighbours is higher.
    """

    pairs: int
    concave: float
    quasi_concave: float
    worst: float
    quasi_worst: float
    maxima: int


def concavity(values: ArrayLike, *, floor: float = -np.inf, slack: float = 0.0) -> Concavity:
    """Test a surface at all midpoints of its grid.

    Parameters
    ----------
    values : array_like of float, shape (rows, columns)
        The surface over evenly spaced points along each axis; finite.
    floor : float
        Only pairs whose values are both at least this are tested, such as those near the top.
    slack : float
        A shortfall of up to this share of the surface's range is no failure.

    Returns
    -------
    Concavity
        What rounding may do, 1e-12 of the largest absolute value, is no failure.

    Raises
    ------
    InputError
        For another shape or values that are not finite.
    """
    surface = np.asarray(values, np.float64)
    if surface.ndim != 2 or not surface.size or not np.isfinite(surface).all():
        raise InputError("not a surface", value=surface.shape, accepted="finite values (rows, columns)")
    rounding = _ROUNDING * float(np.abs(surface).max())
    span = float(np.ptp(surface)) or 1.0
    allowed = rounding + slack * span
    pairs = concave = quasi = 0
    worst = quasi_worst = 0.0
    for one, middle, other in _midpoints(surface):
        tested = (one >= floor) & (other >= floor)
        mean, lower = 0.5 * (one + other) - middle, np.minimum(one, other) - middle
        mean, lower = mean[tested], lower[tested]
        pairs += mean.size
        concave += int((mean <= allowed).sum())
        quasi += int((lower <= allowed).sum())
        worst = max(worst, float(np.max(mean, initial=0.0)))
        quasi_worst = max(quasi_worst, float(np.max(lower, initial=0.0)))
    return Concavity(
        pairs,
        concave / pairs if pairs else np.nan,
        quasi / pairs if pairs else np.nan,
        worst / span if worst > rounding else 0.0,
        quasi_worst / span if quasi_worst > rounding else 0.0,
        _maxima(surface),
    )


def _midpoints(
    surface: NDArray[np.float64],
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    """Yield views of equal shape: points, the points a step on, and those two steps on."""
    rows, columns = surface.shape
    for down in range((rows - 1) // 2 + 1):
        for right in range(-((columns - 1) // 2), (columns - 1) // 2 + 1):
            if down == 0 and right <= 0:
                continue
            first, width = max(0, -2 * right), columns - 2 * abs(right)
            yield tuple(  # type: ignore[misc]
                surface[
                    step * down : rows - (2 - step) * down,
                    first + step * right : first + step * right + width,
                ]
                for step in range(3)
            )


def _maxima(surface: NDArray[np.float64]) -> int:
    rows, columns = surface.shape
    seen = np.zeros(surface.shape, bool)
    count = 0
    for start in np.ndindex(rows, columns):
        if seen[start]:
            continue
        seen[start] = True
        todo, highest = [start], True
        while todo:
            i, j = todo.pop()
            for k in range(max(0, i - 1), min(rows, i + 2)):
                for m in range(max(0, j - 1), min(columns, j + 2)):
                    if surface[k, m] > surface[start]:
                        highest = False
                    elif surface[k, m] == surface[start] and not seen[k, m]:
                        seen[k, m] = True
                        todo.append((k, m))
        count += highest
    return count
