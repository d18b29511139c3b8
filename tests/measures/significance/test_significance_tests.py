"""The tests against scipy, statsmodels, brute force and worked examples."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support import COLLECTIONS

from lmtune.errors import InputError
from lmtune.measures.significance.tests import (
    ALTERNATIVES,
    Alternative,
    adjusted,
    confidence_interval,
    effect_size,
    equivalence_test,
    mean_interval,
    paired_t_test,
    randomization_test,
    randomization_tests,
    wilcoxon_test,
    wins_ties_losses,
)

# Values as measures have them, on a grid fine enough that ties are rare, or coarse as P@10's.
FINE = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=3, max_size=60).map(
    lambda pairs: np.array(pairs) / 10**6
)
COARSE = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=2, max_size=11)
SIDES = st.sampled_from(ALTERNATIVES)
TIED = 13 if COLLECTIONS > 100 else 8  # values of which scipy tries each pattern of signs, in Python
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)

approximately: Any = lambda p: pytest.approx(p, rel=1e-10, abs=1e-12)  # noqa: E731


def exact_signs(values: Sequence[int], alternative: Alternative) -> float:
    """Enumerate every sign pattern in whole numbers."""
    signs = np.array(list(itertools.product((1, -1), repeat=len(values))), np.int64)
    sums = signs @ np.array(values, np.int64)
    observed = sum(values)
    if alternative == "two-sided":
        extreme = np.abs(sums) >= abs(observed)
    elif alternative == "greater":
        extreme = sums >= observed
    else:
        extreme = sums <= observed
    return float(extreme.mean())


@given(FINE, SIDES)
@settings(deadline=None)
def test_t_agrees_with_scipy(pairs: np.ndarray, alternative: Alternative) -> None:
    a, b = pairs.T
    if np.ptp(a - b) <= 1e-14:
        return
    expected = stats.ttest_rel(a, b, alternative=alternative).pvalue
    assert paired_t_test(a, b, alternative) == approximately(expected)


def test_t_by_hand() -> None:
    # Differences 1, 2, 3: t = 2 / (1 / sqrt(3)); with two degrees of freedom Student's tail is
    # (1 - t / sqrt(t^2 + 2)) / 2.
    t = 2 * math.sqrt(3)
    tail = (1 - t / math.sqrt(t * t + 2)) / 2
    a, b = [2.0, 4.0, 6.0], [1.0, 2.0, 3.0]
    assert paired_t_test(a, b) == pytest.approx(2 * tail, rel=1e-12)
    assert paired_t_test(a, b, "greater") == pytest.approx(tail, rel=1e-12)
    assert paired_t_test(a, b, "less") == pytest.approx(1 - tail, rel=1e-12)


def test_t_without_spread() -> None:
    a, b = np.array([0.3, 0.4, 0.5]), np.array([0.2, 0.3, 0.4])
    assert len(set(a - b)) > 1  # equal but for rounding
    for alternative in ALTERNATIVES:
        assert math.isnan(paired_t_test(a, b, alternative))
        assert math.isnan(paired_t_test([0.1, 0.2], [0.3, 0.5], alternative))  # two pairs
        assert paired_t_test(a, a, alternative) == 1.0
        assert paired_t_test([0.1 + 0.2, 0.3], [0.3, 0.3], alternative) == 1.0
    assert adjusted([0.01, math.nan, 0.02]) == pytest.approx([0.03, math.nan, 0.04], nan_ok=True)
    assert adjusted([0.01, math.nan], "bonferroni") == pytest.approx([0.02, math.nan], nan_ok=True)
    assert adjusted([0.02, math.nan, 0.01], "bh") == pytest.approx([0.03, math.nan, 0.03], nan_ok=True)


@given(COARSE, SIDES)
@settings(deadline=None, max_examples=60)
def test_randomization_is_exact_for_few_topics(
    pairs: list[tuple[int, int]], alternative: Alternative
) -> None:
    # Tenths: sums that tie exactly are unequal floats.
    found = randomization_test([a / 10 for a, _ in pairs], [b / 10 for _, b in pairs], alternative)
    assert found.p_value == exact_signs([a - b for a, b in pairs], alternative)
    assert found.how.startswith("exact")


def test_randomization_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    for alternative in ALTERNATIVES:
        a, b = rng.random((2, 13))
        expected = stats.permutation_test(
            (a, b),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            n_resamples=2**13,
            vectorized=True,
            alternative=alternative,
        ).pvalue
        assert randomization_test(a, b, alternative).p_value == pytest.approx(expected, rel=1e-12)


def test_twenty_topics_are_enumerated_and_no_more() -> None:
    values = np.ones(20)
    assert randomization_test(values, 0 * values).p_value == 2 / 2**20
    # Topics without a difference double both counts.
    padded = np.concatenate([values, np.zeros(30)])
    assert randomization_test(padded, 0 * padded).p_value == 2 / 2**20
    more = randomization_test(np.ones(21), np.zeros(21), permutations=999)
    assert more == (1 / 1000, "999 random sign patterns")


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_random_signs_are_near_all_signs(alternative: Alternative) -> None:
    # Integers: the distribution of 60 signed values is exact by convolution.
    rng = np.random.default_rng(3)
    values = rng.integers(-20, 26, 60)
    counts = np.ones(1, object)
    for value in np.abs(values).tolist():
        longer = np.zeros(counts.size + 2 * value, object)
        longer[: counts.size] += counts
        longer[2 * value :] += counts
        counts = longer
    total = int(np.abs(values).sum())
    sums = np.arange(-total, total + 1)
    observed = int(values.sum())
    extreme = {
        "two-sided": np.abs(sums) >= abs(observed),
        "greater": sums >= observed,
        "less": sums <= observed,
    }[alternative]
    p = int(counts[extreme].sum()) / 2**60
    found = randomization_test(values / 7, 0 * values, alternative, permutations=200_000, seed=8)
    assert abs(found.p_value - p) < 5 * math.sqrt(p * (1 - p) / 200_000) + 1e-5
    assert 0.001 < p < 0.999


def test_the_count_is_that_of_the_patterns_drawn() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 70))
    words = np.random.PCG64(4).random_raw((50, 2)).tolist()
    count = 0
    for low, high in words:
        bits = b"".join(int(word).to_bytes(8, "little") for word in (low, high))
        signs = [1 - 2 * (bits[i // 8] >> (7 - i % 8) & 1) for i in range(70)]
        count += abs(np.dot(signs, a - b)) >= abs((a - b).sum())
    found = randomization_test(a, b, permutations=50, seed=4)
    assert found.p_value == (count + 1) / 51
    assert randomization_test(a, b, permutations=50, seed=4) == found


def test_pairs_together_are_pairs_alone_in_bounded_memory() -> None:
    rng = np.random.default_rng(1)
    base = rng.random(150)
    pairs = [(base + rng.normal(0.002 * i, 0.05, 150), base) for i in range(6)] + [(base, base)]
    tracemalloc.start()
    together = randomization_tests(pairs, permutations=30_000, seed=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
    assert together == [randomization_test(a, b, permutations=30_000, seed=2) for a, b in pairs]
    assert together[-1].p_value == 1.0
    assert len({found.p_value for found in together}) == 7
    other = randomization_tests(pairs, permutations=30_000, seed=3)
    assert other != together


@given(FINE, SIDES)
@settings(deadline=None, max_examples=50)
def test_wilcoxon_agrees_with_scipy(pairs: np.ndarray, alternative: Alternative) -> None:
    a, b = pairs.T
    # On the grid's integers scipy sees ties as such.
    steps = np.rint((a - b) * 10**6)
    steps = steps[steps != 0]
    if not steps.size:
        return
    tied = len(set(np.abs(steps))) < steps.size
    if tied and TIED < steps.size <= 20:
        return  # where scipy takes seconds, or approximates, and we enumerate; below
    expected = stats.wilcoxon(steps, alternative=alternative).pvalue
    assert wilcoxon_test(a, b, alternative).p_value == approximately(expected)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("topics", [30, 51, 250])
def test_wilcoxon_approximates_as_scipy_does(topics: int, alternative: Alternative) -> None:
    rng = np.random.default_rng(topics)
    a, b = rng.integers(0, 11, (2, topics))
    steps = a - b
    expected = stats.wilcoxon(steps, alternative=alternative, method="approx").pvalue
    found = wilcoxon_test(a / 10, b / 10, alternative)
    assert found.p_value == approximately(expected)
    assert found.how == "normal approximation"


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=11), SIDES)
@settings(deadline=None, max_examples=60)
def test_wilcoxon_is_exact_for_few_topics(steps: list[int], alternative: Alternative) -> None:
    sizes = [abs(step) for step in steps if step]
    twice_ranks = [
        (2 * sum(size < abs(step) for size in sizes) + sizes.count(abs(step)) + 1) * (1 if step > 0 else -1)
        for step in steps
        if step
    ]
    found = wilcoxon_test([0.3 + step / 10 for step in steps], [0.3] * len(steps), alternative)
    assert found.p_value == pytest.approx(exact_signs(twice_ranks, alternative), rel=1e-12)


def test_wilcoxon_by_hand() -> None:
    # Ranks 1 -2 3 4 5: of 32 patterns those with negative rank sum 0, 1, 2 are one each.
    found = wilcoxon_test([1.0, -2.0, 3.0, 4.0, 5.0], np.zeros(5), "greater")
    assert found == (3 / 32, "exact")
    assert wilcoxon_test([0.5, 0.5], [0.5, 0.5]) == (1.0, "no topic differs")


@given(P_VALUES)
@settings(deadline=None)
def test_corrections_agree_with_statsmodels(p_values: list[float]) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    for correction, method in (("holm", "holm"), ("bonferroni", "bonferroni"), ("bh", "fdr_bh")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gc.collect", lambda: 0)  # at each of its calls, for half a second
            expected = multitest.multipletests(p_values, method=method)[1]
        smallest = np.finfo(float).smallest_normal  # below, numbers have fewer digits
        assert adjusted(p_values, correction) == pytest.approx(list(expected), rel=1e-12, abs=smallest)
    assert adjusted(p_values, "none") == p_values


@given(FINE, st.floats(1e-3, 0.5))
@settings(deadline=None)
def test_equivalence_agrees_with_statsmodels(pairs: np.ndarray, margin: float) -> None:
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    a, b = pairs.T
    if np.ptp(a - b) <= 1e-14:
        return
    both, low, _ = weightstats.ttost_paired(a, b, -margin, margin)
    found = equivalence_test(a, b, margin)
    assert found.equivalent == approximately(both)
    assert found.not_worse == approximately(low[1])


def test_equivalence_without_spread() -> None:
    values = np.array([0.3, 0.4, 0.5])
    for shift, margin in ((0.0, 0.01), (-0.1, 0.05), (0.1, 0.05)):
        assert np.isnan(equivalence_test(values + shift, values, margin)).all()


@given(FINE, st.floats(0.5, 0.999))
@settings(deadline=None)
def test_intervals_agree_with_scipy(pairs: np.ndarray, confidence: float) -> None:
    a, b = pairs.T
    if np.ptp(a - b) <= 1e-14:
        expected_end = math.nan if (np.abs(a - b) > 1e-14).any() else 0.0
        assert mean_interval(a, b, confidence) == pytest.approx((expected_end,) * 2, nan_ok=True)
        return
    expected = stats.ttest_rel(a, b).confidence_interval(confidence)
    found = mean_interval(a, b, confidence)
    assert found == approximately((expected.low, expected.high))


def test_effect_sizes() -> None:
    assert effect_size([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]) == pytest.approx(2.0)
    rng = np.random.default_rng(2)
    for topics in (2, 3, 10, 300):
        a, b = rng.random((2, topics))
        plain = (a - b).mean() / (a - b).std(ddof=1)
        assert effect_size(a, b) == pytest.approx(plain, rel=1e-12)
        m = topics - 1
        factor = 0.0
        if m > 1:
            factor = float(mpmath.gamma(m / 2) / mpmath.sqrt(m / 2) / mpmath.gamma((m - 1) / 2))
        assert effect_size(a, b, hedges=True) == pytest.approx(factor * plain, rel=1e-10)
    assert effect_size([0.5, 0.25], [0.5, 0.25]) == 0.0
    assert math.isnan(effect_size([0.3, 0.4, 0.5], [0.2, 0.3, 0.4]))


def test_ties_are_ties_but_for_rounding() -> None:
    assert wins_ties_losses([0.1 + 0.2, 0.7, 0.0], [0.3, 0.1, 1e-9]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: paired_t_test([1.0], [1.0, 2.0]), "different shapes"),
        (lambda: paired_t_test([1.0, math.nan], [1.0, 2.0]), "finite"),
        (lambda: paired_t_test([1.0, 2.0], [1.0, 1.0], "bigger"), "two-sided"),  # type: ignore[arg-type]
        (lambda: randomization_test([1.0], [2.0], permutations=0), "permutations"),
        (lambda: randomization_test([1.0], [2.0], seed=-1), "seed"),
        (lambda: wilcoxon_test([math.inf], [1.0]), "finite"),
        (lambda: adjusted([0.5], "sidak"), "holm"),
        (lambda: effect_size([1.0], [2.0]), "two topics"),
        (lambda: mean_interval([1.0, 2.0], [2.0, 2.0], 1.0), "between 0 and 1"),
        (lambda: equivalence_test([1.0, 2.0], [2.0, 2.0], 0.0), "margin"),
        (lambda: equivalence_test([1.0, 2.0], [2.0, 2.0], math.nan), "margin"),
    ],
)
def test_what_is_refused(call: Any, part: str) -> None:
    with pytest.raises(InputError, match=part):
        call()


def test_intervals_of_means_are_students() -> None:
    values = [0.3, 0.34, 0.31, 0.36]
    mean, half = confidence_interval(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert confidence_interval([0.5]).mean == 0.5
    assert np.isnan(confidence_interval([0.5]).half)
    with pytest.raises(InputError, match="no values"):
        confidence_interval([])
    with pytest.raises(InputError, match="bad confidence"):
        confidence_interval(values, 1.0)
