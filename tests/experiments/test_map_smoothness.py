"""The smoothness of a measure in lambda and mu, on a small made collection."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same_results import assert_drawn, assert_same_results, run_twice

from experiments.data import load_pool
from experiments.landscape import roughness
from experiments.running import run
from experiments.smoothness import MapSmoothness, smooth_from
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure

SETTINGS = MapSmoothness(
    dataset="synthetic:1000x40",
    measures=("AP", "P@10"),
    topics=(5, 20, 1000),
    samples=3,
    points=51,
    zoom_points=11,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that the index is built in."""
    return tmp_path_factory.mktemp("laboratory")


@pytest.fixture(scope="module")
def found(place: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return run(SETTINGS, workers=0)


def test_curves_are_means_of_nested_samples(found: Any) -> None:
    pool = load_pool(SETTINGS.dataset)
    every = len(pool.topics)
    curves = found.tables["curves"]
    assert [name for name in curves if name.startswith("topics_")] == [
        "topics_5",
        "topics_20",
        f"topics_{every}",
    ]
    order = np.random.default_rng(0).permutation(every)
    for name, line in (("AP", "lambda"), ("P@10", "mu")):
        whole = curves[(curves["measure"] == name) & (curves["line"] == line) & (curves["part"] == "whole")]
        assert len(whole) == SETTINGS.points
        best = found.tables["best"].set_index("measure").loc[name]
        for row in whole.iloc[[0, 20, 50]].to_dict("records"):
            setting = {"lambda": best["lambda"], "mu": best["mu"]} | {line: row["position"]}
            for size in (5, 20, every):
                topics = [pool.topics[t] for t in order[:size]]
                values = measure(
                    pool, {"lambda": setting["lambda"], "mu": setting["mu"]}, measures=[name], topics=topics
                )
                assert row[f"topics_{size}"] == pytest.approx(values.mean().item(), rel=1e-12)


def test_roughness_is_the_curves(found: Any) -> None:
    curves, rough = found.tables["curves"], found.tables["roughness"]
    every = len(load_pool(SETTINGS.dataset).topics)
    whole = curves[(curves["measure"] == "AP") & (curves["line"] == "mu")]
    curve = whole[whole["part"] == "whole"][f"topics_{every}"].to_numpy()
    own = rough[(rough["measure"] == "AP") & (rough["line"] == "mu") & (rough["topics"] == every)]
    width = math.log(100_000.0)
    assert own["step"].tolist() == pytest.approx([width * s / 50 for s in (1, 2, 5, 10, 25, 50)])
    for stride, row in zip((1, 2, 5, 10, 25, 50), own.to_dict("records"), strict=True):
        expected = roughness(curve[::stride])
        assert row["samples"] == 1
        assert row["excess"] == pytest.approx(expected.excess)
        assert row["ratio"] == pytest.approx(expected.ratio)
        assert row["maxima"] == expected.maxima


def test_pictures_are_drawn(found: Any) -> None:
    assert_drawn(found, ["curves-AP", "roughness-AP", "curves-P@10", "roughness-P@10"])


@run_twice
def test_pictures_are_the_same_twice(found: Any, place: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        again = run(SETTINGS, workers=0)
    assert_same_results(found, again)


def test_more_topics_than_there_are_mean_all(found: Any) -> None:
    every = len(load_pool(SETTINGS.dataset).topics)
    assert found.tables["roughness"]["topics"].unique().tolist() == [5, 20, every]
    assert any(f"{every:,} step" in sentence for sentence in found.conclusions)


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=6), st.floats(0.01, 1.0))
def test_smooth_from_is_between_rough_and_smooth(excess: list[float], smooth: float) -> None:
    topics = [10 * 3**place for place in range(len(excess))]
    found = smooth_from(topics, excess, smooth)
    if excess[-1] > smooth:
        assert found == math.inf
        return
    after = [n for n, value in zip(topics, excess, strict=True) if n >= found * (1 + 1e-9)]
    assert all(excess[topics.index(n)] <= smooth for n in after)
    rough = [n for n, value in zip(topics, excess, strict=True) if value > smooth]
    assert found >= max(rough, default=topics[0]) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"points": 2}, "points"),
        ({"topics": (0,)}, "topics"),
        ({"zoom": 0.0}, "zoom"),
        ({"measures": ("MAPP",)}, "measure"),
        ({"dataset": "nowhere"}, "nowhere"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        MapSmoothness(**{"dataset": SETTINGS.dataset, **changes}).units()
