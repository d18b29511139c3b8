"""Per-topic differences between two systems, free of rounding noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError

# Rounding errors of values and of their difference, in units of the largest value.
_NOISE = 8.0 * float(np.finfo(np.float64).eps)


class Differences(NamedTuple):
    """What the tests look at.

    Attributes
    ----------
    values : numpy.ndarray of float64, shape (topics,)
        a - b on each topic; exactly 0 where they differ by rounding alone.
    noise : float
        Differences this far apart are equal: a few units in the last place of the largest value.
        0.3 - 0.2 and 0.2 - 0.1 must tie, though they are not the same float.
    """

    values: NDArray[np.float64]
    noise: float

    @property
    def is_constant(self) -> bool:
        """Whether every topic has the same difference."""
        return bool(np.ptp(self.values) <= self.noise) if self.values.size else True


def paired_differences(a: ArrayLike, b: ArrayLike) -> Differences:
    """Subtract topic by topic.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, finite; `b` may be one number for all topics.

    Returns
    -------
    Differences

    Raises
    ------
    InputError
        If the two do not pair up, or a value is not finite.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.ndim != 1 or (b.ndim and b.shape != a.shape):
        raise InputError(
            "the values do not pair up",
            value=(a.shape, b.shape),
            accepted="one value a topic from each of two systems",
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError("a topic's value is not finite", accepted="finite values")
    largest = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    values, noise = a - b, _NOISE * largest
    values[np.abs(values) <= noise] = 0.0
    return Differences(values, noise)


def wins_ties_losses(a: ArrayLike, b: ArrayLike) -> tuple[int, int, int]:
    """Count the topics on which `a` is better than, equal to and worse than `b`.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, finite.

    Returns
    -------
    tuple of int
        Wins, ties and losses of `a`. Values that differ by rounding alone tie.

    Examples
    --------
    >>> wins_ties_losses([0.3, 0.1 + 0.2, 0.1], [0.2, 0.3, 0.5])
    (1, 1, 1)
    """
    difference = paired_differences(a, b).values
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    return wins, difference.size - wins - losses, losses
