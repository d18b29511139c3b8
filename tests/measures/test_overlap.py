"""Overlap of rankings: RBO from the paper's formulas, tau by its cases, published values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lmtune.errors import InputError
from lmtune.measures.overlap import (
    OverlapOptions,
    compare_overlap,
    jaccard,
    rank_biased_overlap,
    tied_ranks,
    union_tau,
)

RANKINGS = st.permutations(range(12)).flatmap(
    lambda items: st.integers(1, 12).map(lambda size: list(items[:size]))
)
SCORES = st.dictionaries(st.integers(0, 11), st.integers(0, 5), min_size=1, max_size=12)
PERSISTENCES = st.sampled_from([0.5, 0.9, 0.98])


def ranks(ranking: list[int]) -> dict[int, int]:
    return {item: rank for rank, item in enumerate(ranking, 1)}


def equation_32(first: list[int], second: list[int], p: float) -> float:
    """Compute RBO_EXT of rankings without ties, as the paper prints it."""
    short, long = sorted((first, second), key=len)
    s, l = len(short), len(long)  # noqa: E741 - the paper's names
    x = [len({*short[:d]} & {*long[:d]}) for d in range(l + 1)]
    total = sum(x[d] / d * p**d for d in range(1, l + 1))
    total += sum(x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * total + ((x[l] - x[s]) / l + x[s] / s) * p**l


def summed_to_infinity(first: Mapping[int, int], second: Mapping[int, int], p: float) -> float:
    """Sum the agreements of sets, depth by depth, until no weight is left."""
    short, long = sorted((first, second), key=len)
    s, l = len(short), len(long)  # noqa: E741
    total, agreement_s = 0.0, Fraction(0)
    agreement = Fraction(0)
    for d in range(1, 2500):
        if d <= l:
            above_short = {item for item, rank in short.items() if rank <= d}
            above_long = {item for item, rank in long.items() if rank <= d}
            seen, size = Fraction(len(above_short & above_long)), len(above_short)
            if d > s:
                seen, size = seen + (d - s) * agreement_s, d
            agreement = 2 * seen / (size + len(above_long))
            agreement_s = agreement if d <= s else agreement_s
        total += (1 - p) * p ** (d - 1) * float(agreement)
    return total


@given(RANKINGS, RANKINGS, PERSISTENCES)
def test_rbo_is_equation_32(first: list[int], second: list[int], p: float) -> None:
    found = rank_biased_overlap(ranks(first), ranks(second), p)
    assert found == pytest.approx(equation_32(first, second, p), abs=1e-12)
    assert found == rank_biased_overlap(ranks(second), ranks(first), p)
    assert -1e-12 <= found <= 1 + 1e-12
    assert rank_biased_overlap(ranks(first), ranks(first), p) == pytest.approx(1.0)


@pytest.mark.slow
@given(SCORES, SCORES, PERSISTENCES)
def test_rbo_with_ties_sums_agreements(first: dict[int, int], second: dict[int, int], p: float) -> None:
    own = tied_ranks(first), tied_ranks(second)
    assert rank_biased_overlap(*own, p) == pytest.approx(summed_to_infinity(*own, p), abs=1e-9)


def test_published_values() -> None:
    # Corsi and Urbano, SIGIR 2024, the example of their implementation: ties as Webber et al. treat them.
    x = {"red": 4, "blue": 3, "green": 3, "yellow": 2, "pink": 1}
    y = {"blue": 4, "red": 4, "white": 3, "yellow": 2, "black": 2, "purple": 2, "green": 1}
    assert rank_biased_overlap(tied_ranks(x), tied_ranks(y), 0.95) == pytest.approx(0.7068257, abs=5e-8)
    # Webber et al., 2010: the agreements of <a b c d e f g> and <z c a v w x y>.
    agreements = [0.0, 0.0, 0.667, 0.5, 0.4, 0.333, 0.286]
    found = rank_biased_overlap(ranks("abcdefg"), ranks("zcavwxy"), 0.9)  # type: ignore[arg-type]
    expected = sum(0.1 * 0.9**d * one for d, one in enumerate(agreements)) + 0.286 * 0.9**7
    assert found == pytest.approx(expected, abs=5e-4)


def test_tied_ranks_are_by_32_bits() -> None:
    assert tied_ranks({"a": 0.5, "b": 0.5 + 1e-9, "c": 0.6, "d": -1.0}) == {"a": 2, "b": 2, "c": 1, "d": 4}


def k_half(first: Mapping[int, int], second: Mapping[int, int]) -> tuple[float, int]:
    """Return Fagin et al.'s K^(1/2) by its cases, with ties, and the number of pairs."""
    total, pairs = 0.0, 0
    for i, j in itertools.combinations(first.keys() | second.keys(), 2):
        pairs += 1
        orders = []
        for own in (first, second):
            if i in own and j in own:
                orders.append(np.sign(own[i] - own[j]))
            else:  # the one that is present is ahead
                orders.append((j in own) - (i in own))
        total += 1.0 if orders[0] * orders[1] < 0 else 0.5 * (orders[0] != orders[1])
    return total, pairs


