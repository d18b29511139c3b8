"""The box of near-optimal settings, and the measures along each parameter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from scipy import stats
from support import random_collection
from toy_formulas import Mixed

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.measures.measure import parse_measure, parse_measures
from lmtune.models.model import MODELS, Model
from lmtune.tuning.direct import Surface
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import DIRECT, CollectionResult
from lmtune.tuning.experiment.run import BEST, measure_profiles, near_optimal, run_experiment

AP = parse_measure("AP")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", [(5, 6), (7, 1)])
def test_the_box_is_the_largest_of_all_without_a_worse_point(seed: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    x, y = np.arange(shape[0]) * 1.0, np.arange(shape[1]) + 10.0
    settings = np.array([(a, b) for a in x for b in y])
    # A ridge: not a box itself.
    height = -0.012 * np.abs(settings[:, 0] - settings[:, 1] + 11.0 - 2.0 * (shape[1] == 1))
    values = 0.5 + height[None, :, None] + rng.normal(0.0, 0.04, (30, len(settings), 1))
    surface = Surface(("x", "y"), settings, (AP,), values)
    topics = np.arange(3, 30)
    chosen = {"x": [1.5, 2.0, 0.0][seed % 3], "y": 12.5 if shape[1] > 1 else 10.0}
    own = 0.5 + rng.normal(0.0, 0.01, topics.size)

    fine = {
        tuple(setting): not (column.mean() < own.mean() and stats.ttest_rel(column, own).pvalue < 0.05)
        for setting, column in zip(settings.tolist(), values[topics, :, 0].T, strict=True)
    }
    sizes = {}
    xs, ys = [*x, chosen["x"]], [*y, chosen["y"]]
    for (a, b), (c, d) in product(product(xs, xs), product(ys, ys)):
        points = [p for p in fine if a <= p[0] <= b and c <= p[1] <= d]
        inside = a <= chosen["x"] <= b and c <= chosen["y"] <= d
        if inside and len(points) > 1 and all(fine[p] for p in points):
            sizes[a, b, c, d] = len(points)
    found = near_optimal(surface, AP, topics, chosen, own)
    assert bool(found) == bool(sizes)
    if sizes:
        box = (*found["x"], *found.get("y", (10.0, 10.0)))
        assert sizes[box] == max(sizes.values()) < len(settings)
    assert set(found) <= ({"x", "y"} if shape[1] > 1 else {"x"})


def test_only_full_grids_of_few_parameters_have_a_box() -> None:
    settings = np.array([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)])
    values = np.full((5, 3, 1), 0.5)
    surface = Surface(("x", "y"), settings, (AP,), values)
    assert near_optimal(surface, AP, np.arange(5), {"x": 1.0, "y": 1.0}, np.full(5, 0.5)) == {}


@pytest.fixture(scope="module")
def tuned() -> Iterator[tuple[CandidatePool, Plan, CollectionResult]]:
    formula = Mixed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "mixed", Model("mixed", "a toy", formula, formula.parameters))
        measures = tuple(parse_measures(["AP", "P@10"]))
        plan = Plan(measures, model="mixed", grid=(12,), starts=1, restarts=0, approx=False)
        pool = CandidatePool.build(*random_collection(7, documents=60, topics=8), model=formula)
        yield pool, plan, run_experiment(pool, cross_validation(pool.topics, 2, seed=0), plan)


def test_lines_go_along_each_parameter_through_directs_choice(
    tuned: tuple[CandidatePool, Plan, CollectionResult],
) -> None:
    pool, plan, found = tuned
    lines = measure_profiles(pool, found, plan)
    assert list(lines) == ["AP-fold1", "P@10-fold1", "AP-fold2", "P@10-fold2"]
    for row in found.rows:
        for number, fit in enumerate(row.fits, 1) if row.method == DIRECT else ():
            table = lines[f"{row.measure}-fold{number}"]
            for name in (parameter.name for parameter in plan.space.free):
                part = table[table["line"] == f"{BEST}{name}"]
                value = fit.params[name]
                assert (part["position"] == part[name]).all()
                assert part["position"].is_monotonic_increasing
                [values] = part.loc[part["position"] == value, ["train", "test"]].to_numpy().tolist()
                assert values == pytest.approx([fit.train_value, fit.test_value], rel=1e-12)


def test_two_parameters_have_no_lines() -> None:
    pool = CandidatePool.build(*random_collection(7, documents=60, topics=8))
    plan = Plan((AP,), grid=(3, 3), approx=False)
    result = run_experiment(pool, cross_validation(pool.topics, 2), plan)
    assert measure_profiles(pool, result, plan) == {}
