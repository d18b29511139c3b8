"""The ``lmtune`` command."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    shell_complete,
)

from lmtune.cli.forms import Group, stopping
from lmtune.cli.messages import complain, note, prepare_process, status_of
from lmtune.errors import InputError

_SUMMARY = "Tune retrieval models, fuse and rerank runs, and report as trec_eval does."
_COMMANDS = {
    "tune": ("tune", "Tune a model's parameters; evaluate on held-out topics.", "howto/tune.md"),
    "search": ("search", "Search a collection for its topics or for one query.", "start.md"),
    "explore": ("explore", "Explore parameters or fusion weights in the browser.", "howto/explore.md"),
    "report": ("tune", "Write an HTML report of tuning results.", "howto/tune.md"),
    "plot": ("tune", "Draw pictures of tuning results.", "howto/tune.md"),
    "index": ("search", "Build an index of a collection.", "howto/tune.md"),
    "datasets": ("search", "List available collections.", "start.md"),
    "evaluate": ("evaluate", "Evaluate runs with trec_eval's measures.", "howto/evaluate.md"),
    "compare": ("compare", "Compare runs with a baseline and test the differences.", "howto/evaluate.md"),
    "judges": ("compare", "Compare label sets, such as LLM judgments, with qrels.", "howto/evaluate.md"),
    "judge": ("explore", "Select the query-document pairs to judge next.", "howto/evaluate.md"),
    "fuse": ("fuse", "Fuse runs and tune their weights.", "howto/fuse.md"),
    "rerank": ("rerank", "Rerank runs with learning to rank.", "howto/rerank.md"),
    "deploy": ("engines", "Write a tuned setting as a search engine's files.", "howto/deploy.md"),
    "tune-engine": ("live", "Tune a query on a running OpenSearch or Elasticsearch.", "howto/live.md"),
    "check-run": ("engines", "Check that an engine's run matches the tuned setting.", "howto/deploy.md"),
    "check-engine": ("engines", "Index and query an engine, and check its run.", "howto/deploy.md"),
}
"""Command -> its module in this package, the first line of its help, its page in docs/."""
_JOBS = {
    "Tune and search": ("tune", "search", "explore", "report", "plot", "index", "datasets"),
    "Evaluate and compare": ("evaluate", "compare", "judges", "judge"),
    "Fuse": ("fuse",),
    "Rerank": ("rerank",),
    "Deploy and check": ("deploy", "tune-engine", "check-run", "check-engine"),
}
"""Section of the help -> its commands."""
_OTHER_NAMES = {
    **dict.fromkeys(("metric", "metrics"), "measure"),
    **dict.fromkeys(("k", "top-k"), "hits"),
    **dict.fromkeys(("docs", "corpus"), "documents"),
    **dict.fromkeys(("jobs", "n-jobs"), "workers"),
    **{"queries": "topics", "judgments": "qrels", "output-dir": "output", "lr": "learning-rate"},
    "stand-ins": "sampled-negatives",
}
"""Names of options in other tools -> names here."""
_COMPLETE = "_LMTUNE_COMPLETE"
_STARTS = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}
"""Shell -> its start-up file."""


class _BashComplete(BashComplete):
    """Completes words with a colon, such as irds:ID, which bash splits into three."""

    before = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor and the incomplete one, joined around a colon."""
        args, incomplete = super().get_completion_args()
        if incomplete == ":":
            args, incomplete = [*args, ":"], ""
        if args[-1:] != [":"] or len(args) < 2:
            return args, incomplete
        self.before = f"{args[-2]}:"
        return args[:-2], f"{self.before}{incomplete}"

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the type and the value, without the part that bash does not replace."""
        return f"{item.type},{item.value.removeprefix(self.before)}"


add_completion_class(_BashComplete)


class _Root(Group):
    """Turns exceptions of a command into one line and an exit status."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, standalone_mode: bool = True, **_: Any
    ) -> int:
        """Run a command line and return its exit status; in standalone mode exit with it."""
        arguments = sys.argv[1:] if args is None else list(args)
        asked = os.environ.get(_COMPLETE)
        status = shell_complete(self, {}, "lmtune", _COMPLETE, asked) if asked else self._run(arguments)
        if standalone_mode:
            sys.exit(status)
        return status

    def _run(self, arguments: list[str]) -> int:
        try:
            _check_index(arguments)
            with self.make_context("lmtune", arguments) as context:
                self.invoke(context)
            sys.stdout.flush()
        except click.exceptions.Exit as end:
            return end.exit_code
        except click.exceptions.NoArgsIsHelpError as error:
            top = error.ctx is None or error.ctx.parent is None
            click.echo(error.format_message(), err=top)
            return 2 if top else 0
        except click.UsageError as error:
            complain(f"lmtune: {_wrong(error)}; accepted: {_usage(error)}")
            return 2
        except (Exception, KeyboardInterrupt) as error:
            status = status_of(error)
            if status is None:
                raise
            return status
        return 0


