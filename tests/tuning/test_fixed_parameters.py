"""Models with one free parameter: every tuner finds what a search along that axis finds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import minimize_scalar
from support import TinyIndex, at, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import Regions
from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError
from lmtune.index.quantised import quantised_lengths
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure, parse_measures
from lmtune.models.model import MODELS, Model, find_model
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.direct import CoordinateAscent, GridSearch
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.gradient import OPTIMIZERS, RankNetTuner
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

mp.dps = 50
ONE_PARAMETER = ["dirichlet", "jelinek-mercer", "lucene-dirichlet"]


def pool_of(model: Model, seed: int = 5) -> CandidatePool:
    index, topics, qrels = random_collection(seed, documents=120, topics=20)
    return CandidatePool.build(index, topics, qrels, model=model)


def line(model: Model, points: int) -> tuple[list[float], list[float]]:
    """Give settings along the free parameter, evenly spaced as the space has it."""
    space = ParameterSpace.of(model)
    if "mu" in model.fixed:
        return np.linspace(*space.ranges["lambda"], points).tolist(), [0.0] * points
    return [0.0] * points, np.geomspace(*space.ranges["mu"], points).tolist()


@pytest.mark.parametrize("name", ONE_PARAMETER)
def test_spaces_keep_to_the_axis(name: str) -> None:
    model, rng = find_model(name), np.random.default_rng(0)
    space = ParameterSpace.of(name)
    settings = space.grid((7, 9))
    assert len(settings) == (7 if name == "jelinek-mercer" else 9)
    drawn = [space.random(rng) for _ in range(30)]
    for setting in [*settings, *drawn, space.clip([0.9, 1e9])]:
        values = space.named(setting)
        assert all(values[parameter] == value for parameter, value in model.fixed.items())
        back = space.from_unbounded(space.to_unbounded(setting))
        assert back == pytest.approx(setting, rel=1e-12)
    (low, high), (mu_low, mu_high) = space.unbounded_box
    assert np.isfinite([low, high, mu_low, mu_high]).all()
    assert ((low == high), (mu_low == mu_high)) == ("lambda" in model.fixed, "mu" in model.fixed)
    free = "mu" if "lambda" in model.fixed else "lambda"
    assert [edge.split(" ")[0] for edge in space.at_edge(space.low)] == [free]
    assert space.at_edge(drawn[0]) == []


def test_what_a_model_fixes_cannot_have_a_range() -> None:
    with pytest.raises(InputError, match=r"dirichlet fixes lambda.*lambda = 0"):
        ParameterSpace.of("dirichlet", {"lambda": (0.0, 0.5)})
    with pytest.raises(InputError, match=r"jelinek-mercer fixes mu.*mu = 0"):
        ParameterSpace.of("jelinek-mercer", {"mu": (1.0, 10.0)})
    assert ParameterSpace.of("dirichlet", {"mu": (5.0, 9.0)}) == ParameterSpace.of(
        "two-stage", {"lambda": (0.0, 0.0), "mu": (5.0, 9.0)}
    )
    with pytest.raises(InputError, match="lambda = 0 with mu = 0"):
        ParameterSpace.of("two-stage", {"lambda": (0.0, 0.5), "mu": (0.0, 0.0)})
    with pytest.raises(InputError, match="mu > 0"):
        ParameterSpace.of("two-stage", {"lambda": (0.1, 0.5), "mu": (0.0, 10.0)})
    with pytest.raises(InputError, match="lucene-dirichlet fixes lambda"):
        Plan(tuple(parse_measures(["AP"])), model="lucene-dirichlet", ranges={"lambda": (0.0, 0.5)})


@pytest.mark.parametrize("name", ONE_PARAMETER)
def test_direct_search_finds_the_best_of_the_line(name: str) -> None:
    model = find_model(name)
    pool, space = pool_of(model), ParameterSpace.of(name)
    lambdas, mus = line(model, 40)
    measure = parse_measure("AP")
    best = measure_settings(pool, at(lambdas, mus), [measure])[:, :, 0].mean(0).max()
    grid = GridSearch("AP", space=space, shape=(40, 40)).fit(pool)
    assert grid.n_evaluations_ == 40
    assert grid.best_value_ == pytest.approx(best, abs=2e-3)
    ascent = CoordinateAscent("AP", space=space, starts=[grid.best_params_]).fit(pool)
    assert ascent.best_value_ >= grid.best_value_
    assert space.named(space.clip(space.vector(ascent.best_params_))) == ascent.best_params_


@pytest.mark.first_case
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ONE_PARAMETER)
def test_ranknet_finds_the_least_cost_of_the_line(name: str, optimizer: str) -> None:
    model = find_model(name)
    pool, space = pool_of(model), ParameterSpace.of(name)
    pairs = Pairs.build(pool)
    tuner = RankNetTuner(optimizer=optimizer, space=space, starts=6).fit(pool, pairs=pairs)

    def cost(x: float) -> float:
        return pairs.cost(at(*((x, 0.0) if "mu" in model.fixed else (0.0, math.exp(x))))[0]).value

    low, high = space.ranges["lambda"] if "mu" in model.fixed else map(math.log, space.ranges["mu"])
    ends = np.linspace(low, high, 60).tolist()
    least = min(minimize_scalar(cost, bounds=part, method="bounded").fun for part in itertools.pairwise(ends))
    assert tuner.best_value_ <= least * (1 + 1e-7)
    assert tuner.converged_
    assert space.named(space.clip(space.vector(tuner.best_params_))) == tuner.best_params_


@pytest.mark.parametrize("name", ["dirichlet", "jelinek-mercer"])
def test_certificates_hold_along_the_line(name: str) -> None:
    model = find_model(name)
    lambdas, mus = line(model, 3000)
    for seed in range(3):
        pool, space = pool_of(model, seed), ParameterSpace.of(name)
        optimum = CertifiedOptimum("AP", space=space, tolerance=1e-4).fit(pool)
        values = measure_settings(pool, at(lambdas, mus), [parse_measure("AP")])[:, :, 0].mean(0)
        assert values.max() <= optimum.bound_
        assert optimum.best_value_ >= values.max() - max(1e-4, optimum.gap_)
        assert optimum.certified_ or optimum.stopped_ is None
        assert optimum.gap_ < 0.01


def test_a_certificate_at_mu_0_keeps_away_from_lambda_0() -> None:
    space = ParameterSpace.of("two-stage", {"lambda": (1e-150, 0.5), "mu": (0.0, 0.0)})
    with pytest.raises(InputError, match="too close to 0"):
        CertifiedOptimum("AP", space=space).fit(pool_of(find_model("two-stage")))


def test_what_is_proved_for_two_stage_smoothing_refuses_the_floor() -> None:
    model = find_model("lucene-dirichlet")
    pool, space = pool_of(model), ParameterSpace.of(model)
    with pytest.raises(InputError, match="cannot be certified"):
        CertifiedOptimum("AP", space=space).fit(pool)
    with pytest.raises(InputError, match="cannot be certified"):
        Plan(tuple(parse_measures(["AP"])), model=model.name, certify=1e-3)
    with pytest.raises(InputError, match="regions are not available for this model"):
        Regions.build(pool)


def test_a_dense_grid_does_without_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jelinek-mercer", "lucene-dirichlet"):
        model = find_model(name)
        pool, space = pool_of(model), ParameterSpace.of(model)
        plain = GridSearch("AP", space=space, shape=(60, 60), depth=5).fit(pool)
        monkeypatch.setattr("lmtune.candidates.regions._MANY_SETTINGS", 50)
        dense = GridSearch("AP", space=space, shape=(60, 60), depth=5).fit(pool)
        assert dense.results_.equals(plain.results_)


def exact_cost(index: TinyIndex, topics: dict[str, str], qrels: dict[str, dict[str, int]], mu: Any) -> Any:
    """Sum the RankNet cost of Lucene's Dirichlet scores in 50 digits, from the documents."""
    lengths = quantised_lengths(index.lengths)
    total = mpf(0)
    for topic, text in topics.items():
        scored = []
        for docno, gain in qrels[topic].items():
            doc = int(index.doc_numbers([docno])[0])
            if doc < 0 or gain < 0:
                continue
            g = mpf(0)
            for term in text.split():
                postings = index.postings(term)
                if postings is None:
                    continue
                tf = dict(zip(postings.docs.tolist(), postings.tfs.tolist(), strict=True))
                if doc in tf:
                    p = (int(postings.tfs.sum()) + 1.0) / (index.total_terms + 1.0)
                    part = mp.log(1 + tf[doc] / (mu * mpf(p))) + mp.log(mu / (lengths[doc] + mu))
                    g += max(mpf(0), part)
            scored.append((gain, g))
        known = any(index.postings(term) is not None for term in text.split())
        if known:
            total += sum(mp.log1p(mp.exp(h - g)) for a, g in scored for b, h in scored if a >= 1 > b)
    return total


