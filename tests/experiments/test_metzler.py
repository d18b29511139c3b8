"""Metzler's table: its figures against the tuning experiment's, and the printed ones beside them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from small_world import make_world

from experiments.metzler.__main__ import MEASURES, METHODS, PRINTED, experiment
from lmtune.collections.collection import Collection
from lmtune.measures import parse_measures
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import prepare
from lmtune.tuning.experiment.run import run_experiment

PAPERS = Path(__file__).parents[3] / "shared/papers"
SMALL: dict[str, Any] = {"points": (3, 3), "ascents": 1, "restarts": 0, "starts": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a collection, and one named as the paper's first is."""
    home = tmp_path_factory.mktemp("world")
    make_world(home)
    shutil.copytree(home / "c", home / "wsj")
    return home


@pytest.fixture(scope="module")
def found(place: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return experiment(datasets=("c", str(place / "wsj")), **SMALL)


def test_it_is_the_tuning_experiments(found: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    plan = Plan(
        tuple(parse_measures(MEASURES)),
        approx=False,
        bag=False,
        final=False,
        grid=(3, 3),
        ascents=1,
        restarts=0,
        starts=1,
    )
    ready = prepare(Collection("c"), Split(), plan)
    result = run_experiment(ready.pool, ready.folds, plan)
    rows = found["table"].query("column == 'c'").set_index(["group", "method"])
    assert len(rows) == len(result.rows) == 9
    values = {(row.measure.title, row.method): row.values for row in result.rows}
    for key, of_topics in values.items():
        assert rows.loc[key, "mean"] == pytest.approx(of_topics.mean())
        low, high = stats.t.interval(0.95, 7, of_topics.mean(), stats.sem(of_topics))
        assert 2 * rows.loc[key, "half"] == pytest.approx(high - low)


def test_the_table(found: Any) -> None:
    printed = found["printed"].set_index("method")["wsj"]
    assert [cell.rpartition(" / ")[2] for cell in printed][:3] == ["0.3255", "0.2987", "0.3290"]
    assert found["cells"]["cells"].tolist() == [6]


def test_losses_are_cut_in_two(found: Any) -> None:
    """Each fold's gaps agree with its fits, and the table has their means."""
    gaps, fits = found["fold_gaps"], found["fits"]
    assert len(gaps) == 2 * 3 * 2 * fits["fold"].nunique()
    keys = ["collection", "measure", "fold"]
    best = fits[fits["method"] == "Optimal"].set_index(keys)["test"]
    for row in gaps.to_dict("records"):
        cell = tuple(row[key] for key in keys)
        own = fits.set_index([*keys, "method"]).loc[(*cell, row["method"])]
        assert best[cell] - own["test"] == pytest.approx(row["test gap"], abs=1e-12)
        assert -1e-12 <= row["optimisation gap"] <= 1
        assert 0 <= row["its tolerance"] <= 0.001 + 1e-12
    for row in found["gaps"].to_dict("records"):
        same = [gaps[key] == row[key] for key in ("measure", "collection", "method")]
        for name in ("optimisation gap", "estimation gap", "test gap"):
            assert float(row[name]) == pytest.approx(
                gaps.loc[np.logical_and.reduce(same), name].mean(), abs=5e-5
            )


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers are not beside the checkout")
def test_printed_figures_are_the_papers() -> None:
    [path] = PAPERS.glob("metzler-*.txt")
    text = path.read_text(encoding="utf-8")
    rows = [re.findall(r"\.\d{4}", line) for line in text.splitlines() if line.count("\t.") == 4]
    assert len(rows) == 9
    for number, column in enumerate(PRINTED.values()):
        assert column.split() == [f"0{row[number]}" for row in rows]
    assert METHODS == ("Direct", "RankNet", "Optimal")
