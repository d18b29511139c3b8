"""Numbers for how rough a curve is, from its values at even distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError

_FEWEST = 4


@dataclass(frozen=True)
class Roughness:
    """How rough a curve is on its grid.

    Attributes
    ----------
    variation : float
        Total variation over range: the sum of the absolute steps over the highest value less the
        lowest. 1 for a curve that only rises or only falls, 2 for one that rises to a top and
        falls back as low as it was, between them for any other single top, more for more ups and
        downs. NaN for a curve without any.
    excess : float
        Total variation over that of the smoothest curve with the same ends and the same highest
        value: 1 if and only if the curve rises to its top and falls after it. NaN for a curve
        without ups and downs.
    optima : int
        Local maxima inside the grid: runs of equal values with lower ones on both sides.
    noise : float
        The standard deviation of an increment without the smooth part, from third differences:
        what the jumps between neighbouring values amount to.
    """

    variation: float
    excess: float
    optima: int
    noise: float


def roughness(values: ArrayLike) -> Roughness:
    """Measure a curve.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        The curve at even distances; 4 or more, finite. For the grid alone: on a finer one
        variation and excess can only be higher.

    Returns
    -------
    Roughness

    Raises
    ------
    InputError
        For too few values or such as are not finite.

    Examples
    --------
    >>> roughness([0.0, 1.0, 3.0, 1.0, 0.0])
    Roughness(variation=2.0, excess=1.0, optima=1, noise=2.0412...)
    >>> roughness([0.0, 3.0, 1.0, 3.0, 0.0]).excess
    1.6666666666666667
    """
    curve = np.asarray(values, np.float64)
    if curve.ndim != 1 or curve.size < _FEWEST or not np.isfinite(curve).all():
        raise InputError("no curve", value=curve.shape, accepted="4 or more finite numbers")
    total = float(np.abs(np.diff(curve)).sum())
    high, low = float(curve.max()), float(curve.min())
    least = (high - float(curve[0])) + (high - float(curve[-1]))
    thirds = np.diff(curve, 3)
    return Roughness(
        variation=total / (high - low) if high > low else float("nan"),
        excess=total / least if least > 0 else float("nan" if total == 0 else "inf"),
        optima=local_maxima(curve),
        noise=float(np.sqrt((thirds**2).mean() / 6.0)),
    )


def local_maxima(values: NDArray[np.float64]) -> int:
    """Count runs of equal values with lower ones on both sides."""
    steps = np.sign(np.diff(values))
    steps = steps[steps != 0]
    return int(((steps[:-1] > 0) & (steps[1:] < 0)).sum())
