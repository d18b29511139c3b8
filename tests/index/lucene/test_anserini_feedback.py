"""Feedback as Anserini draws it: terms, weights and rankings of `anserini-rm3` against pyserini's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from made_lucene import require_searcher

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.collections.loading import load
from lmtune.index.lucene.index import LuceneIndex, build_lucene_index
from lmtune.io.documents import Document, ListDocuments


@pytest.mark.slow
def test_terms_and_weights_are_anserinis(tmp_path: Path) -> None:
    searcher_of = require_searcher()
    rng = np.random.default_rng(4)
    words = np.array([f"{chr(97 + n % 26)}word{n}" for n in range(400)])
    texts = [" ".join(rng.choice(words, rng.integers(5, 60))) for _ in range(300)]
    documents = [Document(f"d{n:03d}", text) for n, text in enumerate([*texts, ""])]
    path = tmp_path / "lucene"
    build_lucene_index(ListDocuments("made", documents), path, raw=True, workers=1)
    # "absent" counts in the query's length, though no document has it.
    topics = {str(t): " ".join([*rng.choice(words, 3), "absent"]) for t in range(20)}
    pool = CandidatePool.build(LuceneIndex.open(path), topics, model="lucene-bm25+anserini-rm3:5,8")
    searcher = searcher_of(str(path))
    searcher.set_bm25(0.9, 0.4)
    searcher.object.set_rm3("JsonCollection", 8, 5, 0.6, False, True)
    first = CandidatePool.build(pool.index, topics, model="lucene-bm25")
    found = {ranking.topic: ranking.scores for ranking in rank(first, {"k1": 0.9, "b": 0.4}, hits=6)}
    clear = [t for t, topic in enumerate(pool.topics) if found[topic][4] > found[topic][5] * (1 + 1e-5)]
    assert len(clear) > 15  # the others have two fifth documents
    for t in clear:
        topic = pool.topics[t]
        weights, _ = pool.formula.weights(pool.count[:, pool.term_rows(t)], np.array([0.9, 0.4, 0.6, 1.0]))  # type: ignore[attr-defined]
        ours = dict(zip(pool.terms[t], weights / len(topics[topic].split()), strict=True))
        theirs = searcher.get_feedback_terms(topics[topic])
        assert theirs.pop("absent") == pytest.approx(0.6 / 4, rel=1e-5)
        assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cacm", "cranfield", "med", "npl"])
def test_rankings_are_anserinis_to_the_digits_it_prints(name: str, shared_data: Path, tmp_path: Path) -> None:
    searcher_of = require_searcher()
    dataset = load(shared_data / name, need=("documents", "topics"))
    topics = dict([*dataset.topics.items()][:: int(os.environ.get("LMTUNE_EACH_TOPIC", "6"))])
    assert dataset.documents is not None
    build_lucene_index(dataset.documents, tmp_path / "lucene", raw=True, workers=1)
    index = LuceneIndex.open(tmp_path / "lucene", lengths="lucene")
    first = CandidatePool.build(index, topics, model="lucene-bm25")
    best = {r.topic: r.scores for r in rank(first, {"k1": 0.9, "b": 0.4}, hits=11)}
    clear = [topic for topic, top in best.items() if len(top) < 11 or top[9] > top[10] * (1 + 1e-6)]
    assert len(clear) >= len(best) - 3  # the others have two tenth documents
    pool = CandidatePool.build(
        index, {topic: topics[topic] for topic in clear}, model="lucene-bm25+anserini-rm3:10,10"
    )
    searcher = searcher_of(str(tmp_path / "lucene"))
    searcher.set_bm25(0.9, 0.4)
    searcher.object.set_rm3("JsonCollection", 10, 10, 0.5, False, True)
    # Anserini's weights add up to 1; it rounds scores to four digits, and puts equal ones some 1e-6 apart.
    rounding = 1.2e-4
    setting = {"k1": 0.9, "b": 0.4, "original": 0.5, "sharpness": 1.0}
    for ranking in rank(pool, setting, hits=100):
        hits = searcher.search(topics[ranking.topic], k=100)
        length = len(index.analyze(topics[ranking.topic]))
        scores = ranking.scores / length
        ours, theirs = dict(zip(ranking.docnos, scores, strict=True)), {hit.docid: hit.score for hit in hits}
        assert len(hits) == len(ours)
        last = min(theirs.values(), default=0.0)
        for docno in theirs.keys() | ours.keys():
            assert ours.get(docno, last) == pytest.approx(theirs.get(docno, last), abs=rounding)
