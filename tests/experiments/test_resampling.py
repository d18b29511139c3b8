"""Tests over repeated splits, against the formulas by hand, scipy and simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.resampling import Estimate, corrected_resampling, topics_and_sets
from lmtune.errors import InputError
from lmtune.measures.significance.tests import equivalence_test


def test_the_corrected_error_is_the_papers_by_hand() -> None:
    # s = 0.02, J = 3, 90 of 100 topics train: the factor is 1/3 + 10/90 = 4/9.
    found = corrected_resampling([0.01, 0.03, 0.05], train=90, test=10)
    assert found == pytest.approx((0.03, 0.02 * 2.0 / 3.0, 2))
    assert found.p_value == pytest.approx(2.0 * stats.t.sf(0.03 / (0.04 / 3.0), 2))
    low, high = found.interval(0.9)
    assert (low, high) == pytest.approx(stats.t.interval(0.9, 2, loc=0.03, scale=0.04 / 3.0))


def test_without_test_topics_to_share_it_is_the_usual_t_test() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.001, 0.004, 12)
    found = corrected_resampling(values, train=10**12, test=1)
    assert found.p_value == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, rel=1e-6)
    plain = equivalence_test(values, np.zeros(12), 0.004)
    assert found.equivalence(0.004) == pytest.approx(plain, rel=1e-6)


def test_equivalence_is_that_the_interval_lies_in_the_margin() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        values = rng.normal(rng.uniform(-0.003, 0.003), rng.choice([0.0002, 0.002]), 8)
        found = corrected_resampling(values, train=50, test=50)
        low, high = found.interval(0.9)
        inside = low > -0.002 and high < 0.002
        assert (found.equivalence(0.002).equivalent < 0.05) is inside
        assert (found.equivalence(0.002).not_worse < 0.05) is (low > -0.002)
        seen.add(inside)
    assert seen == {False, True}


@pytest.mark.parametrize(("mean", "within"), [(0.0, True), (0.001, True), (0.01, False), (-0.01, False)])
def test_differences_without_any_spread_are_what_they_are(mean: float, within: bool) -> None:
    found = corrected_resampling([mean] * 4, train=5, test=5)
    assert found.error == 0.0
    assert found.p_value == (1.0 if mean == 0.0 else 0.0)
    assert found.equivalence(0.002).equivalent == (0.0 if within else 1.0)
    assert found.interval() == (found.mean, found.mean)


def test_topics_and_sets_both_count() -> None:
    by_set, by_topic = [0.0, 0.02], [0.0, 0.03, 0.06]
    found = topics_and_sets(by_set, by_topic, independent=5)
    # Variances 0.0001 with one degree of freedom and 0.0003 with two.
    assert found == pytest.approx((0.01, 0.02, 16 / (1 / 1 + 9 / 2)))
    four = topics_and_sets([0.0, 0.02, 0.01, 0.01], [0.05] * 3, independent=2)
    assert four == pytest.approx((0.01, math.sqrt(0.0002 / 3 / 2), 3))
    same = topics_and_sets([0.01, 0.01], [0.01, 0.01], independent=2)
    assert same.equivalence(0.02).equivalent == 0.0


def test_its_error_covers_the_truth() -> None:
    # Effects of sets and topics with a rest, crossed: the spread of the mean over many tables.
    rng = np.random.default_rng(1)
    sets, topics = 10, 40
    means, errors = [], []
    for _ in range(3000):
        table = (
            rng.normal(0, 0.5, (sets, 1)) + rng.normal(0, 1.5, (1, topics)) + rng.normal(0, 1, (sets, topics))
        )
        found = topics_and_sets(table.mean(axis=1), table.mean(axis=0), independent=sets)
        means.append(found.mean)
        errors.append(found.error**2)
    truth = 0.5**2 / sets + 1.5**2 / topics + 1 / (sets * topics)
    assert np.var(means) == pytest.approx(truth, rel=0.1)
    assert np.mean(errors) == pytest.approx(truth + 1 / (sets * topics), rel=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: corrected_resampling([0.1], train=1, test=1), "two or more"),
        (lambda: corrected_resampling([0.1, math.nan], train=1, test=1), "not finite"),
        (lambda: corrected_resampling([0.1, 0.2], train=0, test=1), "no training or test topics"),
        (lambda: topics_and_sets([0.1, 0.2], [0.1], independent=1), "two or more"),
        (lambda: topics_and_sets([0.1, 0.2], [0.1, 0.2], independent=0), "independent"),
        (lambda: Estimate(0.0, 1.0, 3).equivalence(0.0), "margin"),
        (lambda: Estimate(0.0, 1.0, 3).interval(1.0), "confidence"),
    ],
)
def test_bad_arguments_are_refused(call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
