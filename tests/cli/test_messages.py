"""Nothing that a name holds is obeyed by a terminal, and what cannot be written is said in one line."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from lmtune.cli.messages import note, say, status_of
from lmtune.errors import visible
from lmtune.report.table import Cell, Column, Table

TITLE = "\x1b]0;owned\x07"
JUDGED = "1 0 d 1\n"
RUN = f"1 Q0 d 1 2.5 tag{TITLE}\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "qrels.txt").write_text(JUDGED)
    (tmp_path / "run.txt").write_text(RUN)
    return tmp_path


def lmtune(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    called = f"{sys.executable} -m lmtune {command}"
    return subprocess.run(["sh", "-c", called], cwd=home, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("code", [*range(32), *range(127, 160), 0x200F, 0x202E, 0x2066, 0xDCFF])
def test_control_characters_are_escaped(code: int) -> None:
    shown = visible(f"a{chr(code)}b")
    if chr(code) in "\t\n":
        assert shown == f"a{chr(code)}b"
    else:
        assert shown.isprintable()
        assert shown == f"a{chr(code)!a}b".replace("'", "")


def test_other_characters_stay() -> None:
    text = "λ = 0.4, μ † é 漢 👍 \u05d0"
    assert visible(text) == text


def test_messages_and_tables_are_escaped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", screen)
    note(f"{TITLE} is no file")
    say(f"{TITLE}\t1\n")
    assert screen.getvalue() == "\\x1b]0;owned\\x07 is no file\n\\x1b]0;owned\\x07\t1\n"
    say(Table([Column(TITLE)], [[[Cell(TITLE)]]], "").text())
    assert "\x1b]" not in screen.getvalue()


def test_what_other_programs_read_stays_as_it_is(files: Path) -> None:
    done = lmtune("evaluate -m runid qrels.txt run.txt", files)
    assert (done.returncode, done.stdout) == (0, f"runid                 \tall\ttag{TITLE}\n")


@pytest.mark.first_case
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
@pytest.mark.parametrize("command", ["evaluate qrels.txt run.txt", "datasets", "--version"])
def test_output_that_cannot_be_written_is_one_line(command: str, to: str, files: Path) -> None:
    done = lmtune(f"{command} {to}", files)
    assert done.returncode == 1, done
    [line] = done.stderr.splitlines()
    assert line.startswith("lmtune: standard output: ")


def test_closed_standard_error_is_no_reason_to_fail(files: Path) -> None:
    done = lmtune("evaluate -m runid qrels.txt run.txt 2>&-", files)
    assert done.returncode == 0
    assert "runid" in done.stdout
    assert lmtune("evaluate -m runid absent run.txt 2>&-", files).returncode == 2


def test_missing_memory_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for error, said in (
        (MemoryError(), ""),
        (MemoryError("Unable to allocate 3 GiB"), ": Unable to allocate 3 GiB"),
    ):
        assert status_of(error) == 1
        assert capsys.readouterr().err == f"lmtune: not enough memory{said}\n"
