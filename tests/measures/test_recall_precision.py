"""Interpolated precision against trec_eval, which pytrec_eval holds."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.errors import InputError
from lmtune.measures.recall_precision import (
    LEVELS,
    interpolated_precision,
    recall_precision,
    setting_recall_precision,
)

Scores = dict[str, dict[str, float]]
NAMES = [f"iprec_at_recall_{level:.2f}" for level in LEVELS]


def trec_eval(run: Scores, qrels: dict[str, dict[str, int]]) -> dict[str, list[float]]:
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"iprec_at_recall"})
    return {t: [values[n] for n in NAMES] for t, values in evaluator.evaluate(run).items()}


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 25))
def test_a_topic_is_as_in_trec_eval(relevant: list[bool], missing: int) -> None:
    gains = {f"d{place:03}": int(flag) for place, flag in enumerate(relevant)}
    qrels = {"1": gains | {f"m{number}": 1 for number in range(missing)}}
    run = {"1": {docno: -float(place) for place, docno in enumerate(gains)}}
    own = interpolated_precision(relevant, sum(relevant) + missing)
    np.testing.assert_allclose(own, trec_eval(run, qrels)["1"], rtol=1e-15)


def test_nothing_retrieved_is_zero() -> None:
    assert interpolated_precision([], 3).tolist() == [0.0] * 11
    assert interpolated_precision([False], 0).tolist() == [0.0] * 11


def test_runs_and_settings_are_as_in_trec_eval() -> None:
    index, topics, qrels = random_collection(4, documents=120, topics=12)
    pool = CandidatePool.build(index, topics, qrels)
    run = {
        ranking.topic: dict(zip(ranking.docnos, map(float, ranking.scores), strict=True))
        for ranking in rank(pool, {"lambda": 0.3, "mu": 50.0}, hits=40)
    }
    # trec_eval has no place for topics without judgements, nor for negative gains.
    expected = trec_eval(run, qrels)
    means = np.mean([expected[topic] for topic in expected], axis=0)
    assert means[0] > means[5] > means[10] >= 0.0
    np.testing.assert_allclose(recall_precision(run, qrels), means, rtol=1e-14)
    places = pool.positions(list(expected))
    own = setting_recall_precision(pool, {"lambda": 0.3, "mu": 50.0}, topics=places, depth=40)
    np.testing.assert_allclose(own, list(expected.values()), rtol=1e-14)


def test_runs_of_other_topics_are_refused() -> None:
    with pytest.raises(InputError, match="share no topic"):
        recall_precision({"1": {"a": 1.0}}, {"2": {"a": 1}})
