"""Cells' candidates against all candidates, and the bounds they come from against the scores."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from support import COLLECTIONS, at, best_documents, random_pool

import lmtune
from lmtune.candidates import region_kernels as kernels
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import OUTSIDE, Regions
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.bm25 import BM25
from lmtune.models.two_stage import LuceneDirichlet, TwoStage
from lmtune.tuning.space import ParameterSpace

WEIGHTS = [(1,), (3,), (1, 1), (2, 1), (1, 1, 1), (1, 2, 3), (1, 1, 1, 1, 1), (1,) * 60]
MEASURES = parse_measures(["AP", "Bpref", "P@10", "AP(rel=2)", "nDCG@10", "RR", "R@20"])
RANGES = [
    (0.0, 0.95, 50.0, 10_000.0),
    (0.0, 0.95, 1.0, 100_000.0),
    (0.0, 1 - 1e-9, 1e-20, 1e9),
    (0.0, 0.0, 1e-9, 1e9),
    (0.3, 0.3, 20.0, 20.0),
    (0.5, 1 - 2**-53, 1e-3, 10.0),
    (1e-9, 0.2, 0.1, 0.2),
]
BM25_RANGES = [
    (0.01, 5.0, 0.0, 1.0),
    (1e-20, 1e9, 0.0, 1.0),
    (0.9, 1.2, 0.4, 0.4),
    (0.5, 0.5, 1.0, 1.0),
    (0.1, 3.0, 1e-12, 0.01),
    (1e-20, 1e-19, 0.0, 0.2),
]
SHAPES = [(1, 1), (2, 3), (5, 7), (16, 16)]

pools = st.builds(
    lambda seed, w, documents, equal_p, longest, rate: random_pool(
        seed, documents=documents, weights=[w], equal_p=equal_p, longest=longest, rate=rate
    ),
    seed=st.integers(0, 2**32 - 1),
    w=st.sampled_from(WEIGHTS),
    documents=st.integers(1, 150),
    equal_p=st.booleans(),
    longest=st.sampled_from([1, 3, 40, 100_000]),
    rate=st.sampled_from([0.2, 0.7, 5.0, 300.0]),
)


def settings_inside(
    regions: Regions, bounds: tuple[float, float, float, float], rng: np.random.Generator
) -> list[tuple[float, float]]:
    """Give the corners of the range, the corners of some cells, and random settings."""
    points = list(itertools.product(bounds[:2], bounds[2:]))
    s, u = rng.choice(regions.s_edges, 4), rng.choice(regions.u_edges, 4)
    s = np.append(s, rng.uniform(regions.s_edges[0], regions.s_edges[-1], 12))
    u = np.append(u, rng.uniform(regions.u_edges[0], regions.u_edges[-1], 12))
    smoothed = regions.pool.formula.name == "two-stage"
    points += zip(*((-np.expm1(s), np.exp(u)) if smoothed else (np.exp(s), u)), strict=True)
    return [
        (float(one), float(other))
        for one, other in points
        if bounds[0] <= one <= bounds[1] and bounds[2] <= other <= bounds[3]
    ]


def best_in_cell(regions: Regions, lambda_: float, mu: float, depth: int) -> list[int]:
    """Rank the documents of the setting's cell, of a pool of one topic."""
    pool = regions.pool
    cell = int(regions.cells(at(lambda_, mu))[0])
    assert cell != OUTSIDE
    chosen = regions.candidates(0, cell)
    assert (np.diff(chosen) > 0).all()
    if chosen.size == 0:
        return []
    columns = pool.candidates.take([chosen])
    scores = np.empty(chosen.size)
    pool.formula.rank_scores(pool.documents(columns), at(lambda_, mu), scores)
    best = np.argsort(-scores, kind="stable")[:depth]
    return [int(d) for d in columns.doc[best]]


@pytest.mark.slow
@settings(max_examples=COLLECTIONS, deadline=None)
@given(pools, st.integers(1, 60), st.sampled_from(RANGES), st.sampled_from(SHAPES), st.integers(0, 2**32 - 1))
def test_a_cell_ranks_as_all_candidates_do(
    pool: CandidatePool,
    depth: int,
    bounds: tuple[float, float, float, float],
    shape: tuple[int, int],
    seed: int,
) -> None:
    check_cells(pool, depth, bounds, shape, seed)


@pytest.mark.slow
@settings(max_examples=COLLECTIONS, deadline=None)
@given(
    pools,
    st.integers(1, 60),
    st.sampled_from(BM25_RANGES),
    st.sampled_from(SHAPES),
    st.integers(0, 2**32 - 1),
)
def test_a_cell_ranks_as_all_candidates_do_by_bm25(
    pool: CandidatePool,
    depth: int,
    bounds: tuple[float, float, float, float],
    shape: tuple[int, int],
    seed: int,
) -> None:
    check_cells(replace(pool, formula=BM25()), depth, bounds, shape, seed)


