"""What ``examples/`` and ``docs/`` show runs, and does what it says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.usefixtures("one_thread")
def test_a_network_learns_by_lambdarank(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "train_with_lambdarank.py"))
    shown = [float(value) for value in re.findall(r"nDCG@10 (.*)", capsys.readouterr().out)]
    assert len(shown) == 20
    assert shown[0] < 0.8 < 0.93 < shown[-1]


@pytest.mark.parametrize("page", DOCS, ids=[page.name for page in DOCS])
@pytest.mark.usefixtures("one_thread")
def test_the_pages_run(page: Path) -> None:
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        exec(block, scope)
    if page.name == "losses.md":
        loss, same, bound = (float(str(scope[name].item())) for name in ("loss", "same", "bound"))  # type: ignore[attr-defined]
        assert same == pytest.approx(loss, rel=1e-6)
        assert -1 <= bound <= 0


@pytest.mark.slow
def test_the_notebook_runs_and_shows_tables_and_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    client.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown: list[str] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown += output.get("data", {}).keys()
            assert output.get("output_type") != "error"
            assert "Warning" not in output.get("text", "")
    assert shown.count("image/png") == 3
    assert shown.count("text/html") >= 7
