"""``python -m lmtune`` is the command line."""

from __future__ import annotations

import subprocess
import sys

from lmtune import __version__


def test_the_package_runs_as_a_program() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "lmtune", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"lmtune {__version__}\n"
    wrong = subprocess.run(
        [sys.executable, "-m", "lmtune", "tunes"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("lmtune: no such command: 'tunes'; did you mean tune?")
