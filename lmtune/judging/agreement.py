"""How far two judges agree on labels, and two orders of systems on who is better."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]


def cohen_kappa(counts: ArrayLike, *, quadratic: bool = False) -> Any:
    """Return Cohen's kappa: agreement beyond that of judges who label at random with their own habits.

    Parameters
    ----------
    counts : array_like, shape (..., labels, labels)
        Pairs by the first judge's label (rows) and the second's, labels ascending and evenly spaced.
    quadratic : bool
        Let a disagreement weigh the square of its distance in labels (Cohen, Psychological Bulletin 70,
        1968), and not 1 whatever the distance (Educational and Psychological Measurement 20, 1960).

    Returns
    -------
    float or numpy.ndarray of float64, shape (...)
        1 for full agreement, 0 for that of chance; NaN where each judge has one label for all.

    Examples
    --------
    >>> round(cohen_kappa([[20, 5], [10, 15]]), 3)
    0.4
    """
    counts = np.asarray(counts, np.float64)
    weight = _distances(counts.shape[-1], quadratic=quadratic)
    totals = counts.sum(axis=(-2, -1), keepdims=True)
    expected = counts.sum(axis=-1, keepdims=True) * counts.sum(axis=-2, keepdims=True)
    return _less_than_chance(
        (weight * counts * totals).sum(axis=(-2, -1)), (weight * expected).sum(axis=(-2, -1))
    )


def krippendorff_alpha(counts: ArrayLike, *, ordinal: bool = True) -> Any:
    """Return Krippendorff's alpha of two judges who labelled the same pairs.

    Parameters
    ----------
    counts : array_like, shape (..., labels, labels)
        Pairs by the first judge's label and the second's, labels ascending.
    ordinal : bool
        Take the distance of two labels from how many labels given lie between them; else 1.

    Returns
    -------
    float or numpy.ndarray of float64, shape (...)
        1 for full agreement, 0 for that of chance; NaN where all labels are one.

    Notes
    -----
    With coincidences o = counts + counts', n_c their sums and n the sum of those, 1 - (n - 1) times the
    sum of o_ck d_ck by the sum of n_c n_k d_ck; d_ck = 1, or (n_c / 2 + ... + n_k / 2)^2 with whole n
    between. Source: Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011.
    """
    counts = np.asarray(counts, np.float64)
    pairs = counts + np.swapaxes(counts, -1, -2)
    given = pairs.sum(axis=-1)
    middle = np.cumsum(given, axis=-1) - given / 2.0
    distance = _distances(given.shape[-1], quadratic=False)
    if ordinal:
        distance = (middle[..., :, np.newaxis] - middle[..., np.newaxis, :]) ** 2
    chance = given[..., :, np.newaxis] * given[..., np.newaxis, :] * distance
    seen = (pairs * distance).sum(axis=(-2, -1)) * (given.sum(axis=-1) - 1.0)
    return _less_than_chance(seen, chance.sum(axis=(-2, -1)))


def kendall_tau(first: ArrayLike, second: ArrayLike) -> Any:
    """Return Kendall's tau-b of two lists of values, shape (..., systems); NaN where one is constant.

    Source: Kendall, Biometrika 33, 1945.
    """
    a, b = _signs(first), _signs(second)
    over = np.sqrt((a * a).sum(axis=(-2, -1)) * (b * b).sum(axis=(-2, -1)))
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=(-2, -1)) / over


def tau_ap(truth: ArrayLike, estimate: ArrayLike) -> Any:
    """Return the rank correlation that counts errors at the top more, of values of shape (..., systems).

    The mean over the systems that `estimate` puts below some other, of the part of those above that
    `truth` puts above too (half where it ties), times 2 less 1. Systems that `estimate` ties stand beside
    each other. Source: Yilmaz, Aslam and Robertson, SIGIR 2008.

    Examples
    --------
    >>> tau_ap([3, 2, 1], [3, 1, 2]), tau_ap([3, 2, 1], [2, 3, 1])
    (0.5, 0.0)
    """
    above = _signs(estimate) < 0  # [i, j]: j stands above i
    right = (1.0 - _signs(truth)) / 2.0
    number = above.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        parts = (above * right).sum(axis=-1) / number
        found = 2.0 * np.nansum(parts, axis=-1) / (number > 0).sum(axis=-1) - 1.0
    return found if np.ndim(found) else float(found)


def _signs(values: ArrayLike) -> Doubles:
    values = np.asarray(values, np.float64)
    signs: Doubles = np.sign(values[..., :, np.newaxis] - values[..., np.newaxis, :])
    return signs


def _distances(labels: int, *, quadratic: bool) -> Doubles:
    apart = np.subtract.outer(np.arange(labels), np.arange(labels))
    return (apart**2 if quadratic else apart != 0).astype(np.float64)


def _less_than_chance(seen: Doubles, chance: Doubles) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        found = 1.0 - np.where(chance > 0, seen / chance, np.nan)
    return found if np.ndim(found) else float(found)