def check_cells(
    pool: CandidatePool,
    depth: int,
    bounds: tuple[float, float, float, float],
    shape: tuple[int, int],
    seed: int,
) -> None:
    names = [parameter.name for parameter in pool.formula.parameters]
    ranges = dict(zip(names, (bounds[:2], bounds[2:]), strict=True))
    regions = Regions.build(pool, ranges, shape=shape, depth=depth)
    for lambda_, mu in settings_inside(regions, bounds, np.random.default_rng(seed)):
        whole = best_documents(pool, 0, lambda_, mu, depth)
        assert best_in_cell(regions, lambda_, mu, depth) == whole


@pytest.mark.slow
@settings(max_examples=COLLECTIONS, deadline=None)
@given(
    pools,
    st.floats(0.0, 1 - 1e-12),
    st.floats(0.0, 3.0),
    st.floats(1e-12, 1e9),
    st.floats(0.0, 3.0),
    st.integers(0, 2**32 - 1),
)
def test_scores_lie_within_their_bounds(
    pool: CandidatePool, lambda_: float, wide_s: float, mu: float, wide_u: float, seed: int
) -> None:
    assume(pool.candidates.doc.size)
    s = min(math.log1p(-lambda_), -wide_s)
    u = math.log(mu)
    y = pool.tf_block(pool.candidates, 0) * (1.0 / pool.value)[:, None]
    length = pool.candidates.length.astype(np.float64)
    docs = length.size
    models = kernels.LinearModels(*np.empty((5, docs)))
    topic = kernels.ScoredTopic(False, y, length, pool.count, pool.value, False, 0.0)
    box = kernels._Box(s, wide_s, u, wide_u)
    kernels._bound_two_stage(topic, np.arange(docs, dtype=np.int32), box, models)
    score, in_s, in_u, below, above = models
    rng = np.random.default_rng(seed)
    mp.dps = 40
    for ds, du in [(1, 1), (-1, 1), (1, -1), (-1, -1), (0, 0), *rng.uniform(-1, 1, (6, 2))]:
        keep, exact_mu = mp.exp(mpf(s) + ds * mpf(wide_s)), mp.exp(mpf(u) + du * mpf(wide_u))
        for i in rng.choice(docs, min(docs, 6)):
            exact = mpf(0)
            for w, count in enumerate(pool.count):
                b_z = keep * (mpf(y[w, i]) - mpf(length[i])) / (exact_mu + mpf(length[i]))
                exact += int(count) * mp.log(1 + b_z)
            # in_u is minus the change along u.
            model = mpf(score[i]) + ds * mpf(in_s[i]) - du * mpf(in_u[i])
            assert below[i] <= exact - model <= above[i]
        for i in range(docs):
            assert below[i] <= 0.0 <= above[i]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.sampled_from(SHAPES), st.booleans())
def test_measures_keep_their_bits(seed: int, depth: int, shape: tuple[int, int], pruned: bool) -> None:
    pool = random_pool(seed, documents=90, weights=WEIGHTS)
    rng = np.random.default_rng(seed)
    # Settings inside and outside the regions, in any order.
    lambdas = np.concatenate((rng.uniform(0, 0.99, 40), [0.0, 0.95, 0.5]))
    mus = np.concatenate((np.exp(rng.uniform(0, 12, 40)), [1.0, 1e4, 0.0]))
    whole = measure_settings(pool, at(lambdas, mus), MEASURES, depth=depth)
    if pruned:
        pool = skyband(pool, depth=depth)
    regions = Regions.build(pool, {"lambda": (0, 0.9), "mu": (1, 1e4)}, shape=shape, depth=depth)
    cells = regions.cells(at(lambdas, mus))
    assert (cells == OUTSIDE).any()
    assert (cells != OUTSIDE).any()
    values = measure_settings(pool, at(lambdas, mus), MEASURES, depth=depth, regions=regions)
    assert np.array_equal(values, whole)
    topics = np.array([3, 0])
    values = measure_settings(pool, at(lambdas, mus), MEASURES, depth=depth, regions=regions, topics=topics)
    assert np.array_equal(values, whole[topics])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([TwoStage, LuceneDirichlet, BM25]),
    st.integers(1, 30),
    st.sampled_from(SHAPES),
    st.booleans(),
)
def test_the_compiled_loop_gives_the_bits_of_the_formula_itself(
    seed: int, formula: type[TwoStage] | type[BM25], depth: int, shape: tuple[int, int], equal_p: bool
) -> None:
    calls = []

    class Own(formula):  # type: ignore[misc, valid-type]
        def rank_scores(self, *arguments: Any) -> None:
            calls.append(arguments)
            super().rank_scores(*arguments)

    # Ties are common; the last topic's documents are few or none.
    pools = (
        random_pool(seed, documents=n, weights=w, equal_p=equal_p) for n, w in ((80, WEIGHTS), (1, [(1,)]))
    )
    rng = np.random.default_rng(seed)
    for pool in pools:
        loop, own = replace(pool, formula=formula()), replace(pool, formula=Own())
        space = ParameterSpace.of(loop.formula)
        # A dense cell and settings all over the range, in any order.
        drawn = np.array([space.random(rng) for _ in range(30)])
        drawn = rng.permutation(np.concatenate((drawn, np.linspace(drawn[0], drawn[1], 30), drawn[:3])))
        expected = measure_settings(own, drawn, MEASURES, depth=depth)
        assert np.array_equal(measure_settings(loop, drawn, MEASURES, depth=depth), expected)
        assert calls
        if formula is LuceneDirichlet:
            continue
        middle = np.quantile(drawn, [0.2, 0.8], axis=0).T.tolist()
        ranges = {p.name: (low, high) for p, (low, high) in zip(space.parameters, middle, strict=True)}
        for each in (loop, own):
            regions = Regions.build(each, ranges, shape=shape, depth=depth)
            values = measure_settings(each, drawn, MEASURES, depth=depth, regions=regions)
            assert np.array_equal(values, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model"),
    [
        pytest.param("cranfield", "two-stage", marks=pytest.mark.slow),
        ("npl", "two-stage"),
        pytest.param("cranfield", "lucene-bm25", marks=pytest.mark.slow),
    ],
)
def test_classics_measure_the_same(name: str, model: str, shared_data: Path, tmp_path: Path) -> None:
    data = lmtune.load(str(shared_data / name))
    index = lmtune.index_for(data.documents, home=tmp_path)
    pool = CandidatePool.build(index, data.topics, data.qrels, model=model)
    depth = 50
    space, rng = ParameterSpace.of(model), np.random.default_rng(0)
    drawn = np.array([space.random(rng) for _ in range(60)])
    whole = measure_settings(pool, drawn, MEASURES, depth=depth)
    pruned = skyband(pool, depth=depth)
    regions = Regions.build(pruned, depth=depth)
    values = measure_settings(pruned, drawn, MEASURES, depth=depth, regions=regions)
    assert np.array_equal(values, whole)
    per_cell = regions.position.size / regions.start[:, :-1].size
    per_topic = pruned.candidates.doc.size / len(pool.topics)
    print(f"{name}: {per_topic:.0f} a topic, {per_cell:.0f} a cell")
    assert per_cell < 0.5 * per_topic


