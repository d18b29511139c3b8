"""Ascents from trained nets and tuned parameters, counted by brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from experiments.common import call
from experiments.datasets import load_pool, load_split
from experiments.landscape import random_directions
from experiments.optimality import __main__ as nets
from experiments.optimality import retrieval
from lmtune import ParameterSpace, measure
from lmtune.measures import parse_measure
from lmtune.measures.lists import mean_over_lists, ndcg

DATASET = "synthetic:1000x40"


@pytest.mark.slow
def test_counts_are_those_of_brute_force() -> None:
    pytest.importorskip("torch")
    from lmtune.rerank import Settings, fit, parse_loss

    small: dict[str, Any] = {"epochs": 20, "batch_size": 30, "seed": 2}
    asked = dict(
        data="artificial:60x20",
        networks=("linear",),
        losses=("lambdarank",),
        share=0.2,
        steps=(0.01, 0.3, 1.0),
        shifts=5,
        weights=12,
        **small,
    )
    tables = call(nets.experiment, asked)
    fold = load_split("artificial:60x20", 2)
    data = fold.train
    settings = Settings(
        loss=parse_loss("lambdarank:k=10"), network="linear", learning_rate=0.03, schedule="cosine", **small
    )
    weights = fit(data, None, settings).weights["body.0.weight"].numpy()[0].astype(np.float64)
    features = data.features.astype(np.float64)

    def value(at: Any) -> float:
        return float(mean_over_lists(ndcg(features @ at, data, [10]))[0])

    own = tables["directions"]
    assert own["directions"].tolist() == [21] * 3  # 0.8 ** 21 < 0.01 < 0.8 ** 20
    directions = random_directions(21, np.full(50, np.sqrt((weights**2).sum())), seed=2)
    for step, ascents, largest in zip(own["step"], own["ascents"], own["largest"], strict=True):
        changes = [value(weights + step * one) - value(weights) for one in directions]
        assert sum(change > 1e-12 for change in changes) == ascents
        assert max(changes) == pytest.approx(largest, abs=1e-12)
    [net] = tables["nets"].to_dict("records")
    assert net["train"] == pytest.approx(value(weights))
    expected = mean_over_lists(ndcg(fold.test.features.astype(np.float64) @ weights, fold.test, [10]))[0]
    assert net["test"] == pytest.approx(expected)
    assert (tables["sweeps"].query("shift == 0")["gain"].abs() < 1e-12).all()


@pytest.mark.slow
def test_ascents_from_choices_are_the_settings(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tables = retrieval.experiment(dataset=DATASET, topics=20, directions=40, steps=(0.1, 1.0, 20.0))
    pool = load_pool(DATASET, topics=20, seed=0)
    space = ParameterSpace.of()
    (low_x, high_x), (low_y, high_y) = space.unbounded_box

    def mean(x: float, y: float) -> float:
        if not (low_x <= x <= high_x and low_y <= y <= high_y):
            return math.nan
        lambda_, mu = space.from_unbounded(np.array([x, y]))
        return float(measure(pool, {"lambda": lambda_, "mu": mu}, measures=["AP"]).mean().item())

    ways = random_directions(40, (1.0, 1.0), seed=0)
    for point in tables["points"].to_dict("records"):
        x, y = space.to_unbounded([point["lambda"], point["mu"]])
        here = mean(x, y)
        assert point["value"] == pytest.approx(here, rel=1e-12)
        own = tables["ascents"]
        for row in own[own["method"] == point["method"]].to_dict("records"):
            ends = np.array([mean(x + row["step"] * a, y + row["step"] * b) for a, b in ways])
            assert row["outside"] == np.isnan(ends).sum()
            assert row["inside"] == 40 - row["outside"]
            assert row["ascents"] == (ends > here + 1e-12).sum()
            assert row["descents"] == (ends < here - 1e-12).sum()


def test_a_remembered_point_is_not_measured_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pool = load_pool(DATASET, topics=20, seed=0)
    objective = retrieval.MeanOnPool(pool, parse_measure("P@10"), ParameterSpace.of(), 1000)
    points = np.array([[0.0, 5.0], [0.3, 6.0], [99.0, 6.0]])
    one_by_one = [objective(point) for point in points]
    fresh = retrieval.MeanOnPool(pool, parse_measure("P@10"), ParameterSpace.of(), 1000)
    fresh.remember(points)
    assert [fresh(point) for point in points[:2]] == one_by_one[:2]
    assert math.isnan(fresh(points[2]))
