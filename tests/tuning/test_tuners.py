"""Tuners: each finds what an exhaustive look finds."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, rosen, rosen_der
from support import TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import Regions
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure, measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.parameter import expit, logit
from lmtune.tuning.direct import CoordinateAscent, GridSearch
from lmtune.tuning.gradient import RankNetTuner, coordinate_descent, l_bfgs
from lmtune.tuning.pairs import Cost, Pairs
from lmtune.tuning.space import ParameterSpace


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    return CandidatePool.build(index, topics, qrels)


def test_grid_search_finds_the_best_point(pool: CandidatePool) -> None:
    train = pool.topics[:12]
    grid = GridSearch("AP", shape=(5, 7)).fit(pool, topics=train)
    assert grid.n_evaluations_ == len(grid.results_) == 35
    means = [
        measure(pool, {"lambda": row["lambda"], "mu": row["mu"]}, measures=["AP"], topics=train)["AP"].mean()
        for row in grid.results_.to_dict("records")
    ]
    np.testing.assert_allclose(grid.results_["AP"], means, rtol=1e-13)
    assert grid.best_value_ == pytest.approx(max(means), rel=1e-13)
    best = grid.results_.iloc[int(np.argmax(means))]
    assert grid.best_params_ == {"lambda": best["lambda"], "mu": best["mu"]}


def test_a_dense_grid_is_measured_cell_by_cell(pool: CandidatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = Regions.build

    def spy(*arguments: Any, **options: Any) -> Regions:
        built.append(options)
        return build(*arguments, **options)

    plain = GridSearch("AP", shape=(9, 11), depth=10).fit(pool)
    monkeypatch.setattr("lmtune.candidates.regions._MANY_SETTINGS", 50)
    monkeypatch.setattr(Regions, "build", spy)
    dense = GridSearch("AP", shape=(9, 11), depth=10).fit(pool)
    assert len(built) == 1
    assert dense.results_.equals(plain.results_)


def test_coordinate_ascent_never_ends_below_its_starts(pool: CandidatePool) -> None:
    starts = [{"lambda": 0.2, "mu": 30.0}, {"lambda": 0.9, "mu": 3000.0}]
    ascent = CoordinateAscent("Bpref", starts=starts, restarts=3, seed=4).fit(pool)
    began = measure_settings(pool, starts, [parse_measure("Bpref")])[:, :, 0].mean(0)
    assert ascent.best_value_ >= began.max()
    assert ascent.results_["start"].nunique() == 5
    assert ascent.n_evaluations_ == len(ascent.results_[["lambda", "mu"]].drop_duplicates())
    again = CoordinateAscent("Bpref", starts=starts, restarts=3, seed=4).fit(pool)
    assert again.best_params_ == ascent.best_params_
    assert again.results_.equals(ascent.results_)


def test_coordinate_ascent_ends_where_no_last_step_improves(pool: CandidatePool) -> None:
    ascent = CoordinateAscent("AP", starts=[{"lambda": 0.5, "mu": 100.0}], restarts=0).fit(pool)
    best_lambda, best_mu = ascent.best_params_.values()
    for step in (-2, -1, 1, 2):
        aside = min(max(best_lambda + step * 0.1 / 32, 0.0), 0.95)
        along = best_mu * np.exp(step * 0.5 / 32)
        for lambda_, mu in ((aside, best_mu), (best_lambda, along)):
            value = measure(pool, {"lambda": lambda_, "mu": mu}, measures=["AP"])["AP"].mean()
            assert value <= ascent.best_value_ + 1e-12


def test_coordinate_ascent_reaches_a_smooth_optimum() -> None:
    # One relevant document that only wins where the smoothing is light.
    index = TinyIndex({"rel": "x a b c", "non": "x x " + "z " * 30, "pad": "q " * 60})
    pool = CandidatePool.build(index, {"1": "x"}, {"1": {"rel": 1, "non": 0}})
    ascent = CoordinateAscent("AP", starts=[{"lambda": 0.5, "mu": 500.0}], restarts=0, steps={"mu": 3.0}).fit(
        pool
    )
    assert ascent.best_value_ == 1.0


@pytest.mark.parametrize("optimizer", ["coordinate-descent", "l-bfgs"])
def test_ranknet_reaches_the_lowest_cost(pool: CandidatePool, optimizer: str) -> None:
    space = ParameterSpace.of("two-stage", {"lambda": (0.0, 0.99), "mu": (0.1, 1e4)})
    tuner = RankNetTuner(optimizer=optimizer, space=space, seed=1).fit(pool)
    pairs = Pairs.build(pool)
    lambdas, mus = space.grid((40, 40)).T
    costs = [
        pairs.cost({"lambda": float(l_), "mu": float(m_)}).value for l_, m_ in zip(lambdas, mus, strict=True)
    ]
    assert tuner.best_value_ <= min(costs) * (1 + 1e-9)
    assert tuner.best_value_ == pytest.approx(pairs.cost(tuner.best_params_).value, rel=1e-9)
    assert tuner.n_pairs_ == pairs.per_topic.sum()
    assert tuner.converged_


@pytest.mark.parametrize("seed", range(6))
def test_the_two_optimizers_agree(seed: int) -> None:
    # In small collections lambda and mu make up for each other: a valley to creep along.
    index, topics, qrels = random_collection(seed, documents=50, topics=8)
    small = CandidatePool.build(index, topics, qrels)
    one, two = (RankNetTuner(optimizer=o).fit(small) for o in ("coordinate-descent", "l-bfgs"))
    assert one.converged_
    assert one.best_value_ <= two.best_value_ * (1 + 1e-8)
    if one.best_value_ >= two.best_value_ * (1 - 1e-8):  # else L-BFGS ended in another valley
        assert one.best_params_["lambda"] == pytest.approx(two.best_params_["lambda"], abs=1e-4)
        assert one.best_params_["mu"] == pytest.approx(two.best_params_["mu"], rel=1e-3)


def test_evaluations_are_counted_once_each(pool: CandidatePool) -> None:
    calls: list[tuple[float, ...]] = []

    class Counting(Pairs):
        def cost(self, setting: Any, **options: Any) -> Cost:
            calls.append(tuple(setting))
            return super().cost(setting, **options)

    pairs = Pairs.build(pool)
    others = pairs.rel, pairs.sampled_negatives, pairs.rule, pairs.has_sampled_negatives
    counting = Counting(pool, pairs.columns, pairs.relevant, *others)
    tuner = RankNetTuner(starts=2).fit(pool, pairs=counting)
    assert tuner.n_evaluations_ == len(calls)
    assert len(set(calls)) >= 0.9 * len(calls)


def test_tuners_know_when_they_were_where(pool: CandidatePool) -> None:
    for optimizer in ("coordinate-descent", "l-bfgs"):
        begin = time.monotonic()
        tuner = RankNetTuner(optimizer=optimizer, seed=1, measures=["AP"]).fit(pool)
        took = time.monotonic() - begin
        assert len(tuner.seconds_) == len(tuner.results_)
        assert tuner.seconds_[0] >= 0.0
        assert (np.diff(tuner.seconds_) >= 0.0).all()
        assert tuner.seconds_[-1] <= took
    ascent = CoordinateAscent("AP", seed=1).fit(pool)
    assert len(ascent.seconds_) == len(ascent.results_)
    assert (np.diff(ascent.seconds_) >= 0.0).all()
    assert 0.0 < ascent.seconds_[0] < ascent.seconds_[-1]
    grid = GridSearch("AP", shape=(3, 4)).fit(pool)
    assert len(grid.seconds_) == 12
    assert len(set(grid.seconds_)) == 1


def test_a_fixed_parameter_stays_and_is_on_no_edge(pool: CandidatePool) -> None:
    dirichlet = RankNetTuner(
        space=ParameterSpace.of("two-stage", {"lambda": (0.0, 0.0), "mu": (1.0, 1e5)})
    ).fit(pool)
    assert dirichlet.best_params_["lambda"] == 0.0
    cost = Pairs.build(pool).cost({"lambda": 0.0, "mu": dirichlet.best_params_["mu"]})
    assert dirichlet.best_value_ == pytest.approx(cost.value, rel=1e-12)
    assert not [edge for edge in dirichlet.at_edge_ if "lambda" in edge]
    fixed = RankNetTuner(
        space=ParameterSpace.of("two-stage", {"lambda": (0.0, 0.9), "mu": (50.0, 50.0)})
    ).fit(pool)
    assert fixed.best_params_["mu"] == pytest.approx(50.0, rel=1e-12)


def test_pairs_built_otherwise_are_refused(pool: CandidatePool) -> None:
    with pytest.raises(InputError, match="other arguments"):
        RankNetTuner(rel=2).fit(pool, pairs=Pairs.build(pool))


@settings(deadline=None)
@given(st.floats(0.1, 3.0), st.floats(-0.95, 0.95), st.floats(-2, 2), st.floats(-2, 2))
def test_descent_finds_the_bottom_of_any_valley(width: float, slant: float, a: float, b: float) -> None:
    hessian = np.array([[1.0, slant * width], [slant * width, width**2]])
    centre = np.array([a, b])

    def bowl(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        gradient = hessian @ (x - centre)
        return 1.0 + float((x - centre) @ gradient) / 2.0, gradient

    box = ((-3.0, 3.0), (-1.0, 3.0))
    # The bottom, or the best point of the edge that it lies beyond.
    edge = centre[0] - hessian[0, 1] * (-1.0 - centre[1])
    lowest = 1.0 if b >= -1.0 else bowl(np.array([np.clip(edge, -3.0, 3.0), -1.0]))[0]
    for minimise in (coordinate_descent, l_bfgs):
        found = minimise(bowl, np.array([2.5, -0.5]), box)
        assert found.points[-1].cost <= lowest + 1e-10
        costs = [point.cost for point in found.points]
        assert all(later <= earlier for earlier, later in itertools.pairwise(costs))


def curved_valley(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    return rosen(x) / 100.0, rosen_der(x) / 100.0


@pytest.mark.parametrize(("size", "most"), [(2, 150), (6, 400), (20, 2000)])
@pytest.mark.parametrize("high", [3.0, 0.8])
def test_descent_follows_a_curved_valley(size: int, most: int, high: float) -> None:
    # Beyond 0.8 lies the unbounded minimum: there the valley ends on an edge.
    box = ((-1.5, high),) * size
    start = np.where(np.arange(size) % 2, 0.6, -1.2)
    calls = []

    def counted(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        calls.append(x)
        return curved_valley(x)

    found = coordinate_descent(counted, start, box)
    assert found.converged
    assert len(calls) <= most
    end = found.points[-1]
    # From our end scipy finds no way on, and from our start it ends there too, or higher up.
    for begin in (end.x, start):
        theirs = minimize(
            curved_valley,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"ftol": 1e-16, "gtol": 1e-10},
        )
        assert end.cost <= theirs.fun + 1e-12
        if theirs.fun <= end.cost + 1e-9:
            np.testing.assert_allclose(end.x, theirs.x, atol=1e-4)
    assert ((np.array(calls) >= -1.5) & (np.array(calls) <= high)).all()


@pytest.mark.parametrize("size", [1, 2, 6, 20])
def test_a_second_round_ends_at_the_bottom_of_a_bowl(size: int) -> None:
    rng = np.random.default_rng(size)
    turned, _ = np.linalg.qr(rng.normal(size=(size, size)))
    hessian = turned @ np.diag(np.geomspace(0.05, 1.0, size)) @ turned.T
    slope = rng.uniform(-0.1, 0.1, size)
    calls = []

    def bowl(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        calls.append(x)
        return float(x @ hessian @ x / 2.0 + slope @ x), hessian @ x + slope

    found = coordinate_descent(bowl, np.zeros(size), ((-50.0, 50.0),) * size)
    assert found.converged
    np.testing.assert_allclose(found.points[-1].x, np.linalg.solve(hessian, -slope), atol=1e-6)
    # A move a coordinate and round, and the first round's looking for how far to go.
    assert len(found.points) <= 1 + 3 * size
    assert len(calls) <= 1 + 5 * size


def test_the_trace_descends_and_repeats(pool: CandidatePool) -> None:
    tuner = RankNetTuner(seed=3, starts=3, measures=["AP", "P@10"]).fit(pool, topics=pool.topics[:9])
    trace = tuner.results_
    assert list(trace.columns) == ["start", "step", "lambda", "mu", "cost", "AP", "P@10"]
    for _, part in trace.groupby("start"):
        assert (np.diff(part["cost"]) < 0).all()
    last = trace.iloc[len(trace) // 2]
    values = measure(
        pool, {"lambda": last["lambda"], "mu": last["mu"]}, measures=["AP"], topics=pool.topics[:9]
    )
    assert last["AP"] == pytest.approx(values["AP"].mean(), rel=1e-12)
    again = RankNetTuner(seed=3, starts=3, measures=["AP", "P@10"]).fit(pool, topics=pool.topics[:9])
    assert again.results_.equals(trace)


def test_validation_picks_the_iterate_that_measures_best(pool: CandidatePool) -> None:
    tuner = RankNetTuner().fit(pool, topics=pool.topics[:8])
    before = tuner.n_evaluations_
    tuner.stop_on(pool, "AP", topics=pool.topics[8:14])
    assert tuner.n_evaluations_ == before + len(tuner.results_)
    row = tuner.results_.iloc[int(tuner.results_["validation AP"].argmax())]
    assert tuner.best_params_ == {"lambda": row["lambda"], "mu": row["mu"]}
    values = measure(pool, tuner.best_params_, measures=["AP"], topics=pool.topics[8:14])
    assert values["AP"].mean() == pytest.approx(tuner.results_["validation AP"].max(), rel=1e-12)


def test_a_fit_on_the_edge_says_so(pool: CandidatePool) -> None:
    space = ParameterSpace.of("two-stage", {"lambda": (0.0, 0.5), "mu": (5000.0, 6000.0)})
    tuner = RankNetTuner(space=space).fit(pool)
    assert 0.0 <= tuner.best_params_["lambda"] <= 0.5
    assert 5000.0 <= tuner.best_params_["mu"] <= 6000.0
    assert tuner.at_edge_


@pytest.mark.parametrize("arguments", [{"optimizer": "adam"}, {"starts": 0}, {"seed": -1}])
def test_ranknet_refuses_bad_arguments(pool: CandidatePool, arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        RankNetTuner(**arguments).fit(pool)  # type: ignore[arg-type]


@pytest.mark.parametrize("tuner", [GridSearch(shape=(2, 2)), CoordinateAscent(), RankNetTuner()])
def test_no_topics(pool: CandidatePool, tuner: GridSearch | CoordinateAscent | RankNetTuner) -> None:
    with pytest.raises(InputError, match="no topics"):
        tuner.fit(pool, topics=[])


def test_unknown_topics_are_named(pool: CandidatePool) -> None:
    with pytest.raises(InputError, match="'nope'"):
        GridSearch().fit(pool, topics=["1", "nope"])


@pytest.mark.parametrize("bounds", [(0.5, 0.4, 1, 10), (0, 1.0, 1, 10), (-0.1, 0.5, 1, 10), (0, 0.5, 0, 10)])
def test_impossible_spaces_are_refused(bounds: tuple[float, float, float, float]) -> None:
    with pytest.raises(InputError):
        ParameterSpace.of("two-stage", {"lambda": bounds[:2], "mu": bounds[2:]})


def test_a_narrow_grid_keeps_its_points_apart() -> None:
    lambdas, mus = (
        ParameterSpace.of("two-stage", {"lambda": (0.0, 0.0), "mu": (1000.0, 1001.0)}).grid((20, 11)).T
    )
    assert set(lambdas) == {0.0}
    assert len(set(mus)) == len(mus) == 11
    assert mus.min() == pytest.approx(1000.0)
    assert mus.max() == pytest.approx(1001.0)


@pytest.mark.parametrize(
    ("lambda_", "mu", "edges"),
    [
        (0.5, 100.0, []),
        (0.0, 100.0, ["lambda = 0"]),
        (1e-4 * (1 + 1e-9), 100.0, ["lambda = 0.0001"]),
        (0.95, 1e5, ["lambda = 0.95", "mu = 100000"]),
        (0.3, 1.0, ["mu = 1"]),
    ],
)
def test_edges_are_seen(lambda_: float, mu: float, edges: list[str]) -> None:
    assert ParameterSpace.of().at_edge([lambda_, mu]) == edges


def test_a_grid_covers_its_space() -> None:
    lambdas, mus = ParameterSpace.of("two-stage", {"lambda": (0.1, 0.9), "mu": (1.0, 1000.0)}).grid((5, 4)).T
    assert sorted(set(lambdas)) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    assert sorted(set(mus)) == [1.0, 10.0, 100.0, 1000.0]
    assert len(lambdas) == 20


@pytest.mark.parametrize("x", [-700.0, -3.0, 0.0, 1e-9, 5.0, 30.0])
def test_expit_undoes_logit(x: float) -> None:
    assert logit(expit(x)) == pytest.approx(x, rel=1e-3 if x == 30.0 else 1e-9, abs=1e-9)
