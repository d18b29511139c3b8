"""``python -m lmtune`` is the command line."""

from __future__ import annotations

from scripts import run_python

from lmtune import __version__


def test_the_package_runs_as_a_program() -> None:
    assert run_python("-m", "lmtune", "--version").out == f"lmtune {__version__}\n"
    wrong = run_python("-m", "lmtune", "tunes", status=2)
    assert wrong.err.startswith("lmtune: no such command: 'tunes'; did you mean tune?")
