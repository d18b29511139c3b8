"""NDCG against brute force, pytrec_eval and ir_measures."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import COLLECTIONS

from lmtune.errors import InputError
from lmtune.measures.lists import Empty, mean_over_lists, ndcg
from lmtune.rerank.data import RankingData

LISTS = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), min_size=1, max_size=6), min_size=1, max_size=5
)


def data_of(lists: list[list[tuple[int, int]]]) -> tuple[RankingData, np.ndarray[Any, Any]]:
    pairs = [pair for one in lists for pair in one]
    labels = [label for label, _ in pairs]
    docnos = [f"d{n}" for one in lists for n in range(len(one))]
    data = RankingData.from_lengths(
        np.zeros((len(pairs), 1)), labels, [len(one) for one in lists], docnos=docnos
    )
    return data, np.array([float(score) for _, score in pairs])


def dcg(labels: list[int], cutoff: int, dcg_of: str) -> float:
    gain = [2.0**y - 1 if dcg_of == "exp-log2" else y for y in labels]
    return sum(g / math.log2(rank + 1) for rank, g in enumerate(gain[:cutoff], 1))


@settings(max_examples=COLLECTIONS, deadline=None)
@given(
    lists=LISTS,
    cutoff=st.integers(1, 7),
    gains=st.sampled_from(["exp-log2", "log2"]),
    empty=st.sampled_from(["skip", "zero", "one"]),
)
def test_mean_over_ties_is_the_mean_over_all_orders(
    lists: list[list[tuple[int, int]]], cutoff: int, gains: str, empty: Empty
) -> None:
    data, scores = data_of(lists)
    found = ndcg(scores, data, [cutoff], empty, dcg=gains)[:, 0]
    for value, one in zip(found, lists, strict=True):
        best = dcg(sorted((label for label, _ in one), reverse=True), cutoff, gains)
        if best == 0:
            expected = {"skip": math.nan, "zero": 0.0, "one": 1.0}[empty]
            assert value == expected or (math.isnan(value) and math.isnan(expected))
            continue
        orders = [
            dcg([label for label, _ in order], cutoff, gains)
            for order in itertools.permutations(one)
            if all(a[1] >= b[1] for a, b in itertools.pairwise(order))
        ]
        assert value == pytest.approx(np.mean(orders) / best, rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(lists=LISTS)
def test_linear_gains_equal_trec_eval(lists: list[list[tuple[int, int]]]) -> None:
    import pytrec_eval

    data, scores = data_of(lists)
    names = data.docnos
    assert names is not None
    qrels, run = {}, {}
    for q, query in enumerate(data.queries):
        rows = range(*data.rows(q).indices(len(scores)))
        qrels[query] = {names[r]: int(data.labels[r]) for r in rows}
        run[query] = {names[r]: float(scores[r]) for r in rows}
    cutoffs = [1, 3, 5, 10]
    measures = {f"ndcg_cut.{','.join(map(str, cutoffs))}", "ndcg"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    ours = ndcg(scores, data, [*cutoffs, None], "zero", dcg="log2", ties="docnos")
    for query, row in zip(data.queries, ours, strict=True):
        expected = [theirs[query][f"ndcg_cut_{k}"] for k in cutoffs] + [theirs[query]["ndcg"]]
        assert row.tolist() == pytest.approx(expected, rel=1e-12)


def test_exponential_gains_equal_ir_measures() -> None:
    import ir_measures

    random = np.random.default_rng(4)
    lists = [
        [(int(random.integers(0, 5)), place) for place in random.permutation(20).tolist()] for _ in range(30)
    ]
    data, scores = data_of(lists)
    assert data.docnos is not None
    named = list(zip(data.query_of_row.tolist(), data.docnos, strict=True))
    qrels: dict[str, dict[str, int]] = {query: {} for query in data.queries}
    run: dict[str, dict[str, float]] = {query: {} for query in data.queries}
    for (q, docno), label, score in zip(named, data.labels, scores, strict=True):
        qrels[str(q)][docno] = int(label)
        run[str(q)][docno] = float(score)
    measure = ir_measures.parse_measure("nDCG(dcg='exp-log2')@10")
    ours = ndcg(scores, data, [10])[:, 0]
    for value in ir_measures.iter_calc([measure], qrels, run):
        assert ours[int(value.query_id)] == pytest.approx(value.value, abs=5.001e-6)  # 5 digits


def test_ties_by_row_and_the_best_order() -> None:
    data = RankingData.from_lengths(np.zeros((3, 1)), [0, 1, 1], [3], docnos=["a", "c", "b"])
    same = np.zeros(3)
    assert ndcg(same, data, [1], ties="rows")[0, 0] == 0
    assert ndcg(same, data, [1], ties="docnos")[0, 0] == 1
    assert ndcg(same, data, [1], ties="mean")[0, 0] == pytest.approx(2 / 3)
    random = np.random.default_rng(0)
    labels = random.integers(0, 5, 500)
    data = RankingData.from_lengths(np.zeros((500, 1)), labels, [50] * 10)
    assert (ndcg(labels, data) == 1.0).all()  # to the last bit
    assert (ndcg(labels + random.random(500) / 2, data) == 1.0).all()


def test_means_leave_out_what_does_not_count() -> None:
    data = RankingData.from_lengths(np.zeros((4, 1)), [1, 0, 0, 0], [2, 2])
    scores = [1, 2, 1, 2]
    assert mean_over_lists(ndcg(scores, data, [1, 2])).tolist() == [0.0, 1 / math.log2(3)]
    assert mean_over_lists(ndcg(scores, data, [2], empty="zero"))[0] == 0.5 / math.log2(3)
    nothing = data.select(["1"])
    assert np.isnan(mean_over_lists(ndcg([1, 2], nothing, [1]))).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": [1, 2]}, "wrong shape of scores"),
        ({"scores": [1, math.nan, 2]}, "score of row 1"),
        ({"cutoffs": [0]}, "bad cutoff: 0"),
        ({"dcg": "log"}, "unknown dcg: 'log'; accepted: log2, exp-log2"),
        ({"empty": "two"}, "unknown empty"),
        ({"ties": "random"}, "unknown ties"),
        ({"ties": "docnos"}, "need docnos"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    data = RankingData.from_lengths(np.zeros((3, 1)), [0, 1, 1], [3])
    with pytest.raises(InputError, match=message):
        ndcg(**{"scores": [1, 2, 3], "lists": data, **arguments})
