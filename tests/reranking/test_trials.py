"""Intervals over trials, models on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_lists import made_lists
from scipy import stats

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.reranking.loss_names import parse_loss  # noqa: E402
from lmtune.reranking.model_folder import Model, load_model, save_model  # noqa: E402
from lmtune.reranking.normalisation import Normaliser  # noqa: E402
from lmtune.reranking.settings import Settings  # noqa: E402
from lmtune.reranking.training import fit  # noqa: E402
from lmtune.reranking.trials import confidence_interval, run_trials  # noqa: E402

SMALL = Settings(loss=parse_loss("listnet"), network="b64", dropout=0.1, epochs=2, batch_size=8)
TRAIN, VALIDATION = made_lists(0), made_lists(1, queries=8)


def test_intervals_are_students() -> None:
    values = [0.3, 0.34, 0.31, 0.36]
    mean, half = confidence_interval(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert confidence_interval([0.5]).mean == 0.5
    assert np.isnan(confidence_interval([0.5]).half)
    with pytest.raises(InputError):
        confidence_interval([])


def test_trials_differ_by_seed_alone() -> None:
    torch.set_num_threads(1)
    seen: list[tuple[int, int]] = []
    found = run_trials(
        TRAIN, VALIDATION, SMALL, trials=3, progress=lambda done, total, _: seen.append((done, total))
    )
    assert [one.settings.seed for one in found] == [0, 1, 2]
    assert seen == [(step, 18) for step in range(1, 19)]
    alone = fit(TRAIN, VALIDATION, replace(SMALL, seed=2))
    assert all(torch.equal(alone.weights[name], found[2].weights[name]) for name in alone.weights)


def test_models_come_back_as_they_were(tmp_path: Path) -> None:
    normaliser = Normaliser.fit(TRAIN)
    trained = fit(normaliser.transform(TRAIN), None, SMALL)
    names = [f"f{i}" for i in range(6)]
    save_model(tmp_path / "m", trained, normaliser, names, {"how": "so"}, facts={"depth": 3})
    model = load_model(tmp_path / "m")
    assert isinstance(model, Model)
    assert model.settings == trained.settings and model.facts == {"depth": 3}
    expected = trained.score(normaliser.transform(VALIDATION))
    assert np.array_equal(model.score(VALIDATION, names), expected)
    with pytest.raises(InputError, match=r"other features .*'f6'"):
        model.score(VALIDATION, [*names[:-1], "f6"])
    kept = json.loads((tmp_path / "m/model.json").read_text())
    wrong: list[dict[str, Any]] = [kept | {"version": 99}, kept | {"features": names[1:]}, {}]
    for broken in wrong:
        (tmp_path / "m/model.json").write_text(json.dumps(broken))
        with pytest.raises(InputError, match="model"):
            load_model(tmp_path / "m")
    (tmp_path / "m/model.json").write_text(json.dumps(kept))
    weights = tmp_path / "m/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(InputError, match="damaged model"):
        load_model(tmp_path / "m")
