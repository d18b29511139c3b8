"""``lmtune plot`` on a folder that ``lmtune tune`` wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.cli.main import run
from lmtune.collections.folds import cross_validation
from lmtune.measures.measure import parse_measures
from lmtune.report.tuning_results import write_results
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.run import run_experiment


@pytest.fixture(params=[(3, 4)])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    plan = Plan(tuple(parse_measures(["AP"])), grid=request.param)
    pool = CandidatePool.build(*random_collection(3, documents=80, topics=12))
    result = run_experiment(pool, cross_validation(pool.topics, 2, seed=0), plan)
    record = {
        "command": "lmtune tune tiny",
        "versions": {},
        "plan": {},
        "collections": [{}],
        "notes": {"tiny": list(result.notes)},
    }
    write_results(tmp_path / "kept", [result], [pool], json.loads(json.dumps(record)))
    return tmp_path / "kept"


def plot(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["lmtune", "plot", *arguments])
    return run()


@pytest.mark.slow
@pytest.mark.parametrize("folder", [(7,)], indirect=True)
def test_settings_that_are_spread_have_no_surface(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plot(monkeypatch, str(folder)) == 0
    drawn = {path.stem for path in (folder / "pictures").glob("*.*g")}
    assert "tiny-AP-fold1-convergence" in drawn
    assert not {name for name in drawn if name.endswith(("-surface", "-answer"))}


@pytest.mark.slow
def test_pictures_are_drawn_and_bad_tables_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plot(monkeypatch, str(folder)) == 0
    drawn = {path.name for path in (folder / "pictures").glob("*.*g")}
    assert drawn == {
        "tiny-answer.svg",
        "tiny-parameters.svg",
        "tiny-AP-topics.svg",
        "tiny-AP-recall.svg",
        *(f"tiny-AP-fold{n}-{kind}.svg" for n in (1, 2) for kind in ("surface", "convergence")),
    }
    assert "drew 8 pictures" in capsys.readouterr().err

    assert plot(monkeypatch, str(folder), "--format", "gif") == 2
    assert "unknown --format: 'gif'" in capsys.readouterr().err
    assert plot(monkeypatch, str(folder / "runs")) == 2
    capsys.readouterr()
    assert plot(monkeypatch, str(folder / "table.json")) == 2
    assert "table.json: not a folder; accepted: a folder that lmtune tune --output" in capsys.readouterr().err

    table = folder / "surfaces" / "tiny" / "AP-fold1.csv"
    rows = table.read_text()
    table.write_text(f"{rows} ")
    assert plot(monkeypatch, str(folder)) == 2
    assert "AP-fold1.csv: damaged: the checksum differs" in capsys.readouterr().err
