"""Candidates for Lucene's formula: pruned, measured and stored as others are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from support import TinyIndex, at, best_documents, random_collection

from lmtune.candidates.extraction import extract_pruned
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.skyband import skyband
from lmtune.candidates.storage import stored_pool
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.two_stage import LUCENE_DIRICHLET, as_topic

MODEL = "lucene-dirichlet"
MUS = [1e-3, 0.5, 5.0, 40.0, 700.0, 1e5]
Collection = tuple[TinyIndex, dict[str, str], dict[str, dict[str, int]]]


@pytest.fixture(scope="module")
def collection() -> Collection:
    return random_collection(11, documents=500, topics=20)


@pytest.fixture(scope="module")
def pool(collection: Collection) -> CandidatePool:
    return CandidatePool.build(*collection, model=MODEL)


def test_rankings_are_those_of_a_plain_sort(pool: CandidatePool) -> None:
    for t in range(len(pool.topics)):
        rows, terms = pool.candidates.rows(t), pool.term_rows(t)
        y = pool.tf_block(pool.candidates, t) * (1.0 / pool.value[terms, None])
        for mu in MUS:
            factors = np.maximum((y + mu) * (1.0 / (mu + pool.candidates.length[rows])), 1.0)
            product = np.repeat(factors, pool.count[terms], axis=0).prod(axis=0)
            order = np.argsort(-product, kind="stable")
            assert best_documents(pool, t, 0.0, mu, 500) == (pool.candidates.doc[rows][order].tolist())


def test_values_equal_trec_evals(pool: CandidatePool, collection: Collection) -> None:
    index, _, qrels = collection
    measures = {"AP": "map", "Bpref": "bpref", "P@10": "P_10", "nDCG": "ndcg"}
    ours = measure_settings(pool, at(np.zeros(len(MUS)), MUS), parse_measures(measures))
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(measures.values()))
    for s, mu in enumerate(MUS):
        run = {
            topic: {
                docno: -float(place)
                for place, docno in enumerate(
                    index.docnos(np.array(best_documents(pool, t, 0.0, mu, 1000), int))
                )
            }
            for t, topic in enumerate(pool.topics)
        }
        values = evaluator.evaluate(run)
        for t, topic in enumerate(pool.topics):
            for m, name in enumerate(measures.values()):
                expected = values.get(topic, {}).get(name, 0.0)
                assert ours[t, s, m] == pytest.approx(expected, abs=1e-12)


def test_long_queries_add_logarithms_to_the_same_order(collection: Collection) -> None:
    index, _, qrels = collection
    query = " ".join(f"w{i % 8}" for i in range(250))
    pool = CandidatePool.build(index, {"1": query}, {"1": qrels["1"]}, model=MODEL)
    for mu in MUS:
        topic = as_topic(pool.tf_block(pool.candidates, 0), pool.candidates.length, pool.value, pool.count)
        scores, _ = LUCENE_DIRICHLET.differentiate(topic, np.array([0.0, mu]))
        place = {int(doc): i for i, doc in enumerate(pool.candidates.doc)}
        ranked = scores[[place[d] for d in best_documents(pool, 0, 0.0, mu, 500)]]
        assert (np.diff(ranked) <= 1e-9).all()


@pytest.mark.parametrize("depth", [1, 5, 30])
@pytest.mark.parametrize("mode", ["auto", "tf"])
def test_pruning_changes_no_ranking(pool: CandidatePool, depth: int, mode: str) -> None:
    pruned = skyband(pool, depth=depth, mode=mode)
    assert pruned.pruning is not None
    assert not pruned.pruning.by_e.any()
    assert pruned.candidates.doc.size < pool.candidates.doc.size
    for t in range(len(pool.topics)):
        for mu in MUS:
            assert best_documents(pruned, t, 0.0, mu, depth) == (best_documents(pool, t, 0.0, mu, depth))


def test_e_dominance_is_refused(pool: CandidatePool) -> None:
    with pytest.raises(InputError, match="e-dominance is valid only for two-stage smoothing"):
        skyband(pool, mode="e")


def test_stored_candidates_by_model(collection: Collection, pool: CandidatePool, tmp_path: Path) -> None:
    index, topics, qrels = collection
    built: list[str] = []

    def get(model: str) -> CandidatePool:
        return stored_pool(
            tmp_path,
            index,
            topics,
            qrels,
            model=model,
            depth=9,
            on_build=lambda _, reason: built.append(reason),
        )

    fresh = extract_pruned(index, topics, qrels, model=MODEL, depth=9)
    for model in (MODEL, "two-stage", MODEL, "two-stage"):
        found = get(model)
        assert found.formula.name == model
    assert built == ["there is none yet"] * 2
    again = get(MODEL)
    np.testing.assert_array_equal(again.candidates.doc, skyband(pool, depth=9).candidates.doc)
    for part in ("doc", "length", "tf", "gain"):
        for columns in ("candidates", "judged"):
            np.testing.assert_array_equal(
                getattr(getattr(again, columns), part), getattr(getattr(fresh, columns), part)
            )
    np.testing.assert_array_equal(again.value, fresh.value)
    assert get("dirichlet").formula.name == "two-stage"
    with pytest.raises(InputError, match="unknown model"):
        get("bm26")
    assert len(built) == 2
