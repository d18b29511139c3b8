"""Models of one and two parameters tuned by every method: work, tests between methods and models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.common import call
from experiments.parameters.__main__ import QUICK, _freedom, experiment
from experiments.synthetic import folder_of
from lmtune.collections.collection import Collection, named_collections
from lmtune.measures.evaluate import measure
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import Prepared, prepare

NAME = "synthetic:1000x12"
MODELS = ("dirichlet", "jelinek-mercer", "bm25")
SMALL = {**QUICK, "datasets": (NAME,), "models": MODELS, "measure": "P@5", "certify": 0.2}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("laboratory")


@pytest.fixture(scope="module")
def found(place: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return call(experiment, SMALL)


@pytest.fixture(scope="module")
def prepared(place: Path) -> dict[str, Prepared]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        [collection] = named_collections([folder_of(NAME)], Collection())
        return {model: prepare(collection, Split(folds="2"), Plan(model=model)) for model in MODELS}


def held_out(found: Any, prepared: dict[str, Prepared], model: str, method: str) -> Any:
    """Measure each fold's setting on its test topics, read off the table of folds."""
    table = found["folds"]
    own = table[table["model"].eq(model) & table["method"].eq(method)]
    values = []
    for fold, text in zip(prepared[model].folds, own["setting"], strict=True):
        setting = {name: float(value) for name, value in (part.split("=") for part in text.split())}
        values.append(measure(prepared[model].pool, setting, measures=["P@5"], topics=fold.test).to_numpy())
    return np.concatenate(values)[:, 0]


@pytest.mark.slow
def test_methods_are_compared_with_direct_held_out(found: Any, prepared: dict[str, Prepared]) -> None:
    for model in MODELS:
        own = found["methods"].query("model == @model").set_index("method")
        direct = held_out(found, prepared, model, "Direct")
        p_values = {}
        for method in own.index:
            if method != "Optimal":
                values = held_out(found, prepared, model, method)
                # Settings are printed to six digits; no P@5 of this collection hangs on the seventh.
                assert own.loc[method, "test"] == pytest.approx(values.mean(), rel=1e-12)
                if method != "Direct":
                    p_values[method] = own.loc[method, "p_value"]
                    if (values != direct).any():
                        assert p_values[method] == pytest.approx(stats.ttest_rel(values, direct).pvalue)
        lowest = min(p_values, key=lambda name: p_values[name])
        assert own.loc[lowest, "p_holm"] == pytest.approx(min(1.0, len(p_values) * p_values[lowest]))
        assert (own.loc["Optimal", "test"] >= own["test"] - 1e-12).all()


def test_work_is_counted(found: Any, prepared: dict[str, Prepared]) -> None:
    folds = found["folds"].query("model == 'bm25' and fold == 1").set_index("method")
    pool, fold = prepared["bm25"].pool, prepared["bm25"].folds[0]
    scored = np.diff(pool.candidates.start)[pool.positions(fold.train)].sum()
    for method in ("Direct", "coordinate ascent", "SPSA"):
        assert folds.loc[method, "documents"] == scored * folds.loc[method, "evaluations"]
    assert folds.loc["SPSA", "evaluations"] == 20
    assert folds.loc["Direct", "evaluations"] > 520
    assert 1 <= folds.loc["coordinate ascent", "agreeing"] <= folds.loc["coordinate ascent", "climbs"] == 2


def test_models_are_compared_pair_by_pair(found: Any, prepared: dict[str, Prepared]) -> None:
    table = found["models"]
    assert len(table) == 3
    chosen = {model: held_out(found, prepared, model, "Direct") for model in MODELS}
    for row in table.to_dict("records"):
        a, b = chosen[row["baseline"]], chosen[row["model"]]
        assert row["difference"] == pytest.approx((b - a).mean(), abs=1e-12)
        assert row["p_value"] == pytest.approx(stats.ttest_rel(b, a).pvalue)
    ordered = np.sort(table["p_value"])
    holm = np.minimum(np.maximum.accumulate(ordered * [3, 2, 1]), 1.0)
    np.testing.assert_allclose(np.sort(table["p_holm"]), holm, rtol=1e-12)


def test_optimal_is_certified_where_there_is_a_proof(found: Any) -> None:
    optimal = found["methods"].query("method == 'Optimal'").set_index("model")
    assert optimal.loc["bm25", "test"] <= optimal.loc["bm25", "bound"] <= optimal.loc["bm25", "test"] + 0.2


def test_weights_that_add_up_to_1_leave_one_parameter_less() -> None:
    space = Plan(model="fields:title,body").space
    assert len(space.free) == 5
    assert _freedom(space) == 4
    assert _freedom(Plan(model="dirichlet").space) == 1
