"""SPSA and FDSA over (lambda, mu)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure
from lmtune.measures.measure import parse_measures
from lmtune.tuning.direct import GridSearch
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import APPROX, BAGGED, DIRECT, OPTIMAL, RANKNET
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.gradient_free import FDSA, SPSA, Gains
from lmtune.tuning.space import ParameterSpace

Tuner = type[SPSA] | type[FDSA]
NEAR = {"lambda": 0.5, "mu": 20.0}


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    return CandidatePool.build(index, topics, qrels)


@pytest.mark.parametrize("tuner", [SPSA, FDSA])
def test_every_evaluation_is_what_the_measure_is_there(pool: CandidatePool, tuner: Tuner) -> None:
    train = pool.topics[:12]
    fitted = tuner("AP", evaluations=30, start=NEAR).fit(pool, topics=train)
    for row in fitted.results_.to_dict("records"):
        alone = measure(pool, {"lambda": row["lambda"], "mu": row["mu"]}, measures=["AP"], topics=train)
        assert row["AP"] == pytest.approx(alone["AP"].mean(), rel=1e-13)
    best = fitted.results_.iloc[int(fitted.results_["AP"].argmax())]
    assert fitted.best_params_ == {"lambda": best["lambda"], "mu": best["mu"]}
    assert fitted.best_value_ == best["AP"]
    assert fitted.n_evaluations_ == len(fitted.results_) == len(fitted.seconds_)
    assert fitted.seconds_ == sorted(fitted.seconds_)


def test_it_climbs(pool: CandidatePool) -> None:
    begin = {"lambda": 0.1, "mu": 2.0}
    start = measure(pool, begin, measures=["nDCG"])["nDCG"].mean()
    grid = GridSearch("nDCG", shape=(12, 12)).fit(pool)
    for tuner in (
        SPSA("nDCG", start={"lambda": 0.1, "mu": 2.0}),
        FDSA("nDCG", start={"lambda": 0.1, "mu": 2.0}),
    ):
        found = tuner.fit(pool).best_value_
        assert found > start + 0.5 * (grid.best_value_ - start) > start


@pytest.mark.parametrize("evaluations", [8, 10, 50, 51, 200])
def test_the_budget_is_spent(pool: CandidatePool, evaluations: int) -> None:
    asked: list[tuple[int, int]] = []
    spsa = SPSA("P@5", evaluations=evaluations, start=NEAR)
    spsa.fit(pool, progress=lambda done, total: asked.append((done, total)))
    assert spsa.n_evaluations_ == evaluations // 2 * 2
    assert asked[-1] == (evaluations // 2 * 2, evaluations)
    fdsa = FDSA("P@5", evaluations=evaluations, start=NEAR).fit(pool)
    assert 0 <= evaluations - fdsa.n_evaluations_ < 4


@pytest.mark.parametrize(("per_step", "steps"), [(2, 43), (4, 22), (8, 11)])
def test_a_step_takes_what_was_asked_for(pool: CandidatePool, per_step: int, steps: int) -> None:
    spsa = SPSA("AP", evaluations=100, evaluations_per_step=per_step, start=NEAR).fit(pool)
    counts = spsa.results_["step"].value_counts()
    # Ten for the gains, and the start, before the first step; the last iterate after the last.
    assert counts[0] == 10 + 1
    assert counts.index.max() >= 88 // per_step
    assert (counts.loc[1 : 88 // per_step - 1] == per_step).all()
    assert len(counts) - 1 == -(-88 // per_step) == steps + (per_step == 2)


def test_equal_seeds_give_equal_searches(pool: CandidatePool) -> None:
    one, two, other = (
        SPSA("AP", evaluations=40, start=NEAR, seed=seed).fit(pool).results_ for seed in (1, 1, 2)
    )
    assert one.equals(two)
    assert not one.equals(other)


@pytest.mark.parametrize("tuner", [SPSA, FDSA])
def test_no_setting_outside_the_space_is_measured(pool: CandidatePool, tuner: Tuner) -> None:
    space = ParameterSpace.of("two-stage", {"lambda": (0.2, 0.4), "mu": (5.0, 50.0)})
    gains = Gains(a=1e3, c=2.0)
    table = tuner("AP", space=space, evaluations=60, gains=gains, start=NEAR).fit(pool).results_
    assert table["lambda"].between(0.2, 0.4).all()
    assert table["mu"].between(5.0, 50.0).all()
    assert table["mu"].nunique() > 2


@pytest.mark.parametrize("tuner", [SPSA, FDSA])
def test_fixed_parameters_stay_and_cost_nothing(pool: CandidatePool, tuner: Tuner) -> None:
    linear = tuner(
        "AP", space=ParameterSpace.of("two-stage", {"lambda": (0.01, 0.99), "mu": (0.0, 0.0)}), evaluations=30
    ).fit(pool)
    assert (linear.results_["mu"] == 0.0).all()
    dirichlet = tuner(
        "AP", space=ParameterSpace.of("two-stage", {"lambda": (0.0, 0.0), "mu": (1.0, 1e5)}), evaluations=30
    ).fit(pool)
    assert (dirichlet.results_["lambda"] == 0.0).all()
    # Also FDSA takes two a step with one free parameter.
    assert linear.n_evaluations_ == dirichlet.n_evaluations_ == 30
    single = tuner(
        "AP", space=ParameterSpace.of("two-stage", {"lambda": (0.3, 0.3), "mu": (7.0, 7.0)}), evaluations=30
    ).fit(pool)
    assert (single.best_params_["lambda"], single.n_evaluations_) == (0.3, 1)
    assert single.best_params_["mu"] == pytest.approx(7.0)
    assert single.gains_ is None


def test_a_step_goes_up_the_slope_of_the_first_estimates(pool: CandidatePool) -> None:
    begin = {"lambda": 0.7, "mu": 50.0}
    fdsa = FDSA("nDCG", evaluations=14, start=begin, gains=Gains(a=1e-3, c=0.4)).fit(pool)
    rows = fdsa.results_
    first = rows[rows["step"] == 1]["nDCG"].to_numpy()
    lambdas = rows["lambda"].to_numpy()
    logit = np.log(lambdas / (1 - lambdas))
    # The middle of the second step's first two points is where the first step led.
    second = np.flatnonzero(rows["step"] == 2)
    moved = logit[second[:2]].mean() - logit[0]
    assert moved == pytest.approx(1e-3 * (first[0] - first[1]) / 0.8, rel=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"evaluations": 7},
        {"evaluations": 0},
        {"evaluations_per_step": 3},
        {"evaluations_per_step": 0},
        {"seed": -1},
        {"measure": "nothing"},
    ],
)
def test_bad_input(pool: CandidatePool, options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        SPSA(**options).fit(pool)


def test_they_are_public() -> None:
    assert lmtune.SPSA is SPSA
    assert lmtune.FDSA is FDSA


def test_rows_of_an_experiment(pool: CandidatePool) -> None:
    plan = Plan(
        tuple(parse_measures(["AP", "P@5"])), grid=(3, 4), also=("fdsa", "spsa"), evaluations=30, seed=4
    )
    folds = cross_validation(pool.topics, 2)
    result = run_experiment(pool, folds, plan)
    rows = {(str(row.measure), row.method): row for row in result.rows}
    methods = [DIRECT, BAGGED, RANKNET, APPROX, "FDSA", "SPSA", OPTIMAL]
    assert list(rows) == [(measure, method) for measure in ("AP", "P@5") for method in methods]
    for name in ("AP", "P@5"):
        for number, fold in enumerate(folds):
            alone = SPSA(name, evaluations=30, seed=4).fit(pool, topics=fold.train)
            fit = rows[name, "SPSA"].fits[number]
            assert (fit.params, fit.evaluations) == (alone.best_params_, 30)
            assert fit.train_value == pytest.approx(alone.best_value_, rel=1e-12)
            assert rows[name, OPTIMAL].fits[number].test_value >= fit.test_value - 1e-12
            np.testing.assert_equal(result.traces[f"spsa-{name}-fold{number + 1}"], alone.columns_)


@pytest.mark.parametrize("also", [("spsa", "spsa"), ("newton",), ("",)])
def test_a_plan_names_methods_that_there_are(also: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="spsa, fdsa"):
        Plan(tuple(parse_measures(["AP"])), also=also)
    with pytest.raises(InputError, match="evaluations"):
        Plan(tuple(parse_measures(["AP"])), evaluations=7)
