"""The experiment on local optimality, at a small size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from same_results import assert_drawn, assert_same_results, run_twice

torch = pytest.importorskip("torch")


from experiments.data import load_split  # noqa: E402
from experiments.landscape import random_directions  # noqa: E402
from experiments.optimality import Optimality  # noqa: E402  # noqa: E402
from experiments.running import run  # noqa: E402
from lmtune.errors import InputError  # noqa: E402
from lmtune.measures.lists import mean_over_lists, ndcg  # noqa: E402
from lmtune.measures.measure import parse_list_measure  # noqa: E402
from lmtune.reranking.learners.feature_networks import fit  # noqa: E402
from lmtune.reranking.losses.names import parse_loss  # noqa: E402
from lmtune.reranking.settings import Settings as TrainingSettings  # noqa: E402

TITLE = parse_list_measure("ndcg@10").title
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


def test_pictures_are_drawn(result: Any) -> None:
    assert_drawn(result, ["directions", "sweeps"])


@run_twice
def test_the_same_bytes_twice(result: Any) -> None:
    again = run(SMALL)
    assert_same_results(result, again)


def test_counts_are_those_of_brute_force(result: Any) -> None:
    data = load_split(SMALL.data, SMALL.seed).train
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
    test = load_split(SMALL.data, SMALL.seed).test
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
    assert len(result.conclusions) == 2 + 4 + 1 + 2 + 2
    table = result.tables["directions"]
    assert (table["fewer"] == (table["ascents"] == 0)).all()
    assert (table["ascents"] + table["descents"] + table["unchanged"] == 21).all()


def test_what_is_claimed(result: Any) -> None:
    tables = {name: table.copy() for name, table in result.tables.items()}
    counts = tables["directions"]
    for bound, holds, first in (
        (0.1, 12, "0.01"),
        (np.where(counts["step"] > 0.01, 0.1, 0.3), 8, "0.3"),
        (np.where(counts["step"] < 0.3, 0.1, 0.3), 4, "inf"),
        (0.3, 0, "inf"),
    ):
        counts["bound"] = bound
        words = SMALL.conclusions(tables)
        assert f"all directions ascend in {TITLE}, by step: holds in {holds} of 12." in " ".join(words)
        assert f"linear: lambdarank step {first}; song step {first}." in " ".join(words)
    assert words[2].startswith("With 0.99 confidence fewer than 0.2")


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
