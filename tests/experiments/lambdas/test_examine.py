"""Verdicts on lambda-functions whose costs are known."""

from __future__ import annotations

import math
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from experiments.lambdas import examples, functions
from experiments.lambdas.examine import TESTS, Examination, examine, needed_alpha
from lmtune.errors import InputError
from lmtune.losses.lambda_functions import LambdaFunction

Array = NDArray[np.float64]


def hinge(scores: Array, labels: Array) -> Array:
    # Jumps at s_i - s_j = 1, which is no tie.
    return functions.pair_forces(lambda x: (x < 1.0).astype(np.float64), scores, labels)


def sine(scores: Array, labels: Array) -> Array:
    # C is the sum of sin(s_i s_j) over pairs i < j: smooth, and not of pairs' differences.
    cosine = np.cos(np.outer(scores, scores))
    np.fill_diagonal(cosine, 0.0)
    return -(cosine @ scores) + 0.0 * labels


# By name, so that tests share what they find; whether there is a cost, and a convex one.
CASES: dict[str, tuple[LambdaFunction, str, str]] = {
    "ranknet": (functions.ranknet(), "yes", "yes"),
    "steep ranknet": (functions.ranknet(20.0), "yes", "yes"),
    "listnet": (functions.listnet(), "yes", "yes"),
    "margin 0.5": (functions.margin(0.5), "yes", "yes"),
    "margin 1": (functions.margin(1.0), "yes", "yes"),
    "margin 2": (functions.margin(2.0), "yes", "no"),
    "constant pairs": (functions.constant_pairs(), "yes", "yes"),
    "by rank": (functions.by_rank(), "yes", "yes"),
    "by rank, reversed": (functions.by_rank(-1.0), "yes", "no"),
    "hinge": (hinge, "yes", "yes"),
    "sine": (sine, "yes", "no"),
    "winner": (examples.winner, "yes", "no"),
    "soft_errors": (examples.soft_errors, "yes", "no"),
    "squared_hinge": (examples.squared_hinge, "yes", "yes"),
    "lambdarank": (functions.lambdarank(), "no", "no cost"),
    "lambdarank@2": (functions.lambdarank(2), "no", "no cost"),
    "gain by rank": (functions.gain_by_rank(), "no", "no cost"),
    "soft_swaps": (examples.soft_swaps, "no", "no cost"),
    "swap_pull": (examples.swap_pull, "no", "no cost"),
}


def regularise(function: LambdaFunction, alpha: float) -> LambdaFunction:
    """Return the forces of the cost plus alpha |s|^2 / 2."""
    return lambda scores, labels: np.asarray(function(scores, labels)) - alpha * scores


def small(function: LambdaFunction, *, seed: int = 0) -> Examination:
    return examine(function, documents=(3, 4), label_vectors=2, points=3, seed=seed)


@cache
def named(name: str) -> Examination:
    return small(CASES[name][0])


@pytest.mark.first_case
@pytest.mark.parametrize("name", CASES)
def test_verdicts(name: str) -> None:
    found = named(name)
    assert (found.has_cost, found.convex) == CASES[name][1:], found.refuting()
    assert found.sums_to_zero == ("no" if name == "sine" else "yes")


def test_which_tests_refute() -> None:
    assert "symmetry" in named("soft_swaps").refuting()
    for name in ("lambdarank", "gain by rank", "swap_pull"):
        assert named(name).refuting()[:4] == ["jumps", "loops", "trios", "paths"]
    # Burges 2005 calls both conditions trivially satisfied where the Jacobian is 0.
    assert named("gain by rank").largest_slope == 0.0
    assert named("winner").largest_slope == 0.0
    assert named("winner").evidence["curvature"].outcome == "holds"
    # A cost with a ridge whose Hessian is positive semidefinite wherever it exists.
    ridge = named("margin 2")
    assert ridge.evidence["curvature"].outcome == "holds"
    assert ridge.evidence["kinks"].outcome == "violated"


def test_it_says_how_large_and_where() -> None:
    def skewed(scores: Array, labels: Array) -> Array:
        return np.array([1e-6 * scores[1], 0.0, scores[2]]) - scores + 0.0 * labels

    worst = examine(skewed, labels=[[1, 0, 0]], points=4).evidence["symmetry"].worst
    assert worst is not None
    assert worst.outcome == "violated"
    assert worst.violation == pytest.approx(1e-6, rel=1e-5)
    assert worst.documents == (1, 2)
    assert worst.scale == pytest.approx(1.0)
    assert "dl1/ds2 = 1e-06, dl2/ds1 = " in worst.where()


@pytest.mark.parametrize("labels", [[3.0, 0.0], [1.0, 2.0], [0.0, 4.0]])
@pytest.mark.parametrize("k", [None, 1, 2])
def test_two_documents_make_lambdarank_a_weighted_ranknet(labels: list[float], k: int | None) -> None:
    found = examine(functions.lambdarank(k), labels=[labels], points=4)
    assert (found.has_cost, found.convex) == ("yes", "yes")


@pytest.mark.slow
def test_what_own_rank_forces_have_a_cost() -> None:
    # f(y, r) = g(r) + h(y) has one, other forces have not.
    def additive(scores: Array, labels: Array) -> Array:
        return functions.ranks(scores, labels) ** 2 + 3.0 * labels

    def product(scores: Array, labels: Array) -> Array:
        return functions.ranks(scores, labels) * labels

    assert small(additive).has_cost == "yes"
    assert small(product).has_cost == "no"


