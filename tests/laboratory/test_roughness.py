"""Numbers for roughness, on curves whose numbers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.errors import InputError
from lmtune.laboratory.roughness import local_maxima, roughness

GRID = np.linspace(-1, 1, 401)


def test_smooth_curves() -> None:
    rising, bump = roughness(np.exp(GRID)), roughness(1 - GRID**2)
    assert rising.variation == pytest.approx(1.0)
    assert rising.excess == pytest.approx(1.0)
    assert rising.optima == 0
    assert bump.variation == pytest.approx(2.0)
    assert bump.excess == pytest.approx(1.0)
    assert bump.optima == 1
    assert bump.noise < 1e-15
    waves = roughness(np.cos(6 * math.pi * GRID))
    assert waves.variation == pytest.approx(12.0, rel=1e-3)
    assert waves.optima == 5  # the ends are no optima
    valley = roughness(GRID**2)
    assert valley.variation == pytest.approx(2.0)
    assert valley.excess == math.inf  # both ends are the top


def test_a_flat_curve_has_no_shape() -> None:
    flat = roughness(np.ones(9))
    assert math.isnan(flat.variation)
    assert math.isnan(flat.excess)
    assert (flat.optima, flat.noise) == (0, 0.0)


def test_noise_is_that_of_the_increments() -> None:
    rng = np.random.default_rng(2)
    walk = rng.normal(scale=0.01, size=20_001).cumsum()
    smooth = 3 * np.sin(np.linspace(0, 7, 20_001))
    assert roughness(walk + smooth).noise == pytest.approx(0.01, rel=0.03)


@given(st.lists(st.integers(-3, 3), min_size=4, max_size=30))
def test_optima_by_brute_force(values: list[int]) -> None:
    runs = [v for n, v in enumerate(values) if n == 0 or v != values[n - 1]]
    expected = sum(a < b > c for a, b, c in zip(runs, runs[1:], runs[2:], strict=False))
    assert local_maxima(np.array(values, float)) == expected
    if len(set(values)) > 1:
        found = roughness(values)
        assert found.variation >= 1.0
        assert found.excess >= 1.0 - 1e-12
        assert (found.excess == pytest.approx(1.0)) == (
            values == sorted(values[: values.index(max(values)) + 1])
            + sorted(values[values.index(max(values)) + 1 :], reverse=True)
        )  # fmt: skip


def test_no_curve() -> None:
    for values in ([1.0, 2.0, 3.0], [1.0, 2.0, math.nan, 3.0], [[1.0] * 4]):
        with pytest.raises(InputError, match="no curve"):
            roughness(values)
