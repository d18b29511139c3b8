"""Fitting by smooth measures: what is found, said and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateCost, SurrogateTuner, lists_depth, parse_objective

OBJECTIVES = (
    "approx-ap approx-ndcg@5 approx-nDCG(dcg='exp-log2') approx-p@5 approx-bpref approx-rr song softmax "
    "ranknet"
).split()
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
SPACE = ParameterSpace.of("two-stage")


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    return CandidatePool.build(*random_collection(5, documents=120, topics=20))


@pytest.mark.parametrize("optimizer", ["l-bfgs", "coordinate-descent"])
@every_objective
def test_a_converged_fit_is_a_minimum(pool: CandidatePool, objective: str, optimizer: str) -> None:
    tuner = SurrogateTuner(objective, alpha=(2.0, 8.0), optimizer=optimizer, starts=3).fit(pool)
    assert tuner.converged_
    last = tuner.results_[tuner.results_["cost"] == tuner.best_value_].iloc[-1]
    cost = SurrogateCost(Lists.build(pool, SPACE), parse_objective(objective), pool.positions())

    def value(x: Any) -> float:
        return cost(SPACE.from_unbounded(np.array(x)), float(last["alpha"])).value

    x = SPACE.to_unbounded(list(tuner.best_params_.values()))
    assert value(x) == pytest.approx(tuner.best_value_, rel=1e-12)
    box = SPACE.unbounded_box
    near = [(max(low, own - 0.3), min(high, own + 0.3)) for own, (low, high) in zip(x, box, strict=True)]
    found = minimize(value, x, method="Nelder-Mead", bounds=near, options={"xatol": 1e-6, "fatol": 1e-12})
    # Flat is a gradient of 1e-5, over a curvature of order 1e-4.
    assert found.fun >= tuner.best_value_ - 1e-6


@every_objective
def test_the_first_start_is_followed_as_steepness_grows(pool: CandidatePool, objective: str) -> None:
    tuner = SurrogateTuner(objective, alpha=(2.0, 4.0, 8.0), starts=3).fit(pool)
    table = tuner.results_
    assert sorted(set(table["start"])) == [0, 1, 2]
    assert tuner.n_evaluations_ >= len(table)
    if tuner.objective_.fits_steepness:
        return
    for start, path in table.groupby("start"):
        assert sorted(set(path["alpha"])) == ([2.0, 4.0, 8.0] if start == 0 else [8.0])
        assert path["alpha"].is_monotonic_increasing
        assert path["step"].tolist() == list(range(len(path)))
        assert path.groupby("alpha")["cost"].apply(lambda costs: costs.is_monotonic_decreasing).all()
    sharp = table[table["alpha"] == 8.0]
    assert tuner.best_value_ == pytest.approx(sharp["cost"].min(), abs=1e-9)


def test_pairs_are_weighted_anew_until_nothing_moves(pool: CandidatePool) -> None:
    tuner = SurrogateTuner("lambda-ap", starts=2).fit(pool)
    cost = SurrogateCost(Lists.build(pool, SPACE), parse_objective("lambda-ap"), pool.positions())
    setting = np.array(list(tuner.best_params_.values()))
    cost.weight_pairs(setting)
    alpha = float(tuner.results_["alpha"].iloc[-1])
    gradient = SPACE.chain(cost(setting, alpha).gradient[:-1], setting)
    inside = np.array([not any(p.name in edge for edge in tuner.at_edge_) for p in SPACE.parameters])
    assert tuner.converged_ is bool((np.abs(gradient[inside]) < 1e-2).all())


def test_a_steep_measure_of_smooth_ranks_is_nearly_the_measure(pool: CandidatePool) -> None:
    measures = parse_measures(["AP", "nDCG@5", "P@5", "RR"])
    lists = Lists.build(pool, SPACE, depth=120)
    setting = np.array([0.3, 40.0])
    values = measure_settings(pool, setting, measures)[:, 0].mean(axis=0)
    for measure, value in zip(measures, values, strict=True):
        cost = SurrogateCost(lists, parse_objective(f"approx-{measure}"), pool.positions())
        # Documents that tie stay half a rank apart from where ties put them.
        assert -cost(setting, 1e4).value == pytest.approx(value, abs=0.03)


def test_stopping_takes_the_iterate_that_is_best_on_other_topics(pool: CandidatePool) -> None:
    fitting, held = pool.topics[:8], pool.topics[8:]
    tuner = SurrogateTuner(alpha=(2.0, 16.0), starts=2).fit(pool, topics=fitting)
    settings = tuner.results_[SPACE.names].to_numpy()
    [measure] = parse_measures(["P@5"])
    values = measure_settings(pool, settings, [measure], topics=pool.positions(held))[:, :, 0].mean(axis=0)
    evaluations = tuner.n_evaluations_
    tuner.stop_on(pool, "P@5", topics=held)
    assert list(tuner.best_params_.values()) == settings[int(values.argmax())].tolist()
    assert tuner.n_evaluations_ == evaluations + len(settings)


def test_bpref_without_nonrelevant_judgments_is_recall() -> None:
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    relevant = {topic: {d: g for d, g in own.items() if g > 0} for topic, own in qrels.items()}
    pool = CandidatePool.build(index, topics, relevant)
    tuner = SurrogateTuner("approx-bpref", starts=1, alpha=4.0, depth=30).fit(pool)
    assert str(tuner.objective_) == "approx-R@30"


def test_lists_reach_as_deep_as_relevant_documents_and_cutoffs_ask() -> None:
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    many = {topic: {f"d{number}": 1 for number in range(60)} for topic in topics}
    for judged, name, depth in [
        (qrels, "approx-ap", 200),
        (many, "approx-ap", 360),
        (many, "approx-p@10", 200),
        (many, "approx-p@150", 300),
        (many, "approx-p@900", 1000),
    ]:
        pool = CandidatePool.build(index, topics, judged)
        assert lists_depth(parse_objective(name), pool, 1000) == depth
    assert lists_depth(parse_objective("approx-ap"), skyband(pool, depth=10), 1000) == 10


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"objective": "approx-success@5"}, "approx-ap"),
        ({"objective": "lambda-p@5"}, "lambda-ap"),
        ({"objective": "nothing"}, "approx-ap"),
        ({"alpha": ()}, "rising numbers above 0"),
        ({"alpha": (4.0, 2.0)}, "rising numbers above 0"),
        ({"alpha": 0.0}, "rising numbers above 0"),
        ({"optimizer": "newton"}, "l-bfgs"),
        ({"starts": 0}, "1 or more"),
        ({"list_depth": 0}, "1 or more"),
    ],
)
def test_bad_arguments_are_refused(pool: CandidatePool, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        SurrogateTuner(**given).fit(pool)
