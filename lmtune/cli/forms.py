"""Functions as commands: dataclasses of options become flags, texts become their values.

A command's function has parameters of two kinds. Dataclasses of options, which ``Annotated`` may
follow with the names of fields to leave out; ``Annotated[dict, CLASS]`` asks for the values that
the command line gives, unchecked. And arguments, which ``Annotated`` follows with their help and
metavar; they must be given unless they may be None.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from lmtune.cli.messages import Talk, set_talk
from lmtune.errors import InputError
from lmtune.options import accepted, check, flags, kinds, options_of, read

if TYPE_CHECKING:
    import typer

HELP = ("-h", "--help")
STYLE: dict[str, Any] = {
    "rich_markup_mode": "rich",
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": HELP},
}
_METAVARS = {int: "N", float: "X", str: "TEXT", Path: "PATH"}

Field = dataclasses.Field[Any]
Given = Mapping[str, Any]
"""Texts, lists of texts and truth values by the names of fields and arguments."""


class _Part(typing.NamedTuple):
    """A parameter of a command's function."""

    name: str
    kind: Any
    words: tuple[Any, ...]
    default: Any

    @property
    def raw(self) -> bool:
        """Whether the function gets the given values alone."""
        return self.kind is dict or typing.get_origin(self.kind) is dict

    @property
    def form(self) -> type[Any] | None:
        """The dataclass of options, None for an argument."""
        kind = self.words[0] if self.raw else self.kind
        return kind if dataclasses.is_dataclass(kind) else None  # type: ignore[return-value]

    def fields(self) -> Iterator[tuple[Field, Any]]:
        """Yield the options that the command line has, and their types."""
        if self.form is not None:
            hints = kinds(self.form)
            for field in options_of(self.form):
                if flags(field) and field.name not in self.words:
                    yield field, hints[field.name]

    def value(self, given: Given) -> Any:
        """Return what the function gets."""
        if self.form is None:
            return given.get(self.name, self.default)
        values = {f.name: _read(f, kind, given[f.name]) for f, kind in self.fields() if f.name in given}
        if self.raw:
            return values
        for field, kind in self.fields():
            if field.default is ... and field.name not in values:
                [flag, *_] = flags(field)
                raise InputError(f"no {flag}", accepted=f"{flag} {_metavar(field, kind)}")
        made = self.form(**values)
        check(made, lambda field: " ".join(flags(field)[:1]) or field.name)
        return made


_TALK = _Part("talk", Talk, (), None)
"""Options that every command has."""


def _parts(function: Callable[..., None]) -> list[_Part]:
    parts = []
    hints = typing.get_type_hints(function, include_extras=True)
    for name in inspect.signature(function).parameters:
        hint = hints[name]
        kind, *words = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        default = None if type(None) in typing.get_args(kind) else inspect.Parameter.empty
        parts.append(_Part(name, kind, tuple(words), default))
    return parts


def _read(field: Field, kind: Any, given: Any) -> Any:
    if isinstance(given, bool):
        return given
    if field.metadata["separator"] is None:
        return tuple(_read_one(field, typing.get_args(kind)[0], text) for text in given)
    return _read_one(field, kind, given)


def _read_one(field: Field, kind: Any, text: str) -> Any:
    reader = field.metadata["read"]
    if reader is not None:
        return reader(text)
    return read(kind, text, flags(field)[0], field.metadata["separator"] or ",")


def _metavar(field: Field, kind: Any) -> str:
    if field.metadata["metavar"] is not None:
        return str(field.metadata["metavar"])
    if typing.get_origin(kind) is not tuple:
        return _METAVARS.get(kind, "TEXT")
    word = _METAVARS.get(typing.get_args(kind)[0], "TEXT")
    return word if field.metadata["separator"] is None else f"{word},..."


def command(
    function: Callable[..., None],
    name: str | None = None,
    *,
    before: Callable[[], None] | None = None,
    epilog: str = "",
    **settings: Any,
) -> Any:
    """Make typer's command of a function, whose docstring is its help; settings go to typer.

    `before` is called before anything that is given is looked at.
    """
    import typer
    from typer.main import get_command

    parts = _parts(function)
    parameters = [_keyword("context", typer.Context)]
    for part in (*parts, _TALK):
        parameters += [_argument(part)] if part.form is None else _options(part)

    def run(context: typer.Context, **values: Any) -> None:
        if before is not None:
            before()
        sources = {name: context.get_parameter_source(name) for name in values}
        given = {
            name: values[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"
        }
        set_talk(_TALK.value(given))
        function(**{part.name: part.value(given) for part in parts})

    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False, **STYLE)
    app.command(name or function.__name__, epilog=epilog.replace("[", r"\["), **settings)(run)
    return get_command(app)


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _argument(part: _Part) -> inspect.Parameter:
    import typer

    text, metavar = part.words
    found = typer.Argument(help=text.replace("[", r"\["), metavar=metavar)
    return _keyword(part.name, Annotated[part.kind, found], part.default)


def _options(part: _Part) -> Iterator[inspect.Parameter]:
    import typer

    panel = (inspect.getdoc(part.form) or "").partition("\n")[0].rstrip(".")
    for field, kind in part.fields():
        names, choices = flags(field), field.metadata["choices"]
        shown: dict[str, Any] = {
            "help": _explained(field).replace("[", r"\["),
            "rich_help_panel": panel,
            "autocompletion": choices and _completion(choices),
        }
        if kind is bool:
            names[0] += f"/--no-{names[0][2:]}" if field.default else ""
            yield _keyword(field.name, Annotated[bool, typer.Option(*names, **shown)], field.default)
            continue
        separator = field.metadata["separator"]
        found = typer.Option(*names, metavar=_metavar(field, kind), **shown)
        words = _words(field.default)
        if separator is None:
            yield _keyword(field.name, Annotated[list[str], found], words)
        else:
            yield _keyword(
                field.name, Annotated[str, found], separator.replace(",", ", ").join(words) or None
            )


def _explained(field: Field) -> str:
    """Return an option's help with its bounds, where the help does not name them."""
    text, bounds = field.metadata["help"], accepted(field.metadata)
    return f"{text} [{bounds}]" if bounds and bounds not in text else text


def _completion(choices: Sequence[str]) -> Callable[[], list[str]]:
    def complete() -> list[str]:
        return list(choices)

    return complete


def _words(default: Any) -> list[str]:
    """Return a default as the command line would have it."""
    if default is None or default is ...:
        return []
    if isinstance(default, tuple):
        return [word for part in default for word in _words(part)]
    return [f"{default:g}" if isinstance(default, float) else str(default)]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message, accepted=f"what {self.prog} --help says")


def parse(function: Callable[..., None], arguments: Sequence[str]) -> dict[str, Any]:
    """Read a command line as `command` does, without typer, which takes a while to import.

    Returns
    -------
    dict
        What to call the function with.
    """
    parser = _Parser(prog=f"lmtune {function.__name__}", add_help=False, allow_abbrev=False)
    parts = _parts(function)
    for part in (*parts, _TALK):
        if part.form is None:
            many = typing.get_origin(part.kind) is list
            parser.add_argument(part.name, metavar=part.words[1], nargs="+" if many else None)
        for field, kind in part.fields():
            action: Any = "append" if field.metadata["separator"] is None else "store"
            if kind is bool:
                action = argparse.BooleanOptionalAction if field.default else "store_true"
            parser.add_argument(*flags(field), dest=field.name, action=action, default=None)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    set_talk(_TALK.value(given))
    return {part.name: part.value(given) for part in parts}
