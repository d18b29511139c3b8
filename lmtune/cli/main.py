"""The ``lmtune`` command."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lmtune.cli import compare, datasets, index, search, tune
from lmtune.cli.screen import note
from lmtune.errors import InputError

_INTERRUPTED, _BROKEN_PIPE, _TERMINATED = 130, 141, 143


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
                ctx.exit(_BROKEN_PIPE)
            note(f"lmtune: {error.filename or 'input or output'}: {error.strerror or error}")
            ctx.exit(1)
        except KeyboardInterrupt:
            note("lmtune: interrupted; nothing half-written is left")
            ctx.exit(_INTERRUPTED)
        except MemoryError as error:
            note(f"lmtune: not enough memory: {error}")
            ctx.exit(1)
        except Exception as error:
            # What typer itself finds wrong with options; anything else is a defect of ours.
            if not hasattr(error, "format_message"):
                raise
            wrong = error.format_message()
            name = "" if ctx.invoked_subcommand is None else f" {ctx.invoked_subcommand}"
            note(f"lmtune: {wrong.rstrip('.')}; accepted: what lmtune{name} --help says")
            ctx.exit(2)


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
app.command()(compare.compare)
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


def run() -> int:
    """Run the command line and return its exit status; see `lmtune.cli.main`."""
    # A batch system's end is as good as Ctrl-C: temporary files go, worker processes end.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: sys.exit(_TERMINATED))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a dagger must not end a run on a plain screen
    try:
        return int(app(standalone_mode=False) or 0)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        error.show()  # no command was named: typer shows the help
        return int(getattr(error, "exit_code", 2))
