"""How large a difference is, whether it is too small to matter, and which differences can be detected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError, check_least
from lmtune.measures.significance.tests import FEWEST, paired_differences, shifted_t_test


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


def _half_width(values: NDArray[np.float64], confidence: float) -> float:
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
    not_worse = shifted_t_test(difference, -margin, "greater")
    return Equivalence(not_worse, float(np.maximum(not_worse, shifted_t_test(difference, margin, "less"))))


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
