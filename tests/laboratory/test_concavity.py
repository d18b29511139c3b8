"""The midpoint tests against brute force and functions whose answer is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import label, maximum_filter

from lmtune.errors import InputError
from lmtune.laboratory.landscape import concavity

X, Y = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 12), indexing="ij")

SURFACES = arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.integers(-3, 3).map(float)
)


@settings(deadline=None)
@given(SURFACES, st.sampled_from([-np.inf, 0.0]), st.sampled_from([0.0, 0.3]))
def test_every_midpoint_is_tested(surface: np.ndarray, floor: float, slack: float) -> None:
    span = np.ptp(surface) or 1.0
    pairs = concave = quasi = 0
    worst = quasi_worst = 0.0
    for one, other in itertools.combinations(np.ndindex(*surface.shape), 2):
        if (one[0] + other[0]) % 2 or (one[1] + other[1]) % 2:
            continue
        a, b = surface[one], surface[other]
        middle = surface[(one[0] + other[0]) // 2, (one[1] + other[1]) // 2]
        if min(a, b) < floor:
            continue
        pairs += 1
        concave += (a + b) / 2 - middle <= slack * span + 1e-9
        quasi += min(a, b) - middle <= slack * span + 1e-9
        worst = max(worst, (a + b) / 2 - middle)
        quasi_worst = max(quasi_worst, min(a, b) - middle)
    found = concavity(surface, floor=floor, slack=slack)
    assert found.pairs == pairs
    if pairs:
        assert found.concave == pytest.approx(concave / pairs)
        assert found.quasi_concave == pytest.approx(quasi / pairs)
    assert found.worst == pytest.approx(worst / span)
    assert found.quasi_worst == pytest.approx(quasi_worst / span)


@settings(deadline=None)
@given(SURFACES)
def test_maxima_are_plateaus_without_a_higher_neighbour(surface: np.ndarray) -> None:
    eight = np.ones((3, 3), np.int64)
    higher = maximum_filter(surface, footprint=eight, mode="nearest") > surface
    count = 0
    for value in np.unique(surface):
        plateaus, number = label(surface == value, structure=eight)
        count += sum(not higher[plateaus == n].any() for n in range(1, number + 1))
    assert concavity(surface).maxima == count


def test_known_functions() -> None:
    paraboloid = concavity(-(X**2) - 2.0 * Y**2)
    assert (paraboloid.concave, paraboloid.worst, paraboloid.maxima) == (1.0, 0.0, 1)
    bell = concavity(np.exp(-4.0 * (X**2 + Y**2)))
    assert bell.concave < 1.0 == bell.quasi_concave
    assert bell.worst > 0.0 == bell.quasi_worst
    saddle = concavity(X**2 - Y**2)
    assert saddle.quasi_concave < 1.0
    assert concavity(np.cos(2.0 * np.pi * X)).maxima == 3
    assert concavity(np.zeros((3, 3))).concave == 1.0


@pytest.mark.parametrize("values", [[1.0, 2.0], [[np.inf]], np.empty((0, 3))])
def test_what_is_no_surface_is_refused(values: np.ndarray) -> None:
    with pytest.raises(InputError, match="not a surface"):
        concavity(values)
