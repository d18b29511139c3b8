"""The near-optimal region, and the measures along each parameter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
import pytest
from support import random_collection
from toy_formulas import Mixed

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.measures.measure import parse_measure, parse_measures
from lmtune.measures.significance.near_best import loss_bounds
from lmtune.models.model import MODELS, Model
from lmtune.tuning.direct import Surface
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import DIRECT, CollectionResult
from lmtune.tuning.experiment.run import BEST, measure_profiles, near_optimal, run_experiment

AP = parse_measure("AP")


def test_the_region_has_the_bounds_of_the_chosen_topics() -> None:
    rng = np.random.default_rng(1)
    settings = np.array([(a, b) for a in (1.0, 2.0, 3.0) for b in (10.0, 20.0)])
    values = 0.5 + rng.normal(0.0, 0.01, (40, 6, 2)) - 0.004 * np.arange(6)[None, :, None]
    surface = Surface(("x", "y"), settings, (AP, parse_measure("P@5")), values)
    topics = np.arange(5, 40)
    near = near_optimal(surface, surface.measures[1], topics, 0.008)
    assert near is not None
    np.testing.assert_array_equal(near.bounds, loss_bounds(values[5:, :, 1]))
    np.testing.assert_array_equal(near.inside, near.bounds <= 0.008)
    assert 0 < near.inside.sum() < 6
    assert near.bounds[near.closest] == near.bounds.min()
    assert near.settings is settings and near.names == ("x", "y")


@pytest.mark.parametrize(
    ("settings", "topics"),
    [
        ([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)], 5),  # not a full grid
        ([(0.0, 0.0)], 5),
        ([(0.0, 0.0), (0.0, 1.0)], 1),
        (list(product((0.0, 1.0), repeat=3)), 5),
        ([(0.0, float(n)) for n in range(2001)], 5),
    ],
)
def test_only_full_grids_have_a_region(settings: list[tuple[float, ...]], topics: int) -> None:
    values = np.full((5, len(settings), 1), 0.5)
    surface = Surface(("x", "y", "z")[: len(settings[0])], np.array(settings), (AP,), values)
    assert near_optimal(surface, AP, np.arange(topics)) is None


@pytest.fixture(scope="module")
def tuned() -> Iterator[tuple[CandidatePool, Plan, CollectionResult]]:
    formula = Mixed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "mixed", Model("mixed", "a toy", formula, formula.parameters))
        measures = tuple(parse_measures(["AP", "P@10"]))
        plan = Plan(measures, model="mixed", grid=(12,), starts=1, restarts=0, approx=False)
        pool = CandidatePool.build(*random_collection(7, documents=60, topics=8), model=formula)
        yield pool, plan, run_experiment(pool, cross_validation(pool.topics, 2, seed=0), plan)


def test_lines_cross_at_directs_choice(tuned: tuple[CandidatePool, Plan, CollectionResult]) -> None:
    pool, plan, found = tuned
    lines = measure_profiles(pool, found, plan)
    assert list(lines) == ["AP-fold1", "P@10-fold1", "AP-fold2", "P@10-fold2"]
    for row in found.rows:
        for number, fit in enumerate(row.fits, 1) if row.method == DIRECT else ():
            table = pd.DataFrame(lines[f"{row.measure}-fold{number}"])
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
