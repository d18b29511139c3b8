"""Formulas of one and of five parameters, written here alone: scored, measured and tuned."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pytrec_eval import RelevanceEvaluator
from support import random_collection
from toy_formulas import Mixed, Saturated

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.skyband import skyband
from lmtune.candidates.storage import pool_for
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.formula import Formula
from lmtune.models.model import Model
from lmtune.models.parameter import Parameter
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.direct import CoordinateAscent, GridSearch, _climb
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.gradient_free import FDSA, SPSA
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

Array = NDArray[np.float64]


FORMULAS = [Saturated(), Mixed()]
NAMES = ["map", "P_5", "bpref", "ndcg_cut_10"]
every_formula = pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: formula.name)


def pool_of(formula: Formula, **options: Any) -> CandidatePool:
    return CandidatePool.build(*random_collection(5, documents=120, topics=20), model=formula, **options)


def some_settings(formula: Formula, count: int) -> Array:
    space, rng = ParameterSpace.of(formula), np.random.default_rng(0)
    return np.array([space.low, space.high, *(space.random(rng) for _ in range(count - 2))])


@every_formula
def test_gradients_are_the_scores_differences(formula: Formula) -> None:
    pool = pool_of(formula)
    [topic] = pool.documents(pool.candidates).of(slice(0, 1)).topics()
    for setting in some_settings(formula, 8)[2:]:
        _, gradients = formula.differentiate(topic, setting)
        assert gradients.shape == (len(formula.parameters), topic.length.size)
        for own, h in zip(gradients, 1e-6 * np.diag(np.abs(setting) + 0.1), strict=True):
            up, down = (formula.differentiate(topic, setting + way * h)[0] for way in (1.0, -1.0))
            np.testing.assert_allclose(own, (up - down) / (2.0 * h.sum()), rtol=1e-4, atol=1e-6)


@every_formula
def test_values_are_those_of_the_runs(formula: Formula) -> None:
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    pool = CandidatePool.build(index, topics, qrels, model=formula)
    measures = parse_measures(NAMES)
    settings = some_settings(formula, 6)
    values = measure_settings(pool, settings, measures)
    for s, setting in enumerate(settings):
        named = ParameterSpace.of(formula).named(setting)
        # Scores by rank, for trec_eval knows nothing of our ties.
        run = {
            ranking.topic: {docno: -float(rank) for rank, docno in enumerate(ranking.docnos)}
            for ranking in lmtune.rank(pool, named)
        }
        for t, topic in enumerate(pool.topics):
            if not run[topic] or not any(gain > 0 for gain in qrels[topic].values()):
                assert (values[t, s] == 0.0).all()
                continue
            judged = {docno: gain for docno, gain in qrels[topic].items() if gain >= 0}
            found = RelevanceEvaluator({topic: judged}, set(NAMES)).evaluate({topic: run[topic]})[topic]
            np.testing.assert_allclose(values[t, s], [found[name] for name in NAMES], atol=1e-12)
        for ranking in lmtune.rank(pool, named):
            assert (np.diff(ranking.scores) <= 0.0).all()
    named_values = measure_settings(pool, ParameterSpace.of(formula).named(settings[3]), measures)
    np.testing.assert_array_equal(named_values[:, 0], values[:, 3])


@every_formula
def test_the_pair_cost_is_the_sum_over_pairs(formula: Formula) -> None:
    pool = pool_of(formula)
    pairs = Pairs.build(pool, sampled_negatives=0)
    for setting in some_settings(formula, 5):
        total, gradient = 0.0, np.zeros(setting.size)
        for t in range(len(pool.topics)):
            rows = pool.judged.rows(t)
            if not pool.terms[t]:
                continue
            [topic] = pool.documents(pool.judged).of(slice(t, t + 1)).topics()
            scores, slopes = formula.differentiate(topic, setting)
            for r in np.flatnonzero(pool.judged.gain[rows] >= 1):
                for n in np.flatnonzero(pool.judged.gain[rows] < 1):
                    y = scores[n] - scores[r]
                    total += math.log1p(math.exp(y))
                    gradient += (slopes[:, n] - slopes[:, r]) / (1.0 + math.exp(-y))
        cost = pairs.cost(setting)
        assert cost.value == pytest.approx(total, rel=1e-11)
        np.testing.assert_allclose(cost.gradient, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "formula",
    [pytest.param(own, id=own.name, marks=[pytest.mark.slow] * (own.name == "mixed")) for own in FORMULAS],
)
def test_every_tuner_tunes_them(formula: Formula) -> None:
    pool, space = pool_of(formula), ParameterSpace.of(formula)
    begin = measure_settings(pool, space.start, parse_measures(["nDCG"]))[:, 0, 0].mean()
    grid = GridSearch("nDCG", shape=[5] * len(formula.parameters)).fit(pool)
    assert grid.n_evaluations_ == 5 ** len(space.free)
    for tuner in (
        CoordinateAscent("nDCG", starts=[grid.best_params_], restarts=1),
        SPSA("nDCG", evaluations=60),
        FDSA("nDCG", evaluations=60),
    ):
        tuner.fit(pool)
        assert tuner.best_value_ >= begin - 1e-12
        assert list(tuner.results_.columns) == ["start", "step", *space.names, "nDCG"]
        settings = tuner.results_[space.names].to_numpy()
        assert ((settings >= space.low) & (settings <= space.high)).all()
        values = measure_settings(pool, settings, parse_measures(["nDCG"]))[:, :, 0].mean(axis=0)
        np.testing.assert_allclose(tuner.results_["nDCG"], values, rtol=1e-12)
    assert CoordinateAscent("nDCG", starts=[grid.best_params_]).fit(pool).best_value_ >= grid.best_value_


def test_settings_are_spread_evenly_over_every_pair_of_parameters() -> None:
    space = ParameterSpace.of(FORMULAS[1])
    settings = space.grid((64,))
    assert len(np.unique(settings, axis=0)) == 64
    assert (settings[:, 4] == 3.0).all()
    places = np.array(
        [
            np.log(own / p.low) / np.log(p.high / p.low)
            if p.scale == "log"
            else (own - p.low) / (p.high - p.low)
            for p, own in zip(space.parameters[:4], settings.T, strict=False)
        ]
    )
    assert ((places > 0.0) & (places < 1.0)).all()
    for one, other in itertools.combinations(places, 2):
        assert (np.histogram2d(one, other, bins=2, range=[(0, 1), (0, 1)])[0] == 16).all()
    assert len(ParameterSpace.of("jelinek-mercer", {"lambda": (0.5, 0.5)}).grid((9,))) == 1


def test_random_directions_climb_a_ridge_across_the_coordinates() -> None:
    parameters = [Parameter(name, -4.0, 4.0, "linear", 0.0) for name in "xyz"]

    def climb(free: int) -> float:
        own = [*parameters[:free], *(replace(p, low=0.0, high=0.0) for p in parameters[free:])]
        space = ParameterSpace(tuple(own))
        climbing = _climb(space, np.zeros(3), dict.fromkeys("xyz", 0.5), np.random.default_rng(0))
        line = next(climbing)
        while True:
            values = [sum(x[:free]) - 1.5 * float(np.ptp(x[:free])) for x in line]
            try:
                line = climbing.send(values)
            except StopIteration as end:
                return float(sum(end.value))

    assert climb(2) == 0.0  # along the coordinates there is no way up
    assert climb(3) > 3.0


@pytest.mark.slow
def test_climbs_say_where_they_ended_and_how_many_agree() -> None:
    pool, ascent = pool_of(FORMULAS[1]), CoordinateAscent("AP", restarts=3, seed=2)
    ends = ascent.fit(pool).ends_
    names = ParameterSpace.of(pool.formula).names
    assert list(ends) == ["start", *names, "AP", "evaluations"]
    assert ends["evaluations"].sum() == ascent.n_evaluations_
    assert ends["AP"].max() == ascent.best_value_
    values = measure_settings(pool, ends[names].to_numpy(), parse_measures(["AP"]))[:, :, 0].mean(axis=0)
    np.testing.assert_allclose(ends["AP"], values, rtol=1e-12)
    assert ascent.n_agreeing_ == (values >= values.max() - 0.001).sum()
    again = CoordinateAscent("AP", restarts=3, seed=2).fit(pool)
    assert again.results_.equals(ascent.results_)


@every_formula
def test_ranknet_descends_to_where_no_step_helps(formula: Formula) -> None:
    pool, space = pool_of(formula), ParameterSpace.of(formula)
    pairs = Pairs.build(pool)
    descents = [
        RankNetTuner(optimizer=o, measures=["AP"]).fit(pool) for o in ("coordinate-descent", "l-bfgs")
    ]
    for tuner in descents:
        best = space.vector(tuner.best_params_)
        assert tuner.best_value_ == pytest.approx(pairs.cost(best).value, rel=1e-9)
        assert tuner.best_value_ < pairs.cost(space.start).value
        at = space.to_unbounded(best)
        for axis in np.eye(at.size):
            for step in (-0.05, 0.05):
                aside = space.clip(space.from_unbounded(at + step * axis))
                assert pairs.cost(aside).value >= tuner.best_value_ * (1.0 - 1e-7)
    one, two = (tuner.best_value_ for tuner in descents)
    assert one == pytest.approx(two, rel=1e-6)


def test_a_model_gives_a_formula_other_ranges() -> None:
    formula = FORMULAS[0]
    narrow = Model("narrow", "a saturated sum", formula, (Parameter("k", 2.0, 3.0, "log", 2.5),))
    pool = pool_of(formula)
    assert CandidatePool.build(pool.index, {"1": "w1"}, {}, model=narrow).formula is formula
    tuner = GridSearch("AP", space=ParameterSpace.of(narrow), shape=[4]).fit(pool)
    assert tuner.results_["k"].tolist() == pytest.approx([2.0, 2.289, 2.621, 3.0])


def test_what_is_not_proved_for_them_is_refused() -> None:
    formula = FORMULAS[1]
    pool = pool_of(formula)
    with pytest.raises(InputError, match="cannot be certified"):
        CertifiedOptimum().fit(pool)
    with pytest.raises(InputError, match="pruning is not available for this model"):
        skyband(pool)
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    assert pool_for(index, topics, qrels, name="own", model=formula, depth=1).pruning is None  # type: ignore[arg-type]


def test_bad_settings_are_refused() -> None:
    pool = pool_of(FORMULAS[1])
    with pytest.raises(InputError, match=r"no such parameter.*'mu'.*k, b, rare"):
        lmtune.measure(pool, {"mu": 3.0})
    with pytest.raises(InputError, match=r"b is outside its domain: 1\.0; accepted: 0 <= b < 1"):
        lmtune.measure(pool, {"b": 1.0})
    with pytest.raises(InputError, match="mixed has no fixed"):
        lmtune.measure(pool, {"fixed": 2.0})
    with pytest.raises(InputError, match="one value for each of k, b"):
        measure_settings(pool, np.zeros((2, 3)), parse_measures(["AP"]))
    assert Plan(model="bm25").grid == (20, 26)
    with pytest.raises(InputError, match="the number of settings"):
        Plan(grid=(3, 3, 3))
    with pytest.raises(InputError, match="grid needs points"):
        GridSearch(shape=(3, 3)).fit(pool)
