"""The ``lmtune`` command."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lmtune.cli import datasets, index, search, tune
from lmtune.cli.screen import note
from lmtune.errors import InputError


class _Commands(TyperGroup):
    """Turns what a command raises into one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            note(f"lmtune: {error}")
            ctx.exit(2)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                # The reader of our output has gone: end as other filters do.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                ctx.exit(128 + signal.SIGPIPE)
            note(f"lmtune: {error.filename or 'input or output'}: {error.strerror or error}")
            ctx.exit(1)
        except KeyboardInterrupt:
            note("lmtune: interrupted; nothing half-written is left")
            ctx.exit(128 + signal.SIGINT)


app = typer.Typer(
    name="lmtune",
    cls=_Commands,
    help="Tune query-likelihood smoothing on TREC-style collections.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(tune.tune)
app.command()(index.index)
app.command()(search.search)
app.command()(datasets.datasets)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Tune query-likelihood smoothing on TREC-style collections."""
    if version:
        from importlib.metadata import version as installed

        print(f"lmtune {installed('lmtune')}")
        raise typer.Exit


def main() -> None:
    """Run the command line.

    Exits with 0; with 2 for bad input and 1 for a file that cannot be read or written, either with
    one line on standard error; or with 130 when interrupted.
    """
    app()
