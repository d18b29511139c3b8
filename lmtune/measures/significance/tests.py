"""Whether two systems' per-topic values differ by more than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import check_choice, check_least
from lmtune.measures.significance.differences import Differences, paired_differences
from lmtune.measures.significance.sign_patterns import Alternative, drawn, enumerated

ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")
CORRECTIONS = ("holm", "bonferroni", "none")

MOST_ENUMERATED = 20
"""Topics that differ, up to which all sign patterns are enumerated."""

FEWEST = 3
"""Pairs without which there is no t-test."""

_MOST_EXACT_RANKS = 50


class Tested(NamedTuple):
    """A p-value and how it was found.

    Attributes
    ----------
    p_value : float
        In [0, 1]; NaN where there is no test.
    how : str
        Such as ``"exact"`` or ``"normal approximation"``.
    """

    p_value: float
    how: str


def paired_t_test(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of a paired t-test.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, at least two.
    alternative : {"two-sided", "greater", "less"}
        ``"greater"`` asks whether `a` is better.

    Returns
    -------
    float
        In [0, 1]; 1 where the values are equal on every topic. NaN where there is no test: of fewer
        than `FEWEST` topics, or where the difference is another constant, so that it has no variance.

    Raises
    ------
    InputError
        For an unknown alternative, values that do not pair up or are not finite.

    Examples
    --------
    >>> round(paired_t_test([0.2, 0.4, 0.6], [0.1, 0.2, 0.5]), 4)
    0.0572
    """
    check_alternative(alternative)
    return shifted_t_test(paired_differences(a, b), 0.0, alternative)


def shifted_t_test(difference: Differences, shift: float, alternative: Alternative) -> float:
    """Test the mean difference against `shift`; see `paired_t_test`."""
    values = difference.values
    centre = float(values.mean()) - shift if values.size else 0.0
    if difference.is_constant and abs(centre) <= difference.noise:
        return 1.0
    if difference.is_constant or values.size < FEWEST:
        return math.nan
    t = centre / (values.std(ddof=1) / np.sqrt(values.size))
    # The regularised incomplete beta function is Student's tail; scipy.stats would take a second.
    from scipy.special import stdtr

    if alternative == "two-sided":
        return float(2.0 * stdtr(values.size - 1, -abs(t)))
    return float(stdtr(values.size - 1, -t if alternative == "greater" else t))


def randomization_test(
    a: ArrayLike,
    b: ArrayLike,
    alternative: Alternative = "two-sided",
    *,
    permutations: int = 100_000,
    seed: int = 0,
) -> Tested:
    """Test whether the mean difference is larger than under random signs (Fisher's test).

    With c of N random sign patterns whose mean difference is at least as extreme as the observed
    one, p = (c + 1) / (N + 1). Where at most `MOST_ENUMERATED` topics differ, all patterns are
    enumerated instead, and p is exact.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics.
    alternative : {"two-sided", "greater", "less"}
        ``"greater"`` asks whether `a` is better.
    permutations : int
        Random sign patterns, N, at least 1.
    seed : int
        Of the patterns, 0 or more. The same seed and number of topics give the same patterns, on
        every machine.

    Returns
    -------
    Tested
        1 where the values are equal on every topic.

    Raises
    ------
    InputError
        For an unknown alternative, a bad number of permutations or seed, values that do not pair
        up or are not finite.

    Examples
    --------
    >>> randomization_test([0.2, 0.4, 0.6, 0.5], [0.1, 0.2, 0.5, 0.4])
    Tested(p_value=0.125, how='exact, all 16 sign patterns')
    """
    return randomization_tests([(a, b)], alternative, permutations=permutations, seed=seed)[0]


def randomization_tests(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]],
    alternative: Alternative = "two-sided",
    *,
    permutations: int = 100_000,
    seed: int = 0,
) -> list[Tested]:
    """Make the randomization test of several pairs on the same topics, with the same signs.

    Each result is what `randomization_test` gives for the pair, in a fraction of the time.
    """
    check_alternative(alternative)
    check_drawing(permutations, seed)
    found: dict[int, Tested] = {}
    long: dict[int, tuple[NDArray[np.float64], float]] = {}
    for place, (a, b) in enumerate(pairs):
        values, noise = paired_differences(a, b)
        changing = values[values != 0.0]
        # Equally extreme sums are rarely equal floats: leave room for every addend's rounding.
        room = noise * max(1, changing.size)
        if changing.size <= MOST_ENUMERATED:
            found[place] = _exact(changing, room, alternative)
        else:
            long[place] = values, room
    if long:
        columns = np.stack([values for values, _ in long.values()], axis=1)
        rooms = np.array([room for _, room in long.values()])
        counts = drawn(columns, rooms, alternative, permutations, seed)
        for place, count in zip(long, counts.tolist(), strict=True):
            p = (count + 1) / (permutations + 1)
            found[place] = Tested(p, f"{permutations:,} random sign patterns")
    return [found[place] for place in range(len(pairs))]


