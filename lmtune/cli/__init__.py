"""The command line: one small module a command, no logic of its own."""

from __future__ import annotations

import itertools
import sys


def main() -> None:
    """Run the command line.

    Exits with 0; with 2 for bad input and 1 for a file that cannot be read or written, either with
    one line on standard error; or with 130 when interrupted.
    """
    # The import takes long enough to be interrupted.
    try:
        if sys.argv[1:2] == ["evaluate"] and not {"-h", "--help"} & set(sys.argv):
            # Importing typer would take longer than the work.
            from lmtune.cli.evaluate import run_alone

            sys.exit(run_alone(sys.argv[2:]))
        _check_index(sys.argv)
        from lmtune.cli.main import run

        sys.exit(run())
    except KeyboardInterrupt:
        print("lmtune: interrupted; nothing half-written is left", file=sys.stderr)
        sys.exit(130)


def _check_index(arguments: list[str]) -> None:
    """Look for a named index before what it takes to read one is imported."""
    from lmtune.cli.messages import prepare_process, status_of
    from lmtune.datasets.index_names import find_index
    from lmtune.errors import InputError

    try:
        for flag, name in itertools.pairwise(arguments):
            if flag == "--index":
                find_index(name)
    except InputError as error:
        prepare_process()
        sys.exit(status_of(error))
