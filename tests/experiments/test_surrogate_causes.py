"""RankNet's cost and its cures over a grid, against pairs one by one."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from support import random_collection

from experiments.methods import Methods
from experiments.surrogates.causes import STEPS, PairCosts, find_causes
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.two_stage import score
from lmtune.tuning.pairs import Pairs

SETTING = np.array([0.3, 40.0])


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    return CandidatePool.build(*random_collection(5, documents=120, topics=12))


@pytest.fixture(scope="module")
def costs(pool: CandidatePool) -> PairCosts:
    pairs = Pairs.build(pool)
    return PairCosts(pool, pairs.columns, 1, np.flatnonzero(pairs.per_topic))


def pairs_of(pool: CandidatePool) -> list[list[float]]:
    """Return each topic's differences of a relevant and a nonrelevant document's scores."""
    found = []
    for t in range(len(pool.topics)):
        rows, terms = pool.judged.rows(t), pool.term_rows(t)
        tf, length = pool.tf_block(pool.judged, t), pool.judged.length[rows]
        own = score(tf, length, pool.value[terms], lambda_=SETTING[0], mu=SETTING[1], count=pool.count[terms])
        relevant = pool.judged.gain[rows] >= 1
        if pool.terms[t] and relevant.any() and not relevant.all():
            found.append([float(a - b) for a, b in product(own[relevant], own[~relevant])])
    return found


def test_costs_are_the_pairs_means(pool: CandidatePool, costs: PairCosts) -> None:
    topics = pairs_of(pool)
    scores = costs.scores(SETTING, divided=False)
    for slope in (1.0, 3.5):
        each = [[math.log1p(math.exp(-slope * d)) for d in own] for own in topics]
        whole = np.mean([cost for own in each for cost in own])
        assert costs.cost(scores, slope, by_topic=False) == pytest.approx(whole, rel=1e-10)
        by_topic = np.mean([np.mean(own) for own in each])
        assert costs.cost(scores, slope, by_topic=True) == pytest.approx(by_topic, rel=1e-10)
    pairs = Pairs.build(pool)
    total = pairs.cost(SETTING).value / pairs.per_topic.sum()
    assert costs.cost(scores, 1.0, by_topic=False) == pytest.approx(total, rel=1e-10)


def test_a_fitted_slope_is_the_lowest(costs: PairCosts) -> None:
    scores = costs.scores(SETTING, divided=True)
    lowest, slope = costs.fitted(scores, by_topic=True)
    tried = [costs.cost(scores, own, by_topic=True) for own in np.geomspace(0.01, 1e4, 200)]
    assert lowest == pytest.approx(min(tried), rel=1e-4)
    assert lowest == costs.cost(scores, slope, by_topic=True)


def test_a_topics_scores_have_deviation_one(costs: PairCosts) -> None:
    raw, divided = (costs.scores(SETTING, divided=own) for own in (False, True))
    sizes = (divided != 0.0).sum(axis=1)
    np.testing.assert_allclose((divided**2).sum(axis=1), sizes, rtol=1e-9)
    # Each topic's own factor, and nothing else, lies between the two.
    spread = np.sqrt((raw**2).sum(axis=1) / sizes)
    np.testing.assert_allclose(divided * spread[:, None], raw, rtol=1e-9)


def test_each_step_has_the_measure_where_it_is_lowest(pool: CandidatePool) -> None:
    methods = Methods.over(pool, parse_measures(["AP"]), (5, 6), 0)
    found = find_causes(methods, 8.0)
    assert [row["objective"] for row in found["causes"]] == list(STEPS)
    surface = {name: [row[name] for row in found["surfaces"]] for name in found["surfaces"][0]}
    assert {len(column) for column in surface.values()} == {30}
    for row in found["causes"]:
        at = int(np.argmin(surface[row["objective"]]))
        assert (row["lambda"], row["mu"]) == (surface["lambda"][at], surface["mu"][at])
        setting = np.array([row["lambda"], row["mu"]])
        value = measure_settings(pool, setting, parse_measures(["AP"])).mean()
        assert row["AP"] == surface["AP"][at] == pytest.approx(value, rel=1e-12)
        assert row["best"] == max(surface["AP"])
    assert found["causes"][0]["slope"] == 1.0
