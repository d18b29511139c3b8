"""Roughness against brute force and curves whose answer is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.landscape import jump_noise, roughness

CURVES = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@settings(deadline=None)
@given(CURVES)
def test_total_variation_is_the_sum_over_neighbours(values: list[float]) -> None:
    variation = sum(abs(b - a) for a, b in itertools.pairwise(values))
    span = max(values) - min(values)
    found = roughness(values)
    assert found.total_variation == variation
    assert found.range == span
    assert found.ratio == (variation / span if span else 0.0)


@settings(deadline=None)
@given(CURVES)
def test_maxima_are_those_that_a_walk_meets(values: list[float]) -> None:
    count, rising = 0, True
    for here, after in zip(values, [*values[1:], float("-inf")], strict=True):
        if after > here:
            rising = True
        elif after < here:
            count += rising
            rising = False
    assert roughness(values).maxima == count


@settings(deadline=None)
@given(CURVES)
def test_only_a_hill_has_no_needless_variation(values: list[float]) -> None:
    top = int(np.argmax(values))
    hill = [*sorted(values[: top + 1]), *sorted(values[top + 1 :], reverse=True)]
    one_hill = values == sorted(values[: top + 1]) + sorted(values[top + 1 :], reverse=True)
    assert (roughness(values).excess == 0.0) == one_hill
    assert roughness(hill).excess == 0.0
    assert 1 <= roughness(hill).ratio <= 2 or len(set(values)) == 1


def test_a_ripple_on_a_hill_is_counted_once() -> None:
    # Up to 4, down to 0: 8 in all; the dip from 3 to 2 and back adds 2.
    assert roughness([0, 3, 2, 3, 4, 0]).excess == pytest.approx(0.25)
    assert roughness([1, 0, 1]).excess == np.inf


def test_noise_is_that_of_the_increments() -> None:
    rng = np.random.default_rng(2)
    walk = rng.normal(scale=0.01, size=20_001).cumsum()
    smooth = 3 * np.sin(np.linspace(0, 7, 20_001))
    assert jump_noise(walk + smooth) == pytest.approx(0.01, rel=0.03)
    assert jump_noise(smooth) < 1e-9
