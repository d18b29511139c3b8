"""Certificates: no setting anywhere measures more than they allow."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support import COLLECTIONS, TinyIndex, at, random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.taylor_kernels import Sides
from lmtune.tuning.certificate import branch_and_bound
from lmtune.tuning.certificate.branch_and_bound import Box, bound_part, whole
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.certificate.problem import Problem
from lmtune.tuning.space import ParameterSpace

MEASURES = (
    "AP AP@3 AP@20 P@1 P@5 P@30 Bpref AP(rel=2) P(rel=2)@5 Bpref(rel=2) RR RR@4 R@7 Success@2 nDCG "
    "nDCG@10 nDCG(dcg='exp-log2')@5"
).split()
SPACE = ParameterSpace.of()
WHOLE = COLLECTIONS > 100  # in `make attack`


def pool_of(seed: int) -> CandidatePool:
    """Build short documents, so that ties, twins and repeated query terms are common."""
    rng = np.random.default_rng(seed)
    index, topics, qrels = random_collection(
        seed, documents=int(rng.integers(5, 120)), topics=8, vocabulary=int(rng.integers(2, 15))
    )
    return CandidatePool.build(index, topics, qrels)


def settings_in(
    space: ParameterSpace, count: int, rng: np.random.Generator
) -> tuple[list[float], list[float]]:
    """Draw settings from all over a range, its ends and corners included."""
    drawn = [space.random(rng) for _ in range(count)]
    corners = itertools.product(*zip(space.low, space.high, drawn[0], strict=True))
    lambdas, mus = np.array([*drawn, *corners]).T.tolist()
    return lambdas, mus


def per_topic(pool: CandidatePool, box: Box, rel: int) -> NDArray[np.float64]:
    """Spread a box's bounds over the pool's topics; those without a relevant candidate get 0."""
    gain = pool.candidates.gain
    chosen = [t for t in range(len(pool.topics)) if (gain[pool.candidates.rows(t)] >= rel).any()]
    bounds = np.zeros(len(pool.topics))
    bounds[chosen] = box.bounds
    assert box.bound >= bounds.mean()
    return bounds


def nested(rng: np.random.Generator, sides: Sides, target: tuple[float, float]) -> Iterator[Sides]:
    """Cut towards a point again and again, by random amounts."""
    s, u = target
    s_low, s_high, u_low, u_high = sides
    while True:
        a, b, c, d = rng.uniform(0.0, 1.0, 4) ** rng.integers(1, 4)
        s_low, s_high = s_low + a * (s - s_low), s_high - b * (s_high - s)
        u_low, u_high = u_low + c * (u - u_low), u_high - d * (u_high - u)
        yield s_low, s_high, u_low, u_high


@pytest.mark.slow
@settings(deadline=None, max_examples=COLLECTIONS)
@given(st.integers(0, 10**6), st.sampled_from(MEASURES), st.sampled_from([1, 4, 12, 1000]))
def test_no_topic_exceeds_its_bound_in_any_box(seed: int, name: str, depth: int) -> None:
    rng = np.random.default_rng(seed)
    pool = pool_of(seed)
    measure = parse_measure(name)
    low, high = np.sort(rng.uniform(0.0, 0.99, 2) * (rng.random(2) < 0.8))
    mu_low, mu_high = np.exp(np.sort(rng.uniform(-8.0, 14.0, 2)))
    space = ParameterSpace.of("two-stage", {"lambda": (low, high), "mu": (mu_low, mu_high)})
    problem = Problem.build(pool, measure, space=space, topics=pool.positions(), depth=depth)
    box = whole(problem)
    target = space.random(rng)
    point = math.log1p(-target[0]), math.log(target[1])
    for sides, _ in zip(nested(rng, problem.sides, point), range(7), strict=False):
        # Settings surely inside, ends aside: logarithms are rounded.
        s_low, s_high, u_low, u_high = sides
        s = np.append(rng.uniform(s_low, s_high, 30), [s_low, s_high])
        u = np.append(rng.uniform(u_low, u_high, 30), [u_high, u_low])
        inside = [space.clip((-math.expm1(a), math.exp(b))) for a, b in zip(s, u, strict=True)]
        for bounded in (box, bound_part(problem, box, sides)):
            bounds = per_topic(pool, bounded, measure.rel)
            points = inside if bounded is not box else [*inside, target]
            surely = [
                (lambda_, mu)
                for lambda_, mu in points
                if bounded.sides[0] <= math.log1p(-lambda_) <= bounded.sides[1]
                and bounded.sides[2] <= math.log(mu) <= bounded.sides[3]
            ]
            if surely:
                lambdas, mus = zip(*surely, strict=True)
                values = measure_settings(pool, at(lambdas, mus), [measure], depth=depth)
                assert (values[:, :, 0] <= bounds[:, None]).all()
        box = bounded


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(MEASURES), st.sampled_from([4, 12, 1000]))
def test_bounds_of_tiny_boxes_are_the_values(seed: int, name: str, depth: int) -> None:
    rng = np.random.default_rng(seed)
    texts = {f"d{i}": " ".join(rng.choice(list("abcde"), rng.integers(1, 30))) for i in range(50)}
    # Pad so that no order depends on rounding: no two terms are equally frequent, and no fraction of
    # a document is a fraction of the collection, whose length is prime.
    found = Counter(" ".join(texts.values()).split())
    most = max(found.values())
    pad = [word for i, word in enumerate("abcde", 1) for _ in range(most + i - found[word])]
    texts["pad"] = " ".join(pad + ["z"] * (5003 - len(pad) - sum(found.values())))
    index = TinyIndex(texts)
    queries = {str(t): " ".join(rng.choice(list("abcde"), rng.integers(1, 5))) for t in range(6)}
    qrels = {t: {d: int(rng.integers(-1, 3)) for d in texts} for t in queries}
    pool = CandidatePool.build(index, queries, qrels)
    measure = parse_measure(name)
    problem = Problem.build(pool, measure, space=SPACE, topics=pool.positions(), depth=depth)
    lambda_, mu = SPACE.random(rng)
    s, u = math.log1p(-lambda_), math.log(mu)
    box = whole(problem)
    for width in (0.1, 1e-3, 1e-5, 1e-7):
        box = bound_part(problem, box, (s - width, s + width, u - width, u + width))
    values = measure_settings(pool, at(lambda_, mu), [measure], depth=depth)[:, 0, 0]
    bounds = per_topic(pool, box, measure.rel)
    same = np.isclose(bounds, values, rtol=1e-12, atol=0.0)
    # A crossing within 1e-7 of a random setting is possible, and rare.
    assert same.sum() >= values.size - 1 if box.state.docs.size else same.all()


@pytest.mark.first_case
@pytest.mark.parametrize("name", MEASURES)
def test_certificates_hold_and_reach_their_tolerance(name: str) -> None:
    for seed, depth in itertools.product((1, 2), (1000, 15)) if WHOLE else ((1, 1000), (2, 15)):
        index, topics, qrels = random_collection(seed, documents=90, topics=25, vocabulary=14)
        pool = CandidatePool.build(index, topics, qrels)
        chosen = pool.topics[3:]
        optimum = CertifiedOptimum(name, tolerance=0.004, depth=depth).fit(pool, topics=chosen)
        assert optimum.certified_
        assert optimum.stopped_ is None
        assert optimum.gap_ == optimum.bound_ - optimum.best_value_ <= 0.004 + 1e-15
        measure = parse_measure(name)
        places = pool.positions(chosen)
        params = optimum.best_params_
        at_best = measure_settings(
            pool, at(params["lambda"], params["mu"]), [measure], topics=places, depth=depth
        )
        assert optimum.best_value_ == pytest.approx(at_best[:, 0, 0].mean(), rel=1e-14)
        lambdas, mus = settings_in(SPACE, 1500, np.random.default_rng(seed))
        grid = SPACE.grid((40, 40)).T
        values = measure_settings(
            pool,
            at(np.append(lambdas, grid[0]), np.append(mus, grid[1])),
            [measure],
            topics=places,
            depth=depth,
        )[:, :, 0].mean(axis=0)
        assert values.max() <= optimum.bound_
        check_boxes(optimum, np.append(lambdas, grid[0]), np.append(mus, grid[1]), values)


def check_boxes(
    optimum: CertifiedOptimum,
    lambdas: NDArray[np.float64],
    mus: NDArray[np.float64],
    values: NDArray[np.float64],
) -> None:
    """No setting outside the boxes is better than the best; none inside exceeds its bound."""
    low, high = (optimum.boxes_[[f"lambda_{end}", f"mu_{end}"]].to_numpy() for end in ("low", "high"))
    bounds = optimum.boxes_["bound"].to_numpy()
    points = np.column_stack((lambdas, mus))
    for part in np.array_split(np.arange(values.size), 16):
        inside = ((low <= points[part, None]) & (points[part, None] <= high)).all(axis=2)
        allowed = np.where(inside, bounds, -np.inf).max(axis=1, initial=optimum.best_value_ + 1e-12)
        assert (values[part] <= allowed).all()
    assert (optimum.boxes_["bound"] > optimum.best_value_).all()
    assert optimum.boxes_["bound"].max() <= optimum.bound_ or optimum.boxes_.empty


@pytest.mark.parametrize(
    "space",
    [
        ParameterSpace.of("two-stage", {"lambda": (0.3217, 0.3217), "mu": (41.3, 41.3)}),
        ParameterSpace.of("two-stage", {"lambda": (0.0, 0.0), "mu": (1e-3, 1e7)}),
        ParameterSpace.of("two-stage", {"lambda": (0.1, 0.999), "mu": (1.0, 1.0)}),
        ParameterSpace.of("two-stage", {"lambda": (0.0, 0.9999), "mu": (1e-6, 1e-5)}),
    ],
)
def test_thin_and_extreme_ranges(space: ParameterSpace) -> None:
    index, topics, qrels = random_collection(11, documents=80, topics=10)
    pool = CandidatePool.build(index, topics, qrels)
    optimum = CertifiedOptimum("AP", tolerance=0.01, space=space, max_seconds=20.0).fit(pool)
    lambdas, mus = settings_in(space, 1000, np.random.default_rng(0))
    values = measure_settings(pool, at(lambdas, mus), [parse_measure("AP")])[:, :, 0].mean(axis=0)
    assert values.max() <= optimum.bound_
    assert optimum.certified_


def test_long_queries_add_logarithms_and_stay_certain() -> None:
    rng = np.random.default_rng(5)
    words = [f"w{i}" for i in range(60)]
    texts = {f"d{i}": " ".join(rng.choice(words, rng.integers(5, 60))) for i in range(80)}
    queries = {str(t): " ".join(rng.choice(words, 300)) for t in range(3)}
    qrels = {t: {d: int(rng.integers(0, 2)) for d in texts} for t in queries}
    pool = CandidatePool.build(TinyIndex(texts), queries, qrels)
    space = ParameterSpace.of("two-stage", {"lambda": (0.0, 0.9), "mu": (0.01, 1e4)})
    problem = Problem.build(pool, parse_measure("AP"), space=space, topics=pool.positions(), depth=1000)
    assert not problem.columns.topics.product.any(), "products must be unsafe here"
    optimum = CertifiedOptimum("AP", tolerance=0.01, space=space, max_seconds=20.0).fit(pool)
    lambdas, mus = settings_in(space, 500, rng)
    values = measure_settings(pool, at(lambdas, mus), [parse_measure("AP")])[:, :, 0].mean(axis=0)
    assert values.max() <= optimum.bound_
    assert optimum.certified_


def test_orders_that_hang_on_rounding_end_the_search() -> None:
    # x and y are equally frequent: "x" and "y" score the same up to rounding, whatever the setting.
    texts = {"1": "x x y z q", "2": "x y y z q", "3": "z z z q q", "4": "q q q q"}
    pool = CandidatePool.build(TinyIndex(texts), {"1": "x z y"}, {"1": {"2": 1, "1": 0}})
    optimum = CertifiedOptimum("AP", tolerance=1e-9).fit(pool)
    assert optimum.stopped_ is None
    assert optimum.bound_ == pytest.approx(1.0)
    # Neither smoothing parameter moves documents whose every fraction is the collection's.
    texts = {"1": "x q", "2": "x x q q", "3": "x x x q q q", "4": "p q x q x p"}
    pool = CandidatePool.build(TinyIndex(texts), {"1": "x"}, {"1": {"3": 1}})
    optimum = CertifiedOptimum("AP", tolerance=1e-9).fit(pool)
    assert optimum.stopped_ is None
    lambdas, mus = settings_in(SPACE, 500, np.random.default_rng(0))
    values = measure_settings(pool, at(lambdas, mus), [parse_measure("AP")])[:, :, 0].mean(axis=0)
    assert values.max() <= optimum.bound_


def test_a_bound_that_rounding_holds_up_everywhere_ends_the_search() -> None:
    # Split into boxes of one size before any smaller ones, the range would take some 2**60 of them.
    pool = CandidatePool.build(*random_collection(12, documents=30, topics=4, vocabulary=4))
    optimum = CertifiedOptimum("RR", tolerance=1e-3, max_seconds=60.0).fit(pool)
    assert optimum.stopped_ is None
    lambdas, mus = settings_in(SPACE, 500, np.random.default_rng(0))
    values = measure_settings(pool, at(lambdas, mus), [parse_measure("RR")])[:, :, 0].mean(axis=0)
    assert values.max() <= optimum.bound_


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["AP", "P@3", "Bpref", "nDCG@5"])
def test_certificates_of_pruned_candidates_hold_for_all(name: str) -> None:
    index, topics, qrels = random_collection(9, documents=150, topics=15)
    whole_pool = CandidatePool.build(index, topics, qrels)
    pruned = skyband(whole_pool, depth=12)
    assert pruned.candidates.doc.size < whole_pool.candidates.doc.size
    optimum = CertifiedOptimum(name, tolerance=0.003, depth=12).fit(pruned)
    assert optimum.certified_
    lambdas, mus = settings_in(SPACE, 1500, np.random.default_rng(3))
    values = measure_settings(whole_pool, at(lambdas, mus), [parse_measure(name)], depth=12)
    assert values[:, :, 0].mean(axis=0).max() <= optimum.bound_


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    return CandidatePool.build(index, topics, qrels)


def brute_force(pool: CandidatePool, name: str) -> float:
    return float(surface(pool, name)[2].max())


def surface(
    pool: CandidatePool, name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    grid = SPACE.grid((50, 50))
    values = measure_settings(pool, grid, [parse_measure(name)])
    return *grid.T, values[:, :, 0].mean(axis=0)


@pytest.mark.parametrize("name", ["AP", "P@5", "Bpref"])
def test_an_interrupted_search_keeps_a_valid_bound(pool: CandidatePool, name: str) -> None:
    highest = brute_force(pool, name)
    previous = 1.0
    for batches in (1, 2, 5):
        calls: list[tuple[float, int]] = []
        optimum = CertifiedOptimum(name, tolerance=1e-6)

        def stop(done: int, total: int, after: int = batches) -> None:
            assert 0 <= done <= total == 100
            calls.append((optimum.bound_, optimum.n_boxes_))  # noqa: B023 - used in this round only
            if len(calls) == after:  # noqa: B023
                raise KeyboardInterrupt

        optimum.fit(pool, progress=stop)
        assert optimum.stopped_ == "interrupted"
        assert not optimum.certified_
        assert highest <= optimum.bound_ <= previous
        assert (optimum.bound_, optimum.n_boxes_) == calls[-1]
        check_boxes(optimum, *surface(pool, name))
        previous = optimum.bound_


def test_an_interrupted_batch_keeps_its_bound(pool: CandidatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    original = branch_and_bound.bound_part

    def interrupted(problem: Problem, parent: Box, sides: Sides) -> Box:
        nonlocal calls
        calls += 1
        if calls == 60:
            raise KeyboardInterrupt
        return original(problem, parent, sides)

    monkeypatch.setattr(branch_and_bound, "bound_part", interrupted)
    optimum = CertifiedOptimum("AP", tolerance=1e-6, workers=1).fit(pool)
    assert optimum.stopped_ == "interrupted"
    assert brute_force(pool, "AP") <= optimum.bound_ < 1.0
    assert optimum.bound_ == optimum.bounds_["bound"].iloc[-1]
    check_boxes(optimum, *surface(pool, "AP"))


def test_time_runs_out_with_a_valid_bound(pool: CandidatePool) -> None:
    optimum = CertifiedOptimum("AP", tolerance=1e-6, max_seconds=0.0).fit(pool)
    assert optimum.stopped_ == "time"
    assert optimum.n_boxes_ == 0
    assert brute_force(pool, "AP") <= optimum.bound_ <= 1.0
    assert optimum.best_value_ > 0.0
    optimum = CertifiedOptimum("AP", tolerance=1e-6, max_seconds=0.5).fit(pool)
    assert brute_force(pool, "AP") <= optimum.bound_


def test_the_result_does_not_depend_on_the_workers(pool: CandidatePool) -> None:
    one, three = (CertifiedOptimum("AP", tolerance=2e-3, workers=n).fit(pool) for n in (1, 3))
    assert one.results_.equals(three.results_)
    assert one.best_params_ == three.best_params_
    assert (one.bound_, one.n_boxes_) == (three.bound_, three.n_boxes_)
    assert len(one.seconds_) == len(one.results_) == one.n_evaluations_
    assert one.results_["AP"].max() == one.best_value_
    assert one.bounds_.equals(three.bounds_)
    assert (np.diff(one.bounds_["bound"]) <= 0.0).all()
    assert (np.diff(one.bounds_["best"]) >= 0.0).all()
    assert (np.diff(one.bounds_["boxes"]) > 0).all()


def test_little_memory_keeps_the_proof(pool: CandidatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_and_bound, "_MEMORY", 0)
    optimum = CertifiedOptimum("AP", tolerance=2e-3).fit(pool)
    assert optimum.certified_
    assert brute_force(pool, "AP") <= optimum.bound_


def test_starts_are_measured_first(pool: CandidatePool) -> None:
    start = {"lambda": 0.123, "mu": 45.6}
    optimum = CertifiedOptimum("AP", starts=[start], max_seconds=0.0).fit(pool)
    value = measure_settings(pool, start, [parse_measure("AP")])[:, 0, 0].mean()
    assert optimum.best_value_ >= value
    assert optimum.n_evaluations_ == 2


def test_topics_that_find_nothing_count_zero() -> None:
    index = TinyIndex({"a": "x y", "b": "z z"})
    qrels = {"1": {"a": 1}, "2": {"a": 1, "gone": 1}, "3": {"b": 0}}
    pool = CandidatePool.build(index, {"1": "z", "2": "x", "3": "y"}, qrels)
    optimum = CertifiedOptimum("AP").fit(pool)
    assert optimum.best_value_ == pytest.approx(0.5 / 3)
    assert optimum.bound_ == pytest.approx(0.5 / 3)
    assert CertifiedOptimum("AP").fit(pool, topics=["3"]).bound_ == 0.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"measure": "RBP"},
        {"measure": "Rprec"},
        {"tolerance": 0.0},
        {"tolerance": -1.0},
        {"tolerance": math.nan},
        {"workers": 0},
    ],
)
def test_bad_arguments_are_refused(pool: CandidatePool, arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        CertifiedOptimum(**arguments).fit(pool)  # type: ignore[arg-type]


def test_unknown_topics_are_refused(pool: CandidatePool) -> None:
    with pytest.raises(InputError, match="nope"):
        CertifiedOptimum().fit(pool, topics=["nope"])
    with pytest.raises(InputError, match="no topics"):
        CertifiedOptimum().fit(pool, topics=[])


def test_candidates_pruned_for_a_smaller_range_are_refused(pool: CandidatePool) -> None:
    pruned = skyband(pool, depth=10, mode="e", lambda_high=0.5, mu_high=100.0)
    with pytest.raises(InputError, match="smaller range"):
        CertifiedOptimum(depth=10).fit(pruned)
    with pytest.raises(InputError, match="smaller run depth"):
        CertifiedOptimum(
            depth=11, space=ParameterSpace.of("two-stage", {"lambda": (0.0, 0.5), "mu": (1.0, 100.0)})
        ).fit(pruned)


@pytest.fixture(scope="module")
def med(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> CandidatePool:
    data = lmtune.load(str(shared_data / "med"))
    index = lmtune.index_for(data.documents, home=tmp_path_factory.mktemp("indexes"))
    topics = list(data.topics)[:: 1 if WHOLE else 2]
    return CandidatePool.build(index, {topic: data.topics[topic] for topic in topics}, data.qrels)


@pytest.mark.parametrize("name", ["AP", "P@10"])
def test_a_real_collection(med: CandidatePool, name: str) -> None:
    optimum = CertifiedOptimum(name, tolerance=2e-3).fit(med)
    assert optimum.certified_
    rng = np.random.default_rng(1)
    lambdas, mus = settings_in(SPACE, 600, rng)
    best = optimum.best_params_
    near = [
        SPACE.clip((best["lambda"] + step * a, best["mu"] * math.exp(step * b)))
        for step in (1e-1, 1e-2, 1e-3)
        for a, b in rng.normal(size=(200, 2))
    ]
    lambdas += [lambda_ for lambda_, _ in near]
    mus += [mu for _, mu in near]
    values = measure_settings(med, at(lambdas, mus), [parse_measure(name)])[:, :, 0].mean(axis=0)
    assert values.max() <= optimum.bound_
