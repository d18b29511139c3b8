"""The course: each notebook runs, shows what it was kept with, and answers its exercises."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed")

from IPython.core.inputtransformer2 import TransformerManager
from notebooks import digest, execute, read

COURSE = Path(__file__).resolve().parents[1] / "course"
NOTEBOOKS = sorted(COURSE.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for all notebooks: they share an index."""
    return tmp_path_factory.mktemp("course")


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def kinds(notebook: Any) -> list[str]:
    return [kind for output in outputs(notebook) for kind in sorted(output.get("data", {}))]


def check_shown(notebook: Any) -> None:
    """Check that all cells ran, in their order, and said nothing beside their results."""
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    for output in outputs(notebook):
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text
        assert "Warning" not in output.get("text", "")
    assert kinds(notebook).count("image/png") >= 3


@pytest.mark.slow
@each_notebook
def test_it_runs_in_small(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(COURSE.parent))
    monkeypatch.setenv("LMTUNE_QUICK", "1")
    notebook, kept = read(path), read(path)
    execute(notebook, folder)
    check_shown(notebook)
    assert kinds(notebook) == kinds(kept)


@each_notebook
def test_it_is_kept_with_its_outputs_and_nothing_of_a_machine(path: Path) -> None:
    notebook = read(path)
    check_shown(notebook)
    assert notebook.metadata.executed == digest(notebook), f"run python tests/notebooks.py {path.name}"
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags", "cellView", "jupyter"}
    text = json.dumps(
        [{k: v for k, v in o.get("data", {}).items() if k != "image/png"} for o in outputs(notebook)]
    )
    text += "".join(cell.source for cell in notebook.cells)
    assert re.findall(r"/(?:home|root|tmp|work|usr|Users)/|[A-Z]:\\\\", text) == []


@each_notebook
def test_each_exercise_is_followed_by_its_answer(path: Path) -> None:
    found: list[str] = []
    for cell in read(path).cells:
        code = cell.cell_type == "code"
        wanted = (
            r"\A# @title (Answer \d+)\b"
            if code
            else r"^#+ (Exercise \d+)\b|^<summary>(Answer \d+)</summary>$"
        )
        own = ["".join(match.groups("")) for match in re.finditer(wanted, cell.source, re.M)]
        if code:
            assert bool(own) == ("answer" in cell.metadata.get("tags", []))
            if own:
                assert cell.metadata.cellView == "form"
                assert cell.metadata.jupyter.source_hidden
                assert cell.outputs
        else:
            closed = re.findall(r"^<details>\n<summary>.*\n\n(?:.+\n+)+</details>$", cell.source, re.M)
            assert len(closed) == cell.source.count("<details>") == " ".join(own).count("Answer")
        found += own
    expected = [f"{what} {n}" for n in range(1, len(set(found)) // 2 + 1) for what in ("Exercise", "Answer")]
    assert [name for name, _ in itertools.groupby(found)] == expected
    assert len(expected) >= 6


@each_notebook
@pytest.mark.parametrize("is_there", [True, False])
def test_it_installs_lmtune_if_absent(path: Path, is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(cell.source for cell in read(path).cells if cell.cell_type == "code")
    asked: list[str] = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: is_there or None)
    shell = SimpleNamespace(run_line_magic=lambda _, line: asked.append(line))
    transform = TransformerManager().transform_cell  # type: ignore[no-untyped-call]
    exec(transform(first), {"get_ipython": lambda: shell})
    assert [line.split()[0] for line in asked] == ["install"] * (not is_there)


def test_the_page_of_the_course_names_each_notebook() -> None:
    page = (COURSE / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(([^)/]+\.ipynb)\)", page) == [path.name for path in NOTEBOOKS]
