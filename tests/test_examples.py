"""What ``examples/`` shows runs, and does what it says."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scripts import run_script

import lmtune
from lmtune.io.runs import read_run

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.usefixtures("one_thread")
def test_a_network_learns_by_lambdarank(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "train_with_lambdarank.py"))
    shown = [float(value) for value in re.findall(r"nDCG@10 (.*)", capsys.readouterr().out)]
    assert len(shown) == 20
    assert shown[0] < 0.8 < 0.93 < shown[-1]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for all examples: they share an index."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("tune_and_compare", lambda default, grid, gradient: default < min(grid, gradient)),
        ("bm25_with_certificate", lambda climb, best, bound: climb <= best <= bound <= best + 0.0051),
        ("fuse_runs", lambda *values: len(values) == 6 and min(values[3:]) > np.mean(values[:3])),
        ("rerank_with_song", lambda ranknet, song, feature: feature + 0.2 < min(ranknet, song)),
        ("optuna_study", lambda train, test: 0.2 < train < 1.0 > test > 0.1),
        ("own_model", lambda grid, gradient: grid > 0.2 < gradient),
        ("own_measure", lambda default, grid: 0.1 < default < 1.0 > grid > 0.1),
        ("own_loss", lambda kept, hinge, ranknet: ranknet < hinge > 0.7 < kept < 1.0),
        ("own_learner", lambda kept, ridge, listnet: listnet + 0.01 < ridge == kept < 1.0),
    ],
)
def test_the_scripts_run(work: Path, name: str, holds: Callable[..., bool]) -> None:
    script = ROOT / "examples" / f"{name}.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 60
    shown = run_script(script, cwd=work)
    before = "AP|than|nDCG@10|alone:|mean|default|grid|gradient|single|linear|rrf|combmnz"
    assert holds(*map(float, re.findall(rf"(?:{before}) +(0?\.\d{{4}})\b", shown)))
    if name == "fuse_runs":
        assert len(read_run(work / "fused.txt")) == 150


@pytest.mark.slow
def test_a_measure_of_ones_own_is_its_formula(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    known = runpy.run_path(str(ROOT / "examples" / "own_measure.py"))
    pool, setting = known["pool"], known["default"]
    found = lmtune.measure(pool, setting, measures=known["RBP"])["RBP"]
    for ranking in lmtune.rank(pool, setting):
        judged = known["data"].qrels.get(ranking.topic, {})
        gains = [judged.get(docno, 0) > 0 for docno in ranking.docnos]
        expected = 0.2 * sum(0.8**place for place, gain in enumerate(gains) if gain)
        assert found[ranking.topic] == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_the_notebook_runs_and_shows_tables_and_pictures(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    client.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    ).execute()
    shown: list[str] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown += output.get("data", {}).keys()
            assert output.get("output_type") != "error"
            assert "Warning" not in output.get("text", "")
    assert shown.count("image/png") == 3
    assert shown.count("text/html") >= 7
