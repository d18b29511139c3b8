"""BM25 against the formula in 50 digits, a plain ranking of the text, and pruned candidates."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from pytrec_eval import RelevanceEvaluator
from support import COLLECTIONS, TinyIndex, random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError
from lmtune.index.quantised import quantised_lengths
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.kernels import TopicDocuments
from lmtune.models.model import MODELS
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

mp.dps = 50
BM25 = MODELS["bm25"].formula
Document = tuple[list[tuple[int, float, int]], int, float]


def printed(document: Document, k1: Any, b: Any) -> Any:
    """Evaluate the formula as the issue prints it."""
    terms, length, mean = document
    total = mpf(0)
    for tf, idf, count in terms:
        if tf:
            total += count * mpf(idf) * tf / (tf + mpf(k1) * (1 - mpf(b) + mpf(b) * length / mpf(mean)))
    return total


@st.composite
def documents(draw: st.DrawFn) -> Document:
    terms = st.tuples(st.integers(0, 60), st.floats(1e-7, 16.0), st.integers(1, 4))
    drawn = draw(st.lists(terms, min_size=1, max_size=6))
    length = max(1, sum(tf for tf, _, _ in drawn)) + draw(st.integers(0, 3000))
    return drawn, length, draw(st.floats(0.5, 2000.0))


def ours(document: Document, k1: float, b: float) -> tuple[float, NDArray[np.float64]]:
    terms, length, mean = document
    tf, idf, count = zip(*terms, strict=True)
    group = np.zeros(len(tf), np.int8)
    topic = TopicDocuments(
        np.array(tf)[:, None], np.array([length]), np.array(idf, float), np.array(count), group, mean
    )
    scores, gradients = BM25.differentiate(topic, np.array([k1, b]))
    return float(scores[0]), gradients[:, 0]


@settings(max_examples=COLLECTIONS, deadline=None)
@given(documents(), st.floats(1e-6, 1e3), st.floats(0.0, 1.0))
def test_scores_and_gradients_agree_with_the_formula(document: Document, k1: float, b: float) -> None:
    score, gradient = ours(document, k1, b)
    exact = printed(document, k1, b)
    assert abs(score - exact) <= 1e-12 * exact
    h = mpf(10) ** -20
    in_k1 = (printed(document, k1 * (1 + h), b) - printed(document, k1 * (1 - h), b)) / (2 * k1 * h)
    in_b = (printed(document, k1, mpf(b) + h) - printed(document, k1, mpf(b) - h)) / (2 * h)
    assert abs(gradient[0] - in_k1) <= 1e-11 * abs(in_k1)
    # |D| - L is good to the rounding of L.
    assert abs(gradient[1] - in_b) <= 1e-11 * abs(in_b)


def test_a_lacking_term_or_an_empty_document_scores_nothing() -> None:
    for k1, b in [(0.9, 0.4), (0.0, 0.4), (1.2, 1.0), (1.2, 0.0)]:
        score, gradient = ours(([(0, 2.0, 1), (0, 3.0, 2)], 0, 12.0), k1, b)
        assert (score, gradient.tolist()) == (0.0, [0.0, 0.0])
        assert ours(([(0, 2.0, 1), (3, 3.0, 1)], 3, 12.0), 0.0, b)[0] == 3.0


def plain_scores(index: TinyIndex, query: str, k1: float, b: float) -> dict[str, float]:
    """Score documents that hold a term, from the text."""
    texts = {docno: Counter(text.split()) for docno, text in index.documents.items() if text.split()}
    mean = sum(text.total() for text in texts.values()) / len(texts)
    scores: dict[str, float] = {}
    for term in query.split():
        df = sum(term in text for text in texts.values())
        idf = math.log(1.0 + (len(texts) - df + 0.5) / (df + 0.5))
        for docno, text in texts.items():
            if text[term]:
                room = k1 * (1.0 - b + b * text.total() / mean)
                scores[docno] = scores.get(docno, 0.0) + idf * text[term] / (text[term] + room)
    return scores


def test_rankings_are_those_of_the_text() -> None:
    _, topics, _ = random_collection(4, documents=150)
    texts = random_collection(4, documents=150)[0].documents
    index = TinyIndex({**texts, "empty": "", "emptier": ""})
    pool = CandidatePool.build(index, topics, model="bm25")
    for k1, b in [(0.9, 0.4), (0.01, 1.0), (5.0, 0.0), (1.2, 0.75)]:
        for ranking in rank(pool, {"k1": k1, "b": b}):
            expected = plain_scores(index, topics[ranking.topic], k1, b)
            own = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert own == pytest.approx(expected, rel=1e-12)
            assert (np.diff(ranking.scores) <= 1e-14).all()


def test_values_are_trec_evals() -> None:
    index, topics, qrels = random_collection(6, documents=120, topics=15)
    pool = CandidatePool.build(index, topics, qrels, model="bm25")
    names = {"AP": "map", "P@5": "P_5", "Bpref": "bpref", "nDCG": "ndcg"}
    space, rng = ParameterSpace.of("bm25"), np.random.default_rng(0)
    settings = np.array([space.random(rng) for _ in range(8)])
    values = measure_settings(pool, settings, parse_measures(names))
    evaluator = RelevanceEvaluator(qrels, set(names.values()))
    for s, setting in enumerate(settings):
        run = {
            ranking.topic: {docno: -float(place) for place, docno in enumerate(ranking.docnos)}
            for ranking in rank(pool, space.named(setting))
        }
        found = evaluator.evaluate(run)
        for t, topic in enumerate(pool.topics):
            expected = [found.get(topic, {}).get(name, 0.0) for name in names.values()]
            np.testing.assert_allclose(values[t, s], expected, atol=1e-12)


@pytest.mark.parametrize("model", ["bm25", "lucene-bm25"])
@pytest.mark.parametrize("depth", [1, 5, 30])
def test_pruning_changes_no_ranking_at_any_setting(model: str, depth: int) -> None:
    index, topics, _ = random_collection(11, documents=600, topics=12)
    index.lengths = index.lengths * 29  # long enough to be rounded
    index.total_terms *= 29
    pool = CandidatePool.build(index, topics, model=model)
    pruned = skyband(pool, depth=depth)
    assert pruned.candidates.doc.size < pool.candidates.doc.size
    space, rng = ParameterSpace.of(model), np.random.default_rng(depth)
    corners = [(0.0, 0.5), (1e-9, 0.3), (1e9, 1.0), (5.0, 0.0), (0.01, 1.0), (1e-16, 1.0)]
    for setting in [*map(np.array, corners), *(space.random(rng) for _ in range(60))]:
        for t in range(len(pool.topics)):
            whole, left = (
                some.candidates.doc[some.candidates.rows(t)][some.top(t, setting, depth)]
                for some in (pool, pruned)
            )
            np.testing.assert_array_equal(whole, left)


def test_computed_scores_never_fall_as_a_frequency_rises_or_the_length_falls() -> None:
    # Single steps, at rooms where most bits are lost.
    base = TinyIndex({"a": "x y", "b": "x"})
    pool = CandidatePool.build(base, {"1": "x y"}, model="bm25")
    documents = pool.documents(pool.candidates)
    count = 4000
    tf = np.arange(1, count + 1, dtype=np.int32)
    rng = np.random.default_rng(0)
    for k1 in 10.0 ** rng.uniform(-17, 3, 60):
        for tfs, lengths in ((tf, np.full(count, 5000)), (np.full(count, 7), np.arange(9000, 5000, -1))):
            made = documents._replace(
                docs=np.array([[0, count]]),
                tfs=np.array([[0, 2 * count]]),
                length=lengths.astype(np.int32),
                tf=np.concatenate((tfs, tfs[::-1] * 0 + 3)).astype(np.int32),
            )
            out = np.empty(count)
            BM25.rank_scores(made, np.array([[k1, rng.uniform()]]), out)
            assert (np.diff(out) >= 0.0).all()


def test_a_pool_takes_lucenes_lengths_and_the_exact_mean() -> None:
    index, topics, qrels = random_collection(3, documents=200)
    index.lengths = index.lengths * 29
    index.total_terms *= 29
    plain, rounded = (CandidatePool.build(index, topics, qrels, model=m) for m in ("bm25", "lucene-bm25"))
    np.testing.assert_array_equal(plain.value, rounded.value)
    assert plain.mean_length == rounded.mean_length == index.lengths.mean()
    kept = quantised_lengths(index.lengths)
    np.testing.assert_array_equal(rounded.candidates.length, kept[rounded.candidates.doc])


def test_every_tuner_tunes_it() -> None:
    pool = CandidatePool.build(*random_collection(5, documents=120, topics=20), model="bm25")
    space = ParameterSpace.of("bm25")
    begin = measure_settings(pool, space.start, parse_measures(["AP"]))[:, 0, 0].mean()
    grid = lmtune.GridSearch("AP", shape=(6, 7)).fit(pool)
    assert grid.n_evaluations_ == 42
    tuners: list[Any] = [
        lmtune.CoordinateAscent("AP", starts=[grid.best_params_], restarts=1),
        lmtune.SPSA("AP", evaluations=60),
        lmtune.FDSA("AP", evaluations=60),
        lmtune.SurrogateTuner("approx-ap"),
    ]
    for tuner in tuners:
        found = tuner.fit(pool).best_params_
        value = measure_settings(pool, found, parse_measures(["AP"]))[:, 0, 0].mean()
        assert value >= begin - 0.02
    ranknet = lmtune.RankNetTuner().fit(pool)
    pairs = Pairs.build(pool)
    least = min(pairs.cost(setting).value for setting in space.grid((12, 12)))
    assert pairs.cost(space.vector(ranknet.best_params_)).value <= least * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("k1", "b"), [(-1.0, 0.5), (math.nan, 0.5), (1.0, 1.5), (1.0, -0.1), (1.0, math.inf)]
)
def test_parameters_outside_their_domain_are_refused(k1: float, b: float) -> None:
    with pytest.raises(InputError, match=r"(k1|b) is outside its domain"):
        MODELS["bm25"].check({"k1": k1, "b": b})
