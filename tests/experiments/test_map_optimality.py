"""Whether RankNet's and Direct's choices are local optima of a measure, on a small collection."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_results import assert_drawn, assert_same_results, run_twice

from experiments.data import load_pool
from experiments.landscape import random_directions
from experiments.optimality import MapOptimality, MeanOnPool
from experiments.running import run
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure
from lmtune.measures.measure import parse_measure
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

SETTINGS = MapOptimality(dataset="synthetic:1000x40", topics=20, directions=40, steps=(0.1, 1.0, 20.0))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that the index is built in."""
    return tmp_path_factory.mktemp("laboratory")


@pytest.fixture(scope="module")
def found(place: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return run(SETTINGS, workers=0)


def test_counts_are_those_of_the_settings(found: Any) -> None:
    pool = load_pool(SETTINGS.dataset, topics=20, seed=0)
    space = ParameterSpace.of()
    (low_x, high_x), (low_y, high_y) = space.unbounded_box

    def mean(x: float, y: float) -> float:
        if not (low_x <= x <= high_x and low_y <= y <= high_y):
            return math.nan
        lambda_, mu = space.from_unbounded(np.array([x, y]))
        return float(measure(pool, {"lambda": lambda_, "mu": mu}, measures=["AP"]).mean().item())

    ways = random_directions(40, (1.0, 1.0), seed=0)
    for point in found.tables["points"].to_dict("records"):
        x, y = space.to_unbounded([point["lambda"], point["mu"]])
        here = mean(x, y)
        assert point["value"] == pytest.approx(here, rel=1e-12)
        own = found.tables["ascents"]
        for row in own[own["method"] == point["method"]].to_dict("records"):
            ends = np.array([mean(x + row["step"] * a, y + row["step"] * b) for a, b in ways])
            assert row["outside"] == np.isnan(ends).sum()
            assert row["inside"] == 40 - row["outside"]
            assert row["ascents"] == (ends > here + 1e-12).sum()
            assert row["descents"] == (ends < here - 1e-12).sum()
    # From anywhere in the box a step of 20 leaves it in some directions.
    assert (own[own["step"] == 20.0]["outside"] > 0).all()


def test_lines_hold_cost_and_measure_through_ranknets_choice(found: Any) -> None:
    pool = load_pool(SETTINGS.dataset, topics=20, seed=0)
    pairs = Pairs.build(pool)
    ranknet = found.tables["points"].set_index("method").loc["RankNet"]
    lines = found.tables["lines"]
    along = lines[(lines["line"] == "mu") & (lines["mu"] == ranknet["mu"])].iloc[0]
    cost = pairs.cost({"lambda": ranknet["lambda"], "mu": ranknet["mu"]}).value / pairs.per_topic.sum()
    assert along["cost"] == pytest.approx(cost, rel=1e-12)
    assert along["cost"] == pytest.approx(lines["cost"].min(), rel=1e-5)


def test_pictures_are_drawn(found: Any) -> None:
    assert_drawn(found, ["lines", "ascents"])


@run_twice
def test_pictures_are_the_same_twice(found: Any, place: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        again = run(SETTINGS, workers=0)
    assert_same_results(found, again)


def test_a_remembered_point_is_not_measured_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    pool = load_pool(SETTINGS.dataset, topics=20, seed=0)
    objective = MeanOnPool(pool, parse_measure("P@10"), ParameterSpace.of(), 1000)
    points = np.array([[0.0, 5.0], [0.3, 6.0], [99.0, 6.0]])
    one_by_one = [objective(point) for point in points]
    fresh = MeanOnPool(pool, parse_measure("P@10"), ParameterSpace.of(), 1000)
    fresh.remember(points)
    assert [fresh(point) for point in points[:2]] == one_by_one[:2]
    assert math.isnan(fresh(points[2]))
    assert math.isnan(one_by_one[2])
    fresh.known[points[0].tobytes()] = 7.0
    assert fresh(points[0]) == 7.0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"directions": 0}, "directions"),
        ({"steps": (0.1, -1.0)}, "steps"),
        ({"steps": ()}, "steps"),
        ({"topics": 1000}, "topics"),
        ({"measure": "MAPP"}, "measure"),
    ],
)
def test_bad_settings_are_refused(
    changes: dict[str, Any], problem: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(InputError, match=problem):
        MapOptimality(**{"dataset": SETTINGS.dataset, **changes}).units()
