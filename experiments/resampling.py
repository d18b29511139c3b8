"""Tests of mean differences over random splits of topics, and over training sets and topics jointly."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError, check_least
from lmtune.measures.significance.tests import Equivalence, check_margin


class Estimate(NamedTuple):
    """A mean difference with standard error and degrees of freedom, for Student's t.

    Attributes
    ----------
    mean : float
        The mean difference, in the measure's unit.
    error : float
        Standard error of the mean.
    freedom : float
        Degrees of freedom.
    """

    mean: float
    error: float
    freedom: float

    def above(self, value: float) -> float:
        """Return the one-sided p-value of the null hypothesis that the true mean is at most `value`."""
        return self._tail(self.mean - value)

    def below(self, value: float) -> float:
        """Return the one-sided p-value of the null hypothesis that the true mean is at least `value`."""
        return self._tail(value - self.mean)

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the null hypothesis that the true mean is 0."""
        return min(2.0 * min(self.above(0.0), self.below(0.0)), 1.0)

    def interval(self, confidence: float = 0.9) -> tuple[float, float]:
        """Return the confidence interval; TOST at 5% checks that the 90% interval is within the margin."""
        from scipy.special import stdtrit

        if not 0.0 < confidence < 1.0:
            raise InputError("bad confidence", value=confidence, accepted="between 0 and 1")
        half = float(stdtrit(self.freedom, 0.5 + confidence / 2.0)) * self.error
        return self.mean - half, self.mean + half

    def equivalence(self, margin: float) -> Equivalence:
        """Return Schuirmann's two one-sided tests (TOST); see `lmtune.measures.significance.tests`."""
        check_margin(margin)
        not_worse = self.above(-margin)
        return Equivalence(not_worse, max(not_worse, self.below(margin)))

    def _tail(self, distance: float) -> float:
        from scipy.special import stdtr

        if self.error == 0.0:
            return 0.0 if distance > 0.0 else 1.0
        return float(stdtr(self.freedom, -distance / self.error))


def corrected_resampling(differences: ArrayLike, *, train: int, test: int) -> Estimate:
    r"""Estimate the mean difference over splits for the corrected resampled t-test.

    .. math:: error^2 = \left(\frac{1}{J} + \frac{n_{test}}{n_{train}}\right) s^2

    with J - 1 degrees of freedom (Nadeau and Bengio, Inference for the generalization error, Machine Learning
    52, 2003, section 4). It assumes a correlation of n_test / (n_train + n_test) between splits, which is
    high for small training sets.

    Parameters
    ----------
    differences : array_like of float, shape (splits,)
        The difference of two methods' means over each split's test topics; two splits or more.
    train, test : int
        Numbers of training and test topics of each split.

    Raises
    ------
    InputError
        If there are fewer than two splits, values that are not finite, or no topics.
    """
    values = _checked(differences)
    if train < 1 or test < 1:
        raise InputError(
            "a split has no training or test topics", value=(train, test), accepted="1 or more of each"
        )
    variance = float(values.var(ddof=1))
    return Estimate(
        float(values.mean()), math.sqrt((1.0 / values.size + test / train) * variance), values.size - 1
    )


def topics_and_sets(by_set: ArrayLike, by_topic: ArrayLike, *, independent: int) -> Estimate:
    r"""Estimate the mean difference with training sets and topics as two crossed random factors.

    The setting chosen on each training set is tested on every topic outside the set. The variances of
    the two means are added,

    .. math:: error^2 = s_{sets}^2 / m + s_{topics}^2 / n ,

    which counts the residual variance twice, so the interval is slightly too wide. Degrees of freedom are
    Satterthwaite's (Biometrics Bulletin 2, 1946).

    Parameters
    ----------
    by_set : array_like of float, shape (sets,)
        The mean difference with each training set, two or more; sets may overlap.
    by_topic : array_like of float, shape (topics,)
        The mean difference on each topic, two or more.
    independent : int
        m, the number of training sets that share no topic; further sets add no independent information.

    Raises
    ------
    InputError
        If there are fewer than two sets or topics, values that are not finite, or no independent set.
    """
    sets, topics = _checked(by_set), _checked(by_topic)
    check_least("no independent training set", independent, 1)
    parts = [
        (float(sets.var(ddof=1)) / min(independent, sets.size), sets.size - 1),
        (float(topics.var(ddof=1)) / topics.size, topics.size - 1),
    ]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / spread if spread else sets.size - 1
    return Estimate(float(sets.mean()), math.sqrt(variance), freedom)


def _checked(values: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or found.size < 2 or not np.isfinite(found).all():
        raise InputError(
            "too few differences, or one is not finite",
            value=found.shape,
            accepted="two or more finite values",
        )
    return found
