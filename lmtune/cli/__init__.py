"""The command line: one small function a command, no logic of its own."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line.

    Exits with 0; with 2 for bad input and 1 for a file that cannot be read or written, either with
    one line on standard error; or with 130 when interrupted.
    """
    # The import takes long enough to be interrupted.
    try:
        from lmtune.cli.main import run

        sys.exit(run())
    except KeyboardInterrupt:
        print("lmtune: interrupted; nothing half-written is left", file=sys.stderr)
        sys.exit(130)
