"""The ``lmtune`` command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from lmtune.cli.forms import HELP
from lmtune.cli.groups import Member, group, nested, of_module
from lmtune.cli.messages import complain, prepare_process, status_of

SUMMARY = "Tune retrieval models, fuse and rerank runs, and report as trec_eval does."


class _Errors(TyperGroup):
    """Turns what a command raises into one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            status = status_of(error)
            if status is not None:
                ctx.exit(status)
            # What typer itself finds wrong with options; anything else is a defect of ours.
            if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
                raise
            where = getattr(error, "ctx", None) or ctx
            wrong = error.format_message().rstrip(".")
            complain(f"lmtune: {wrong}; accepted: what {where.command_path} --help says")
            ctx.exit(2)


class _Evaluate(TyperCommand):
    """Leaves its arguments to their own reader; only help and completion are typer's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or set(args) & set(HELP):
            return super().parse_args(ctx, args)
        from lmtune.cli.evaluate import read_and_run

        read_and_run(args)
        raise typer.Exit


def _members() -> Iterator[Member]:
    for name in ("tune", "report", "plot", "index", "search", "compare", "fuse", "explore", "datasets"):
        yield of_module(f"lmtune.cli.{name}", name)
    yield of_module("lmtune.cli.evaluate", "evaluate", cls=_Evaluate)
    yield nested("lab", "Run an experiment of the laboratory, or all.", "lmtune.cli.lab")
    yield nested("paper", "Print a paper's table, made by its protocol.", "lmtune.cli.paper")
    yield nested("rerank", "Rerank runs by learning to rank.", "lmtune.cli.rerank")


app = group(SUMMARY, _members(), base=_Errors, name="lmtune", no_args_is_help=True)


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Tune retrieval models, fuse and rerank runs, and report as trec_eval does."""
    if version:
        from importlib.metadata import version as installed

        print(f"lmtune {installed('lmtune')}")
        raise typer.Exit


def run() -> int:
    """Run the command line and return its exit status; see `lmtune.cli.main`."""
    prepare_process()
    try:
        status = int(app(prog_name="lmtune", standalone_mode=False) or 0)
        sys.stdout.flush()
        return status
    except typer.Abort:
        raise KeyboardInterrupt from None
    except OSError as error:
        return status_of(error) or 1
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        error.show()  # no command was named: typer shows the help
        return int(getattr(error, "exit_code", 2))
