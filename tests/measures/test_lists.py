"""The learning-to-rank papers' measures against brute force, pytrec_eval and ir_measures."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtune.errors import InputError
from lmtune.measures.lists import Measurer, mean_over_lists, ndcg
from lmtune.measures.measure import ACCEPTED_OF_LISTS, Measure, parse_list_measure
from lmtune.rerank.data import RankingData

NAMES = ["ndcg", "ndcg@1", "ndcg@3", "pairwise-error", "mrr", "mrr@2", "wta", "ap"]
ITEMS = st.tuples(st.integers(0, 3), st.integers(-2, 2))
LISTS = st.lists(st.lists(ITEMS, min_size=1, max_size=6), min_size=1, max_size=4)


def data_of(lists: list[list[tuple[int, int]]]) -> tuple[RankingData, np.ndarray[Any, Any]]:
    pairs = [pair for one in lists for pair in one]
    data = RankingData.from_lengths(
        np.zeros((len(pairs), 1)),
        [label for label, _ in pairs],
        [len(one) for one in lists],
        docnos=[f"d{n}" for one in lists for n in range(len(one))],
    )
    return data, np.array([float(score) for _, score in pairs])


def brute(name: str, labels: list[int], threshold: int) -> float:
    """Measure one ranking, best document first, from the definition."""
    kind, _, end = name.partition("@")
    cutoff = int(end) if end else len(labels)
    if kind == "ndcg":
        best, found = (
            sum((2.0**y - 1) / math.log2(rank + 1) for rank, y in enumerate(order[:cutoff], 1))
            for order in (sorted(labels, reverse=True), labels)
        )
        return found / best if best else math.nan
    if kind == "pairwise-error":
        pairs = [(a, b) for a, b in itertools.combinations(labels, 2) if a != b]
        return sum(a < b for a, b in pairs) / len(pairs) if pairs else math.nan
    relevant = [y >= threshold for y in labels]
    if not any(relevant):
        return math.nan
    if kind == "mrr":
        rank = relevant.index(True) + 1
        return 1 / rank if rank <= cutoff else 0.0
    if kind == "wta":
        return 0.0 if relevant[0] else 1.0
    ranks = [rank for rank, hit in enumerate(relevant, 1) if hit]
    return sum(n / rank for n, rank in enumerate(ranks, 1)) / len(ranks)


@settings(max_examples=80, deadline=None)
@given(lists=LISTS, name=st.sampled_from(NAMES), threshold=st.integers(1, 2))
def test_values_are_the_mean_over_all_orders_of_equal_scores(
    lists: list[list[tuple[int, int]]], name: str, threshold: int
) -> None:
    data, scores = data_of(lists)
    found = Measurer(name, data, threshold=threshold).values(scores)
    for value, one in zip(found, lists, strict=True):
        orders = [
            brute(name, [label for label, _ in order], threshold)
            for order in itertools.permutations(one)
            if all(a[1] >= b[1] for a, b in itertools.pairwise(order))
        ]
        assert value == pytest.approx(np.mean(orders), rel=1e-12, abs=1e-15, nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(lists=LISTS, name=st.sampled_from(NAMES), ties=st.sampled_from(["rows", "docnos"]))
def test_ties_by_row_or_docno_are_one_order(lists: list[list[tuple[int, int]]], name: str, ties: Any) -> None:
    data, scores = data_of(lists)
    found = Measurer(name, data).values(scores, ties=ties)
    for value, one in zip(found, lists, strict=True):
        signed = enumerate(one) if ties == "rows" else reversed(list(enumerate(one)))
        ranked = [label for _, (label, _) in sorted(signed, key=lambda item: -item[1][1])]
        assert value == pytest.approx(brute(name, ranked, 1), rel=1e-12, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize("cutoff", [1, 10, 64, 65, None])
def test_ndcg_is_that_of_the_function(cutoff: int | None) -> None:
    random = np.random.default_rng(7)
    lengths = random.integers(1, 150, 60)
    rows = int(lengths.sum())
    labels = random.integers(0, 5, rows)
    labels[: lengths[0]] = 0
    data = RankingData.from_lengths(np.zeros((rows, 1)), labels, lengths)
    vectors = np.stack([random.normal(size=rows), random.integers(0, 9, rows), np.zeros(rows), labels])
    vectors[0, :5] = -np.inf
    name = "ndcg" if cutoff is None else f"ndcg@{cutoff}"
    measurer = Measurer(name, data)
    values = measurer.values(vectors)
    assert values.shape == (4, 60)
    for row, scores in zip(values, vectors, strict=True):
        # The same terms, added in another order.
        assert row == pytest.approx(ndcg(scores, data, [cutoff])[:, 0], rel=1e-13, abs=1e-15, nan_ok=True)
        assert measurer.mean(scores) == pytest.approx(
            mean_over_lists(ndcg(scores, data, [cutoff]))[0], rel=1e-13
        )
    assert (values[3][measurer.counted] == 1.0).all()  # to the last bit
    assert not measurer.counted[0]
    assert np.isnan(values[:, 0]).all()
    # One vector or many, and the rows beside it, change no bit.
    assert measurer.means(vectors).tolist() == [measurer.mean(row) for row in vectors]
    alone = Measurer(name, data.take([5])).values(vectors[:, data.rows(5)])
    assert alone[:, 0].tobytes() == values[:, 5].tobytes()


def test_reciprocal_rank_and_ap_equal_trec_eval_and_ir_measures() -> None:
    import ir_measures
    import pytrec_eval

    random = np.random.default_rng(3)
    lists = [
        [
            (int(random.integers(0, 4) * (random.random() < 0.4)), int(random.integers(0, 8)))
            for _ in range(int(length))
        ]
        for length in random.integers(1, 30, 60)
    ]
    data, scores = data_of(lists)
    assert data.docnos is not None
    qrels: dict[str, dict[str, int]] = {query: {} for query in data.queries}
    run: dict[str, dict[str, float]] = {query: {} for query in data.queries}
    named = zip(data.query_of_row.tolist(), data.docnos, strict=True)
    for (q, docno), label, score in zip(named, data.labels, scores, strict=True):
        qrels[str(q)][docno] = int(label)
        run[str(q)][docno] = float(score)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "map"}).evaluate(run)
    for name, their_name in (("mrr", "recip_rank"), ("ap", "map")):
        ours = Measurer(name, data).values(scores, ties="docnos")
        assert np.isnan(ours).any()
        for query, value in zip(data.queries, np.nan_to_num(ours), strict=True):
            assert value == pytest.approx(theirs[query][their_name], rel=1e-12)
    untied = scores + np.linspace(0.0, 0.5, scores.size)
    for row, q in enumerate(data.query_of_row.tolist()):
        run[str(q)][data.docnos[row]] = float(untied[row])
    pairs = {"RR(rel=2)@3": ("mrr@3", 2), "AP(rel=2)": ("ap", 2), "RR": ("mrr", 1)}
    for their_name, (name, threshold) in pairs.items():
        ours = np.nan_to_num(Measurer(name, data, threshold=threshold).values(untied))
        measure = ir_measures.parse_measure(their_name)
        found = list(ir_measures.iter_calc([measure], qrels, run))
        assert len(found) == len(lists)
        for one in found:
            assert ours[int(one.query_id)] == pytest.approx(one.value, rel=1e-12)


def test_pairwise_error_is_one_minus_the_area_under_the_roc_curve() -> None:
    from scipy.stats import mannwhitneyu

    random = np.random.default_rng(11)
    labels, scores = random.integers(0, 2, 400), random.integers(0, 30, 400)
    data = RankingData.from_lengths(np.zeros((400, 1)), labels, [40] * 10)
    found = Measurer("pairwise-error", data).values(scores)
    for q, value in enumerate(found):
        here = data.rows(q)
        hits, misses = (scores[here][labels[here] == y] for y in (1, 0))
        area = mannwhitneyu(hits, misses).statistic / (hits.size * misses.size)
        assert value == pytest.approx(1 - area, rel=1e-13)


def test_pairwise_error_agrees_with_sklearn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(12)
    labels, scores = random.integers(0, 2, 300), random.integers(0, 40, 300)
    data = RankingData.from_lengths(np.zeros((300, 1)), labels, [300])
    found = Measurer("pairwise-error", data).values(scores)[0]
    assert found == pytest.approx(1 - metrics.roc_auc_score(labels, scores), rel=1e-13)


def test_pairwise_error_of_a_long_list() -> None:
    random = np.random.default_rng(13)
    labels, scores = random.integers(0, 40, 600), random.integers(0, 50, 600)
    data = RankingData.from_lengths(np.zeros((600, 1)), labels, [600])
    above, below = labels[:, None] > labels, scores[:, None] < scores
    equal = scores[:, None] == scores
    expected = Fraction(int(2 * (above & below).sum() + (above & equal).sum()), 2 * int(above.sum()))
    assert Measurer("pairwise-error", data).values(scores)[0] == float(expected)


def test_the_example_of_burges() -> None:
    # Relevant documents at 1 and 1000; then at 2 and 3.
    scores = -np.arange(1000.0)
    values = {}
    for ranks in ((1, 1000), (2, 3)):
        labels = np.zeros(1000)
        labels[np.array(ranks) - 1] = 1
        data = RankingData.from_lengths(np.zeros((1000, 1)), labels, [1000])
        values[ranks] = [Measurer(name, data).values(scores)[0] for name in ("pairwise-error", "wta")]
    pairs = 2 * 998
    assert values[1, 1000] == [998 / pairs, 0.0]
    assert values[2, 3] == [2 / pairs, 1.0]
    assert 998 - 2 == 996  # what the paper says


def test_means_leave_out_what_cannot_count() -> None:
    data = RankingData.from_lengths(np.zeros((6, 1)), [0, 0, 1, 1, 0, 2], [2, 2, 2])
    scores = [2, 1, 2, 1, 2, 1]
    expected = {"ndcg@1": (1 + 0) / 2, "pairwise-error": 1.0, "mrr": 0.75, "wta": 0.5, "ap": 0.75}
    for name, value in expected.items():
        assert mean_over_lists(Measurer(name, data).values(scores)) == value
    assert math.isnan(mean_over_lists(Measurer("wta", data, threshold=3).values(scores)))


EXPONENTIAL = "nDCG(dcg='exp-log2')"


@pytest.mark.parametrize(
    ("name", "canonical", "better", "title"),
    [
        ("ndcg", EXPONENTIAL, True, "nDCG (gains 2^g - 1)"),
        (" nDCG@10 ", f"{EXPONENTIAL}@10", True, "nDCG@10 (gains 2^g - 1)"),
        ("nDCG(dcg='log2')@10", "nDCG@10", True, "nDCG@10"),
        ("MRR@5", "RR@5", True, "MRR@5"),
        ("pairwise-error", "pairwise-error", False, "pairwise error"),
        ("wta", "WTA", False, "WTA cost"),
        ("ap", "AP", True, "MAP"),
        ("AP(rel=2)", "AP(rel=2)", True, "MAP(rel=2)"),
    ],
)
def test_names(name: str, canonical: str, better: bool, title: str) -> None:
    found = parse_list_measure(name)
    assert (str(found), found.higher_is_better, found.title) == (canonical, better, title)
    if found.dcg != "log2" or found.kind != "nDCG":
        assert parse_list_measure(str(found)) == found


@given(name=st.text(max_size=12))
def test_other_names_are_refused(name: str) -> None:
    try:
        found = parse_list_measure(name)
    except InputError as error:
        assert ACCEPTED_OF_LISTS in str(error)
        assert "\n" not in str(error)
    else:
        assert name.strip().lower().startswith(("ndcg", "rr", "mrr", "ap", "map", "wta", "pairwise-error"))
        assert isinstance(found, Measure)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ndcg@0", "has a cutoff of 1 or more: 'ndcg@0'; accepted: ndcg"),
        ("wta@3", "has no cutoff"),
        ("ndcg@٣", "unknown measure"),
        ("P@10", "unknown measure"),
        ("nDCG(dcg=other)", "unknown measure"),
    ],
)
def test_bad_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_list_measure(name)


def test_the_name_tells_gains_and_the_least_relevant_label() -> None:
    data = RankingData.from_lengths(np.zeros((3, 1)), [1, 3, 2], [3])
    scores = [3, 2, 1]
    for name, dcg in (("ndcg@2", "exp-log2"), ("nDCG(dcg='log2')@2", "log2")):
        assert Measurer(name, data).values(scores) == pytest.approx(ndcg(scores, data, [2], dcg=dcg)[:, 0])
    assert Measurer("RR(rel=2)", data).values(scores).tolist() == [1 / 2]
    assert Measurer("RR(rel=2)", data, threshold=1).values(scores).tolist() == [1.0]


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ([1, 2], {}, "wrong shape of scores"),
        ([[[1, 2, 3]]], {}, "wrong shape of scores"),
        ([1, math.nan, 2], {}, "score of row 1"),
        ([1, math.nan, 2], {"ties": "rows"}, "score of row 1"),
        ([1, 2, 3], {"ties": "random"}, "unknown ties"),
        ([1, 2, 3], {"ties": "docnos"}, "need docnos"),
    ],
)
def test_bad_arguments_are_named(scores: Any, options: dict[str, Any], message: str) -> None:
    data = RankingData.from_lengths(np.zeros((3, 1)), [0, 1, 1], [3])
    with pytest.raises(InputError, match=message):
        Measurer("ndcg", data).values(scores, **options)
    with pytest.raises(InputError, match="bad threshold: 0"):
        Measurer("ndcg", data, threshold=0.0)


def test_infinite_scores_are_no_nan() -> None:
    data = RankingData.from_lengths(np.zeros((3, 1)), [0, 1, 1], [3])
    assert Measurer("wta", data).values([math.inf, -math.inf, 0]).tolist() == [1.0]


def exact_ndcg(labels: list[int]) -> float:
    """Compute nDCG with gains of 2^y - 1 as whole numbers, rank by rank."""
    discounts = [Fraction(1 / math.log2(rank + 1)) for rank in range(1, len(labels) + 1)]
    found, best = (
        sum((2**y - 1) * discount for y, discount in zip(order, discounts, strict=True))
        for order in (labels, sorted(labels, reverse=True))
    )
    return float(found / best)


def test_ndcg_of_labels_beyond_a_double() -> None:
    lists = [[3, 1330, 5, 1329, 0], [0, 1, 2], [100_000, 99_999, 0, 99_998]]
    data, _ = data_of([[(label, 0) for label in one] for one in lists])
    scores = -np.arange(len(data.labels), dtype=float)
    expected = [exact_ndcg(one) for one in lists[:2]]
    # 2^99998 is slow as a whole number; only the differences of labels matter so far up.
    expected.append(exact_ndcg([102, 101, 0, 100]))
    assert ndcg(scores, data, [None])[:, 0] == pytest.approx(expected, rel=1e-12)
    assert Measurer("ndcg", data).values(scores) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("measure", [Measure("P", 10), Measure("Bpref"), Measure("RBP")])
def test_a_measure_of_rankings_alone_is_refused(measure: Measure) -> None:
    with pytest.raises(InputError, match="not a measure of labelled lists"):
        Measurer(measure, data_of([[(1, 0), (0, 0)]])[0])
