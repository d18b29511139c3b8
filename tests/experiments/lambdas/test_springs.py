"""Burges's springs and margins (2005, section 3): where forces come to rest, and what that withstands."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from experiments.lambdas.examine import examine
from experiments.lambdas.functions import margin
from lmtune.losses.lambda_functions import LambdaFunction

Array = NDArray[np.float64]


def springs(strength: float, pull: float = 0.0) -> LambdaFunction:
    """Return forces linear in the scores: a spring a pair, at rest where scores differ as labels do."""

    def forces(scores: Array, labels: Array) -> Array:
        stretched = (scores - labels)[:, None] - (scores - labels)[None, :]
        found: Array = pull - strength * stretched.sum(axis=1)
        return found

    return forces


def rest(function: LambdaFunction, scores: Array, labels: Array, *, steps: int, rate: float) -> Array:
    for _ in range(steps):
        scores = scores + rate * np.asarray(function(scores, labels), np.float64)
    return scores


def test_springs_that_push_back_have_one_least_energy_from_every_start() -> None:
    rng, labels = np.random.default_rng(0), np.array([2.0, 0.0, 1.0, 0.0])
    for _ in range(20):
        found = rest(springs(1.0), 10.0 * rng.normal(size=4), labels, steps=200, rate=0.1)
        # One energy, at scores that are one but for a common shift.
        assert found - found.mean() == pytest.approx(labels - labels.mean(), abs=1e-9)


def test_springs_that_push_away_have_none() -> None:
    rng, labels = np.random.default_rng(0), np.array([2.0, 0.0, 1.0, 0.0])
    found = rest(springs(-1.0), rng.normal(size=4), labels, steps=200, rate=0.1)
    assert np.ptp(found) > 1e6


def test_a_semidefinite_jacobian_is_not_enough_for_a_minimum() -> None:
    labels = np.array([2.0, 0.0, 1.0, 0.0])
    pulled = springs(1.0, pull=1.0)
    examined = examine(pulled, documents=(4,), label_vectors=2, points=3, seed=0)
    assert (examined.has_cost, examined.convex) == ("yes", "yes")
    first, second = (rest(pulled, labels, labels, steps=steps, rate=0.1) for steps in (100, 200))
    assert second.mean() - first.mean() == pytest.approx(10.0)  # as far again: the energy has no bottom


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0])
def test_a_margin_withstands_changes_of_less_than_half_of_it(delta: float) -> None:
    rng, labels = np.random.default_rng(0), np.array([1.0, 0.0])
    shaken, kept = 0.24, []
    for _ in range(40):
        first, second = rest(margin(delta), rng.normal(size=2), labels, steps=1200, rate=0.01)
        assert first - second >= delta - 1e-6
        moved = rng.uniform(-shaken, shaken, size=2)
        kept.append(first + moved[0] > second + moved[1])
    assert all(kept) == (delta >= 0.5)


@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0])
def test_no_force_is_spent_beyond_the_margin(delta: float) -> None:
    labels = np.array([1.0, 0.0])
    for gap in (delta + 1e-9, delta + 1.0, delta + 100.0):
        assert not np.any(np.asarray(margin(delta)(np.array([gap, 0.0]), labels)))
