"""The experiment on smoothness, at a small size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_results import assert_drawn, assert_same_results, run_twice

torch = pytest.importorskip("torch")

from experiments.data import load_split  # noqa: E402
from experiments.running import run  # noqa: E402
from experiments.smoothness import Smoothness  # noqa: E402  # noqa: E402
from lmtune.errors import InputError  # noqa: E402
from lmtune.measures.lists import mean_over_lists, ndcg  # noqa: E402
from lmtune.reranking.learners.feature_networks import fit  # noqa: E402
from lmtune.reranking.losses.names import parse_loss  # noqa: E402
from lmtune.reranking.settings import Settings as TrainingSettings  # noqa: E402

SMALL = Smoothness(
    data="artificial:60x20", queries=(10, 60), weights=2, points=41, epochs=8, batch_size=20, seed=3
)


@pytest.fixture(scope="module")
def result() -> Any:
    torch.set_num_threads(1)
    return run(SMALL)


def test_pictures_are_drawn(result: Any) -> None:
    assert_drawn(result, ["smoothness"])


@run_twice
def test_the_same_bytes_again(result: Any) -> None:
    again = run(SMALL)
    assert_same_results(result, again)


def test_curves_are_of_the_trained_net(result: Any) -> None:
    data = load_split(SMALL.data, SMALL.seed).train
    settings = TrainingSettings(
        loss=parse_loss("lambdarank:k=10"),
        network="linear",
        epochs=8,
        batch_size=20,
        learning_rate=0.03,
        schedule="cosine",
        seed=3,
    )
    weights = fit(data, None, settings).weights["body.0.weight"].numpy()[0].astype(np.float64)
    curves = result.tables["curves"]
    curves = curves[(curves["network"] == "linear") & (curves["queries"] == 60)]
    top = np.argsort(-np.abs(weights))[:2]
    assert list(dict.fromkeys(curves["weight"])) == [f"feature {w + 1}" for w in top]
    own = curves[(curves["weight"] == f"feature {top[1] + 1}") & (curves["part"] == "shift")]
    assert own["shift"].tolist() == np.linspace(-100, 100, 41).tolist()
    for place in (0, 7, 20, 40):
        moved = weights.copy()
        moved[top[1]] *= 1 + own["shift"].iloc[place] / 100
        expected = mean_over_lists(ndcg(data.features.astype(np.float64) @ moved, data, [10]))[0]
        assert own["value"].iloc[place] == pytest.approx(expected, rel=1e-12)


def test_tables_have_every_curve(result: Any) -> None:
    rough, nets = result.tables["roughness"], result.tables["nets"]
    sizes = rough.groupby(["network", "part", "queries"]).size().to_dict()
    assert sizes == {
        (network, part, queries): {"shift": count, "zoom": 1}[part]
        for network, count in (("linear", 2), ("two-layer", 10))
        for part in ("shift", "zoom")
        for queries in (10, 60)
    }
    assert (rough["gain"] >= 0).all()
    assert ((rough["variation"] >= 1) | (rough["range"] == 0)).all()
    assert (nets["gradient"] < nets["first_gradient"]).all()
    [linear, *_] = result.conclusions
    own = rough.query("network == 'linear' and part == 'shift' and queries == 60")
    assert f"60 variation {own['variation'].median():.4g}, excess" in linear


def test_costs_and_fewer_queries_than_asked_for() -> None:
    settings = replace(
        SMALL, measure="wta", queries=(30, 500, 600), networks=("linear",), epochs=2, points=21
    )
    found = run(settings)
    rough = found.tables["roughness"]
    assert set(rough["queries"]) == {30, 60}
    assert (rough["gain"] >= 0).all()
    curves = found.tables["curves"]
    assert curves["value"].between(0, 1).all()


def test_letor_folders_work_too(tmp_path: Path) -> None:
    lines = [
        f"{(doc + query) % 3} qid:{query} 1:{doc} 2:{(7 * doc + query) % 5} 3:0\n"
        for query in range(12)
        for doc in range(6)
    ]
    for name in ("train", "vali", "test"):
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    found = run(replace(SMALL, data=str(tmp_path), epochs=2, points=21))
    assert set(found.tables["roughness"]["queries"]) == {10, 12}
    linear = found.tables["roughness"].query("network == 'linear'")
    assert set(linear["weight"]) == {"feature 1", "feature 2"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measure": "err"}, "unknown measure"),
        ({"networks": ("b64",)}, "unknown networks: 'b64'; accepted: linear, two-layer"),
        ({"points": 40}, "bad points: 40; accepted: an odd number"),
        ({"points": 3}, "bad points"),
        ({"queries": (0, 5)}, "bad queries"),
        ({"shift": 0.0}, "bad shift"),
        ({"zoom": -1.0}, "bad zoom"),
        ({"weights": 0}, "bad weights"),
        ({"epochs": 0}, "bad epochs"),
    ],
)
def test_settings_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(SMALL, **change).units()
