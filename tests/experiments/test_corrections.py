"""Error rates of corrections: true differences of a draw, counts by hand, calls as `compare` makes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lmtune
from experiments.estimation.corrections import _called, _draw, _errors
from lmtune.measures.significance.comparison import ComparisonOptions


@pytest.mark.parametrize(("share", "equal"), [(0.5, 3), (1.0, 5)])
def test_the_true_means_of_a_draw(share: float, equal: int) -> None:
    values = np.random.default_rng(0).random((20, 9)) + np.arange(9) * 0.1
    for nulls in ("shifted", "permuted"):
        rng = np.random.default_rng(1)
        sample, truth = _draw(values, rng, 5, 30_000, share, nulls)
        assert (truth[:equal] == truth[0]).all() and np.unique(truth).size == 6 - equal
        assert sample.mean(axis=0) == pytest.approx(truth, abs=0.015)
        apart = abs(truth[equal:, np.newaxis] - values.mean(axis=0))
        assert (apart.min(axis=1, initial=1.0) < 1e-12).all()


def test_errors_by_hand() -> None:
    differs = np.array([0.0, 0.0, 0.2, -0.1, 0.3])
    assert _errors(np.array([0.0, 1.0, 1.0, 1.0, 0.0]), differs) == (1.0, 1 / 3, 1 / 3)
    assert _errors(np.zeros(5), differs) == (0.0, 0.0, 0.0)
    found = _errors(np.array([0.0, -1.0]), np.zeros(2))
    assert found[:2] == (1.0, 1.0) and math.isnan(found[2])


def test_procedures_call_what_compare_calls() -> None:
    sample = np.random.default_rng(2).random((25, 4)) + np.array([0.0, 0.0, 0.2, 0.35])
    runs = {str(i): sample[:, i] for i in range(1, 4)}
    tests = {"t": "t", "Wilcoxon": "wilcoxon", "HSD": "t", "randomized HSD": "randomization"}
    called = 0
    for family, name, pairs, found in _called(sample, 499, 0):
        test, _, correction = name.partition(", ")
        options = ComparisonOptions(
            tests=(tests[test],),
            correction=correction.lower() or "hsd",
            pairwise=family == "all pairs",
            permutations=499,
        )
        compared = lmtune.compare(sample[:, 0], runs, options, baseline="0")
        for (first, second), sign in zip(pairs.tolist(), found.tolist(), strict=True):
            assert compared.beats("value", str(second), str(first)) == (sign > 0)
            assert compared.beats("value", str(first), str(second)) == (sign < 0)
            called += sign != 0
    assert 10 < called < 50
