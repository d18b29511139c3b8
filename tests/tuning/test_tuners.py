"""Tuners: each finds what an exhaustive look finds."""

from __future__ import annotations

import numpy as np
import pytest
from support import TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure, measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.tuning.coordinate_ascent import CoordinateAscent
from lmtune.tuning.grid import GridSearch
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.ranknet import RankNetTuner
from lmtune.tuning.space import ParameterSpace, expit, logit


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    return CandidatePool.build(index, topics, qrels)


def test_grid_search_finds_the_best_point(pool: CandidatePool) -> None:
    train = pool.topics[:12]
    grid = GridSearch("AP", shape=(5, 7)).fit(pool, topics=train)
    assert grid.n_evaluations_ == len(grid.results_) == 35
    means = [
        measure(pool, lambda_=row["lambda"], mu=row["mu"], measures=["AP"], topics=train)[
            "AP"
        ].mean()
        for row in grid.results_.to_dict("records")
    ]
    np.testing.assert_allclose(grid.results_["AP"], means, rtol=1e-13)
    assert grid.best_score_ == pytest.approx(max(means), rel=1e-13)
    best = grid.results_.iloc[int(np.argmax(means))]
    assert grid.best_params_ == {"lambda": best["lambda"], "mu": best["mu"]}


def test_coordinate_ascent_never_ends_below_its_starts(pool: CandidatePool) -> None:
    starts = [(0.2, 30.0), (0.9, 3000.0)]
    ascent = CoordinateAscent("Bpref", starts=starts, restarts=3, seed=4).fit(pool)
    lambdas, mus = zip(*starts, strict=True)
    began = measure_settings(pool, lambdas, mus, [parse_measure("Bpref")])[:, :, 0].mean(0)
    assert ascent.best_score_ >= began.max()
    assert ascent.results_["start"].nunique() == 5
    assert ascent.n_evaluations_ == len(ascent.results_[["lambda", "mu"]].drop_duplicates())
    again = CoordinateAscent("Bpref", starts=starts, restarts=3, seed=4).fit(pool)
    assert again.best_params_ == ascent.best_params_
    assert again.results_.equals(ascent.results_)


def test_coordinate_ascent_reaches_a_smooth_optimum() -> None:
    # One relevant document that only wins where the smoothing is light.
    index = TinyIndex({"rel": "x a b c", "non": "x x " + "z " * 30, "pad": "q " * 60})
    pool = CandidatePool.build(index, {"1": "x"}, {"1": {"rel": 1, "non": 0}})
    ascent = CoordinateAscent("AP", starts=[(0.5, 500.0)], restarts=0, steps=(0.1, 3.0)).fit(pool)
    assert ascent.best_score_ == 1.0


@pytest.mark.parametrize("optimizer", ["coordinate-descent", "l-bfgs"])
def test_ranknet_reaches_the_lowest_cost(pool: CandidatePool, optimizer: str) -> None:
    space = ParameterSpace(0.0, 0.99, 0.1, 1e4)
    tuner = RankNetTuner(optimizer=optimizer, space=space, seed=1).fit(pool)
    pairs = Pairs.build(pool)
    lambdas, mus = space.grid(40, 40)
    costs = [pairs.cost(float(l_), float(m_)).value for l_, m_ in zip(lambdas, mus, strict=True)]
    assert tuner.cost_ <= min(costs) * (1 + 1e-9)
    assert tuner.cost_ == pytest.approx(pairs.cost(tuner.lambda_, tuner.mu_).value, rel=1e-9)
    assert tuner.n_pairs_ == pairs.per_topic.sum()


def test_the_two_optimizers_agree(pool: CandidatePool) -> None:
    one, two = (RankNetTuner(optimizer=o).fit(pool) for o in ("coordinate-descent", "l-bfgs"))
    assert one.cost_ == pytest.approx(two.cost_, rel=1e-7)


def test_the_trace_descends_and_repeats(pool: CandidatePool) -> None:
    tuner = RankNetTuner(seed=3, starts=3, measures=["AP", "P@10"]).fit(
        pool, topics=pool.topics[:9]
    )
    trace = tuner.trace_
    assert list(trace.columns) == ["start", "iteration", "cost", "lambda", "mu", "AP", "P@10"]
    for _, part in trace.groupby("start"):
        assert (np.diff(part["cost"]) < 0).all()
    last = trace.iloc[len(trace) // 2]
    values = measure(
        pool, lambda_=last["lambda"], mu=last["mu"], measures=["AP"], topics=pool.topics[:9]
    )
    assert last["AP"] == pytest.approx(values["AP"].mean(), rel=1e-12)
    again = RankNetTuner(seed=3, starts=3, measures=["AP", "P@10"]).fit(
        pool, topics=pool.topics[:9]
    )
    assert again.trace_.equals(trace)


def test_validation_picks_the_iterate_that_measures_best(pool: CandidatePool) -> None:
    tuner = RankNetTuner(stop_on="AP").fit(
        pool, topics=pool.topics[:8], validation=pool.topics[8:14]
    )
    row = tuner.trace_.iloc[int(tuner.trace_["validation"].argmax())]
    assert (tuner.lambda_, tuner.mu_) == (row["lambda"], row["mu"])
    values = measure(
        pool, lambda_=tuner.lambda_, mu=tuner.mu_, measures=["AP"], topics=pool.topics[8:14]
    )
    assert values["AP"].mean() == pytest.approx(tuner.trace_["validation"].max(), rel=1e-12)


def test_a_fit_on_the_edge_says_so(pool: CandidatePool) -> None:
    space = ParameterSpace(0.0, 0.5, 5000.0, 6000.0)
    tuner = RankNetTuner(space=space).fit(pool)
    assert space.lambda_low <= tuner.lambda_ <= space.lambda_high
    assert space.mu_low <= tuner.mu_ <= space.mu_high
    assert tuner.at_edge_


@pytest.mark.parametrize(
    "arguments", [{"optimizer": "adam"}, {"starts": 0}, {"stop_on": "nonsense"}]
)
def test_ranknet_refuses_bad_arguments(arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        RankNetTuner(**arguments)  # type: ignore[arg-type]


def test_stopping_needs_validation_topics(pool: CandidatePool) -> None:
    with pytest.raises(InputError, match="validation"):
        RankNetTuner(stop_on="AP").fit(pool)


def test_unknown_topics_are_named(pool: CandidatePool) -> None:
    with pytest.raises(InputError, match="'nope'"):
        GridSearch().fit(pool, topics=["1", "nope"])


@pytest.mark.parametrize(
    "bounds", [(0.5, 0.4, 1, 10), (0, 1.0, 1, 10), (-0.1, 0.5, 1, 10), (0, 0.5, 0, 10)]
)
def test_impossible_spaces_are_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(InputError):
        ParameterSpace(*bounds)


def test_a_grid_covers_its_space() -> None:
    lambdas, mus = ParameterSpace(0.1, 0.9, 1.0, 1000.0).grid(5, 4)
    assert sorted(set(lambdas)) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    assert sorted(set(mus)) == [1.0, 10.0, 100.0, 1000.0]
    assert len(lambdas) == 20


@pytest.mark.parametrize("x", [-700.0, -3.0, 0.0, 1e-9, 5.0, 30.0])
def test_expit_undoes_logit(x: float) -> None:
    assert logit(expit(x)) == pytest.approx(x, rel=1e-3 if x == 30.0 else 1e-9, abs=1e-9)
