"""Results of models that nothing here knows, with one parameter and with five, from tables to pictures."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reported import made_results, write_made
from support import random_collection
from toy_formulas import Mixed

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.models.model import MODELS as NAMED
from lmtune.models.model import Model
from lmtune.report.figures import draw, render
from lmtune.report.page import page
from lmtune.report.tuning_tables import parameter_table, tuning_table
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import CollectionResult, Fit
from lmtune.tuning.experiment.run import BEST, measure_profiles, run_experiment
from lmtune.tuning.experiment.stored import read_results

FIVE = ("k1", "b", "weight", "lambda", "delta")
MODELS = pytest.mark.parametrize("names", [("scale",), FIVE], ids=["one", "five"])


def made(names: tuple[str, ...]) -> CollectionResult:
    rng = np.random.default_rng(5)
    [result] = made_results()

    def renamed(fit: Fit) -> Fit:
        return replace(fit, params={name: float(10 ** rng.uniform(-3, 3)) for name in names})

    rows = [
        replace(row, fits=tuple(map(renamed, row.fits)), final=row.final and renamed(row.final))
        for row in result.rows
    ]
    traces = {
        key: table | dict.fromkeys(names, np.full(len(table["start"]), 0.5))
        for key, table in result.traces.items()
    }
    return replace(result, rows=tuple(rows), model="toy", traces=traces)


def kept(folder: Path, names: tuple[str, ...]) -> CollectionResult:
    """Keep a result with a profile of each parameter."""
    result = made(names)
    at = dict.fromkeys(names, 0.5)
    rows = [
        {"line": f"{BEST}{name}", "position": x, **at, name: x, "train": 0.2 + x / 10, "test": 0.3}
        for name in names
        for x in (0.25, 0.5, 0.75)
    ]
    write_made(
        folder,
        [result],
        lines=[{"AP-fold1": {name: np.array([row[name] for row in rows]) for name in rows[0]}}],
    )
    return result


@MODELS
def test_parameters_are_kept_by_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    result = kept(tmp_path / "kept", names)
    [again] = read_results(tmp_path / "kept").results
    assert again.model == "toy"
    assert [row.fits for row in again.rows] == [row.fits for row in result.rows]
    with (tmp_path / "kept" / "parameters.csv").open() as file:
        assert tuple(csv.DictReader(file).fieldnames or ())[4:-6] == names
    head, first, *_ = parameter_table([result]).text().splitlines()
    assert tuple(head.split()[4:-3]) == names
    shown = [
        f"{value:.4f}" if name == "lambda" else f"{value:.4g}"
        for name, value in result.rows[0].fits[0].params.items()
    ]
    assert first.split()[4:-3] == shown
    assert "Model: toy" in tuning_table([result])


@MODELS
def test_the_page_names_every_parameter(tmp_path: Path, names: tuple[str, ...]) -> None:
    kept(tmp_path / "kept", names)
    text = page(read_results(tmp_path / "kept"))
    assert "".join(f'<th scope="col" class="num">{name}</th>' for name in names) in text
    chosen = "k1, b, weight, lambda and delta" if len(names) > 1 else "scale"
    assert f"chose the parameter{'s' if len(names) > 1 else ''} {chosen} on" in text


@pytest.mark.slow
@MODELS
def test_every_parameter_is_drawn(tmp_path: Path, names: tuple[str, ...]) -> None:
    kept(tmp_path / "kept", names)
    pictures = {
        picture.name: picture for picture in draw(tmp_path / "kept", read_results(tmp_path / "kept").results)
    }
    assert [name for name in pictures if "fold1" in name] == [
        "plain-AP-fold1-profiles",
        "plain-AP-fold1-convergence",
        "plain-P@10-fold1-convergence",
    ]
    assert len(pictures["plain-parameters"].figure.axes) == 2 * len(names)
    for name in names:
        symbol = "λ" if name == "lambda" else name
        assert f"{symbol} from " in pictures["plain-parameters"].alt
        assert f"Along {symbol} it is " in pictures["plain-AP-fold1-profiles"].alt
    assert pictures["plain-parameters"].figure.axes[0].get_yscale() == "log"


@pytest.mark.slow
def test_many_parameters_are_tuned_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    formula = Mixed()
    monkeypatch.setitem(NAMED, "mixed", Model("mixed", "a toy", formula, formula.parameters))
    plan = Plan(("AP",), model="mixed", grid=(24,), ascents=1, restarts=0, starts=1, final=False)  # type: ignore[arg-type]
    pool = CandidatePool.build(*random_collection(5, documents=60, topics=8), model=formula, name="toy")
    result = run_experiment(pool, cross_validation(pool.topics, 2, seed=0), plan)
    assert result.surface is not None
    assert len(result.surface.settings) == 24
    lines = measure_profiles(pool, result, plan)
    write_made(tmp_path / "kept", [result], pools=[pool], lines=[lines])
    stored = read_results(tmp_path / "kept")
    fits = {row.method: row.fits[1] for row in stored.results[0].rows}
    own = pd.DataFrame(lines["AP-fold2"])
    for name in [parameter.name for parameter in plan.space.free]:
        part = own[own["line"] == f"{BEST}{name}"]
        [at] = part.loc[part["position"] == fits["Direct"].params[name], "train"]
        assert at == pytest.approx(fits["Direct"].train_value, rel=1e-12)
        assert (part[name] == part["position"]).all()
    pictures = {picture.name: picture for picture in draw(tmp_path / "kept", stored.results)}
    kinds = ("profiles", "convergence")
    assert [name for name in pictures if "fold2" in name] == [f"toy-AP-fold2-{kind}" for kind in kinds]
    profiles = pictures["toy-AP-fold2-profiles"]
    drawn = [ax for ax in profiles.figure.axes if ax.axison]
    assert [ax.get_xlabel() for ax in drawn] == ["k", "b", "rare", "short"]
    for ax in drawn:
        marked = {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in ax.lines}
        for method in ("Direct", "RankNet", "Approx"):
            assert marked[method] == [[fits[method].params[ax.get_xlabel()], fits[method].train_value]]
    assert render(profiles.figure, "png")
    assert "the measure along each parameter" in page(stored, list(pictures.values()))
