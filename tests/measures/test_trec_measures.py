"""Our measures against trec_eval itself, by its Python binding, on made rankings."""

from __future__ import annotations

from math import log2

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from support import COLLECTIONS

from lmtune.measures import trec_measures as of
from lmtune.measures.judged_ranking import JudgedRanking, judge, trec_eval_order
from lmtune.measures.trec_names import NICKNAMES, TREC_NAMES, Summary, families

DOCNOS = [f"d{number:02}".encode() for number in range(24)]
# Scores whose order depends on 32 bits and on docnos.
SCORES = st.sampled_from([3.0, 2.0, 2.0 + 1e-9, 1.0, 1.0 - 1e-12, 0.0, -0.0, -1.5, 1e-46, 1e39])


@st.composite
def topics(draw: st.DrawFn) -> tuple[dict[bytes, int], list[bytes], list[float], int]:
    gains = draw(st.sampled_from([[0, 1], [0, 0, 0, 1], [0, 1, 2, 3], [1], [0], [0, 1, 12]]))
    judged = draw(st.lists(st.sampled_from(DOCNOS), unique=True, min_size=1))
    docnos = draw(st.lists(st.sampled_from(DOCNOS), unique=True, min_size=1))
    return (
        {docno: draw(st.sampled_from(gains)) for docno in judged},
        docnos,
        [draw(SCORES) for _ in docnos],
        draw(st.sampled_from([1, 1, 2])),
    )


@settings(max_examples=COLLECTIONS, deadline=None)
@given(topics())
def test_every_measure_is_trec_evals(topic: tuple[dict[bytes, int], list[bytes], list[float], int]) -> None:
    judgments, docnos, scores, level = topic
    evaluator = pytrec_eval.RelevanceEvaluator(
        {"q": {docno.decode(): gain for docno, gain in judgments.items()}},
        pytrec_eval.supported_measures,
        relevance_level=level,
    )
    run = {docno.decode(): score for docno, score in zip(docnos, scores, strict=True)}
    expected = evaluator.evaluate({"q": run})["q"]
    ranking = judge(trec_eval_order(docnos, scores), judgments, level=level)
    seen = 0
    for family in families((name, "") for name in NICKNAMES["all_trec"]):
        assert family.values is not None
        if family.summary in (Summary.RUN, Summary.NONE, Summary.GEOMETRIC):
            continue
        for label, value in zip(family.labels, family.values(ranking), strict=True):
            assert value == pytest.approx(expected[label], rel=1e-14, abs=1e-15), label
            seen += 1
    assert seen == 90


def ranking(gains: str, *, missed: dict[int, int] | None = None, level: int = 1) -> JudgedRanking:
    """Make a ranking from one character a document: its gain, - outside the pool, . unjudged."""
    judgments = {b"%d" % place: -1 if c == "." else int(c) for place, c in enumerate(gains) if c != "-"}
    for missing, count in (missed or {}).items():
        judgments |= {b"missed %d %d" % (missing, i): missing for i in range(count)}
    return judge([b"%d" % place for place in range(len(gains))], judgments, level=level)


def test_bpref_by_hand() -> None:
    # R = 3, N = 2: one judged nonrelevant above the second relevant document, one is missed.
    assert of.binary_preference(ranking("1-01", missed={1: 1, 0: 1})) == (1 + 0.5) / 3


def test_bpref_without_nonrelevant_judgments_is_recall() -> None:
    assert of.binary_preference(ranking("-1-1", missed={1: 2})) == 0.5


def test_a_partly_judged_pool() -> None:
    # Rank 3: 1/3 + 2/3 * (1 of 2 above is in the pool) * (no relevant of no judged: half).
    assert of.inferred_average_precision(ranking("-.1")) == pytest.approx(1 / 3 + 2 / 3 / 2 / 2)
    assert of.relevance_string(ranking("-.10"), 10) == "'-.10'"


def test_exponential_gains() -> None:
    found = ranking("02", missed={3: 1})
    assert of.ndcg(found, exponential=True) == [(3 / log2(3)) / (7 + 3 / log2(3))]
    assert of.ndcg(found) == [(2 / log2(3)) / (3 + 2 / log2(3))]


def test_recall_points_round_as_up_to_9_0_8() -> None:
    # 0.1 * 474 = 47.4 relevant documents: 48 are asked for (10.0 asks for 47).
    assert of.recall_cutoff(0.1, 474) == 48
    assert of.recall_cutoff(0.35, 3) == 1


def test_nothing_relevant() -> None:
    found = ranking("0-0")
    for family in families((name, "") for name in TREC_NAMES):
        if family.summary is Summary.MEAN and family.labels[0] not in ("utility", "rbp_resid", "unj_5"):
            assert family.values is not None
            assert set(family.values(found)) == {0.0}, family.labels
    assert of.utility(found, [1, -1, 0, 0]) == -3


def test_gains_of_levels() -> None:
    found = ranking("102", missed={2: 1})
    named = of.ndcg(found, gain_of={1: 2.0, 2: 4.0})
    assert named == pytest.approx(of.ndcg(found))
    assert of.ndcg(found, gain_of={1: 5.0}) != named
    # Ranked 1, 0, 2 with gains 2, 0, 4; another of 4 is missed. The best ranking has 4, 8, 10 so
    # far; what the ranking lags behind by at its gains is 4 - 2 and 10 - 6.
    expected = (2 / log2(2 + 2) + 4 / log2(2 + 4)) / 10
    assert of.normalized_gain(found, {1: 2.0, 2: 4.0}) == pytest.approx(expected)
