"""Interpolated precision against trec_eval, which pytrec_eval holds."""

from __future__ import annotations

import numpy as np
import pytrec_eval
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.measures.evaluate import LEVELS, setting_recall_precision

Scores = dict[str, dict[str, float]]
NAMES = [f"iprec_at_recall_{level:.2f}" for level in LEVELS]


def trec_eval(run: Scores, qrels: dict[str, dict[str, int]]) -> dict[str, list[float]]:
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"iprec_at_recall"})
    return {t: [values[n] for n in NAMES] for t, values in evaluator.evaluate(run).items()}


def test_settings_are_as_in_trec_eval() -> None:
    index, topics, qrels = random_collection(4, documents=120, topics=12)
    pool = CandidatePool.build(index, topics, qrels)
    run = {
        ranking.topic: dict(zip(ranking.docnos, map(float, ranking.scores), strict=True))
        for ranking in rank(pool, {"lambda": 0.3, "mu": 50.0}, hits=40)
    }
    # trec_eval has no place for topics without judgments, nor for negative gains.
    expected = trec_eval(run, qrels)
    means = np.mean([expected[topic] for topic in expected], axis=0)
    assert means[0] > means[5] > means[10] >= 0.0
    places = pool.positions(list(expected))
    own = setting_recall_precision(pool, {"lambda": 0.3, "mu": 50.0}, topics=places, depth=40)
    np.testing.assert_allclose(own, list(expected.values()), rtol=1e-14)