@pytest.mark.parametrize("scale", [1, 10**9])
def test_the_cost_of_lucenes_scores_and_its_slope(scale: int) -> None:
    index, topics, qrels = random_collection(2, documents=25, topics=4)
    # Rare terms in a huge collection: the kernel then adds logarithms for the longest query.
    index.total_terms *= scale
    topics["1"] = " ".join([topics["1"], *["w3 w4 w5"] * 10])
    pool = CandidatePool.build(index, topics, qrels, model="lucene-dirichlet")
    pairs = Pairs.build(pool, sampled_negatives=0)
    for mu in (0.01, 3.0, 40.0, 2500.0):
        ours = pairs.cost({"lambda": 0.0, "mu": mu})
        exact = exact_cost(index, topics, qrels, mpf(mu))
        h = mpf(mu) * mpf(10) ** -20
        slope = (exact_cost(index, topics, qrels, mu + h) - exact_cost(index, topics, qrels, mu - h)) / (
            2 * h
        )
        assert abs(ours.value - exact) <= 1e-11 * exact
        assert abs(ours.gradient[1] - slope) <= 1e-9 * abs(slope) + 1e-12 / mu
        assert ours.gradient[0] == 0.0


@pytest.mark.first_case
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith("sdm")) for name in MODELS]
)
def test_an_experiment_with_every_model(name: str) -> None:
    model = find_model(name)
    pool = pool_of(model)
    grid = (5, 6) if len(model.parameters) == 2 else (30,)
    plan = Plan(tuple(parse_measures(["AP", "P@10"])), model=name, grid=grid, starts=2, restarts=1)
    topics = [t for t in pool.topics if pool.judged_counts()[0][pool.positions([t])[0]]]
    result = run_experiment(pool, cross_validation(topics, 2, seed=0), plan)
    assert result.model == name
    assert any(name in note for note in result.notes) == (name != "two-stage")
    for row in result.rows:
        for fit in row.fits:
            assert all(fit.params[parameter] == value for parameter, value in model.fixed.items())
    assert plan.as_record()["model"] == name
    other = "two-stage" if name == "lucene-dirichlet" else "lucene-dirichlet"
    with pytest.raises(InputError, match="extracted for"):
        run_experiment(CandidatePool.build(pool.index, {"1": "w1"}, {"1": {}}, model=other), [], plan)
    assert find_model(other).formula is not model.formula
