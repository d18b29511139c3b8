"""Error rates of gates: true differences, rules as `compare` applies them, the level at the limit."""

from __future__ import annotations

import numpy as np
import pytest

import lmtune
from experiments.estimation.gates import draw_differences, rules
from lmtune.measures.significance.comparison import ComparisonOptions
from lmtune.measures.significance.requirements import check_requirements


def test_pairs_are_neighbours_with_a_true_difference_of_nothing() -> None:
    values = np.random.default_rng(0).random((30, 9)) + np.arange(9)
    seen = set()
    for seed in range(60):
        [[found]] = draw_differences(values, np.random.default_rng(seed), 1, 1, 2)
        centred = [
            (
                second - first,
                values[:, second] - values[:, first] - np.subtract(*values.mean(axis=0)[[second, first]]),
            )
            for first in range(9)
            for second in range(9)
            if first != second
        ]
        [step] = {step for step, own in centred if np.isclose(own, found, rtol=0, atol=1e-12).any()}
        seen.add(step)
    assert seen == {-2, -1, 1, 2}
    large = draw_differences(values, np.random.default_rng(1), 100_000, 3, 2)
    assert large.mean(axis=0) == pytest.approx(0.0, abs=0.01)


def test_rules_are_those_of_compare() -> None:
    rng, outcomes = np.random.default_rng(4), set()
    drawn = rng.normal(0.0, 0.1, (30, 12, 3)) + rng.uniform(-0.01, 0.1, (30, 1, 1))
    found = rules(drawn, 0.03)
    for gate, differences in enumerate(drawn):
        runs = {str(i): 0.5 + own for i, own in enumerate(differences.T)}
        for name, passed in found.items():
            required = "AP >= -0.03" if name == "observed" else "AP not worse by 0.03"
            options = ComparisonOptions(correction="none" if name == "observed" else name.lower())
            compared = lmtune.compare(np.full(12, 0.5), runs, options, measures=["AP"])
            checks = check_requirements(compared, [required])
            assert passed[gate] == all(check.is_met for check in checks)
            outcomes.add((name, bool(passed[gate])))
    assert len(outcomes) == 8


def test_a_run_at_the_limit_passes_as_often_as_the_level() -> None:
    drawn = np.random.default_rng(7).normal(-0.02, 0.1, (20_000, 20, 1))
    passed = rules(drawn, 0.02)["Holm"]
    assert passed.mean() == pytest.approx(0.05, abs=3.5 * np.sqrt(0.05 * 0.95 / 20_000))
