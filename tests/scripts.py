"""Scripts and commands in the tests' own process: each alone would import all and load its kernels anew."""

from __future__ import annotations

import io
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from lmtune.cli.main import app


def run_script(script: Path, arguments: Sequence[str | os.PathLike[str]] = (), *, cwd: Path) -> str:
    """Run a script as ``python SCRIPT ARGUMENTS`` does in a folder, and return what it prints.

    An error, or an end that is not 0, is raised here.
    """
    argv = [os.fspath(script), *(os.fspath(own) for own in arguments)]
    shown = io.StringIO()
    with (
        chdir(cwd),
        patch.object(sys, "argv", argv),
        patch.object(sys, "path", [os.fspath(script.parent), *sys.path]),
        patch.dict(os.environ),
        redirect_stdout(shown),
        redirect_stderr(io.StringIO()) as said,
    ):
        try:
            runpy.run_path(argv[0], run_name="__main__")
        except SystemExit as end:
            assert not end.code, (end.code, said.getvalue())
    return shown.getvalue()


class Printed(NamedTuple):
    """The standard output and the standard error of a command."""

    out: str
    err: str


def run_command(*words: str | Path | Sequence[str], status: int = 0, cwd: Path | None = None) -> Printed:
    """Run a command of ``lmtune``, which must end with a status, and return what it prints.

    A string is split into words as a shell does; a path, and each item of a tuple or list, is one word.
    """
    line = [
        word
        for part in words
        for word in (
            shlex.split(part) if isinstance(part, str) else [str(part)] if isinstance(part, Path) else part
        )
    ]
    with chdir(cwd or Path.cwd()), patch.object(sys, "argv", ["lmtune", *line]):
        done = CliRunner().invoke(app, line)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    out, err = done.stdout_bytes.decode(), done.stderr
    assert done.exit_code == status, (done.exit_code, out, err)
    return Printed(out, err)


def refusal(*words: str | Path | Sequence[str], cwd: Path | None = None) -> str:
    """Run a command that is refused: exit status 2, no output, and one line of error, which is returned."""
    out, err = run_command(*words, status=2, cwd=cwd)
    assert out == ""
    assert err.count("lmtune: ") == 1 and "Traceback" not in err, err
    line = err.rstrip("\n").splitlines()[-1]
    assert line.startswith("lmtune: "), err
    return line


def run_python(*arguments: str, status: int = 0, cwd: Path | None = None, **environment: str) -> Printed:
    """Run Python in a process of its own, which must end with a status; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done
    return Printed(done.stdout, done.stderr)
