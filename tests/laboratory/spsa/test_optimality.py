"""The experiment on local optimality, at a small size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from same_results import assert_same_results

torch = pytest.importorskip("torch")

from lmtune.errors import InputError  # noqa: E402
from lmtune.laboratory.data import load  # noqa: E402
from lmtune.laboratory.directions import random_directions  # noqa: E402
from lmtune.laboratory.running import run  # noqa: E402
from lmtune.laboratory.spsa.optimality import Optimality  # noqa: E402  # noqa: E402
from lmtune.measures.lists import mean_over_lists, ndcg  # noqa: E402
from lmtune.reranking.learners.feature_networks import fit  # noqa: E402
from lmtune.reranking.losses.names import parse_loss  # noqa: E402
from lmtune.reranking.settings import Settings as TrainingSettings  # noqa: E402

SMALL = Optimality(
    data="artificial:60x20",
    losses=("lambdarank", "song"),
    share=0.2,
    steps=(0.01, 0.3, 1.0),
    shifts=5,
    weights=12,
    epochs=20,
    batch_size=30,
    seed=2,
)


@pytest.fixture(scope="module")
def result() -> Any:
    torch.set_num_threads(1)
    return run(SMALL)


def test_the_same_bytes_twice(result: Any) -> None:
    again = run(SMALL)
    assert_same_results(result, again)


def test_counts_are_those_of_brute_force(result: Any) -> None:
    data = load(SMALL.data, SMALL.seed).train
    settings = TrainingSettings(
        loss=parse_loss("lambdarank:k=10"),
        network="linear",
        epochs=20,
        batch_size=30,
        learning_rate=0.03,
        schedule="cosine",
        seed=2,
    )
    trained = fit(data, None, settings)
    weights = trained.weights["body.0.weight"].numpy()[0].astype(np.float64)
    features = data.features.astype(np.float64)

    def value(at: np.ndarray[Any, np.dtype[np.float64]]) -> float:
        return float(mean_over_lists(ndcg(features @ at, data, [10]))[0])

    table = result.tables["directions"]
    own = table[(table["network"] == "linear") & (table["loss"] == "lambdarank")]
    assert own["directions"].tolist() == [21] * 3  # 0.8 ** 21 < 0.01 < 0.8 ** 20
    norm = np.sqrt((weights**2).sum())
    directions = random_directions(21, np.full(50, norm), seed=2)
    for step, ascents, largest in zip(own["step"], own["ascents"], own["largest"], strict=True):
        changes = [value(weights + step * one) - value(weights) for one in directions]
        assert sum(change > 1e-12 for change in changes) == ascents
        assert max(changes) == pytest.approx(largest, abs=1e-12)
    nets = result.tables["nets"].set_index(["network", "loss"])
    assert nets.loc[("linear", "lambdarank"), "train"] == pytest.approx(value(weights))
    test = load(SMALL.data, SMALL.seed).test
    expected = mean_over_lists(ndcg(test.features.astype(np.float64) @ weights, test, [10]))[0]
    assert nets.loc[("linear", "lambdarank"), "test"] == pytest.approx(expected)


def test_every_net_is_there(result: Any) -> None:
    nets, sweeps = result.tables["nets"], result.tables["sweeps"]
    assert nets["weights"].tolist() == [50, 50, 520, 520]
    by_lambdarank = nets[nets["loss"] == "lambdarank"]
    assert (by_lambdarank["gradient"] < 0.5 * by_lambdarank["first_gradient"]).all()
    assert nets["swept"].tolist() == [12] * 4
    assert len(sweeps) == 4 * 12 * 5
    assert (sweeps[sweeps["shift"] == 0]["gain"].abs() < 1e-12).all()
    two = sweeps[sweeps["network"] == "two-layer"]["weight"].unique()
    assert sum(name.startswith("output") for name in two) == 10
    assert len(result.conclusions) == 4 + 2
    table = result.tables["directions"]
    assert (table["fewer"] == (table["ascents"] == 0)).all()
    assert (table["ascents"] + table["descents"] + table["unchanged"] == 21).all()


def test_what_is_claimed(result: Any) -> None:
    tables = {name: table.copy() for name, table in result.tables.items()}
    counts = tables["directions"]
    counts["ascents"], counts["clear_ascents"], counts["fewer"] = 0, 0, True
    words = SMALL.conclusions(tables)[0]
    assert "fewer than 20% of all directions ascend at every step." in words
    assert "No ascent at any step" in words
    counts["fewer"] = counts["step"] > 0.01
    counts["bound"] = 0.3
    words = SMALL.conclusions(tables)[0]
    assert "99% confidence" in words
    assert "at steps of 0.3 and more; at 0.01 at most 30.0%" in words
    counts["fewer"] = counts["step"] < 0.3
    assert "ascend at steps 0.01." in SMALL.conclusions(tables)[0]
    assert "linear nets: steps from which" in SMALL.conclusions(tables)[4]
    assert "confidence): lambdarank none, song none." in SMALL.conclusions(tables)[4]
    counts["fewer"] = counts["step"] > 0.01
    assert "confidence): lambdarank 0.3, song 0.3." in SMALL.conclusions(tables)[4]
    counts["fewer"] = False
    counts.loc[counts["step"] == 0.3, "clear_ascents"] = 2
    words = SMALL.conclusions(tables)[0]
    assert "At no step can it be claimed" in words
    assert "beyond what jumps come to: up to 2, at 0.3" in words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measure": "err"}, "unknown measure"),
        ({"networks": ("b64",)}, "unknown networks: 'b64'; accepted: linear, two-layer"),
        ({"losses": ("mse",)}, "unknown losses: 'mse'; accepted: ranknet"),
        ({"steps": (0.1, 0.0)}, "bad steps"),
        ({"shifts": 4}, "an odd number"),
        ({"shift": -1.0}, "bad shift"),
        ({"weights": 0}, "bad weights"),
        ({"confidence": 1.0}, "bad confidence"),
        ({"share": 0.0}, "bad share"),
    ],
)
def test_settings_without_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(SMALL, **change).units()