def _wrong(error: click.UsageError) -> str:
    if not isinstance(error, click.NoSuchOption):
        return error.format_message().rstrip(".")
    near = "" if _is_argument(error) else ", ".join(_near_options(error))
    return f"No such option: {error.option_name}" + (f" (Possible options: {near})" if near else "")


def _is_argument(error: click.UsageError) -> bool:
    """Return whether the option is an argument's name, such as --qrels in commands that begin with QRELS."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return False
    arguments = " ".join(error.ctx.command.collect_usage_pieces(error.ctx))
    name = error.option_name.lstrip("-").upper()
    return bool({name, name.removesuffix("S")} & {*re.findall("[A-Z]+", arguments)})


def _near_options(error: click.NoSuchOption) -> Sequence[str]:
    """Return options that an unknown one may mean: a parameter's, another tool's, a misspelt one."""
    from lmtune.models.model import MODELS

    name = error.option_name.lstrip("-").replace("_", "-").removesuffix("-range")
    is_parameter = any(name in model.default for model in MODELS.values())
    meant = ("--set", "--range") if is_parameter else (f"--{_OTHER_NAMES.get(name)}",)
    parameters = error.ctx.command.params if error.ctx is not None else ()
    options = [f"{flag} {own.metavar}" for own in parameters for flag in own.opts if flag in meant]
    return options or (() if is_parameter else error.possibilities or ())


def _usage(error: click.UsageError) -> str:
    """Return a command's arguments if one is missing or an option, otherwise a pointer to its help."""
    if error.ctx is None:
        return "see lmtune --help"
    if isinstance(error, click.MissingParameter) or _is_argument(error):
        pieces = error.ctx.command.collect_usage_pieces(error.ctx)
        return " ".join([error.ctx.command_path, *pieces])
    return f"see {error.ctx.command_path} --help"


def _check_index(arguments: Sequence[str]) -> None:
    """Raise `InputError` for a missing index before the slow imports."""
    from lmtune.collections.names import find_index

    for flag, name in itertools.pairwise(arguments):
        if flag == "--index":
            find_index(name)


def _script() -> tuple[str, str]:
    """Return the name of the user's shell, and its completion script."""
    shell = Path(os.environ.get("SHELL", "bash")).name
    kind = get_completion_class(shell)
    if kind is None:
        raise InputError("no completion for this shell", value=shell, accepted=", ".join(_STARTS))
    return shell, kind(app, {}, "lmtune", _COMPLETE).source()


def _show_completion() -> None:
    click.echo(_script()[1], nl=False)


def _install_completion() -> None:
    shell, script = _script()
    start = Path(_STARTS[shell]).expanduser()
    if script not in (start.read_text(encoding="utf-8") if start.exists() else ""):
        start.parent.mkdir(parents=True, exist_ok=True)
        with start.open("a", encoding="utf-8") as file:
            file.write(f"\n{script}")
    note(f"added completion to {start}; start a new shell to use it")


def _show_version() -> None:
    from lmtune._version import __version__

    click.echo(f"lmtune {__version__}")


app = _Root(
    "lmtune",
    _SUMMARY,
    {
        name: (f"lmtune.cli.{module}", summary, f"docs/{page}")
        for name, (module, summary, page) in _COMMANDS.items()
    },
    sections=_JOBS,
    params=[
        stopping(["--version"], "Print the version.", _show_version),
        stopping(["--show-completion"], "Print the completion script for $SHELL.", _show_completion),
        stopping(["--install-completion"], "Add it to the start-up file of $SHELL.", _install_completion),
    ],
    epilog="lmtune COMMAND --help shows a command's options and examples.",
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; see `lmtune.cli.main`."""
    prepare_process()
    return app.main(arguments, standalone_mode=False)
