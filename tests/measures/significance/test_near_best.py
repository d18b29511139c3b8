"""Bounds of losses against the best setting: by brute force, and coverage on a model with known means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lmtune.arrays import Doubles
from lmtune.measures.significance.near_best import loss_bounds


def by_brute_force(values: Doubles, level: float, seed: int) -> Doubles:
    """Compute the bounds of all settings from bootstrap samples, one topic at a time."""
    topics, settings = values.shape
    draws = np.random.default_rng(seed).multinomial(topics, np.full(topics, 1 / topics), 1000)
    samples = [np.repeat(np.arange(topics), draw) for draw in draws]
    bounds = np.zeros(settings)
    for best in range(settings):
        others = [other for other in range(settings) if other != best]
        differences = {other: values[:, best] - values[:, other] for other in others}
        errors = {other: own.std(ddof=1) / np.sqrt(topics) for other, own in differences.items()}
        scale = np.sqrt(topics / (topics - 1))
        largest = [
            max(0.0, *(scale * (d.mean() - d[sample].mean()) / errors[o] for o, d in differences.items()))
            for sample in samples
        ]
        normal = sorted(largest)[int(1000 * (1 - level))]
        quantile = stats.t.isf(stats.norm.sf(normal), topics - 1)
        own = {other: d.mean() + quantile * errors[other] for other, d in differences.items()}
        if min(own.values()) >= 0.0:
            for other, bound in own.items():
                bounds[other] = max(bounds[other], bound)
    return bounds


@pytest.mark.parametrize(("topics", "spread", "level"), [(4, 0.1, 0.05), (12, 0.02, 0.05), (25, 0.3, 0.1)])
def test_bounds_are_those_of_brute_force(topics: int, spread: float, level: float) -> None:
    rng = np.random.default_rng(topics)
    values = rng.random((topics, 1)) + np.linspace(0.0, spread, 5) + rng.normal(0.0, 0.05, (topics, 5))
    found = loss_bounds(values, level=level, seed=3)
    np.testing.assert_allclose(found, by_brute_force(values, level, 3), rtol=1e-4)
    assert found.max() > 0.0


@pytest.mark.slow
def test_all_bounds_hold_together_with_their_confidence() -> None:
    rng = np.random.default_rng(0)
    means = 0.4 - 0.05 * np.linspace(-0.3, 1.0, 12) ** 2
    shape = np.linspace(0.0, 1.0, 12)
    covered, proven, samples = 0, 0, 200
    for _ in range(samples):
        # Neighbours have similar errors, as on a grid.
        noise = rng.normal(0.0, 0.2, (40, 1)) + 0.05 * rng.normal(size=(40, 2)) @ [shape, shape**2]
        bounds = loss_bounds(means + noise + rng.normal(0.0, 0.01, (40, 12)))
        covered += bool((means.max() - means <= bounds).all())
        proven += bool(bounds.min() <= 0.01)
    # Three standard errors below 95%.
    assert covered >= samples * 0.95 - 3.0 * np.sqrt(samples * 0.95 * 0.05)
    assert 0.2 * samples < proven


def test_more_topics_give_smaller_bounds() -> None:
    rng = np.random.default_rng(5)
    values = rng.random((400, 1)) + rng.normal(0.0, 0.05, (400, 9))
    few, many = (loss_bounds(values[:topics]) for topics in (10, 400))
    assert many.max() < 0.02 < few.min()


def test_few_or_equal_values_need_no_resamples() -> None:
    assert loss_bounds(np.array([[0.5, 0.6]])).tolist() == [np.inf, np.inf]
    assert loss_bounds(np.array([[0.5], [0.7]])).tolist() == [0.0]
    assert loss_bounds(np.full((6, 4), 0.3)).tolist() == [0.0] * 4
    assert loss_bounds(np.zeros((6, 2))).tolist() == [0.0] * 2
    constant = np.array([[0.2, 0.25, 0.25], [0.4, 0.45, 0.45], [0.9, 0.95, 0.95]])
    np.testing.assert_allclose(loss_bounds(constant), [0.05, 0.0, 0.0], atol=1e-12)


def test_equal_settings_have_equal_bounds_and_add_none() -> None:
    values = np.random.default_rng(2).random((15, 3))
    once = loss_bounds(values)
    np.testing.assert_allclose(loss_bounds(values[:, [0, 1, 1, 2, 0]]), once[[0, 1, 1, 2, 0]], rtol=1e-5)


def test_a_much_worse_setting_is_no_candidate() -> None:
    rng = np.random.default_rng(4)
    good = 0.5 + rng.normal(0.0, 0.02, (30, 3))
    bad = rng.normal(0.1, 0.2, (30, 1))  # far below, with large errors
    alone, both = loss_bounds(good), loss_bounds(np.hstack([good, bad]))
    # Were it one, the others' bounds would be near its error of 0.1 instead of theirs of 0.01.
    assert both[:3].max() < 2.0 * alone.max() < 0.05
