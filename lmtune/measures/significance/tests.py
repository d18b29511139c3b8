"""Paired tests of two systems' values by topic, effect sizes, confidence intervals and power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles, Integers
from lmtune.errors import InputError, check_choice, check_least

# Bound on the rounding error of a difference, relative to the largest value.
_NOISE = 8.0 * float(np.finfo(np.float64).eps)


class Differences(NamedTuple):
    """The differences of two systems by topic.

    Attributes
    ----------
    values : numpy.ndarray of float64, shape (topics,)
        a - b on each topic; exactly 0 if they differ only by rounding.
    noise : float
        Differences that are at most this far apart are treated as equal: a few units in the last place of
        the largest value. For example, 0.3 - 0.2 and 0.2 - 0.1 are different floats, but must tie.
    """

    values: Doubles
    noise: float

    @property
    def is_constant(self) -> bool:
        """Whether every topic has the same difference."""
        return bool(np.ptp(self.values) <= self.noise) if self.values.size else True


def paired_differences(a: ArrayLike, b: ArrayLike) -> Differences:
    """Compute a - b on each topic.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Finite values of two systems on the same topics; `b` may be one number for all topics.

    Returns
    -------
    Differences

    Raises
    ------
    InputError
        If shapes differ or a value is not finite.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.ndim != 1 or (b.ndim and b.shape != a.shape):
        raise InputError(
            "the values of two systems have different shapes",
            value=(a.shape, b.shape),
            accepted="one value per topic and system",
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
        Finite values of two systems on the same topics.

    Returns
    -------
    tuple of int
        Wins, ties and losses of `a`. Values that differ only by rounding are ties.

    Examples
    --------
    >>> wins_ties_losses([0.3, 0.1 + 0.2, 0.1], [0.2, 0.3, 0.5])
    (1, 1, 1)
    """
    difference = paired_differences(a, b).values
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    return wins, difference.size - wins - losses, losses


Alternative = Literal["two-sided", "greater", "less"]
"""The alternative hypothesis: a != b, a > b or a < b."""

# Random signs per batch, which limits the memory to about ten megabytes.
_SIGNS_PER_BATCH = 1 << 20
_WORD = 64
# Number of values whose 2^16 sums are computed as one array; the other values' sums are added in a loop.
_VECTORISED = 16


def _count_extreme_exactly(values: Doubles, tolerance: float, alternative: Alternative) -> int:
    """Count the sign patterns, out of all, whose sum is at least as extreme as the observed sum.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (n,)
        Differences or signed ranks; all 2^n patterns are tried.
    tolerance : float
        Sums that are less extreme by at most this much count too, because equal sums may round differently.
    alternative : {"two-sided", "greater", "less"}
        Which sums are extreme.

    Returns
    -------
    int
        From 1 to 2^n.
    """
    sums, shifts = _sums(values[:_VECTORISED]), _sums(values[_VECTORISED:])
    observed, tolerances = values.sum(keepdims=True), np.array([tolerance])
    return sum(
        int(_count_extreme((sums + shift)[:, np.newaxis], observed, tolerances, alternative)[0])
        for shift in shifts.tolist()
    )


def _count_extreme_randomly(
    columns: Doubles, tolerances: Doubles, alternative: Alternative, patterns: int, seed: int
) -> Integers:
    """Count extreme sums of several columns over the same random sign patterns.

    Parameters
    ----------
    columns : numpy.ndarray of float64, shape (n, columns)
        Values.
    tolerances : numpy.ndarray of float64, shape (columns,)
        As for `_count_extreme_exactly`.
    alternative : {"two-sided", "greater", "less"}
        Which sums are extreme.
    patterns, seed : int
        Number and seed of the patterns, which depend only on the seed and n.

    Returns
    -------
    numpy.ndarray of int64, shape (columns,)
        Each from 0 to `patterns`.
    """
    size = columns.shape[0]
    words = -(-size // _WORD)
    # numpy guarantees the stream of raw words in all versions. Each pattern has whole words, so that the
    # patterns do not depend on the batch size.
    generator = np.random.PCG64(seed)
    observed = columns.sum(axis=0)
    counts = np.zeros(columns.shape[1], np.int64)
    step = max(1, _SIGNS_PER_BATCH // (max(words * _WORD, columns.shape[1])))
    for first in range(0, patterns, step):
        shape = (min(step, patterns - first), words)
        raw = np.asarray(generator.random_raw(shape)).astype("<u8", copy=False)
        flips = np.unpackbits(raw.view(np.uint8), axis=1, count=size)
        sums = observed - 2.0 * (flips.astype(np.float64) @ columns)
        counts += _count_extreme(sums, observed, tolerances, alternative)
    return counts


def _count_extreme(
    sums: Doubles, observed: Doubles, tolerances: Doubles, alternative: Alternative
) -> Integers:
    if alternative == "two-sided":
        extreme = np.abs(sums) >= np.abs(observed) - tolerances
    elif alternative == "less":
        extreme = sums <= observed + tolerances
    else:
        extreme = sums >= observed - tolerances
    return np.asarray(np.count_nonzero(extreme, axis=0), np.int64)


def _sums(values: Doubles) -> Doubles:
    """Return the sums of all sign patterns of the values."""
    sums = np.zeros(1)
    for value in values.tolist():
        sums = np.concatenate([sums - value, sums + value])
    return sums


ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")
CORRECTIONS = ("holm", "bonferroni", "bh", "none")

MOST_ENUMERATED = 20
"""Up to this number of topics with a difference, all sign patterns are enumerated."""

FEWEST = 3
"""Minimum number of topics for a t-test."""

_MOST_EXACT_RANKS = 50


class Tested(NamedTuple):
    """A p-value and its method.

    Attributes
    ----------
    p_value : float
        In [0, 1]; NaN if the test is not possible.
    how : str
        The method, such as ``"exact"`` or ``"normal approximation"``.
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
        In [0, 1]; 1 if the values are equal on every topic. NaN if the test is not possible: with fewer than
        `FEWEST` topics, or if the difference is constant but not 0.

    Raises
    ------
    InputError
        If the alternative is unknown, shapes differ or a value is not finite.

    Examples
    --------
    >>> round(paired_t_test([0.2, 0.4, 0.6], [0.1, 0.2, 0.5]), 4)
    0.0572
    """
    _check_alternative(alternative)
    return _shifted_t_test(paired_differences(a, b), 0.0, alternative)


def _shifted_t_test(difference: Differences, shift: float, alternative: Alternative) -> float:
    """Return the p-value of a t-test of the mean difference against `shift`; see `paired_t_test`."""
    values = difference.values
    centre = float(values.mean()) - shift if values.size else 0.0
    if difference.is_constant and abs(centre) <= difference.noise:
        return 1.0
    if difference.is_constant or values.size < FEWEST:
        return math.nan
    t = centre / (values.std(ddof=1) / np.sqrt(values.size))
    # Not scipy.stats, whose import takes about a second.
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
    """Compute the p-value of Fisher's paired randomization test.

    If c of N random sign patterns have a mean difference at least as extreme as the observed one,
    p = (c + 1) / (N + 1). If at most `MOST_ENUMERATED` topics have a difference, all patterns are
    enumerated, and p is exact.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics.
    alternative : {"two-sided", "greater", "less"}
        ``"greater"`` asks whether `a` is better.
    permutations : int
        Number N of random sign patterns, at least 1.
    seed : int
        Seed of the patterns, 0 or more. The same seed and number of topics give the same patterns on every
        machine.

    Returns
    -------
    Tested
        p is 1 if the values are equal on every topic.

    Raises
    ------
    InputError
        If the alternative is unknown, `permutations` or `seed` is out of range, shapes differ or a value is
        not finite.

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
    """Compute randomization tests of several pairs of systems on the same topics.

    The results are those of `randomization_test`, but all pairs share the random signs, which is much faster.
    """
    _check_alternative(alternative)
    _check_drawing(permutations, seed)
    results: dict[int, Tested] = {}
    sampled: dict[int, tuple[Doubles, float]] = {}
    for index, (a, b) in enumerate(pairs):
        values, noise = paired_differences(a, b)
        nonzero = values[values != 0.0]
        # Equally extreme sums may differ by the rounding errors of all their terms.
        tolerance = noise * max(1, nonzero.size)
        if nonzero.size <= MOST_ENUMERATED:
            results[index] = _exact(nonzero, tolerance, alternative)
        else:
            sampled[index] = values, tolerance
    if sampled:
        columns = np.stack([values for values, _ in sampled.values()], axis=1)
        tolerances = np.array([tolerance for _, tolerance in sampled.values()])
        counts = _count_extreme_randomly(columns, tolerances, alternative, permutations, seed)
        for index, count in zip(sampled, counts.tolist(), strict=True):
            p = (count + 1) / (permutations + 1)
            results[index] = Tested(p, f"{permutations:,} random sign patterns")
    return [results[index] for index in range(len(pairs))]


def wilcoxon_test(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> Tested:
    """Compute the p-value of Wilcoxon's signed-rank test.

    Topics without a difference are left out (Wilcoxon's rule), and equal differences share their mean rank. p
    is exact for up to 50 topics without ties, or `MOST_ENUMERATED` with ties. Otherwise it is from the normal
    approximation with correction for ties and without continuity correction.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics.
    alternative : {"two-sided", "greater", "less"}
        ``"greater"`` asks whether `a` is better.

    Returns
    -------
    Tested
        p is 1 if the values are equal on every topic.

    Raises
    ------
    InputError
        If the alternative is unknown, shapes differ or a value is not finite.
    """
    _check_alternative(alternative)
    difference, noise = paired_differences(a, b)
    ranks, tied = _signed_ranks(difference[difference != 0.0], noise)
    if not ranks.size:
        return Tested(1.0, "no topic differs")
    if tied and ranks.size <= MOST_ENUMERATED:
        # The exact distribution in scipy does not support ties.
        return _exact(ranks, 0.25, alternative)
    from scipy.stats import wilcoxon

    exact = not tied and ranks.size <= _MOST_EXACT_RANKS
    result = wilcoxon(ranks, alternative=alternative, method="exact" if exact else "approx")
    return Tested(float(result.pvalue), "exact" if exact else "normal approximation")


def adjusted(p_values: Sequence[float], correction: str = "holm") -> list[float]:
    """Adjust p-values for the number of comparisons.

    Parameters
    ----------
    p_values : sequence of float
        One per comparison, in [0, 1]. NaN for a comparison without a test; it stays NaN, but is counted.
    correction : {"holm", "bonferroni", "bh", "none"}
        The first two control the family-wise error rate; Holm's p-values are never larger. See S. Holm,
        A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979.
        ``"bh"`` controls the false discovery rate: Y. Benjamini and Y. Hochberg, Controlling the false
        discovery rate, Journal of the Royal Statistical Society B 57, 1995.

    Returns
    -------
    list of float
        Adjusted p-values in the same order, to be compared with the significance level.

    Raises
    ------
    InputError
        If the correction is unknown.

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
    if correction == "bh":
        scaled = p[order] * p.size / np.arange(1, p.size + 1)
        steps = np.where(np.isnan(scaled), np.nan, np.fmin.accumulate(scaled[::-1])[::-1])
    else:
        steps = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    out = np.empty_like(p)
    out[order] = steps
    return [float(value) for value in out]


def adjusted_confidence(
    confidence: float, comparisons: int, correction: str = "holm", rank: int = 1
) -> float:
    """Return the confidence of each interval, by the correction of the p-values.

    With ``"holm"`` and ``"bonferroni"`` all intervals hold together with the given confidence, by
    Bonferroni's 1 - (1 - confidence) / comparisons; see O. J. Dunn, Multiple comparisons among means, Journal
    of the American Statistical Association 56, 1961. Holm's correction has no two-sided intervals. So an
    interval may contain 0 although Holm's p-value is below the level.

    With ``"bh"`` the false coverage rate is controlled: of the intervals of the R significant differences,
    an expected share of at most 1 - confidence misses the true difference, if each has the confidence
    1 - R (1 - confidence) / comparisons (Y. Benjamini and D. Yekutieli, False discovery rate-adjusted
    multiple confidence intervals for selected parameters, same journal 100, 2005).

    Parameters
    ----------
    confidence : float
        The confidence of all intervals, between 0 and 1.
    comparisons : int
        The number of intervals.
    correction : {"holm", "bonferroni", "bh", "none"}
        The correction of the p-values; with ``"none"`` the confidence is not adjusted.
    rank : int
        The number R of significant differences, for ``"bh"``. With R + 1 for the others, t-intervals exclude
        0 exactly where the t-test is significant.

    Examples
    --------
    >>> round(adjusted_confidence(0.95, 2), 4), adjusted_confidence(0.95, 2, "none")
    (0.975, 0.95)
    >>> round(adjusted_confidence(0.95, 10, "bh", 3), 4)
    0.985
    """
    share = {"none": comparisons, "bh": rank}.get(correction, 1) / comparisons
    return 1.0 - (1.0 - confidence) * share if share < 1.0 else confidence


def _check_alternative(alternative: str) -> None:
    check_choice("unknown alternative", alternative, ALTERNATIVES)


def _check_drawing(permutations: int, seed: int) -> None:
    check_least("bad number of permutations", permutations, 1)
    check_least("bad seed", seed, 0)


def _exact(values: Doubles, tolerance: float, alternative: Alternative) -> Tested:
    patterns = 1 << values.size
    extreme = _count_extreme_exactly(values, tolerance, alternative)
    return Tested(extreme / patterns, f"exact, all {patterns:,} sign patterns")


def _signed_ranks(values: Doubles, noise: float) -> tuple[Doubles, bool]:
    """Return the signed ranks (from 1) of absolute values, and whether there are ties.

    Neighbours whose difference is at most `noise` share their mean rank.
    """
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


class Equivalence(NamedTuple):
    """The p-values of a non-inferiority and an equivalence test (TOST) with a margin.

    Attributes
    ----------
    not_worse : float
        The p-value of the null hypothesis that a is worse than b by the margin or more (non-inferiority).
    equivalent : float
        The larger p-value of the two one-sided tests; a small one means that the means differ by less than
        the margin. Both p-values are NaN with fewer than `FEWEST` topics or a constant difference.
    """

    not_worse: float
    equivalent: float


def effect_size(a: ArrayLike, b: ArrayLike, *, hedges: bool = False) -> float:
    """Compute Cohen's d_z, the mean difference over the standard deviation of the differences.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, at least two.
    hedges : bool
        Whether to remove the small-sample bias with Hedges' exact factor
        Gamma(m / 2) / (sqrt(m / 2) Gamma((m - 1) / 2)), m = topics - 1 (L. Hedges, Distribution theory for
        Glass's estimator of effect size, Journal of Educational Statistics 6, 1981).

    Returns
    -------
    float
        0 if the values are equal on every topic; NaN if the difference is constant but not 0.

    Raises
    ------
    InputError
        If there are fewer than two topics, shapes differ or a value is not finite.

    Examples
    --------
    >>> round(effect_size([0.2, 0.4, 0.6], [0.1, 0.2, 0.5]), 4)
    2.3094
    """
    difference = paired_differences(a, b)
    values = difference.values
    _check_topics(values.size)
    if not values.any():
        return 0.0
    if difference.is_constant:
        return math.nan
    size = float(values.mean() / values.std(ddof=1))
    return size * _hedges(values.size - 1) if hedges else size


def mean_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the t-interval of the mean difference.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, at least two.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    tuple of float
        The ends of the interval: both 0 if the values are equal on every topic, both NaN if the difference is
        constant but not 0.

    Raises
    ------
    InputError
        If there are fewer than two topics, the confidence is out of range, shapes differ or a value is not
        finite.
    """
    _check_confidence(confidence)
    difference = paired_differences(a, b)
    values = difference.values
    _check_topics(values.size)
    mean = float(values.mean())
    if not values.any():
        return 0.0, 0.0
    if difference.is_constant:
        return math.nan, math.nan
    half = _half_width(values, confidence)
    return mean - half, mean + half


class MeanInterval(NamedTuple):
    """A mean and half the width of its confidence interval; NaN for a single value."""

    mean: float
    half: float


def confidence_interval(values: Sequence[float], confidence: float = 0.95) -> MeanInterval:
    """Compute the mean of independent values and its t-interval.

    Parameters
    ----------
    values : sequence of float
        At least one value, such as one per trial.
    confidence : float
        Between 0 and 1.

    Raises
    ------
    InputError
        If there is no value or the confidence is out of range.
    """
    _check_confidence(confidence)
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise InputError("no values for an interval", accepted="one or more")
    return MeanInterval(float(array.mean()), _half_width(array, confidence) if array.size > 1 else math.nan)


def _half_width(values: Doubles, confidence: float) -> float:
    from scipy.special import stdtrit

    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(stdtrit(values.size - 1, 0.5 + confidence / 2.0)) * error


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise InputError("bad confidence", value=confidence, accepted="between 0 and 1")


def equivalence_test(a: ArrayLike, b: ArrayLike, margin: float) -> Equivalence:
    """Test non-inferiority of `a` to `b`, and equivalence of both, with paired t-tests.

    Equivalence is tested by D. Schuirmann's two one-sided tests (TOST; Journal of Pharmacokinetics and
    Biopharmaceutics 15, 1987).

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, at least two; higher is better.
    margin : float
        The smallest difference of means that matters, in the unit of the measure; positive.

    Returns
    -------
    Equivalence

    Raises
    ------
    InputError
        If there are fewer than two topics, the margin is not positive, shapes differ or a value is not
        finite.
    """
    check_margin(margin)
    difference = paired_differences(a, b)
    _check_topics(difference.values.size)
    not_worse = _shifted_t_test(difference, -margin, "greater")
    return Equivalence(not_worse, float(np.maximum(not_worse, _shifted_t_test(difference, margin, "less"))))


class NonInferiority(NamedTuple):
    """A test of non-inferiority, corrected for the number of tests.

    Attributes
    ----------
    p_value : float
        The adjusted p-value of the null hypothesis that a is worse than b by the margin or more.
    bound : float
        The one-sided lower confidence bound of the mean difference.
    confidence : float
        The bound's confidence.
    power : float
        The probability that the bound of equal systems exceeds minus the margin, with this deviation, this
        number of topics and this confidence; from the noncentral t distribution.
    is_shown : bool
        Whether a is not worse: the p-value is below the level, and the bound above minus the margin.
    """

    p_value: float
    bound: float
    confidence: float
    power: float
    is_shown: bool


def non_inferiority_tests(
    sides: Sequence[tuple[ArrayLike, ArrayLike]],
    margins: Sequence[float],
    confidence: float = 0.95,
    correction: str = "holm",
) -> list[NonInferiority]:
    """Test with paired t-tests whether each `a` is worse than its `b` by less than a margin.

    With Holm's correction the bound of the r-th smallest of m p-values has the confidence 1 - level / (m - r
    + 1), and the bounds from the first failure on have that one's confidence. So a bound exceeds minus the
    margin exactly where the adjusted p-value is below the level. If all topics have the same difference, as
    for identical runs, the bound is that difference.

    Parameters
    ----------
    sides : sequence of (array_like, array_like)
        Values of a and b by topic, shape (topics,), at least `FEWEST`; higher is better.
    margins : sequence of float
        The margin of each test, positive.
    confidence : float
        1 - confidence is the level of all tests together.
    correction : {"holm", "bonferroni", "none"}
        See `adjusted`.

    Returns
    -------
    list of NonInferiority

    Examples
    --------
    >>> [one] = non_inferiority_tests([([0.2, 0.4, 0.5], [0.1, 0.2, 0.5])], [0.1])
    >>> round(one.bound, 4), one.is_shown
    (-0.0686, True)
    """
    check_choice("no lower bounds with this correction", correction, ("holm", "bonferroni", "none"))
    differences = [paired_differences(a, b) for a, b in sides]
    means = [float(one.values.mean()) for one in differences]
    p_values = []
    for one, mean, margin in zip(differences, means, margins, strict=True):
        check_margin(margin)
        check_least("too few topics", one.values.size, FEWEST)
        is_certain = float(mean + margin <= one.noise)
        p_values.append(is_certain if one.is_constant else _shifted_t_test(one, -margin, "greater"))
    corrected, level = adjusted(p_values, correction), round(1.0 - confidence, 12)
    ranks = np.argsort(np.argsort(p_values, kind="stable"))
    shown = sum(p < level for p in corrected)
    tests = []
    rows = zip(differences, means, margins, corrected, ranks.tolist(), strict=True)
    for one, mean, margin, p, rank in rows:
        left = len(p_values) - (min(rank, shown) if correction == "holm" else 0)
        own = adjusted_confidence(confidence, left, correction)
        half = 0.0 if one.is_constant else _half_width(one.values, 2.0 * own - 1.0)
        power = 1.0 if one.is_constant else _non_inferiority_power(one.values, margin, own)
        tests.append(NonInferiority(p, mean - half, own, power, p < level))
    return tests


def _non_inferiority_power(values: Doubles, margin: float, confidence: float) -> float:
    from scipy.special import nctdtr, stdtrit

    freedom, error = values.size - 1, float(values.std(ddof=1)) / math.sqrt(values.size)
    missed = float(nctdtr(freedom, margin / error, float(stdtrit(freedom, confidence))))
    # nctdtr returns NaN far in the tail, where the probability is negligible.
    return 1.0 if math.isnan(missed) else 1.0 - missed


def check_margin(margin: float) -> None:
    """Raise InputError unless `margin` is positive and finite."""
    if not 0.0 < margin < math.inf:
        raise InputError("bad margin", value=margin, accepted="a positive number, such as 0.01")


def _hedges(freedom: int) -> float:
    from scipy.special import gammaln

    if freedom < 2:
        return 0.0  # the limit, as Gamma(0) is infinite
    logarithm = gammaln(freedom / 2) - gammaln((freedom - 1) / 2) - 0.5 * np.log(freedom / 2)
    return math.exp(float(logarithm))


def _check_topics(topics: int) -> None:
    if topics < 2:
        raise InputError("too few topics", value=topics, accepted="two topics or more")


POWER, LEVEL = 0.8, 0.05


def detectable_difference(
    deviation: float, topics: int, *, power: float = POWER, level: float = LEVEL
) -> float:
    """Compute the minimum detectable difference of a two-sided paired t-test.

    Parameters
    ----------
    deviation : float
        The standard deviation of the differences by topic, 0 or more.
    topics : int
        The number of topics, at least `FEWEST`.
    power : float
        The probability of detecting the difference, between the level and 1.
    level : float
        The significance level, between 0 and 1.

    Returns
    -------
    float
        The difference of means in the unit of the deviation, for normal differences, from the noncentral t
        distribution (J. Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, chapter 2).

    Raises
    ------
    InputError
        If a value is outside its domain.

    Examples
    --------
    >>> round(detectable_difference(0.1, 50), 4)
    0.0404
    """
    from scipy.optimize import brentq
    from scipy.special import nctdtr, stdtrit

    check_least("too few topics", topics, FEWEST)
    if not 0.0 <= deviation < math.inf:
        raise InputError("bad deviation", value=deviation, accepted="0 or more")
    if not 0.0 < level < power < 1.0:
        raise InputError("bad power or level", value=(power, level), accepted="0 < level < power < 1")
    critical = float(stdtrit(topics - 1, 1.0 - level / 2.0))

    def missed(shift: float) -> float:
        below = float(nctdtr(topics - 1, shift, -critical))
        # nctdtr returns NaN far in the tail, where the probability is negligible.
        below = 0.0 if math.isnan(below) else below
        return float(nctdtr(topics - 1, shift, critical)) - below - (1.0 - power)

    far = critical
    while missed(far) > 0.0:
        far *= 1.5
    shift = float(brentq(missed, 0.0, far, xtol=1e-10))
    return shift * deviation / math.sqrt(topics)