def wilcoxon_test(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> Tested:
    """Return the p-value of Wilcoxon's signed-rank test.

    Topics without a difference are left out (Wilcoxon's rule), equal differences share their
    mean rank. p is exact up to 50 topics without ties and up to `MOST_ENUMERATED` with them;
    beyond, from the normal approximation, corrected for ties, without continuity correction.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics.
    alternative : {"two-sided", "greater", "less"}
        ``"greater"`` asks whether `a` is better.

    Returns
    -------
    Tested
        1 where the values are equal on every topic.

    Raises
    ------
    InputError
        For an unknown alternative, values that do not pair up or are not finite.
    """
    check_alternative(alternative)
    difference, noise = paired_differences(a, b)
    ranks, tied = _signed_ranks(difference[difference != 0.0], noise)
    if not ranks.size:
        return Tested(1.0, "no topic differs")
    if tied and ranks.size <= MOST_ENUMERATED:
        # scipy's exact distribution is for ranks without ties.
        return _exact(ranks, 0.25, alternative)
    from scipy.stats import wilcoxon

    exact = not tied and ranks.size <= _MOST_EXACT_RANKS
    found = wilcoxon(ranks, alternative=alternative, method="exact" if exact else "approx")
    return Tested(float(found.pvalue), "exact" if exact else "normal approximation")


def adjusted(p_values: Sequence[float], correction: str = "holm") -> list[float]:
    """Adjust p-values for the number of comparisons.

    Parameters
    ----------
    p_values : sequence of float
        One a comparison, in [0, 1]; NaN, which stays, for one without a test, which counts all the same.
    correction : {"holm", "bonferroni", "none"}
        Both keep the chance of one false claim or more below the level; Holm's never gives a
        larger p-value. See S. Holm, A simple sequentially rejective multiple test procedure,
        Scandinavian Journal of Statistics 6, 1979.

    Returns
    -------
    list of float
        To be held against the level itself, in the same order.

    Raises
    ------
    InputError
        For an unknown correction.

    Examples
    --------
    >>> adjusted([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    >>> adjusted([0.01, 0.04, 0.03], "bonferroni")
    [0.03, 0.12, 0.09]
    """
    check_choice("unknown correction", correction, CORRECTIONS)
    p = np.asarray(p_values, np.float64)
    if correction == "none" or not p.size:
        return [float(value) for value in p]
    if correction == "bonferroni":
        return [float(value) for value in np.minimum(p * p.size, 1.0)]
    order = np.argsort(p, kind="stable")  # NaN last
    steps = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    out = np.empty_like(p)
    out[order] = steps
    return [float(value) for value in out]


def adjusted_confidence(confidence: float, comparisons: int, correction: str = "holm") -> float:
    """Return the confidence of each interval with which all hold together.

    Bonferroni's, 1 - (1 - confidence) / comparisons: see O. J. Dunn, Multiple comparisons among means,
    Journal of the American Statistical Association 56, 1961. Beside Holm's correction too, which has no
    two-sided intervals of its own; so one may hold 0 where Holm's p-value is below the level.

    Parameters
    ----------
    confidence : float
        With which all hold at once, between 0 and 1.
    comparisons : int
        How many intervals.
    correction : {"holm", "bonferroni", "none"}
        That of the p-values; with ``"none"`` each interval stands alone.

    Examples
    --------
    >>> round(adjusted_confidence(0.95, 2), 4), adjusted_confidence(0.95, 2, "none")
    (0.975, 0.95)
    """
    return confidence if correction == "none" else 1.0 - (1.0 - confidence) / comparisons


def check_alternative(alternative: str) -> None:
    """Raise InputError unless `alternative` is known."""
    check_choice("unknown alternative", alternative, ALTERNATIVES)


def check_drawing(permutations: int, seed: int) -> None:
    """Raise InputError unless these can draw sign patterns."""
    check_least("bad number of permutations", permutations, 1)
    check_least("bad seed", seed, 0)


def _exact(values: NDArray[np.float64], room: float, alternative: Alternative) -> Tested:
    patterns = 1 << values.size
    extreme = enumerated(values, room, alternative)
    return Tested(extreme / patterns, f"exact, all {patterns:,} sign patterns")


def _signed_ranks(values: NDArray[np.float64], noise: float) -> tuple[NDArray[np.float64], bool]:
    """Rank by size, from 1, with the values' signs; neighbours within the noise share a rank."""
    if not values.size:
        return values, False
    order = np.argsort(np.abs(values), kind="stable")
    apart = np.diff(np.abs(values)[order]) > noise
    group = np.concatenate([[0], np.cumsum(apart)])
    size = np.bincount(group)
    mean_rank = np.cumsum(size) - (size - 1) / 2.0
    ranks = np.empty(values.size)
    ranks[order] = mean_rank[group]
    return np.copysign(ranks, values), bool((size > 1).any())
