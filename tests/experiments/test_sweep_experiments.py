"""The papers' sweeps, at sizes that show that they run, and the same bytes twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_results import run_twice
from scipy.stats import ttest_rel

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("lightgbm", reason="the extra 'neural' is not installed")
pytestmark = pytest.mark.slow


from experiments.catalogue import find_experiment  # noqa: E402
from experiments.running import Result, run, settings_of  # noqa: E402
from lmtune.errors import InputError  # noqa: E402

torch.set_num_threads(1)

LONG = {
    "data": "artificial:6x40",
    "network": "mlp:4",
    "trials": 2,
    "epochs": 3,
    "sampled": 8,
    "relevant": 3,
    "least": 2,
    "batch_size": 3,
}
SHORT = {"data": "artificial:6x10", "trials": 2, "epochs": 2, "batch_size": 3}
TINY: dict[str, dict[str, Any]] = {
    "alpha": {**SHORT, "network": "b:4", "alphas": (1.0, 5.0, 10.0), "alike": (5.0, 10.0)},
    "depth": {**SHORT, "networks": ("b64", "mlp:8-4", "mlp:8")},
    "sets": {
        **SHORT,
        "data": "artificial:6x10,artificial:5x12,artificial:8x10",
        "losses": ("ranknet", "song", "lambdamart:rounds=3:min_rows=10:min_hessian=0.01"),
    },
    "gamma": {**LONG, "gammas": (0.3, 1.0)},
    "warm-up": {**LONG, "warm_up": 1, "cutoff": 5},
    "k-song": {**LONG, "warm_up": 1, "cutoffs": (5, 10)},
    "full-items": {**LONG, "gammas": (0.3,)},
}
VALUES = {
    "alpha": ["1", "5", "10"],
    "depth": ["B64", "MLP:8-4", "MLP:8"],
    "sets": ["ranknet", "song", "lambdamart:rounds=3:min_rows=10:min_hessian=0.01"],
    "gamma": ["0.3", "1"],
    "warm-up": ["SONG, cold", "SONG, warm-up", "K-SONG, cold", "K-SONG, warm-up"],
    "k-song": [f"{form}, K = {k}" for k in (5, 10) for form in ("theoretical", "practical", "by rank")],
    "full-items": ["all items", "biased mini-batch", "samples, gamma 0.3"],
}


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Result, Path]]:
    """Give each sweep with its folder, run for the first test that wants it."""

    @cache
    def swept(name: str) -> tuple[Result, Path]:
        folder = tmp_path_factory.mktemp("sweeps") / name
        return run(settings_of(find_experiment(name), TINY[name], quick=False), folder=folder), folder

    return swept


@pytest.mark.parametrize("name", TINY)
def test_a_sweep(name: str, once: Callable[[str], tuple[Result, Path]]) -> None:
    found, _ = once(name)
    rows = "sets" if name == "sets" else "trials"
    assert {rows, "summary", "differences"} <= found.tables.keys()
    assert list(found.tables["summary"]["value"].unique()) == VALUES[name]
    assert found.tables["summary"]["cutoff"].unique().tolist() == ([10] if name == "sets" else [1, 5, 10])
    assert found.tables[rows]["ndcg"].between(0.0, 1.0).all()
    assert found.conclusions
    assert all(sentence.endswith(".") for sentence in found.conclusions)
    assert all("nan" not in sentence for sentence in found.conclusions)
    assert name in [picture.name for picture in found.pictures]
    assert all(picture.alt.endswith(".") for picture in found.pictures)


@pytest.mark.parametrize(
    ("name", "options", "values"),
    [
        (
            "gamma",
            {"estimators": ("moving-average", "storm", "msvr", "msvr-sp"), "gammas": (0.3,)},
            [f"0.3, {own}" for own in ("moving-average", "storm", "msvr", "msvr-sp")],
        ),
        ("gamma", {"loss": "cross-entropy"}, ["0.3", "1"]),
        ("full-items", {"loss": "cross-entropy"}, VALUES["full-items"]),
    ],
)
def test_other_figures_of_the_paper(name: str, options: dict[str, Any], values: list[str]) -> None:
    settings = settings_of(find_experiment(name), {**TINY[name], **options}, quick=False)
    found = run(settings)
    assert list(found.tables["summary"]["value"].unique()) == values
    objective = found.tables["courses"]["objective"]
    assert (objective > 0).all() if "loss" in options else (objective < 0).all()
    assert found.conclusions[0].startswith("Objective over all training items after 3 epochs")


def test_sets_are_averaged_over_trials_and_paired(once: Callable[[str], tuple[Result, Path]]) -> None:
    units = settings_of(find_experiment("sets"), TINY["sets"], quick=False).units()
    assert len(units) == 3 * 3 * 2
    results = {unit.key: unit.function(**unit.arguments) for unit in units if "-song-" in unit.key}
    found = once("sets")[0].tables
    own = found["sets"].query("value == 'song' and queries == 'test'").set_index("set")["ndcg"]
    assert own.index.tolist() == TINY["sets"]["data"].split(",")
    for number, name in enumerate(own.index, 1):
        assert own[name] == np.mean([results[f"set{number}-song-run{trial}"]["test"][0] for trial in (1, 2)])
    other = found["sets"].query("value == 'ranknet' and queries == 'test'")["ndcg"].to_numpy()
    row = found["differences"].query("a == 'song' and queries == 'test'").iloc[0]
    assert row["difference"] == pytest.approx((own.to_numpy() - other).mean())
    assert row["p"] == pytest.approx(ttest_rel(own.to_numpy(), other).pvalue)


@pytest.mark.parametrize("name", ["alpha", pytest.param("warm-up", marks=run_twice)])
def test_the_same_bytes_twice(name: str, tmp_path: Path, once: Callable[[str], tuple[Result, Path]]) -> None:
    run(settings_of(find_experiment(name), TINY[name], quick=False), folder=tmp_path)
    contents = []
    for folder in (once(name)[1], tmp_path):
        files = [path for path in folder.iterdir() if path.is_file()]
        contents.append({path.name: path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert {f"{name}.svg", f"{name}.png", "numbers.json"} <= contents[0].keys()


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("alpha", {"alike": (7.0,)}, "not swept: 7.0; accepted: 1, 5, 10"),
        ("alpha", {"network": "b65"}, "unknown network"),
        ("depth", {"networks": ("b64",)}, "too few networks"),
        ("gamma", {"sampled": 3}, "bad number of relevant items: 3"),
        ("gamma", {"least": 0}, "bad least: 0; accepted: 1 or more"),
        ("gamma", {"gammas": ()}, "too few gammas"),
        ("gamma", {"gammas": (0.3,)}, "nothing to compare: '0.3'"),
        ("gamma", {"estimators": ("no",)}, "estimator"),
        ("gamma", {"loss": "ranknet"}, "unknown loss: 'ranknet'"),
        ("sets", {"data": "artificial:6"}, "bad sets"),
        ("gamma", {"gammas": (0.3, 2.0)}, "bad gammas: 2.0"),
        ("warm-up", {"warm_up": 0}, "bad warm up: 0; accepted: 1 or more"),
        ("warm-up", {"warm_up": 3}, "no epoch is left"),
        ("k-song", {"cutoffs": (0,)}, "bad cutoffs: 0; accepted: 1 or more"),
        ("full-items", {"gammas": ()}, "too few gammas"),
        ("full-items", {"gammas": (1.0,)}, "bad gammas: 1.0"),
    ],
)
def test_bad_settings(name: str, changed: dict[str, Any], message: str) -> None:
    experiment = find_experiment(name)
    with pytest.raises(InputError, match=message):
        settings_of(experiment, {**TINY[name], **changed}, quick=False).units()


@pytest.mark.parametrize("name", TINY)
def test_every_setting_says_what_it_is(name: str) -> None:
    experiment = find_experiment(name)
    assert set(experiment.quick) <= {field.name for field in dataclasses.fields(experiment)}
    for field in dataclasses.fields(experiment):
        assert field.metadata["help"]
    experiment().units()
    settings_of(experiment, {}, quick=True).units()


def test_running_estimates_beat_the_biased_gradient() -> None:
    experiment = find_experiment("gamma")
    table = run(settings_of(experiment, {}, quick=True)).tables["courses"]
    last = table[table["epoch"] == table["epoch"].max()].groupby("value")["objective"].mean()
    assert last["0.3"] < last["1"]
