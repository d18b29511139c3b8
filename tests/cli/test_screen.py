"""What is shown of long work, on a terminal and off one, and how much is said."""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress
from scripts import run_python

from lmtune.cli import screen
from lmtune.cli.main import app, run
from lmtune.cli.messages import Talk, set_talk
from lmtune.errors import InputError
from lmtune.progress import detail, note


@pytest.fixture(autouse=True)
def talk() -> Iterator[None]:
    yield
    set_talk(Talk())


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print a line every tenth of a second."""
    monkeypatch.setattr(screen, "_EVERY", 0.1)
    monkeypatch.setattr(screen, "_OFTEN", 0.1)


def said_until(wanted: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Wait for a line on standard error; return all lines up to then."""
    lines: list[str] = []
    end = time.monotonic() + 20
    while not any(re.fullmatch(wanted, line) for line in lines) and time.monotonic() < end:
        time.sleep(0.02)
        lines += capsys.readouterr().err.splitlines()
    return lines


@pytest.mark.usefixtures("often")
def test_a_line_now_and_then_also_where_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.stages() as report:
        report("compiling", 0, 1)
        assert said_until(r"compiling: 0 %, 0:00:\d\d so far", capsys)
        report("compiling", 1, 1)
        report("tuning", 10, 100, "fold 1, MAP, Direct")
        time.sleep(0.01)
        report("tuning", 30, 100, "fold 1, MAP, Direct")
        tuning = r"tuning: fold 1, MAP, Direct: 30 %, 0:00:\d\d so far, about 0:00:\d\d left"
        assert re.fullmatch(tuning, said_until(tuning, capsys)[-1])
        report("drawing", 7, 0)
        drawing = r"drawing: 7 done, 0:00:\d\d so far"
        assert re.fullmatch(drawing, said_until(drawing, capsys)[-1])


def test_the_time_left_is_at_the_mean_pace() -> None:
    """Steps of 10, 1 and 30 seconds: a recent pace would say 900, 90 and then 2,640 seconds."""
    now = 0.0
    progress = Progress(get_time=lambda: now)
    progress.add_task("tuning", total=100)
    progress.add_task("drawing", total=None)
    task, endless = progress.tasks
    assert screen._time_left(task) is None
    estimates = []
    for done, seconds in ((1, 10.0), (2, 11.0), (12, 41.0), (100, 90.0)):
        now = seconds
        progress.update(task.id, completed=done)
        estimates.append(screen._time_left(task))
    assert estimates == pytest.approx([990.0, 539.0, 41.0 * 88 / 12, 0.0])
    assert screen._TimeLeft().render(task).plain == "0:00:00"
    progress.update(endless.id, completed=7)
    assert screen._TimeLeft().render(endless).plain == "-:--:--"


@pytest.mark.usefixtures("often")
def test_more_and_less_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for words, notes in ((Talk(), ["a note"]), (Talk(verbose=True), ["a note", "a detail"])):
        set_talk(words)
        with screen.stages() as report:
            note("a note")
            detail("a detail")
            report("tuning", 1, 2)
            lines = said_until(r"tuning: 50 %.*", capsys)
            assert lines[: len(notes)] == notes
            tuning = r"tuning: 50 %, 0:00:\d\d so far(, about 0:00:\d\d left)?"
            assert all(re.fullmatch(tuning, line) for line in lines[len(notes) :])
    set_talk(Talk(quiet=True))
    capsys.readouterr()
    with screen.stages() as report:
        note("a note")
        report("tuning", 1, 2)
        time.sleep(0.3)
    assert capsys.readouterr().err == ""
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
    from click.testing import CliRunner

    (tmp_path / "qrels").write_text("1 0 a 1\n2 0 b 1\n")
    (tmp_path / "run").write_text("1 Q0 a 1 2 one\n")
    files = [str(tmp_path / "qrels"), str(tmp_path / "run")]
    for arguments, lines in ((["--quiet"], 0), ([], 1), (["--verbose"], 1)):
        assert run(["evaluate", *files, "-m", "map", *arguments]) == 0
        assert len(capsys.readouterr().err.splitlines()) == lines
    for command in (["tune"], ["search"], ["rerank", "compare"], ["evaluate"]):
        shown = CliRunner().invoke(app, [*command, "--help-all"], env={"COLUMNS": "200"})
        assert "--quiet" in shown.stdout, command
        assert "--verbose" in shown.stdout, command
    assert run(["evaluate", "--quiet", *files, "absent"]) == 2
    assert "absent" in capsys.readouterr().err  # what is wrong is always said
    assert logging.getLogger("lmtune").level == logging.INFO


def test_a_mistyped_index_is_told_before_anything_slow_is_imported() -> None:
    code = (
        "import sys, lmtune.cli\n"
        "sys.argv = ['lmtune', 'tune', 'pydocs', '--index', 'indexes/mistyped']\n"
        "try:\n    lmtune.cli.main()\n"
        "finally:\n    print(*sys.modules)\n"
    )
    out, err = run_python("-c", code, status=2)
    assert err.startswith("lmtune: indexes/mistyped: there is no index here; accepted: ")
    assert out
    assert not {"numpy", "numba", "rich", "lmtune.cli.tune"} & set(out.split())
