"""What is shown of long work, on a terminal and off one, and how much is said."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from lmtune.cli import screen
from lmtune.cli.evaluate import run_alone
from lmtune.cli.main import app
from lmtune.cli.messages import Talk, set_talk
from lmtune.errors import InputError
from lmtune.progress import detail, note


@pytest.fixture(autouse=True)
def talk() -> Iterator[None]:
    yield
    set_talk(Talk())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stand in for the clock."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_a_line_now_and_then(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with screen.stages() as report:
        for second in range(0, 101, 5):
            clock[0] = second
            report("tuning", second, 100, f"step {second}")
    assert capsys.readouterr().err.splitlines() == [
        "tuning: step 30: 30 %, 0:00:30 so far, about 0:01:10 left",
        "tuning: step 60: 60 %, 0:01:00 so far, about 0:00:40 left",
        "tuning: step 90: 90 %, 0:01:30 so far, about 0:00:10 left",
    ]


def test_lines_without_an_end(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with screen.stages() as report:
        clock[0] = 40.0
        report("drawing", 7, 0)
    assert capsys.readouterr().err == "drawing: 7 done, 0:00:00 so far\n"


def test_more_and_less_is_said(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for words in (Talk(quiet=True), Talk(), Talk(verbose=True)):
        set_talk(words)
        clock[0] = 0.0
        with screen.stages() as report:
            note("a note")
            detail("a detail")
            clock[0] = 3.0
            report("tuning", 1, 2)
            clock[0] = 33.0
            report("tuning", 2, 2)
        said[words] = capsys.readouterr().err.splitlines()
    last = "tuning: 100 %, 0:00:30 so far"
    assert list(said.values()) == [
        [],
        ["a note", last],
        ["a note", "a detail", "tuning: 50 %, 0:00:00 so far", last],
    ]
    with pytest.raises(InputError, match="both --quiet and --verbose"):
        Talk(quiet=True, verbose=True)


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(screen, "_console", Console(file=shown, force_terminal=True, width=80))
    with screen.stages() as report:
        report("tuning", 25, 100, "fold 1, MAP, Direct")
    assert "tuning: fold 1, MAP, Direct" in shown.getvalue()
    assert "25%" in shown.getvalue()


def test_every_command_can_be_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    (tmp_path / "qrels").write_text("1 0 a 1\n2 0 b 1\n")
    (tmp_path / "run").write_text("1 Q0 a 1 2 one\n")
    files = [str(tmp_path / "qrels"), str(tmp_path / "run")]
    for arguments, lines in ((["--quiet"], 0), ([], 1), (["--verbose"], 1)):
        assert run_alone([*files, "-m", "map", *arguments]) == 0
        assert len(capsys.readouterr().err.splitlines()) == lines
    for command in (["tune"], ["search"], ["lab", "all"], ["rerank", "compare"], ["evaluate"]):
        shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
        assert "--quiet" in shown.stdout, command
        assert "--verbose" in shown.stdout, command
    assert run_alone(["--quiet", *files, "absent"]) == 2
    assert "absent" in capsys.readouterr().err  # what is wrong is always said
    assert logging.getLogger("lmtune").level == logging.INFO


def test_a_mistyped_index_is_told_before_anything_slow_is_imported() -> None:
    code = (
        "import sys, lmtune.cli\n"
        "sys.argv = ['lmtune', 'tune', 'pydocs', '--index', 'indexes/mistyped']\n"
        "try:\n    lmtune.cli.main()\n"
        "finally:\n    print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("lmtune: indexes/mistyped: there is no index here; accepted: ")
    assert done.stdout
    assert not {"numpy", "numba", "rich", "typer"} & set(done.stdout.split())
