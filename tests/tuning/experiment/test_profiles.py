"""The cost and the measures along lines are those of their settings."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.folds import cross_validation
from lmtune.measures.evaluate import measure
from lmtune.measures.measure import parse_measure, parse_measures
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.profiles import measure_profiles, near_optimal
from lmtune.tuning.experiment.result import DIRECT, RANKNET, CollectionResult
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.grid import Surface
from lmtune.tuning.pairs import Pairs

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


PLAN = Plan(tuple(parse_measures(["AP", "P@10"])), grid=(4, 5))


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    return CandidatePool.build(*random_collection(7, documents=100, topics=20))


@pytest.fixture(scope="module")
def result(pool: CandidatePool) -> CollectionResult:
    return run_experiment(pool, cross_validation(pool.topics, 2, seed=0), PLAN)


@pytest.fixture(scope="module")
def lines(pool: CandidatePool, result: CollectionResult) -> dict[str, pd.DataFrame]:
    return measure_profiles(pool, result, PLAN)


def test_lines_go_through_the_choices(result: CollectionResult, lines: dict[str, pd.DataFrame]) -> None:
    assert list(lines) == ["AP-fold1", "P@10-fold1", "AP-fold2", "P@10-fold2"]
    for row in result.rows:
        for number, fit in enumerate(row.fits, 1):
            table = lines[f"{row.measure}-fold{number}"]
            places = {RANKNET: [("across", 0.0), *fit.params.items()], DIRECT: [("across", 1.0)]}.get(
                row.method, []
            )
            for line, position in places:
                here = table[(table["line"] == line) & (table["position"] == position)]
                [[lambda_, mu, *values]] = here[["lambda", "mu", "train", "test"]].to_numpy()
                assert {"lambda": lambda_, "mu": mu} == fit.params
                assert values == pytest.approx([fit.train_value, fit.test_value], rel=1e-14)


def test_values_are_those_of_the_settings(
    pool: CandidatePool, result: CollectionResult, lines: dict[str, pd.DataFrame]
) -> None:
    fold = result.folds[1]
    pairs = Pairs.build(pool)
    train = pool.positions(fold.train)
    columns = ["lambda", "mu", "cost", "train", "test"]
    for lambda_, mu, *found in lines["P@10-fold2"][columns].to_numpy(np.float64)[::13].tolist():
        cost = pairs.cost({"lambda": lambda_, "mu": mu}, topics=train).value / pairs.per_topic[train].sum()
        means = [
            float(
                measure(pool, {"lambda": lambda_, "mu": mu}, measures=["P@10"], topics=topics).mean().item()
            )
            for topics in (fold.train, fold.test)
        ]
        assert found == pytest.approx([cost, *means], rel=1e-14)


def test_the_cost_is_lowest_at_ranknets_choice(lines: dict[str, pd.DataFrame]) -> None:
    for table in lines.values():
        for line, ending in (("lambda", "lambda"), ("mu", "mu")):
            part = table[table["line"] == line]
            assert part["position"].is_monotonic_increasing
            assert (part["position"] == part[ending]).all()
        for _, part in table.groupby("line"):
            own = table[(table["line"] == "across") & (table["position"] == 0.0)]
            assert part["cost"].min() == pytest.approx(float(own["cost"].iloc[0]), rel=1e-9)


def test_lines_across_are_straight_and_stay_inside(lines: dict[str, pd.DataFrame]) -> None:
    for table in lines.values():
        part = table[table["line"] == "across"].reset_index()
        assert part["lambda"].between(0.0, 0.95).all()
        assert part["mu"].between(1.0, 1e5).all()
        for values in (part["lambda"], np.log(part["mu"])):
            slope, start = np.polyfit(part["position"], values, 1)
            np.testing.assert_allclose(values, start + slope * part["position"], atol=1e-9)


def test_no_line_joins_a_choice_with_itself(pool: CandidatePool, result: CollectionResult) -> None:
    fits = {(row.measure, row.method): row.fits for row in result.rows}
    rows = tuple(
        replace(row, fits=fits[row.measure, RANKNET]) if row.method == DIRECT else row for row in result.rows
    )
    made = measure_profiles(pool, replace(result, rows=rows), PLAN)
    assert {*made["AP-fold1"]["line"]} == {"lambda", "mu"}
