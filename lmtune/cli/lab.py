"""``lmtune lab``: the laboratory's experiments, each with a parser of its own options."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from lmtune.cli.screen import note, stages, utf8_output
from lmtune.errors import InputError
from lmtune.threads import cores

ALL = "all"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message, accepted=f"what {self.prog} --help says")


def lab(name: str | None, arguments: Sequence[str]) -> None:
    """Run an experiment, or all of them; without a name, say which there are.

    Raises
    ------
    InputError
        For bad arguments or data.
    SystemExit
        After ``--help``.
    """
    from lmtune.laboratory.catalogue import NAMES, find_experiment

    if name is None or name in ("--help", "-h"):
        with utf8_output() as stream:
            stream.write(_help())
        return
    if name == ALL:
        given = _all_parser().parse_args(arguments)
        wanted = [(find_experiment(known), given.output / known) for known in NAMES]
        options = {} if given.seed is None else {"seed": _read("--seed", given.seed, 0)}
    else:
        experiment = find_experiment(name)
        given = _parser(experiment).parse_args(arguments)
        wanted = [(experiment, given.output)]
        fields = dataclasses.fields(experiment)
        texts = {field: getattr(given, field.name) for field in fields}
        options = {
            field.name: _read(_flag(field.name), text, field.default)
            for field, text in texts.items()
            if text is not None
        }
    workers = cores() if given.workers is None else _read("--workers", given.workers, 1)
    if workers < 1:
        raise InputError("bad --workers", value=workers, accepted="1 or more")
    _run(wanted, options, quick=given.quick, workers=workers)


def _help() -> str:
    from lmtune.laboratory.catalogue import NAMES, summary

    lines = ["usage: lmtune lab NAME --output DIR [OPTIONS]; lmtune lab NAME --help", ""]
    lines += [f"{name:16} {summary(name)}" for name in NAMES]
    return "\n".join([*lines, f"{ALL:16} all of these", ""])


def _run(wanted: Sequence[Any], options: dict[str, Any], *, quick: bool, workers: int) -> None:
    from lmtune.laboratory.running import Order, run_all, settings_of
    from lmtune.reporting.provenance import command

    made = {"command": command()}
    orders = [
        Order(settings_of(experiment, options, quick=quick), folder, made) for experiment, folder in wanted
    ]
    with stages() as report:
        for order, result in run_all(orders, workers=workers, progress=report):
            lines = [f"{order.experiment.name}:", *(f"  {text}" for text in result.conclusions)]
            with utf8_output() as stream:
                stream.write("\n".join(lines) + "\n")
            note(f"{order.experiment.name}: pictures and numbers are in {order.folder}")


def _parser(experiment: Any) -> _Parser:
    from lmtune.laboratory.catalogue import summary

    parser = _Parser(
        prog=f"lmtune lab {experiment.name}",
        description=summary(experiment.name),
        formatter_class=partial(argparse.HelpFormatter, width=100),
        allow_abbrev=False,
    )
    _add_common(parser, "the folder for pictures and numbers")
    for field in dataclasses.fields(experiment):
        default = field.default
        shown = ",".join(map(_shown, default if isinstance(default, tuple) else (default,)))
        parser.add_argument(
            _flag(field.name),
            metavar=_metavar(default),
            help=f"{field.metadata['help']} (default: {shown})".replace("%", "%%"),
        )
    return parser


def _all_parser() -> _Parser:
    parser = _Parser(
        prog=f"lmtune lab {ALL}",
        description="Run every experiment on the data that come with lmtune.",
        formatter_class=partial(argparse.HelpFormatter, width=100),
        allow_abbrev=False,
    )
    _add_common(parser, "a folder; each experiment has one of its own in it")
    parser.add_argument("--seed", metavar="N", help="of everything drawn (default: 0)")
    return parser


def _add_common(parser: _Parser, output: str) -> None:
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help=output)
    parser.add_argument("--quick", action="store_true", help="a small run of the same shape")
    parser.add_argument(
        "--workers", metavar="N", help="processes; they do not change the results (default: the cores)"
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (f"{value:g}" if isinstance(value, float) else str(value)) or "none"


def _metavar(default: Any) -> str:
    first = default[0] if isinstance(default, tuple) else default
    word = {bool: "yes|no", int: "N", float: "X", str: "TEXT"}[type(first)]
    return f"{word},..." if isinstance(default, tuple) else word


def _read(flag: str, text: str, default: Any) -> Any:
    """Read an option's text as the default's kind of value."""
    if isinstance(default, tuple):
        return tuple(_read(flag, part.strip(), default[0]) for part in text.split(","))
    if isinstance(default, bool):
        if text not in ("yes", "no"):
            raise InputError(f"bad {flag}", value=text, accepted="yes, no")
        return text == "yes"
    kind = type(default)
    try:
        return kind(text)
    except ValueError:
        accepted = {int: "an integer", float: "a number"}[kind]
        raise InputError(f"bad {flag}", value=text, accepted=accepted) from None
