"""The Monte Carlo test of local optimality, where the answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from experiments.landscape import (
    AscentTest,
    count_ascents,
    directions_needed,
    line_noise,
    random_directions,
    share_at_most,
)
from lmtune.errors import InputError

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Surface:
    """An objective whose values along a line are taken one by one."""

    value: Callable[[Vector], float]

    def __call__(self, point: Vector) -> float:
        return self.value(point)

    def along(self, point: Vector, direction: Vector, steps: Vector) -> Vector:
        return np.array([self.value(point + step * direction) for step in steps])


@Surface
def hill(w: Vector) -> float:
    return -float((w * w).sum())


def ascend(
    objective: Surface, point: Any, scale: Any, steps: Sequence[float], directions: int = 459, **more: Any
) -> AscentTest:
    return count_ascents(objective, point, scale, steps, directions, **{"noise": [0.0] * len(steps), **more})


@settings(max_examples=60, deadline=None)
@given(confidence=st.integers(1, 999), share=st.integers(1, 999))
def test_directions_needed_is_the_least_number(confidence: int, share: int) -> None:
    found = directions_needed(confidence / 1000, share / 1000)
    doubt, miss = 1 - Fraction(confidence, 1000), 1 - Fraction(share, 1000)
    assert miss**found <= doubt or math.isclose(miss**found, doubt, rel_tol=1e-12)
    assert found == 1 or miss ** (found - 1) > doubt


def test_459_directions() -> None:
    assert directions_needed() == 459
    assert share_at_most(0, 459) < 0.01 < share_at_most(0, 458)
    assert share_at_most(1, 459) > 0.01


@pytest.mark.parametrize(("hits", "trials"), [(0, 1), (0, 459), (1, 459), (230, 459), (458, 459)])
def test_bounds_are_those_of_clopper_and_pearson(hits: int, trials: int) -> None:
    from scipy.stats import binom, binomtest

    bound = share_at_most(hits, trials, confidence=0.95)
    # A larger share would give so few hits less often than 1 time in 20.
    assert binom.cdf(hits, trials, bound) == pytest.approx(0.05, rel=1e-9)
    theirs = binomtest(hits, trials, alternative="less").proportion_ci(0.95, method="exact")
    assert bound == pytest.approx(theirs.high, rel=1e-9)


def test_bounds_without_trials_or_with_nothing_but_hits() -> None:
    assert share_at_most(0, 0) == share_at_most(7, 7) == 1.0


def test_directions_are_uniform_on_the_sphere() -> None:
    directions = random_directions(20_000, np.ones(3), seed=1)
    assert np.allclose((directions**2).sum(axis=1), 1.0)
    # In three dimensions each coordinate is uniform on [-1, 1] (Archimedes).
    from scipy.stats import kstest

    for column in directions.T:
        assert kstest(column, "uniform", args=(-1, 2)).pvalue > 0.001
    stretched = random_directions(20_000, [2.0, 0.0, 5.0], seed=1)
    assert np.allclose(stretched, directions * [2.0, 0.0, 5.0])
    assert (random_directions(7, np.ones(3), seed=1) == directions[:7]).all()
    assert (random_directions(7, np.ones(3), seed=2) != directions[:7]).all()


def test_a_top_a_slope_and_a_plain() -> None:
    top = ascend(hill, np.zeros(5), np.ones(5), [1e-3, 1.0])
    assert [(s.ascents, s.descents) for s in top.steps] == [(0, 459), (0, 459)]
    assert top.steps[1].largest == pytest.approx(-1.0)
    assert top.steps[1].mean == pytest.approx(-1.0)
    assert top.steps[0].bound < 0.01
    slope = ascend(hill, np.ones(5), np.ones(5), [1e-3, 9.0]).steps
    assert 180 < slope[0].ascents < 280
    assert slope[0].bound > 0.4
    assert slope[1].ascents == 0  # from there on all is below
    plain = ascend(Surface(lambda _: 3.0), np.ones(2), np.ones(2), [1.0], 10).steps[0]
    assert (plain.ascents, plain.descents, plain.unchanged) == (0, 0, 10)


def test_the_count_follows_the_share_of_ascending_directions() -> None:
    # In the plane 1 direction in 20 lies within 9 degrees of one side of the first axis.
    @Surface
    def cone(w: Vector) -> float:
        return float(abs(math.atan2(w[1], w[0])) < math.pi / 20) if w.any() else 0.5

    counts = [ascend(cone, np.zeros(2), np.ones(2), [0.5], seed=seed).steps[0] for seed in range(40)]
    share = sum(c.ascents for c in counts) / (40 * 459)
    assert share == pytest.approx(0.05, abs=0.006)
    assert all(c.ascents + c.descents == 459 for c in counts)
    # 99 bounds in 100 hold.
    assert sum(c.bound >= 0.05 for c in counts) >= 38


def test_noise_is_the_root_of_the_sum_of_squared_jumps() -> None:
    rng = np.random.default_rng(5)
    places, jumps = rng.uniform(-1, 1, 4000), rng.normal(size=4000) / 100

    @Surface
    def stairs(w: Vector) -> float:
        return float(hill(w) + jumps[places < w[0]].sum())

    steps = [0.1, 0.4, 1.0]
    noise = line_noise(stairs, [0.0, 0.0], [1.0, 0.0], steps, lines=1, points=201)
    for step, found in zip(steps, noise, strict=True):
        # A direction of scale (1, 0) goes a random part of the way along the first axis.
        far = step * abs(random_directions(1, [1.0, 0.0], seed=1_000_003)[0, 0])
        expected = math.sqrt((jumps[np.abs(places) < far] ** 2).sum() / 2)
        assert found == pytest.approx(expected, rel=0.25)
    assert (line_noise(hill, np.ones(3), np.ones(3), steps) < 1e-12).all()


def test_jumps_are_told_from_ascents() -> None:
    @Surface
    def stairs(w: Vector) -> float:
        return hill(w) + 0.002 * math.floor(2 * math.sin(1e6 * w[0]))

    steps = [0.001, 1.0]
    noise = line_noise(stairs, np.zeros(3), np.ones(3), steps)
    found = ascend(stairs, np.zeros(3), np.ones(3), steps, noise=noise.tolist())
    near, far = found.steps
    assert near.ascents > 100
    assert near.clear_ascents == 0
    assert near.clear_bound < 0.01 < near.bound
    assert far.ascents == 0
    assert near.noise == noise[0]
    slope = ascend(hill, np.ones(3), np.ones(3), steps, noise=[1e-4, 1e-4]).steps[0]
    assert 0 < slope.clear_ascents <= slope.ascents


def test_steps_out_of_the_domain_count_nowhere() -> None:
    @Surface
    def half(w: Vector) -> float:
        return math.nan if w[0] < 0 else float(w[0])

    found = ascend(half, [0.001, 0.0], [1.0, 1.0], [0.5]).steps[0]
    assert found.outside + found.ascents + found.descents == 459
    assert 180 < found.outside < 280
    assert found.descents <= 2
    gone = ascend(
        half,
        [0.0],
        [1.0],
        [0.5],
        1,
        seed=next(seed for seed in range(9) if random_directions(1, [1.0], seed=seed)[0, 0] < 0),
    ).steps[0]
    assert (gone.outside, gone.bound) == (1, 1.0)
    assert math.isnan(gone.largest)
    assert line_noise(half, [0.0, 0.0], [0.0, 1.0], [1.0])[0] == 0.0


def test_a_point_out_of_the_domain_is_refused() -> None:
    with pytest.raises(InputError, match="outside the objective's domain"):
        ascend(Surface(lambda _: math.nan), [0.0, 0.0], [1.0, 1.0], [0.1])
