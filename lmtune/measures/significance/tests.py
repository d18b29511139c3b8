"""Paired tests of two systems' values by topic, effect sizes, confidence intervals and power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles, Integers
from lmtune.errors import InputError, check_choice, check_least

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

    values: Doubles
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


Alternative = Literal["two-sided", "greater", "less"]
"""What a small p-value speaks for: a != b, a > b or a < b."""

# Signs drawn at a time: bounds the memory to some ten megabytes.
_AT_A_TIME = 1 << 20
_WORD = 64
# Values whose sums are made at once; those of the others are added one by one.
_TOGETHER = 16


def _enumerated(values: Doubles, room: float, alternative: Alternative) -> int:
    """Count the sign patterns whose sum is at least as extreme as that of the values themselves.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (n,)
        Differences or signed ranks; 2^n patterns are tried.
    room : float
        Sums this much less extreme count as well: what rounding may make of equal ones.
    alternative : {"two-sided", "greater", "less"}
        Which sums are extreme.

    Returns
    -------
    int
        From 1 to 2^n.
    """
    many, few = _sums(values[:_TOGETHER]), _sums(values[_TOGETHER:])
    observed, rooms = values.sum(keepdims=True), np.array([room])
    return sum(
        int(_extreme((many + shift)[:, np.newaxis], observed, rooms, alternative)[0])
        for shift in few.tolist()
    )


def drawn(columns: Doubles, rooms: Doubles, alternative: Alternative, patterns: int, seed: int) -> Integers:
    """Count as `_enumerated` does, for several columns over the same random sign patterns.

    Parameters
    ----------
    columns : numpy.ndarray of float64, shape (n, columns)
        Values.
    rooms : numpy.ndarray of float64, shape (columns,)
        As for `_enumerated`.
    alternative : {"two-sided", "greater", "less"}
        Which sums are extreme.
    patterns, seed : int
        How many patterns, and which: they depend on the seed and n alone.

    Returns
    -------
    numpy.ndarray of int64, shape (columns,)
        Each from 0 to `patterns`.
    """
    size = columns.shape[0]
    words = -(-size // _WORD)
    # Raw words, whose stream numpy promises to keep. A pattern takes whole words, so that the
    # patterns do not depend on how many are drawn at a time.
    generator = np.random.PCG64(seed)
    observed = columns.sum(axis=0)
    counts = np.zeros(columns.shape[1], np.int64)
    step = max(1, _AT_A_TIME // (max(words * _WORD, columns.shape[1])))
    for first in range(0, patterns, step):
        shape = (min(step, patterns - first), words)
        raw = np.asarray(generator.random_raw(shape)).astype("<u8", copy=False)
        flips = np.unpackbits(raw.view(np.uint8), axis=1, count=size)
        sums = observed - 2.0 * (flips.astype(np.float64) @ columns)
        counts += _extreme(sums, observed, rooms, alternative)
    return counts


def _extreme(sums: Doubles, observed: Doubles, rooms: Doubles, alternative: Alternative) -> Integers:
    if alternative == "two-sided":
        extreme = np.abs(sums) >= np.abs(observed) - rooms
    elif alternative == "less":
        extreme = sums <= observed + rooms
    else:
        extreme = sums >= observed - rooms
    return np.asarray(np.count_nonzero(extreme, axis=0), np.int64)


def _sums(values: Doubles) -> Doubles:
    sums = np.zeros(1)
    for value in values.tolist():
        sums = np.concatenate([sums - value, sums + value])
    return sums


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
    _check_alternative(alternative)
    return _shifted_t_test(paired_differences(a, b), 0.0, alternative)


def _shifted_t_test(difference: Differences, shift: float, alternative: Alternative) -> float:
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
    _check_alternative(alternative)
    _check_drawing(permutations, seed)
    found: dict[int, Tested] = {}
    long: dict[int, tuple[Doubles, float]] = {}
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
    _check_alternative(alternative)
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


def _check_alternative(alternative: str) -> None:
    """Raise InputError unless `alternative` is known."""
    check_choice("unknown alternative", alternative, ALTERNATIVES)


def _check_drawing(permutations: int, seed: int) -> None:
    """Raise InputError unless these can draw sign patterns."""
    check_least("bad number of permutations", permutations, 1)
    check_least("bad seed", seed, 0)


def _exact(values: Doubles, room: float, alternative: Alternative) -> Tested:
    patterns = 1 << values.size
    extreme = _enumerated(values, room, alternative)
    return Tested(extreme / patterns, f"exact, all {patterns:,} sign patterns")


def _signed_ranks(values: Doubles, noise: float) -> tuple[Doubles, bool]:
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


class Equivalence(NamedTuple):
    """Two one-sided t-tests against a margin.

    Attributes
    ----------
    not_worse : float
        The p-value of "a is worse than b by the margin or more" (non-inferiority).
    equivalent : float
        The larger p-value of both sides: a small one says that the means differ by less than the
        margin. Both are NaN where `lmtune.measures.significance.tests.paired_t_test` makes no test, and
        where the values are equal on every topic.
    """

    not_worse: float
    equivalent: float


def effect_size(a: ArrayLike, b: ArrayLike, *, hedges: bool = False) -> float:
    """Return Cohen's d_z: the mean difference over the differences' standard deviation.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, at least two.
    hedges : bool
        Whether to remove the bias of few topics, with Hedges' exact factor
        Gamma(m / 2) / (sqrt(m / 2) Gamma((m - 1) / 2)) for m = topics - 1 (L. Hedges, Distribution
        theory for Glass's estimator of effect size, Journal of Educational Statistics 6, 1981).

    Returns
    -------
    float
        0 where the values are equal on every topic, NaN where the difference is another constant.

    Raises
    ------
    InputError
        For fewer than two topics, values that do not pair up or are not finite.

    Examples
    --------
    >>> round(effect_size([0.2, 0.4, 0.6], [0.1, 0.2, 0.5]), 4)
    2.3094
    """
    difference = paired_differences(a, b)
    values = difference.values
    _check(values.size)
    if not values.any():
        return 0.0
    if difference.is_constant:
        return math.nan
    size = float(values.mean() / values.std(ddof=1))
    return size * _hedges(values.size - 1) if hedges else size


def mean_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of the mean difference, from Student's t.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, at least two.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    tuple of float
        Its ends; 0 where the values are equal on every topic, NaN where the difference is another constant.

    Raises
    ------
    InputError
        For fewer than two topics, a bad confidence, values that do not pair up or are not finite.
    """
    _check_confidence(confidence)
    difference = paired_differences(a, b)
    values = difference.values
    _check(values.size)
    mean = float(values.mean())
    if not values.any():
        return 0.0, 0.0
    if difference.is_constant:
        return math.nan, math.nan
    half = _half_width(values, confidence)
    return mean - half, mean + half


class MeanInterval(NamedTuple):
    """A mean and half the width of its confidence interval, NaN for a single value."""

    mean: float
    half: float


def confidence_interval(values: Sequence[float], confidence: float = 0.95) -> MeanInterval:
    """Return the mean of independent values with its confidence interval, from Student's t.

    Parameters
    ----------
    values : sequence of float
        One at least, such as one a trial.
    confidence : float
        Between 0 and 1.

    Raises
    ------
    InputError
        For no value, or a bad confidence.
    """
    _check_confidence(confidence)
    found = np.asarray(values, np.float64)
    if found.size == 0:
        raise InputError("no values for an interval", accepted="one or more")
    return MeanInterval(float(found.mean()), _half_width(found, confidence) if found.size > 1 else math.nan)


def _half_width(values: Doubles, confidence: float) -> float:
    from scipy.special import stdtrit

    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(stdtrit(values.size - 1, 0.5 + confidence / 2.0)) * error


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise InputError("bad confidence", value=confidence, accepted="between 0 and 1")


def equivalence_test(a: ArrayLike, b: ArrayLike, margin: float) -> Equivalence:
    """Test whether `a` is not worse than `b`, and whether the two are as good as equal.

    D. Schuirmann's two one-sided tests (Journal of Pharmacokinetics and Biopharmaceutics 15,
    1987), on paired values.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, at least two; higher is better.
    margin : float
        The smallest difference of means that matters, in the measure's unit; positive.

    Returns
    -------
    Equivalence

    Raises
    ------
    InputError
        For fewer than two topics, a margin that is not positive, values that do not pair up or
        are not finite.
    """
    check_margin(margin)
    difference = paired_differences(a, b)
    _check(difference.values.size)
    not_worse = _shifted_t_test(difference, -margin, "greater")
    return Equivalence(not_worse, float(np.maximum(not_worse, _shifted_t_test(difference, margin, "less"))))


def check_margin(margin: float) -> None:
    """Raise InputError unless `margin` is positive and finite."""
    if not 0.0 < margin < math.inf:
        raise InputError("bad margin", value=margin, accepted="a positive number, such as 0.01")


def _hedges(freedom: int) -> float:
    from scipy.special import gammaln

    if freedom < 2:
        return 0.0  # the limit: Gamma(0) is infinite
    logarithm = gammaln(freedom / 2) - gammaln((freedom - 1) / 2) - 0.5 * np.log(freedom / 2)
    return math.exp(float(logarithm))


def _check(topics: int) -> None:
    if topics < 2:
        raise InputError("too few topics", value=topics, accepted="two topics or more")


POWER, LEVEL = 0.8, 0.05


def detectable_difference(
    deviation: float, topics: int, *, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the mean difference that a two-sided paired t-test finds with a given probability.

    Parameters
    ----------
    deviation : float
        The standard deviation of topics' differences, 0 or more.
    topics : int
        `lmtune.measures.significance.tests.FEWEST` or more.
    power : float
        The probability, between the level and 1; smaller differences are missed more often.
    level : float
        Of the test, between 0 and 1.

    Returns
    -------
    float
        In the unit of the deviation, from the noncentral t distribution of normal differences (J. Cohen,
        Statistical Power Analysis for the Behavioral Sciences, 1988, chapter 2).

    Raises
    ------
    InputError
        For a value outside its domain.

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
        # Far out it has no weight and is not computed.
        below = 0.0 if math.isnan(below) else below
        return float(nctdtr(topics - 1, shift, critical)) - below - (1.0 - power)

    far = critical
    while missed(far) > 0.0:
        far *= 1.5
    shift = float(brentq(missed, 0.0, far, xtol=1e-10))
    return shift * deviation / math.sqrt(topics)
