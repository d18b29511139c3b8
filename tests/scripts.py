"""Scripts run in the tests' own process: each alone would import all and load its kernels anew."""

from __future__ import annotations

import io
import os
import runpy
import sys
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch


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
