"""How rough a curve is: its total variation, against its range and against one hill; its jumps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError

_FEWEST_FOR_NOISE = 4


class Roughness(NamedTuple):
    """How far a curve is from a single hill.

    Attributes
    ----------
    total_variation : float
        The sum of the absolute differences of neighbouring values.
    range : float
        The largest value less the smallest.
    ratio : float
        Total variation over range: 1 for a monotone curve, at most 2 for a single hill; 0 for a
        constant one. See `total_variation_ratio`.
    excess : float
        Total variation over that of the smoothest curve with the same ends and the same maximum,
        less 1: 0 where the curve is a single hill (or monotone), 0.1 where it goes up and down a
        tenth more than a hill has to. See `needless_variation`.
    maxima : int
        Local maxima; see `local_maxima`.
    """

    total_variation: float
    range: float
    ratio: float
    excess: float
    maxima: int


def roughness(values: ArrayLike) -> Roughness:
    """Measure a curve's roughness.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve in the order of its argument; finite, one point or more.

    Returns
    -------
    Roughness

    Raises
    ------
    InputError
        For another shape, no points, or values that are not finite.
    """
    curve = _curve(values)
    return Roughness(
        float(np.abs(np.diff(curve)).sum()),
        float(np.ptp(curve)),
        total_variation_ratio(curve),
        needless_variation(curve),
        local_maxima(curve),
    )


def total_variation_ratio(values: ArrayLike) -> float:
    """Return a curve's total variation over its range; 0 where it is constant.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve in the order of its argument.

    Raises
    ------
    InputError
        As `roughness`.

    Examples
    --------
    >>> total_variation_ratio([0.0, 1.0, 2.0]), total_variation_ratio([0.0, 2.0, 1.0, 2.0])
    (1.0, 2.0)
    """
    curve = _curve(values)
    span = float(np.ptp(curve))
    return float(np.abs(np.diff(curve)).sum()) / span if span > 0.0 else 0.0


def needless_variation(values: ArrayLike) -> float:
    """Return by how much a curve's variation exceeds a single hill's, as a share of the hill's.

    Of all curves with these ends and this maximum, one that rises to the maximum and falls from
    it varies least: by twice the maximum less both ends.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve in the order of its argument.

    Returns
    -------
    float
        0 or more; infinite where a hill would not vary at all and the curve does (it dips between
        two equal ends that are its maximum).

    Raises
    ------
    InputError
        As `roughness`.

    Examples
    --------
    >>> needless_variation([0.0, 2.0, 1.0]), needless_variation([0.0, 2.0, 1.0, 2.0])
    (0.0, 1.0)
    """
    curve = _curve(values)
    variation = float(np.abs(np.diff(curve)).sum())
    hill = 2.0 * float(curve.max()) - float(curve[0]) - float(curve[-1])
    if hill <= 0.0:
        return np.inf if variation > 0.0 else 0.0
    # Rounding may leave a single hill a little below itself.
    return max(0.0, variation / hill - 1.0)


def local_maxima(values: ArrayLike) -> int:
    """Count a curve's local maxima: runs of equal values with nothing higher beside them.

    Ends count where they are higher than what is beside them; a constant curve has one maximum.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve in the order of its argument.

    Raises
    ------
    InputError
        As `roughness`.

    Examples
    --------
    >>> local_maxima([0, 1, 1, 0, 2]), local_maxima([0, 1, 1, 2])
    (2, 1)
    """
    curve = _curve(values)
    levels = curve[np.append(True, curve[1:] != curve[:-1])]
    padded = np.concatenate(([-np.inf], levels, [-np.inf]))
    return int(np.sum((padded[1:-1] > padded[:-2]) & (padded[1:-1] > padded[2:])))


def jump_noise(values: ArrayLike) -> float:
    r"""Estimate what the jumps between neighbouring values of a curve amount to.

    The standard deviation of an increment without the curve's smooth part: independent increments
    of variance v have third differences of variance 6 v, to which a smooth part adds next to
    nothing on a fine grid. Over n increments jumps amount to :math:`\sqrt n` times as much.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve at even distances; 4 points or more.

    Raises
    ------
    InputError
        As `roughness`, and for fewer points.

    Examples
    --------
    >>> jump_noise([0.0, 1.0, 4.0, 9.0, 16.0])
    0.0
    """
    curve = _curve(values)
    if curve.size < _FEWEST_FOR_NOISE:
        raise InputError(
            "too short a curve", value=curve.size, accepted=f"{_FEWEST_FOR_NOISE} values or more"
        )
    return float(np.sqrt((np.diff(curve, 3) ** 2).mean() / 6.0))


def _curve(values: ArrayLike) -> NDArray[np.float64]:
    curve = np.asarray(values, np.float64)
    if curve.ndim != 1 or curve.size == 0 or not np.isfinite(curve).all():
        raise InputError("not a curve", value=curve.shape, accepted="one or more finite values in a row")
    return curve