def test_cells_are_closed_boxes() -> None:
    pool = random_pool(0)
    regions = Regions.build(pool, {"lambda": (0.2, 0.9), "mu": (10.0, 1000.0)}, shape=(3, 2))
    assert regions.shape == (3, 2)
    assert int(regions.cells(at(0.9, 10.0))[0]) == 0
    assert int(regions.cells(at(0.2, 1000.0))[0]) == 5
    assert int(regions.cells(at(0.9, 99.0))[0]) == 0
    assert int(regions.cells(at(0.9, 101.0))[0]) == 1
    for lambda_, mu in [(0.1, 100), (0.95, 100), (0.5, 9.99), (0.5, 1001), (0.5, 0.0)]:
        assert int(regions.cells(at(lambda_, mu))[0]) == OUTSIDE
    assert Regions.build(pool, {"lambda": (0.5, 0.5)}).shape == (1, 16)


def test_the_result_does_not_depend_on_threads() -> None:
    pool = random_pool(7, documents=80, weights=WEIGHTS * 3)
    one, four = (Regions.build(pool, depth=4, threads=n) for n in (1, 4))
    assert np.array_equal(one.position, four.position)
    assert np.array_equal(one.start, four.start)


def test_topics_that_match_nothing_have_no_candidates() -> None:
    pool = random_pool(0, documents=5, weights=[(1,), (1, 1)], rate=1e-9)
    regions = Regions.build(pool)
    assert regions.position.size == 0
    values = measure_settings(pool, at([0.5], [100.0]), MEASURES, regions=regions)
    assert (values == 0).all()


def test_what_regions_are_not_exact_for_is_refused() -> None:
    pool = random_pool(1)
    regions = Regions.build(pool, depth=10)
    with pytest.raises(InputError, match="smaller run depth"):
        measure_settings(pool, at([0.5], [100.0]), MEASURES, depth=11, regions=regions)
    with pytest.raises(InputError, match="another pool"):
        measure_settings(random_pool(1), at([0.5], [100.0]), MEASURES, depth=10, regions=regions)
    pruned = skyband(random_pool(1, documents=200, weights=[(1, 1)]), depth=10, mu_high=10.0)
    with pytest.raises(InputError, match="smaller range"):
        Regions.build(pruned, depth=10)


@pytest.mark.parametrize(
    "bad",
    [
        {"ranges": {"lambda": (0.0, 1.0)}},
        {"ranges": {"lambda": (-0.1, 0.95)}},
        {"ranges": {"lambda": (0.96, 0.95)}},
        {"ranges": {"mu": (0.0, 100.0)}},
        {"ranges": {"mu": (1.0, float("inf"))}},
        {"ranges": {"mu": (1.0, 0.5)}},
        {"ranges": {"k1": (1.0, 2.0)}},
        {"shape": (0, 4)},
        {"depth": 0},
    ],
)
def test_arguments_outside_their_domain_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="accepted"):
        Regions.build(random_pool(0), **bad)
