"""Feedback documents drawn again at a fitted setting: by brute force, until they stay, and said."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from support import random_collection

from lmtune.candidates.extraction import extract_best, extract_pruned
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.storage import stored_pool
from lmtune.collections.folds import Fold
from lmtune.index.windows import document_vectors
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.feedback import EXPANSIONS, Corpus, FeedbackDocument, feedback_weights, term_statistics
from lmtune.tuning.experiment import methods
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import CollectionResult
from lmtune.tuning.experiment.run import run_experiment

AP = parse_measure("AP")
MODEL = "bm25+rm3:3,8"
SETTING = {"k1": 4.0, "b": 0.95, "original": 0.5, "sharpness": 1.0}


def collection() -> tuple[CandidatePool, list[Fold]]:
    index, queries, qrels = random_collection(7, documents=150, topics=14, vocabulary=90)
    pool = CandidatePool.build(index, queries, qrels, model=MODEL)
    return pool, [Fold(tuple(queries)[:9], tuple(queries)[9:])]


def test_feedback_is_of_the_best_documents_at_the_setting() -> None:
    pool, _ = collection()
    drawn = pool.drawn_at(SETTING)
    assert pool.drawn_at({"k1": 0.9, "b": 0.4, "original": 0.2}) is pool
    assert drawn.terms != pool.terms
    assert pool.has_other_feedback(drawn, pool.positions())
    assert not pool.has_other_feedback(
        pool.drawn_at({**SETTING, "k1": 0.9, "b": 0.4 + 1e-9}), pool.positions()
    )
    index, base = pool.index, {"k1": 4.0, "b": 0.95}
    queries = {t: " ".join(own) for t, own in zip(pool.topics, pool.terms, strict=True)}
    known = CandidatePool.build(index, dict.fromkeys(queries, "w1"), model="bm25")
    assert known.drawn_at(base) is known
    for t, topic in enumerate(drawn.topics):
        words = {
            term: times
            for term, times in zip(drawn.terms[t], drawn.count[0, drawn.term_rows(t)], strict=True)
            if times
        }
        if not words:
            continue
        text = " ".join(term for term, times in words.items() for _ in range(int(times)))
        [best] = rank(CandidatePool.build(index, {topic: text}, model="bm25"), base, hits=3)
        vectors = document_vectors(index, index.doc_numbers(best.docnos))
        found = [FeedbackDocument(v, s) for v, s in zip(vectors, best.scores, strict=True)]
        terms = {term for own in found for term in own.terms}
        size = Corpus({w: term_statistics(index, w) for w in terms}, index.num_docs, index.total_terms)
        weights = feedback_weights(EXPANSIONS["rm3"], found, 8, size)
        own = dict(zip(drawn.terms[t], drawn.count[1, drawn.term_rows(t)].tolist(), strict=True))
        shares = {term: value / sum(own.values()) for term, value in own.items() if value}
        total = sum(weights.values())
        assert shares == pytest.approx({term: value / total for term, value in weights.items()})


def test_a_search_draws_at_its_own_setting(tmp_path: object) -> None:
    pool, _ = collection()
    index, queries, qrels = random_collection(7, documents=150, topics=14, vocabulary=90)
    expected = list(rank(pool.drawn_at(SETTING), SETTING, hits=10))
    found = list(rank(extract_best(index, queries, MODEL, SETTING, 10), SETTING, hits=10))
    kept = stored_pool(str(tmp_path), index, queries, qrels, model=MODEL, depth=10).drawn_at(SETTING)
    assert kept.pruning is not None
    anew = extract_pruned(index, queries, qrels, model=kept.formula, depth=10)
    np.testing.assert_array_equal(kept.candidates.doc, anew.candidates.doc)
    for one, *others in zip(expected, found, rank(kept, SETTING, hits=10), strict=True):
        for other in others:
            assert list(one.docnos) == list(other.docnos)
            np.testing.assert_array_equal(one.scores, other.scores)
    judged = pool.with_judgments({topic: {} for topic in queries}).drawn_at(SETTING)
    assert judged.judgments.size == 0


def test_pools_travel_to_other_processes() -> None:
    index, queries, qrels = random_collection(7, documents=150, topics=14, vocabulary=90)
    pool = CandidatePool.build(index, queries, qrels, model=f"{MODEL}+weights:idf")
    drawn = pool.drawn_at(SETTING)
    for own in (pool, drawn):
        other = pickle.loads(pickle.dumps(own))
        assert other.formula.first.tolist() == own.formula.first.tolist()  # type: ignore[attr-defined]
        np.testing.assert_array_equal(other.drawn_at(SETTING).count, drawn.count)
        for one, two in zip(rank(own, SETTING), rank(other, SETTING), strict=True):
            np.testing.assert_array_equal(one.scores, two.scores)


def experiment(model: str = MODEL) -> tuple[CandidatePool, CollectionResult]:
    pool, folds = collection()
    if model != MODEL:
        index, queries, qrels = random_collection(7, documents=150, topics=14, vocabulary=90)
        pool = CandidatePool.build(index, queries, qrels, model=model)
    plan = Plan((AP,), model=model, final=False, starts=1, restarts=1, grid=(16,))
    return pool, run_experiment(pool, folds, plan)


def test_rows_are_measured_with_feedback_of_their_own_settings() -> None:
    pool, result = experiment()
    drawn = [text for text in result.notes if "drawn again at the fitted setting" in text]
    assert drawn
    for row in result.rows:
        [fit] = row.fits
        places = pool.positions(row.topics)
        own = pool.drawn_at(fit.params)
        values = measure_settings(own, fit.params, [AP], topics=places)[:, 0, 0]
        np.testing.assert_array_equal(row.values, values)
    assert not [text for text in experiment("bm25")[1].notes if "feedback" in text]


def test_draws_end_at_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CandidatePool, "has_other_feedback", lambda *_: True)
    monkeypatch.setattr(methods, "MOST_DRAWS", 2)
    _, result = experiment()
    still = [text for text in result.notes if "changed 2 times and still does" in text]
    assert len(still) == 3
