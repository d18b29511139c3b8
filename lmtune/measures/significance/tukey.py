"""Tukey's HSD: all pairs of systems compared at once, with topics as blocks."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations
from itertools import permutations as orders
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles
from lmtune.errors import InputError, check_least
from lmtune.measures.significance.tests import FEWEST, paired_differences

MOST_ORDERS = 1 << 20
"""Up to this number of permutations, all are enumerated."""

# Values per batch of random permutations, which fit a processor's cache.
_BATCH = 1 << 15
# Nodes of the outer and the inner integral of the studentized range, and the tails that are left out.
_NODES, _TAIL, _FARTHEST = (96, 192), 1e-15, 8.5


class Simultaneous(NamedTuple):
    """Tests of all pairs of systems, and their simultaneous intervals.

    Attributes
    ----------
    p_values : numpy.ndarray of float64, shape (systems, systems)
        Adjusted p-values of the pairs, symmetric; NaN without a test.
    half : float
        Half the width of the simultaneous interval of each difference of means, which excludes 0 if the
        p-value is below 1 - confidence; NaN without a test.
    how : str
        The reference distribution.
    """

    p_values: Doubles
    half: float
    how: str


def tukey_hsd(values: ArrayLike, confidence: float = 0.95) -> Simultaneous:
    """Compare all pairs of systems by Tukey's HSD in a two-way layout of topics and systems.

    The difference of two means over n topics is divided by sqrt(MSE / n). MSE is the mean square of what
    topic and system effects leave, with (k - 1)(n - 1) degrees of freedom for k systems. The reference is the
    studentized range of k means (J. W. Tukey, The Problem of Multiple Comparisons, 1953). All pairs share one
    variance. With two systems this is the paired t-test.

    Parameters
    ----------
    values : array_like of float, shape (topics, systems)
        Finite values of two systems or more.
    confidence : float
        Simultaneous confidence of the intervals, between 0 and 1.

    Returns
    -------
    Simultaneous
        p is 1 for equal systems; otherwise NaN if there are fewer than `FEWEST` topics or all differences are
        constant.

    Raises
    ------
    InputError
        If there are fewer than two systems, or a value is not finite.

    Examples
    --------
    >>> tukey_hsd([[0.2, 0.1], [0.4, 0.2], [0.6, 0.5]]).p_values.round(4).tolist()
    [[1.0, 0.0572], [0.0572, 1.0]]
    """
    matrix, apart, noise = _matrix(values)
    topics, systems = matrix.shape
    freedom = (topics - 1) * (systems - 1)
    how = f"studentized range, {freedom:,} degrees of freedom"
    left = matrix - matrix.mean(axis=0) - matrix.mean(axis=1, keepdims=True) + matrix.mean()
    if topics < FEWEST or np.abs(left).max() <= noise:
        return Simultaneous(np.where(apart == 0.0, 1.0, math.nan), math.nan if apart.any() else 0.0, how)
    error = math.sqrt(float(np.square(left).sum()) / freedom / topics)
    p_values = np.ones_like(apart)
    for i, j in combinations(range(systems), 2):
        p_values[i, j] = p_values[j, i] = studentized_range_tail(apart[i, j] / error, systems, freedom)
    return Simultaneous(p_values, error * _critical(1.0 - confidence, systems, freedom), how)


def randomized_hsd(
    values: ArrayLike, confidence: float = 0.95, *, permutations: int = 100_000, seed: int = 0
) -> Simultaneous:
    """Compare all pairs of systems by Tukey's HSD with permutations of the systems within each topic.

    The reference is the range of the systems' means, the largest minus the smallest, after each topic's
    values are permuted (B. A. Carterette, Multiple testing in statistical analysis of systems-based
    information retrieval experiments, ACM TOIS 30(1), 2012). If c of N permutations have a range of at least
    the difference of two means, p = (c + 1) / (N + 1). If there are at most `MOST_ORDERS` permutations, all
    are enumerated, and p is exact. With two systems this is the paired randomization test.

    Parameters
    ----------
    values : array_like of float, shape (topics, systems)
        Finite values of two systems or more.
    confidence : float
        Simultaneous confidence of the intervals, between 0 and 1.
    permutations : int
        Number N of random permutations, at least 1.
    seed : int
        Seed of the permutations, 0 or more. The same seed and shape give the same permutations on every
        machine.

    Returns
    -------
    Simultaneous
        `half` is NaN if there are too few permutations for the confidence.

    Raises
    ------
    InputError
        If there are fewer than two systems, a value is not finite, or a number is outside its domain.
    """
    check_least("bad number of permutations", permutations, 1)
    check_least("bad seed", seed, 0)
    matrix, apart, noise = _matrix(values)
    topics, systems = matrix.shape
    # All systems may be exchanged together, so that the first topic's order can stay.
    every = (topics - 1) * math.lgamma(systems + 1) <= math.log(MOST_ORDERS) + 1e-9
    ranges = _all_ranges(matrix) if every else _random_ranges(matrix, permutations, seed)
    ranges.sort()
    number, added = ranges.size, 0 if every else 1
    at_least = number - np.searchsorted(ranges, apart - noise * topics)
    # p is below the level for differences above this many of the largest ranges.
    allowed = math.ceil((1.0 - confidence) * (number + added) - added - 1e-9)
    half = float(ranges[number - allowed]) + noise * topics if allowed > 0 else math.nan
    what = f"exact, all {number:,} permutations" if every else f"{number:,} random permutations"
    return Simultaneous((at_least + added) / (number + added), half, what)


def _matrix(values: ArrayLike) -> tuple[Doubles, Doubles, float]:
    """Check values; return them, the absolute differences of all means, and the bound on rounding errors."""
    matrix = np.asarray(values, np.float64)
    if matrix.ndim != 2 or matrix.shape[1] < 2 or not matrix.size:
        accepted = "topics in rows, two systems or more in columns"
        raise InputError("bad shape of values", value=matrix.shape, accepted=accepted)
    noise = paired_differences(matrix.ravel(), 0.0).noise
    means = matrix.mean(axis=0)
    apart = np.abs(means[:, np.newaxis] - means)
    apart[apart <= noise] = 0.0
    return matrix, apart, noise


def _all_ranges(matrix: Doubles) -> Doubles:
    sums = matrix[:1]
    for row in matrix[1:].tolist():
        sums = (sums[:, np.newaxis] + np.array([*orders(row)])).reshape(-1, len(row))
    return np.asarray(np.ptp(sums, axis=1)) / len(matrix)


def _random_ranges(matrix: Doubles, permutations: int, seed: int) -> Doubles:
    topics, systems = matrix.shape
    # numpy guarantees the stream of raw words in all versions; its order does not depend on the batches.
    generator = np.random.PCG64(seed)
    ranges = np.empty(permutations)
    step = max(1, _BATCH // matrix.size)
    for first in range(0, permutations, step):
        count = min(step, permutations - first)
        raw = np.asarray(generator.random_raw((count * topics, systems - 1)))
        drawn, columns = np.tile(matrix.T, count), np.arange(count * topics)
        for last in range(systems - 1, 0, -1):  # Fisher and Yates, in all topics at once
            other = (raw[:, last - 1] % (last + 1)).astype(np.int64)
            moved = drawn[other, columns]
            drawn[other, columns] = drawn[last]
            drawn[last] = moved
        sums = drawn.reshape(systems, count, topics).sum(axis=2)
        ranges[first : first + count] = np.ptp(sums, axis=0) / topics
    return ranges


def studentized_range_tail(q: float, systems: int, freedom: int) -> float:
    """Return P(Q >= q) of the studentized range of `systems` normal values with `freedom` degrees of freedom.

    With the largest value z, P(Q < q) is the mean of k times the integral of phi(z) (Phi(z) - Phi(z - q s))
    to the power of k - 1, over s = sqrt(chi^2 / freedom). Both integrals use Gauss-Legendre nodes; errors
    are below 1e-9.
    """
    from scipy.special import chdtri, gammaln, ndtr

    if q <= 0.0:
        return 1.0
    (nodes, weights), (z, inner) = map(_legendre, _NODES)
    z = _FARTHEST * z
    low, high = (math.sqrt(float(chdtri(freedom, p)) / freedom) for p in (1.0 - _TAIL, _TAIL))
    s = (low + high) / 2.0 + (high - low) / 2.0 * nodes
    logarithm = (freedom - 1.0) * np.log(s) - freedom * s * s / 2.0 + (freedom / 2.0) * math.log(freedom)
    density = np.exp(logarithm - float(gammaln(freedom / 2.0)) - (freedom / 2.0 - 1.0) * math.log(2.0))
    within = (ndtr(z) - ndtr(z - q * s[:, np.newaxis])) ** (systems - 1)
    phi = np.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    given_s = systems * _FARTHEST * (within @ (inner * phi))
    below = (high - low) / 2.0 * float(weights @ (density * given_s))
    return min(1.0, max(0.0, 1.0 - below))


@lru_cache
def _legendre(number: int) -> tuple[Doubles, Doubles]:
    return np.polynomial.legendre.leggauss(number)


@lru_cache
def _critical(level: float, systems: int, freedom: int) -> float:
    """Return the value that the studentized range exceeds with a probability of `level`."""
    from scipy.optimize import brentq

    high = 4.0
    while studentized_range_tail(high, systems, freedom) > level:
        high *= 2.0
    return float(brentq(lambda q: studentized_range_tail(q, systems, freedom) - level, 0.0, high, xtol=1e-12))