@given(SCORES, SCORES)
def test_tau_is_fagins_distance(first: dict[int, int], second: dict[int, int]) -> None:
    own = tied_ranks(first), tied_ranks(second)
    distance, pairs = k_half(*own)
    assert union_tau(*own) == pytest.approx(1.0 - 2.0 * distance / pairs if pairs else 1.0)
    assert union_tau(*own) == pytest.approx(union_tau(*own[::-1]))


@given(st.permutations(range(9)))
def test_tau_of_the_same_documents_is_scipys(order: list[int]) -> None:
    found = union_tau(ranks(list(range(9))), ranks(order))
    assert found == pytest.approx(stats.kendalltau(range(9), [order.index(i) for i in range(9)]).statistic)


def test_disjoint_and_empty() -> None:
    # Of the 28 pairs, 16 are in opposite order and 12 are tied in one ranking.
    assert union_tau(ranks([1, 2, 3, 4]), ranks([5, 6, 7, 8])) == pytest.approx(1 - 2 * (16 + 6) / 28)
    assert rank_biased_overlap(ranks([1, 2]), ranks([3])) == 0.0
    assert jaccard([1, 2], [3]) == 0.0
    for first, second in (({}, ranks([1])), (ranks([1, 2]), {})):
        assert (rank_biased_overlap(first, second), union_tau(first, second)) == (0.0, 0.0)
    assert (union_tau({1: 1}, {1: 1}), jaccard([], [])) == (1.0, 0.0)


def test_runs_topic_by_topic() -> None:
    base = {"1": {"a": 3.0, "b": 2.0}, "2": {"a": 1.0, "b": 1.0, "c": 0.5}, "3": {"a": 1.0}}
    new = {"1": {"a": 9.0, "b": 1.0}, "2": {"c": 3.0, "b": 2.0, "a": 1.0}, "4": {"x": 1.0}}
    found = compare_overlap({"base": base, "new": new, "same": base}, OverlapOptions(cutoff=1))
    assert list(found) == ["new", "same"]
    assert [row.topic for row in found["new"]] == ["3", "4", "2", "1"]
    missing, _, moved, same = found["new"]
    assert (missing.rbo, missing.jaccard, missing.tau, missing.is_identical) == (0.0, 0.0, 0.0, False)
    assert moved.rankings == (["b", "a", "c"], ["c", "b", "a"])  # ties by docno, descending
    assert moved.jaccard == 0.0
    assert moved.tau == pytest.approx(1 - 2 * 2.5 / 3)
    assert (same.rbo, same.jaccard, same.tau, same.is_identical) == (1.0, 1.0, 1.0, True)
    assert all(row.is_identical for row in found["same"])
    assert [row.topic for row in compare_overlap([base, new], only="2,1")["run 2"]] == ["2", "1"]
    for runs, part in (([base], "nothing to compare"), ([base, {"9": {"a": 1.0}}], "no topic in common")):
        with pytest.raises(InputError, match=part):
            compare_overlap(runs)
    with pytest.raises(InputError, match="bad persistence: 1"):
        compare_overlap([base, new], OverlapOptions(persistence=1.0))
