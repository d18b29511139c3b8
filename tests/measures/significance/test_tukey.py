"""Tukey's HSD against scipy's studentized range, all permutations and other tests."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from lmtune.errors import InputError
from lmtune.measures.significance.tests import mean_interval, paired_t_test, randomization_test
from lmtune.measures.significance.tukey import randomized_hsd, studentized_range_tail, tukey_hsd

RNG = np.random.default_rng(5)
VALUES = RNG.random((30, 4)) + np.array([0.0, 0.05, 0.1, 0.3])


@pytest.mark.parametrize(("systems", "freedom"), [(2, 2), (3, 4), (5, 196), (17, 2400), (63, 3000)])
def test_the_studentized_range_is_scipys(systems: int, freedom: int) -> None:
    for q in (0.5, 3.0, 5.0, 8.0):
        expected = stats.studentized_range.sf(q, systems, freedom)
        assert studentized_range_tail(q, systems, freedom) == pytest.approx(expected, abs=1e-9)


def test_p_values_and_intervals_are_those_of_the_two_way_layout() -> None:
    found = tukey_hsd(VALUES, 0.9)
    topics, systems = VALUES.shape
    # The residual mean square, from the analysis of variance as sums of squares.
    total = np.square(VALUES - VALUES.mean()).sum()
    blocks = systems * np.square(VALUES.mean(axis=1) - VALUES.mean()).sum()
    treatments = topics * np.square(VALUES.mean(axis=0) - VALUES.mean()).sum()
    freedom = (topics - 1) * (systems - 1)
    error = math.sqrt((total - blocks - treatments) / freedom / topics)
    for i, j in product(range(systems), repeat=2):
        q = abs(VALUES[:, i].mean() - VALUES[:, j].mean()) / error
        expected = stats.studentized_range.sf(q, systems, freedom)
        assert found.p_values[i, j] == pytest.approx(expected, abs=1e-9)
    assert found.half == pytest.approx(stats.studentized_range.ppf(0.9, systems, freedom) * error, rel=1e-7)


def test_two_systems_are_the_paired_tests() -> None:
    for topics in (3, 8, 15):
        a, b = pair = RNG.random((2, topics))
        found = tukey_hsd(pair.T)
        assert found.p_values[0, 1] == pytest.approx(paired_t_test(a, b), rel=1e-8)
        low, high = mean_interval(a, b)
        assert found.half == pytest.approx((high - low) / 2, rel=1e-8)
        exact = randomized_hsd(pair.T)
        assert exact.p_values[0, 1] == randomization_test(a, b).p_value
        assert exact.how == f"exact, all {2 ** (topics - 1):,} permutations"


def every_range(values: list[list[float]]) -> list[float]:
    """Return the ranges of sums for every order of each topic's values."""
    sums = [list(map(sum, zip(*orders, strict=True))) for orders in product(*map(permutations, values))]
    return [max(own) - min(own) for own in sums]


@pytest.mark.parametrize(("topics", "systems"), [(2, 3), (4, 3), (3, 4), (6, 2)])
def test_few_permutations_are_enumerated(topics: int, systems: int) -> None:
    values = RNG.integers(0, 4, (topics, systems)).astype(float)  # with ties
    ranges = np.array(every_range(values.tolist()))
    found = randomized_hsd(values, 0.8)
    sums = values.sum(axis=0)
    for i, j in product(range(systems), repeat=2):
        assert found.p_values[i, j] == pytest.approx((ranges >= abs(sums[i] - sums[j]) - 1e-9).mean())


def test_random_permutations_estimate_the_enumerated_ones() -> None:
    values = VALUES[:7, :3]
    sums = np.zeros((1, 3))
    for row in values.tolist():
        sums = np.concatenate([sums + np.array(order) for order in permutations(row)])
    exact = (np.ptp(sums, axis=1) >= abs(values[:, 0].sum() - values[:, 2].sum()) - 1e-9).mean()
    assert randomized_hsd(values).p_values[0, 2] == pytest.approx(exact)  # 6^6 permutations
    wide = np.vstack([values, np.full((3, 3), 0.5)])  # 6^9: drawn; equal values change no range
    drawn = randomized_hsd(wide, permutations=40_000, seed=3)
    assert drawn.how == "40,000 random permutations"
    assert abs(drawn.p_values[0, 2] - exact) < 4 * math.sqrt(exact * (1 - exact) / 40_000)
    assert (drawn.p_values == randomized_hsd(wide, permutations=40_000, seed=3).p_values).all()


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
def test_intervals_exclude_zero_where_p_is_below_the_level(confidence: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = rng.random((int(rng.integers(3, 12)), 3)) + rng.random(3) * 0.5
        apart = abs(values.mean(axis=0)[:, np.newaxis] - values.mean(axis=0))
        for found in (
            tukey_hsd(values, confidence),
            randomized_hsd(values, confidence, permutations=999, seed=seed),
        ):
            assert ((apart > found.half) == (found.p_values < 1 - confidence)).all()


def test_what_cannot_be_tested() -> None:
    shifted = np.array([[0.1, 0.2, 0.1], [0.3, 0.4, 0.3], [0.6, 0.7, 0.6]])
    found = tukey_hsd(shifted)
    assert found.p_values[0, 2] == 1.0 and math.isnan(found.p_values[0, 1]) and math.isnan(found.half)
    assert math.isnan(tukey_hsd(VALUES[:2]).p_values[0, 1])
    same = tukey_hsd(np.full((4, 3), 0.5))
    assert (same.p_values == 1.0).all() and same.half == 0.0
    assert math.isnan(randomized_hsd(VALUES[:, :3], permutations=10).half)  # p is 1 / 11 at least
    for values in ([0.1, 0.2], [[0.1], [0.2]], [[0.1, math.nan], [0.2, 0.3]]):
        with pytest.raises(InputError):
            tukey_hsd(values)
