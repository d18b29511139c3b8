"""The ``lmtune`` command."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lmtune.cli import compare, datasets, evaluate, index, lab, plot, report, rerank, search, tune
from lmtune.cli.messages import note, prepare_process, status_of


class _Commands(TyperGroup):
    """Turns what a command raises into one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            status = status_of(error)
            if status is not None:
                ctx.exit(status)
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
app.command()(report.report)
app.command()(plot.plot)
app.command()(index.index)
app.command()(search.search)
app.command()(compare.compare)
app.command()(datasets.datasets)
app.add_typer(rerank.app, name="rerank")


# Everything behind the name goes to the command's own parser, which starts without typer.
@app.command(
    "evaluate",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def evaluate_command(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="QRELS RUN...")] = None,
) -> None:
    """Print runs' measures as trec_eval does."""
    evaluate.evaluate(arguments or [])


@app.command("lab", context_settings={"ignore_unknown_options": True, "help_option_names": []})
def lab_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", show_default=False)] = None,
    options: Annotated[list[str] | None, typer.Argument(metavar="OPTIONS...")] = None,
) -> None:
    """Run an experiment of the laboratory, or all; without a name, list them."""
    lab.lab(name, options or [])


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Tune query-likelihood smoothing on TREC-style collections."""
    if version:
        from importlib.metadata import version as installed

        print(f"lmtune {installed('lmtune')}")
        raise typer.Exit


def run() -> int:
    """Run the command line and return its exit status; see `lmtune.cli.main`."""
    prepare_process()
    try:
        return int(app(standalone_mode=False) or 0)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        error.show()  # no command was named: typer shows the help
        return int(getattr(error, "exit_code", 2))
