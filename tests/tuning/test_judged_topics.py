"""Means over a pool whose topics are not all judged are trec_eval's."""

from __future__ import annotations

import pytest
import pytrec_eval
from support import random_collection

import lmtune
from lmtune.errors import InputError
from lmtune.tuning.tuner import Tuner

INDEX, TOPICS, QRELS = random_collection(7, documents=120, topics=18)
JUDGED = {topic: gains for n, (topic, gains) in enumerate(QRELS.items()) if n % 3}
TUNERS = [lmtune.GridSearch("AP"), lmtune.CoordinateAscent("AP", restarts=1), lmtune.SPSA("AP")]


def trec_eval_mean(pool: lmtune.CandidatePool, setting: dict[str, float]) -> float:
    run = {
        one.topic: dict(zip(one.docnos, range(len(one.docnos), 0, -1), strict=True))
        for one in lmtune.rank(pool, setting)
    }
    assert len(run) == len(TOPICS)
    values = pytrec_eval.RelevanceEvaluator(JUDGED, {"map"}).evaluate(run)
    assert len(values) == len(JUDGED) < len(TOPICS)
    return sum(own["map"] for own in values.values()) / len(JUDGED)


@pytest.mark.parametrize("tuner", TUNERS, ids=lambda own: type(own).__name__)
def test_unjudged_topics_are_in_no_mean(tuner: Tuner) -> None:
    pool = lmtune.CandidatePool.build(INDEX, TOPICS, JUDGED)
    tuner.fit(pool)
    expected = trec_eval_mean(pool, tuner.best_params_)
    assert tuner.best_value_ == pytest.approx(expected, abs=1e-9)
    measured = lmtune.measure(pool, tuner.best_params_, measures="AP")
    assert set(measured.index) == set(JUDGED)
    assert measured["AP"].mean() == pytest.approx(expected, abs=1e-9)
    everything = lmtune.measure(pool, tuner.best_params_, measures="AP", topics=pool.topics)
    assert everything["AP"].sum() == pytest.approx(measured["AP"].sum(), abs=1e-9)
    assert len(everything) == len(TOPICS)


def test_a_pool_without_judgments_has_nothing_to_fit_on() -> None:
    pool = lmtune.CandidatePool.build(INDEX, TOPICS)
    with pytest.raises(InputError, match="no topic is judged"):
        lmtune.GridSearch("AP").fit(pool)
    with pytest.raises(InputError, match="no topic is judged"):
        lmtune.measure(pool, {})
