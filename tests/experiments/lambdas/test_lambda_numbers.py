"""Differences, integrals and rebuilt costs against closed forms; what their errors claim."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import expit

from experiments.lambdas import examples, functions
from experiments.lambdas.calculus import (
    circulation,
    integrate,
    jacobian,
    jump,
    loop_across,
    loop_around,
    noise,
    ties_between,
    work,
)
from experiments.lambdas.examine import SAFETY, check_cost, rebuild_cost
from lmtune.errors import InputError
from lmtune.losses.lambda_functions import checked_function
from lmtune.measures import Measurer

Array = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


def ranknet_jacobian(scores: Array, labels: Array) -> Array:
    x = scores[:, None] - scores[None, :]
    weight = np.where(labels[:, None] != labels[None, :], expit(x) * expit(-x), 0.0)
    found: Array = weight - np.diag(weight.sum(axis=1))
    return found


def test_jacobians_and_their_errors() -> None:
    rng, labels = np.random.default_rng(0), np.array([2.0, 0.0, 1.0, 0.0])
    function = checked_function(functions.ranknet())
    for scale in (0.01, 0.1, 1.0, 3.0) * 10:
        scores = scale * rng.normal(size=4)
        found = jacobian(function, scores, labels, noise(function, scores, labels, EPS))
        wrong = np.abs(found.value - ranknet_jacobian(scores, labels))
        assert (wrong <= SAFETY * found.error).all()
        assert found.error.max() < 1e-7


def test_a_kink_close_by_makes_steps_smaller() -> None:
    function, labels = checked_function(functions.margin(1.0)), np.array([1.0, 0.0])
    for beyond in (1e-2, 1e-3):
        scores = np.array([1.0 + beyond, 0.0])
        found = jacobian(function, scores, labels, noise(function, scores, labels, EPS))
        assert np.abs(found.value).max() <= SAFETY * found.error.max()
        assert found.error.max() < 1e-9
    # A kink that no step keeps clear of shows in the error.
    scores = np.array([1.0, 0.0])
    assert jacobian(function, scores, labels, np.full(2, EPS)).error.max() > 0.1


@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0, 3.0])
def test_jumps(delta: float) -> None:
    function, labels = checked_function(functions.margin(delta)), np.array([1.0, 0.0])
    found = jump(function, np.array([0.3, 0.3]), labels, (0, 1), np.full(2, EPS), EPS)
    assert found.value == pytest.approx([delta - 1.0, 1.0 - delta], abs=1e-12)
    assert (np.abs(found.value - [delta - 1.0, 1.0 - delta]) <= SAFETY * found.error).all()


def test_a_kink_beside_a_tie_is_no_jump() -> None:
    # Documents 1 and 3 are at the margin's distance but for a little, while 1 and 2 tie.
    labels = np.array([1.0, 1.0, 0.0])
    for beyond in (1e-2, -1e-3, 1e-4, -1e-5):
        scores = np.array([1.0 + beyond, 1.0 + beyond, 0.0])
        function = checked_function(functions.margin(1.0))
        found = jump(function, scores, labels, (0, 1), np.full(3, EPS), EPS)
        assert (np.abs(found.value) <= SAFETY * found.error).all()
        assert found.error.max() < 1e-12


def test_lambdaranks_jump_on_third_documents() -> None:
    # s_1 = s_2 = 0 in ranks 1 and 2, document 3 at -1: the force on it changes by
    # |D(1) - D(2)| (G_1 - G_2) / IDCG / (1 + e^1), whichever of the two is the better.
    labels, scores = np.array([2.0, 1.0, 0.0]), np.array([0.0, 0.0, -1.0])
    ideal = 3.0 + 1.0 / np.log2(3.0)
    found = jump(checked_function(functions.lambdarank()), scores, labels, (0, 1), np.full(3, EPS), EPS)
    assert found.value[2] == pytest.approx(
        -(1.0 - 1.0 / np.log2(3.0)) * (3.0 - 1.0) / ideal / (1.0 + np.exp(1.0)), abs=1e-12
    )
    assert found.value.sum() == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize(
    ("function", "antiderivative"),
    [
        (np.cos, np.sin),
        (lambda t: float(t > 0.3), lambda t: max(0.0, t - 0.3)),
        (lambda t: abs(t - 0.71), lambda t: (t - 0.71) * abs(t - 0.71) / 2),
        (lambda t: float(t > 1e-5), lambda t: max(0.0, t - 1e-5)),
        (lambda t: np.sign(t - 0.999), lambda t: abs(t - 0.999)),
    ],
)
def test_quadrature(function: Callable[[float], float], antiderivative: Callable[[float], float]) -> None:
    for breaks in ([0.0, 1.0], [0.0, 0.25, 1.0], [-1.0, 0.3, 0.3, 2.0]):
        value, error = integrate(function, breaks, lambda: 1e-10)
        expected = antiderivative(breaks[-1]) - antiderivative(breaks[0])
        assert abs(value - expected) <= SAFETY * error + 1e-14
        assert error < 1e-9


def test_quadrature_claims_no_more_than_it_holds_where_jumps_are_hidden() -> None:
    # Steps and kinks everywhere: the error estimate must cover the error each time.
    rng = np.random.default_rng(1)
    for at in rng.uniform(size=200):
        for power in (0, 1):

            def bent(t: float, at: float = at, power: int = power) -> float:
                return float(t > at) * (t - at) ** power

            value, error = integrate(bent, [0.0, 1.0], lambda: 1e-8)
            assert abs(value - (1.0 - at) ** (power + 1) / (power + 1)) <= SAFETY * error + 1e-14


def test_ties_on_the_way() -> None:
    start, end = np.array([0.0, 1.0, 2.0]), np.array([3.0, 1.0, 2.0])
    assert ties_between(start, end) == pytest.approx([1 / 3, 2 / 3])
    assert ties_between(np.zeros(3), end).size == 0
    assert ties_between(start, start).size == 0


def test_work_against_quadpack_and_the_cost() -> None:
    rng, labels = np.random.default_rng(2), np.array([2.0, 0.0, 1.0, 1.0])
    function = checked_function(functions.ranknet())
    a, b = rng.normal(size=(2, 4))
    found = work(function, labels, a, b)
    there = quad(lambda t: function(a + t * (b - a), labels) @ (b - a), 0, 1, epsabs=1e-13)[0]
    fall = functions.ranknet_cost(a, labels) - functions.ranknet_cost(b, labels)
    assert found.value == pytest.approx(there, abs=1e-11)
    assert found.value == pytest.approx(fall, abs=1e-11)
    assert abs(found.value - fall) <= SAFETY * found.error
    assert work(function, labels, a, a).value == 0.0


def test_loops() -> None:
    labels = np.array([2.0, 1.0, 0.0])
    lambdarank, ranknet = checked_function(functions.lambdarank()), checked_function(functions.ranknet())
    tied = np.array([0.5, 0.5, -0.5])
    side = np.array([0.0, 0.0, 1.0])
    loop = loop_across(tied, 0, 1, side, 1e-3)
    # The work is the jump along the tie, times the way along it.
    jumped = jump(lambdarank, tied, labels, (0, 1), np.full(3, EPS), EPS).value[2]
    assert circulation(lambdarank, labels, loop).value == pytest.approx(2e-3 * jumped, rel=1e-3)
    around = loop_around(np.zeros(3), (0, 1, 2), [1.0, 0.3, 0.6, 0.9, 0.2, 0.5], 0.3)
    orders = {tuple(np.argsort(-corner)) for corner in around}
    assert len(orders) == 6
    for corners in (loop, around):
        assert abs(circulation(ranknet, labels, corners).value) < 1e-9
    assert abs(circulation(lambdarank, labels, around).value) > 1e-3


def test_the_two_document_example_comes_out_as_equations_7_to_9() -> None:
    labels = np.array([1.0, 0.0])
    for delta in (0.0, 0.3, 1.0, 1.7):
        cost = rebuild_cost(functions.margin(delta), labels)
        for x in (-3.0, -1.0, -1e-3, 0.0, 1e-3, 0.29, 0.3, 0.31, 0.999, 1.0, 1.5, 1.7, 4.0):
            if x < 0:
                expected = -x
            elif x <= delta:
                expected = x * x / 2 - delta * x
            else:
                expected = -delta * delta / 2
            scores = np.array([x + 0.4, 0.4])
            assert cost(scores) == pytest.approx(expected, abs=1e-9)
            assert functions.margin_cost(scores, labels, delta) == pytest.approx(expected)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("function", "cost"),
    [
        (functions.ranknet(), functions.ranknet_cost),
        (functions.listnet(), functions.listnet_cost),
        (functions.margin(0.7), lambda s, y: functions.margin_cost(s, y, 0.7)),
        (functions.by_rank(), lambda s, _: -(np.sort(s)[::-1] @ (np.arange(s.size) - 1.5))),
        (
            functions.constant_pairs(),
            lambda s, y: np.maximum(s[None, :] - s[:, None], 0)[y[:, None] > y[None, :]].sum(),
        ),
        (examples.winner, lambda s, y: max(0.0, s[y == 0].max() - s[y > 0].max())),
        (examples.soft_errors, lambda s, y: expit(s[None, :] - s[:, None])[y[:, None] > y[None, :]].sum()),
        (
            examples.squared_hinge,
            lambda s, y: (np.maximum(1 - s[:, None] + s, 0)[y[:, None] > y[None, :]] ** 2).sum() / 2,
        ),
    ],
)
def test_rebuilt_costs_are_the_known_ones(
    function: Callable[[Array, Array], Array], cost: Callable[[Array, Array], float]
) -> None:
    rng, labels = np.random.default_rng(3), np.array([2.0, 0.0, 1.0, 0.0])
    for origin in (np.zeros(4), rng.normal(size=4)):
        rebuilt = rebuild_cost(function, labels, origin=origin)
        for _ in range(2):
            scores = 2.0 * rng.normal(size=4)
            value, error = rebuilt.with_error(scores)
            expected = cost(scores, labels) - cost(origin, labels)
            assert abs(value - expected) <= SAFETY * error
            assert error < 1e-8
    assert check_cost(rebuilt, [rng.normal(size=4)]).holds


def test_a_wrong_gradient_is_seen_where_others_are_zero() -> None:
    labels = np.array([1.0, 0.0])
    cost = rebuild_cost(examples.winner, labels, origin=[-1.0, 1.0])
    still, moved = [1.0, 0.0], [0.0, 0.3]
    assert check_cost(cost, [still]).holds
    assert check_cost(cost, [still]).largest < 1e-9
    assert check_cost(cost, [still, moved]).holds
    # Forces of 1 and -1/2 while 2 leads: on the way they stop sooner or later with the sum.
    half = rebuild_cost(lambda s, y: np.array([1.0, 0.5]) * examples.winner(s, y), labels, origin=[-1.0, 1.0])
    assert check_cost(half, [moved]).holds
    assert not check_cost(half, [still]).holds
    with pytest.raises(InputError, match="no points"):
        check_cost(cost, [])


def weighted_ranknet_cost(scores: Array, labels: Array, at: Array) -> float:
    """Return the RankNet cost weighted as LambdaRank weighs pairs at the ranks of scores `at`."""
    better = labels[:, None] > labels[None, :]
    cost = functions.swap_values(at, labels) * np.logaddexp(0.0, scores[None, :] - scores[:, None])
    return float(cost[better].sum())


def test_what_lambdaranks_rebuilt_cost_is() -> None:
    labels, rng = np.array([2.0, 1.0, 0.0]), np.random.default_rng(4)
    points = [rng.normal(size=3) for _ in range(2)]
    cost = rebuild_cost(functions.lambdarank(), labels)
    # From 0 the ranking never changes on the way: RankNet's cost with the weights of that ranking.
    for scores in points:
        here, origin = (weighted_ranknet_cost(one, labels, scores) for one in (scores, np.zeros(3)))
        assert cost(scores) == pytest.approx(here - origin, abs=1e-10)
    assert check_cost(cost, points).holds
    # So the gradient is right in each ranking; but values of two rankings do not meet at the tie.
    above, below = np.array([0.5 + 1e-9, 0.5, -1.0]), np.array([0.5, 0.5 + 1e-9, -1.0])
    assert abs(cost(above) - cost(below)) > 0.01
    # From elsewhere ties are crossed, and the gradient is wrong.
    elsewhere = rebuild_cost(functions.lambdarank(), labels, origin=[0.1, 0.9, 0.4])
    assert not check_cost(elsewhere, [[0.9, 0.1, 0.5]]).holds


def test_bad_vectors() -> None:
    for labels in ([[1.0]], [np.nan, 1.0]):
        with pytest.raises(InputError, match="bad labels"):
            rebuild_cost(functions.ranknet(), labels)
    with pytest.raises(InputError, match="bad origin"):
        rebuild_cost(functions.ranknet(), [1, 0], origin=[0.0])
    with pytest.raises(InputError, match="bad scores"):
        rebuild_cost(functions.ranknet(), [1, 0])([1.0, 2.0, 3.0])


@pytest.mark.slow
def test_without_ranknets_cost_no_measure_has_one() -> None:
    # Burges (2005), section 3: below ln 2 no pair can be wrong or tied, each of which costs ln 2 or more
    perfect = {"pairwise-error": 0.0, "wta": 0.0, "mrr": 1.0, "ap": 1.0, "ndcg": 1.0, "ndcg@1": 1.0}
    labels = np.array(list(product((0.0, 1.0, 2.0), repeat=4)))
    steps = 8.0 * np.array(list(product((0.0, 1.0, 2.0, 3.0), repeat=4)))
    seen = 0
    for own in labels[labels.any(axis=1)]:
        free = np.array([functions.ranknet_cost(scores, own) < np.log(2.0) for scores in steps])
        lists = SimpleNamespace(labels=own, starts=np.array([0, 4]), docnos=None)
        for name, best in perfect.items():
            values = Measurer(name, lists).values(steps)[:, 0]
            assert np.isin(values[free], (best,)).all() or np.isnan(values).all()
        # only then are there no wrong pairs
        wrong = Measurer("pairwise-error", lists).values(steps)[:, 0]
        assert ((wrong == 0) == free).all() or np.isnan(wrong).all()
        seen += int(free.sum())
    assert seen > 1000
