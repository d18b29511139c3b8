"""Coefficients against scikit-learn, scipy and their formulas in mpmath."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from lmtune.measures.judges.agreement import cohen_kappa, kendall_tau, krippendorff_alpha, tau_ap


def labels(seed: int) -> tuple[list[int], list[int]]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 40)
    second = np.clip(first + rng.integers(-1, 3, 40) * (rng.random(40) < 0.6), 0, 3)
    return first.tolist(), second.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_kappa_is_scikit_learns(seed: int) -> None:
    first, second = labels(seed)
    counts = confusion_matrix(first, second, labels=range(4))
    assert cohen_kappa(counts) == pytest.approx(cohen_kappa_score(first, second), rel=1e-12)
    weighted = cohen_kappa_score(first, second, weights="quadratic", labels=range(4))
    assert cohen_kappa(counts, quadratic=True) == pytest.approx(weighted, rel=1e-12)


def alpha(first: list[int], second: list[int], *, ordinal: bool) -> mpmath.mpf:
    """Sum over all pairs of values, one unit at a time, as the formula is written."""
    values = [*first, *second]
    n = {c: mpmath.mpf(values.count(c)) for c in range(4)}

    def distance(c: int, k: int) -> mpmath.mpf:
        if c == k or not ordinal:
            return mpmath.mpf(c != k)
        low, high = min(c, k), max(c, k)
        return (sum(n[g] for g in range(low, high + 1)) - (n[low] + n[high]) / 2) ** 2

    seen = sum(2 * distance(a, b) for a, b in zip(first, second, strict=True)) / len(values)
    chance = sum(distance(a, b) for i, a in enumerate(values) for j, b in enumerate(values) if i != j)
    return 1 - seen / (chance / (len(values) * (len(values) - 1)))


def test_quadratic_kappa_weighs_distances_in_grades() -> None:
    """Pairs one by one, of grades 0, 1 and 4: scikit-learn with the grades between, which no one gave."""
    rng = np.random.default_rng(7)
    first, second = rng.choice([0, 1, 4], (2, 80))
    counts = confusion_matrix(first, second, labels=[0, 1, 4])
    found = cohen_kappa(counts, quadratic=True, grades=[0, 1, 4])
    assert found == pytest.approx(
        cohen_kappa_score(first, second, weights="quadratic", labels=range(5)), rel=1e-12
    )
    by_chance = np.mean([(a - b) ** 2 for a in first for b in second])
    assert found == pytest.approx(1 - np.mean((first - second) ** 2) / by_chance, rel=1e-12)
    assert abs(found - cohen_kappa(counts, quadratic=True)) > 0.01


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ordinal", [True, False])
def test_alpha_is_its_formula(seed: int, ordinal: bool) -> None:
    first, second = labels(seed)
    counts = confusion_matrix(first, second, labels=range(4))
    assert krippendorff_alpha(counts, ordinal=ordinal) == pytest.approx(
        float(alpha(first, second, ordinal=ordinal)), rel=1e-12
    )


def test_krippendorffs_own_example() -> None:
    """His first example: two observers, ten units, binary labels; alpha is .095."""
    first = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    second = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    counts = confusion_matrix(first, second)
    assert krippendorff_alpha(counts, ordinal=False) == pytest.approx(0.095, abs=5e-4)


def test_several_tables_at_once_and_what_is_undefined() -> None:
    tables = np.stack([confusion_matrix(*labels(seed), labels=range(4)) for seed in range(3)])
    for coefficient in (cohen_kappa, krippendorff_alpha):
        assert coefficient(tables).tolist() == [coefficient(table) for table in tables]
        assert math.isnan(coefficient([[5, 0], [0, 0]]))


def test_tau_is_scipys() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 8, (2, 30, 12)).astype(float)
    expected = [stats.kendalltau(a, b).statistic for a, b in zip(first, second, strict=True)]
    assert kendall_tau(first, second) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(kendall_tau([1.0, 1.0], [1.0, 2.0]))


def test_tau_ap_is_its_formula() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        truth, estimate = rng.permutation(9), rng.permutation(9)
        order = np.argsort(-estimate)
        right = [
            sum(truth[above] > truth[own] for above in order[:i]) / i for i, own in enumerate(order) if i
        ]
        assert tau_ap(truth, estimate) == pytest.approx(2 * sum(right) / 8 - 1, rel=1e-12)
    assert tau_ap(truth, truth) == 1.0
    assert tau_ap(truth, -truth) == -1.0


def test_errors_at_the_top_count_more() -> None:
    best = list(range(10, 0, -1))
    swaps = []
    for i, j in pairwise(range(10)):
        swapped = best.copy()
        swapped[i], swapped[j] = swapped[j], swapped[i]
        swaps.append(tau_ap(best, swapped))
    assert swaps == sorted(swaps)
