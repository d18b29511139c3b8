"""SPSA and FDSA: exact identities on quadratics, closed forms, counts, boxes, bad input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from experiments.spsa.gradients import fdsa_gradient, spsa_gradient
from lmtune.errors import InputError
from lmtune.tuning.gradient_free import Gains, Minimisation, minimise, random_signs

Vector = NDArray[np.float64]
GAINS = Gains(a=0.1, c=0.05, stability=10.0)


def quadratic(seed: int, d: int) -> tuple[Callable[[Vector], float], Callable[[Vector], Vector]]:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(d, d))
    matrix, offset = half @ half.T + np.eye(d), rng.normal(size=d)
    return (lambda x: float(0.5 * x @ matrix @ x + offset @ x), lambda x: matrix @ x + offset)


def rosenbrock(x: Vector) -> float:
    return float((1 - x[0]) ** 2 + 5 * (x[1] - x[0] ** 2) ** 2)


class Count:
    def __init__(self, objective: Callable[[Vector], float]) -> None:
        self.objective, self.points = objective, list[Vector]()

    def __call__(self, x: Vector) -> float:
        self.points.append(x.copy())
        return self.objective(x)


def iterates(*args: Any, **options: Any) -> tuple[Minimisation, Vector]:
    seen: list[Vector] = []
    found = minimise(*args, **options, observe=lambda _step, _spent, x: seen.append(x))
    return found, np.stack(seen)


@given(seed=st.integers(0, 1000), d=st.integers(1, 6), c=st.floats(0.01, 2.0))
def test_spsa_is_unbiased_on_a_quadratic(seed: int, d: int, c: float) -> None:
    objective, gradient = quadratic(seed, d)
    x = np.random.default_rng(seed + 1).normal(size=d)
    every = np.array(list(product((-1.0, 1.0), repeat=d)))
    mean = np.mean([spsa_gradient(objective, x, c, signs) for signs in every], axis=0)
    np.testing.assert_allclose(mean, gradient(x), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(mean, fdsa_gradient(objective, x, c), rtol=1e-8, atol=1e-8)
    # All at once is the same average.
    np.testing.assert_allclose(mean, spsa_gradient(objective, x, c, every), rtol=1e-9, atol=1e-9)


def test_one_estimate_is_the_formula() -> None:
    x, signs, c = np.array([0.3, -1.2]), np.array([1.0, -1.0]), 0.1
    change = rosenbrock(x + c * signs) - rosenbrock(x - c * signs)
    expected = change / (2 * c * signs)
    np.testing.assert_allclose(spsa_gradient(rosenbrock, x, c, signs), expected, rtol=1e-12)


def test_finite_differences_have_the_closed_form() -> None:
    # Of x^3 the central difference is 3 x^2 + c^2; of exp, exp(x) sinh(c) / c.
    x, c = np.array([0.5, -2.0]), 0.3
    cubes = fdsa_gradient(lambda x: float((x**3).sum()), x, c)
    np.testing.assert_allclose(cubes, 3 * x**2 + c**2, rtol=1e-12)
    exps = fdsa_gradient(lambda x: float(np.exp(x).sum()), x, c)
    np.testing.assert_allclose(exps, np.exp(x) * np.sinh(c) / c, rtol=1e-12)


@pytest.mark.parametrize("d", [1, 63, 64, 65, 200])
def test_finite_differences_take_two_evaluations_a_coordinate(d: int) -> None:
    count = Count(lambda x: float(x @ np.arange(1.0, d + 1)))
    found = fdsa_gradient(count, np.zeros(d), 0.5)
    np.testing.assert_allclose(found, np.arange(1.0, d + 1))
    assert len(count.points) == 2 * d


def test_gains_are_spalls() -> None:
    gains = Gains(a=2.0, c=0.3, stability=5.0)
    assert gains.rate(0) == pytest.approx(2.0 / 6.0**0.602)
    assert gains.rate(94) == pytest.approx(2.0 / 100.0**0.602)
    assert gains.width(0) == 0.3
    assert gains.width(99) == pytest.approx(0.3 / 100.0**0.101)


def test_practical_gains_make_the_first_step_as_long_as_wanted() -> None:
    slope = np.array([4.0, -4.0, 4.0])
    count = Count(lambda x: float(slope @ x))
    gains = Gains.practical(count, np.zeros(3), steps=100, first_step=0.25, c=0.1, evaluations=400, seed=3)
    assert len(count.points) == 400
    assert gains.stability == 10.0
    # A single perturbation of this line estimates every slope as 4 s, |s| in {1, 3}: mean 6.
    mean = gains.rate(0) * 6.0
    assert mean == pytest.approx(0.25, rel=0.1)


def test_practical_gains_of_a_flat_objective() -> None:
    gains = Gains.practical(lambda _: 1.0, np.zeros(2), steps=10, first_step=0.5, c=0.1)
    assert gains.rate(0) == pytest.approx(0.5)


@pytest.mark.parametrize(("method", "per_step"), [("spsa", 2), ("spsa", 8), ("fdsa", None)])
def test_it_converges(method: str, per_step: int | None) -> None:
    objective, gradient = quadratic(1, 4)
    offset = gradient(np.zeros(4))
    matrix = np.stack([gradient(e) - offset for e in np.eye(4)])
    minimum: Vector = np.linalg.solve(matrix, -offset).astype(np.float64)
    start: Vector = minimum + 2.0
    found = minimise(
        objective,
        start,
        method=method,
        evaluations_per_step=per_step,
        budget=4000,
        gains=Gains(a=0.3, c=0.1, stability=50.0),
        seed=2,
    )
    assert found.value - objective(minimum) < 1e-3 * (objective(start) - objective(minimum))
    assert np.abs(found.x - minimum).max() < 0.1
    assert found.best_value <= min(found.value, objective(start))
    assert objective(found.best_x) == found.best_value


def test_noise_averages_out() -> None:
    rng = np.random.default_rng(0)
    found = minimise(
        lambda x: float((x - 1) @ (x - 1) + 0.1 * rng.normal()),
        np.zeros(5),
        budget=20_000,
        gains=Gains(a=0.2, c=0.2, stability=500.0),
    )
    assert np.abs(found.x - 1.0).max() < 0.1


@given(
    budget=st.integers(10, 60), per_step=st.sampled_from([2, 4, 6]), method=st.sampled_from(["spsa", "fdsa"])
)
def test_the_budget_is_kept(budget: int, per_step: int, method: str) -> None:
    count = Count(lambda x: float(x @ x))
    found, way = iterates(
        count,
        np.ones(3),
        method=method,
        budget=budget,
        gains=GAINS,
        evaluations_per_step=per_step if method == "spsa" else None,
    )
    step = 2 if method == "spsa" else 6
    assert len(count.points) == found.evaluations == found.values.size <= budget
    assert budget - found.evaluations < step
    assert found.spent[0] == 1
    assert found.spent[-1] == found.evaluations - 1
    whole = np.diff(found.spent)[:-1]
    assert (whole == (per_step if method == "spsa" else 6)).all()
    assert way.shape == (found.steps + 1, 3)
    np.testing.assert_array_equal(way[-1], found.x)
    np.testing.assert_array_equal([objective @ objective for objective in count.points], found.values)


def test_equal_arguments_give_equal_bits() -> None:
    (one, way), (two, again), (other, _) = (
        iterates(rosenbrock, [-1.0, 1.0], budget=101, gains=GAINS, seed=seed) for seed in (5, 5, 6)
    )
    assert one.values.tobytes() == two.values.tobytes()
    assert way.tobytes() == again.tobytes()
    assert one.values.tobytes() != other.values.tobytes()


def test_points_may_be_asked_together() -> None:
    asked = []

    def many(points: Vector) -> Vector:
        asked.append(points.shape)
        return np.array([rosenbrock(point) for point in points])

    alone = minimise(rosenbrock, [-1.0, 1.0], budget=42, evaluations_per_step=4, gains=GAINS)
    at_once = minimise(many, [-1.0, 1.0], budget=42, evaluations_per_step=4, gains=GAINS, together=True)
    assert alone.values.tobytes() == at_once.values.tobytes()
    assert asked == [(1, 2), *[(4, 2)] * 10, (1, 2)]


@pytest.mark.parametrize("method", ["spsa", "fdsa"])
def test_no_point_outside_the_box_is_evaluated(method: str) -> None:
    low, high = np.array([0.0, -1.0, 2.0]), np.array([0.4, np.inf, 2.0])
    count = Count(lambda x: float((x - 3.0) @ (x - 3.0)))
    found = minimise(
        count,
        [-5.0, 0.0, 0.0],
        method=method,
        budget=600,
        box=(low, high),
        gains=Gains(a=0.5, c=0.5, stability=10.0),
    )
    points = np.array(count.points)
    assert (points >= low).all()
    assert (points <= high).all()
    # The minimum is on the edge in the first coordinate, inside in the second; the third is fixed.
    np.testing.assert_allclose(found.best_x, [0.4, 3.0, 2.0], atol=0.05)
    assert found.x[2] == 2.0


def test_the_edge_of_the_box_has_a_slope() -> None:
    slope = spsa_gradient(lambda x: float(5 * x[0]), [1.0], 0.5, [[1.0], [-1.0]], box=(0.0, 1.0))
    np.testing.assert_allclose(slope, [5.0])


def test_the_longest_step_is_kept() -> None:
    _, way = iterates(
        lambda x: float(100 * x @ x), np.ones(4), budget=100, gains=Gains(a=1.0, c=0.1), longest_step=0.125
    )
    assert np.abs(np.diff(way, axis=0)).max() == pytest.approx(0.125, rel=1e-12)


def test_a_gradient_stands_in_for_differences() -> None:
    objective, gradient = quadratic(3, 5)
    count = Count(objective)
    differences, way = iterates(objective, np.ones(5), method="fdsa", budget=102, gains=GAINS)
    closed, smooth_way = iterates(
        count, np.ones(5), method="fdsa", budget=102, gains=GAINS, gradient=gradient
    )
    assert closed.evaluations == differences.evaluations == 102
    assert len(count.points) == closed.values.size == 2
    np.testing.assert_allclose(smooth_way, way, rtol=1e-9, atol=1e-9)


def test_observers_see_every_iterate() -> None:
    seen: list[tuple[int, int, Vector]] = []
    found = minimise(
        rosenbrock,
        [0.0, 0.0],
        budget=11,
        gains=GAINS,
        observe=lambda step, spent, x: seen.append((step, spent, x)),
    )
    assert [(step, spent) for step, spent, _ in seen] == [(0, 1), (1, 3), (2, 5), (3, 7), (4, 9)]
    np.testing.assert_array_equal(seen[-1][2], found.x)


def test_signs_are_fair() -> None:
    signs = random_signs(np.random.default_rng(0), 4000, 3)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert np.abs(signs.mean(axis=0)).max() < 0.06
    assert abs((signs[:, 0] * signs[:, 1]).mean()) < 0.06


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "newton"}, "unknown method: 'newton'; accepted: spsa, fdsa"),
        ({"evaluations_per_step": 3}, "bad number of evaluations per step: 3"),
        ({"evaluations_per_step": 0}, "bad number of evaluations per step: 0"),
        ({"method": "fdsa", "evaluations_per_step": 2}, "evaluations per step are fixed: 2; accepted: 2 d"),
        ({"budget": 3}, "too few evaluations: 3; accepted: 4 or more"),
        ({"method": "fdsa", "budget": 5}, "too few evaluations: 5; accepted: 6 or more"),
        ({"seed": -1}, "bad seed: -1"),
        ({"longest_step": 0.0}, "bad longest step: 0.0"),
        ({"box": ([0.0], [1.0, 2.0, 3.0])}, "the box has another shape"),
        ({"box": (1.0, 0.0)}, "the box is empty"),
        ({"start": [np.nan, 0.0]}, "bad start"),
        ({"start": 0.0}, "bad start"),
        ({"objective": lambda _: np.nan}, "the objective is not finite"),
        ({"objective": lambda _: np.ones(2), "together": True}, "another number of values"),
        ({"gains": Gains(a=1e308, c=0.1), "objective": lambda x: 1e3 * x @ x}, "no longer finite"),
        ({"gradient": lambda x: x}, "gradient is only for FDSA"),
        ({"method": "fdsa", "gradient": lambda x: x[:1]}, "the gradient has another shape"),
    ],
)
def test_bad_input_is_one_clear_line(changes: dict[str, Any], message: str) -> None:
    arguments = {"objective": rosenbrock, "start": [0.1, 0.2], "budget": 20, "gains": GAINS}
    with pytest.raises(InputError) as error:
        minimise(**{**arguments, **changes})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "numbers", [{"a": 0.0}, {"c": -1.0}, {"a": np.inf}, {"stability": -1.0}, {"gamma": np.nan}]
)
def test_bad_gains(numbers: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Gains(**{"a": 1.0, "c": 1.0, **numbers})


@pytest.mark.parametrize(
    "numbers", [{"steps": 0}, {"first_step": 0.0}, {"c": 0.0}, {"evaluations": 5}, {"seed": -1}]
)
def test_bad_practical_gains(numbers: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Gains.practical(rosenbrock, [0.0, 0.0], **{"steps": 5, "first_step": 1.0, "c": 0.1, **numbers})