def brute_force_fits(function: LambdaFunction, labels: Array) -> bool:
    """Tell whether constants on rankings fit together: jumps between neighbours along e_i - e_j."""
    n = labels.size
    for order in permutations(range(n)):
        scores = np.empty(n)
        scores[list(order)] = np.arange(n, 0, -1.0)
        here = np.asarray(function(scores, labels))
        for r in range(n - 1):
            i, j = order[r], order[r + 1]
            other = scores.copy()
            other[i], other[j] = scores[j], scores[i]
            change = np.asarray(function(other, labels)) - here
            if abs(change[i] + change[j]) > 1e-12 or np.abs(np.delete(change, [i, j])).sum() > 1e-12:
                return False
    return True


@pytest.mark.first_case
@pytest.mark.parametrize("labels", [[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [1.0, 0.0], [2.0, 1.0, 1.0]])
@pytest.mark.parametrize(
    "function",
    [
        functions.constant_pairs(),
        functions.by_rank(),
        functions.gain_by_rank(),
        examples.winner,
        examples.swap_pull,
    ],
)
def test_piecewise_constant_lambdas_by_rankings(function: LambdaFunction, labels: list[float]) -> None:
    expected = "yes" if brute_force_fits(function, np.array(labels)) else "no"
    assert examine(function, labels=[labels], points=12).has_cost == expected


def test_a_wrong_jump_that_is_no_tie() -> None:
    def step(scores: Array, labels: Array) -> Array:
        # Beyond s_1 = s_2 + 1/2 all are pushed: a jump not along e_1 - e_2, and at no tie.
        return np.where(scores[0] > scores[1] + 0.5, 1.0, 0.0) + 0.0 * labels

    found = examine(step, documents=(3,), label_vectors=2, points=6)
    assert found.has_cost == "no"
    assert "paths" in found.refuting()
    assert found.evidence["symmetry"].outcome == "holds"


@pytest.mark.slow
def test_single_precision_is_no_asymmetry() -> None:
    def single(scores: Array, labels: Array) -> NDArray[np.float32]:
        apart = np.float32(1) - scores.astype(np.float32)[:, None] + scores.astype(np.float32)
        forces = np.where(labels[:, None] > labels, np.maximum(apart, np.float32(0)), np.float32(0))
        return np.asarray(forces.sum(axis=1) - forces.sum(axis=0), np.float32)

    found = small(single)
    assert found.has_cost != "no"
    assert found.convex != "no"


@pytest.mark.slow
def test_lambdas_too_rough_for_differences_are_undecided() -> None:
    def grain(scores: Array, labels: Array) -> Array:
        # A thousandth of noise, the same for the same scores.
        rng = np.random.default_rng(np.frombuffer(scores.tobytes(), np.uint32))
        return examples.squared_hinge(scores, labels) + 1e-3 * rng.normal(size=scores.size)

    found = small(grain)
    assert found.has_cost == "undecided"
    assert found.evidence["symmetry"].outcome == "unclear"


@pytest.mark.slow
def test_one_seed_gives_one_examination() -> None:
    first, again, other = (small(examples.swap_pull, seed=seed) for seed in (0, 0, 1))
    for test in TESTS:
        assert first.evidence[test] == again.evidence[test]
    assert first.evidence["paths"].worst != other.evidence["paths"].worst


def test_zero_is_a_convex_cost() -> None:
    found = small(lambda scores, labels: 0.0 * scores * labels)
    assert (found.has_cost, found.convex, found.sums_to_zero) == ("yes", "yes", "yes")


def test_bad_settings_and_functions() -> None:
    rank = functions.ranknet()
    with pytest.raises(InputError, match="number of documents: 1"):
        examine(rank, documents=(1,))
    with pytest.raises(InputError, match="number of points: 0"):
        examine(rank, points=0)
    for labels in ([1.0], [[1.0, 2.0]], [1.0, -1.0], [1.0, math.nan]):
        with pytest.raises(InputError, match="bad labels"):
            examine(rank, labels=[labels])
    counter = iter(range(10**6))
    with pytest.raises(InputError, match="other lambdas for the same scores"):
        examine(lambda scores, labels: scores * 0 + labels + next(counter))


@pytest.mark.slow
def test_the_regulariser_makes_a_smooth_cost_convex() -> None:
    found = named("soft_errors")
    needed, _ = needed_alpha(found)
    assert needed == pytest.approx(-found.smallest_eigenvalue, rel=1e-6)
    again = small(regularise(examples.soft_errors, needed))
    assert (again.has_cost, again.convex) == ("yes", "yes")
    assert again.smallest_eigenvalue == pytest.approx(0.0, abs=1e-6)
    less = small(regularise(examples.soft_errors, 0.9 * needed))
    assert less.convex == "no"
    assert less.smallest_eigenvalue == pytest.approx(0.1 * found.smallest_eigenvalue, rel=1e-4)


@pytest.mark.slow
def test_no_regulariser_mends_a_ridge_or_a_missing_cost() -> None:
    assert needed_alpha(named("margin 2"))[0] == math.inf
    assert small(regularise(functions.margin(2.0), 100.0)).convex == "no"
    assert math.isnan(needed_alpha(named("lambdarank"))[0])
    assert small(regularise(functions.lambdarank(), 100.0)).has_cost == "no"
    assert needed_alpha(named("ranknet"))[0] == 0.0
