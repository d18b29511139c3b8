"""Commands from functions: fields of option dataclasses become flags.

A command's function has two kinds of parameters:

- Dataclasses of options. ``Annotated[CLASS, "field", ...]`` leaves out fields; ``Annotated[dict, CLASS]``
  passes the options of the command line as a dict by field, without defaults.
- Arguments, as ``Annotated[TYPE, help, metavar]``; optional if the type includes None.

Groups import a command when it is called.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import click
from click.core import ParameterSource, augment_usage_errors
from click.shell_completion import CompletionItem

from lmtune.cli.messages import Talk, set_talk
from lmtune.errors import InputError, nearest
from lmtune.options import accepted, flags, kinds, needed, negated, options_of, read_option

_CONTEXT: dict[str, Any] = {"help_option_names": ["--help", "-h"]}
_METAVARS = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
_IRDS = "irds:"
_FEW = 12
"""Commands with at most this many options show all of them in --help."""

_Field = dataclasses.Field[Any]


class _Part(typing.NamedTuple):
    """A parameter of a command's function."""

    name: str
    kind: Any
    words: tuple[Any, ...]

    @property
    def raw(self) -> bool:
        """Whether the function gets a dict of the options on the command line."""
        return self.kind is dict or typing.get_origin(self.kind) is dict

    @property
    def form(self) -> type[Any] | None:
        """The dataclass of options; None for an argument."""
        kind = self.words[0] if self.raw else self.kind
        return kind if dataclasses.is_dataclass(kind) else None  # type: ignore[return-value]

    def fields(self) -> list[_Field]:
        """Return the fields that are options of the command."""
        fields = () if self.form is None else options_of(self.form)
        return [field for field in fields if flags(field) and field.name not in self.words]

    def parameters(self) -> list[_Argument] | list[_Option]:
        """Return click's parameters."""
        if self.form is None:
            return [_Argument(*self)]
        hints = kinds(self.form)
        title = re.split(r"\.?\n|:|\.$", inspect.getdoc(self.form) or "", maxsplit=1)[0]
        return [_Option(field, hints[field.name], title) for field in self.fields()]

    def value(self, values: Mapping[str, Any]) -> Any:
        """Return the function's argument, from all values of the command line."""
        if self.form is None:
            value = values.get(self.name)
            return list(value) if isinstance(value, tuple) else value
        read = {field.name: values[field.name] for field in self.fields() if field.name in values}
        return read if self.raw else self.form(**read)


_TALK = _Part("talk", Talk, ())
"""Options of every command."""


def _parts(function: Callable[..., None]) -> list[_Part]:
    parts = []
    hints = typing.get_type_hints(function, include_extras=True)
    for name in inspect.signature(function).parameters:
        hint = hints[name]
        kind, *words = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        parts.append(_Part(name, kind, tuple(words)))
    return parts


class _Text(click.ParamType):  # type: ignore[type-arg]
    """A value read by a function; the shell completes choices, collections, otherwise file names."""

    name = "text"

    def __init__(self, read: Callable[[str], Any], choices: Collection[str] = ()) -> None:
        self.read, self.choices = read, choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        return self.read(value) if isinstance(value, str) else value

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        if incomplete.startswith(_IRDS):
            from lmtune.collections.irds import identifiers

            names = [f"{_IRDS}{name}" for name in identifiers()]
            return [CompletionItem(name) for name in names if name.startswith(incomplete)]
        before, comma, last = incomplete.rpartition(",")
        items = [CompletionItem(before + comma + word) for word in self.choices if word.startswith(last)]
        return items or [CompletionItem(incomplete, type="file")]


class _Argument(click.Argument):
    """An argument with help."""

    title, usual, needed, bounds, standard = "Arguments", True, False, "", ""

    def __init__(self, name: str, kind: Any, words: tuple[Any, ...]) -> None:
        self.text, self.shown = words
        several = typing.get_origin(needed(kind)) is list
        one = typing.get_args(needed(kind))[0] if several else needed(kind)
        required = type(None) not in typing.get_args(kind)
        metavar = self.shown if required else f"[{self.shown}]"
        metavar += "..." if several and not metavar.endswith("...") else ""
        nargs = -1 if several else 1
        super().__init__([name], type=_Text(one), metavar=metavar, nargs=nargs, required=required)

    def record(self) -> tuple[str, str]:
        return self.shown, self.text


class _Option(click.Option):
    """An option declared by a dataclass field."""

    def __init__(self, field: _Field, kind: Any, title: str) -> None:
        declared, names = field.metadata, flags(field)
        self.title, self.usual, self.text = title, declared["usual"], declared["help"]
        self.needed, bounds = field.default is ..., accepted(declared)
        self.bounds = "" if bounds in self.text else bounds
        settings: dict[str, Any]
        if kind is bool:
            self.standard, settings = names[0] if field.default else "", {"is_flag": True}
            names[0] += "" if field.default is False else f"/{negated(field)}"
        else:
            text = _Text(partial(read_option, field, kind, name=names[0]), declared["choices"] or ())
            self.standard, settings = _default(field), {"type": text, "metavar": _metavar(field, kind)}
        multiple = declared["separator"] is None
        super().__init__([field.name, *names], default=None, multiple=multiple, **settings)

    def record(self) -> tuple[str, str]:
        names = [", ".join([*self.opts, *self.secondary_opts]), self.metavar]
        ends = [self.bounds, self.standard and f"default: {self.standard}", "required" if self.needed else ""]
        return " ".join(filter(None, names)), " ".join([self.text, *(f"[{end}]" for end in ends if end)])


def _metavar(field: _Field, kind: Any) -> str:
    if field.metadata["metavar"] is not None:
        return str(field.metadata["metavar"])
    if typing.get_origin(kind) is not tuple:
        return _METAVARS.get(kind, "TEXT")
    word = _METAVARS.get(typing.get_args(kind)[0], "TEXT")
    return word if field.metadata["separator"] is None else f"{word},..."


def _default(field: _Field) -> str:
    """Return a default as written on the command line."""
    default, separator = field.default, field.metadata["separator"] or ","
    parts = default if isinstance(default, tuple) else () if default in (None, ...) else (default,)
    words = [f"{part:g}" if isinstance(part, float) else str(part) for part in parts]
    return separator.join(words).replace(",", ", ")


class Command(click.Command):
    """A command made from a function; its docstring is the help: summary, notes, examples.

    Parameters
    ----------
    function : callable
        Its parameters are described at the top of this module.
    name : str, optional
        Default: the function's name.
    before : callable
        Called before the options are read.
    whole : bool
        Whether ``--help`` shows all options.
    spelling : callable, optional
        Maps other names of flags to the declared ones.
    more : sequence of click.Option
        Options that the function does not get.
    page : str
        The command's how-to, named at the end of the help.
    """

    def __init__(
        self,
        function: Callable[..., None],
        name: str | None = None,
        *,
        before: Callable[[], None] = lambda: None,
        whole: bool = False,
        spelling: Callable[[str], str] | None = None,
        more: Sequence[click.Option] = (),
        page: str = "",
    ) -> None:
        text, _, examples = (inspect.getdoc(function) or "").partition("\n\nExamples\n--------\n")
        summary, _, notes = text.partition("\n\nNotes\n-----\n")
        self.function, self.before, self.examples = function, before, examples.splitlines()
        self.page = page
        self.parts = _parts(function)
        self.parameters = [one for part in (*self.parts, _TALK) for one in part.parameters()]
        self.brief = not whole and len(self.parameters) > _FEW
        every = stopping(["--help-all"], "Show all options.", _show_all)
        super().__init__(
            name or function.__name__,
            params=[*self.parameters, *more, every],
            help=summary,
            epilog=notes,
            context_settings=_CONTEXT | {"token_normalize_func": spelling},
        )

    def values(self, ctx: click.Context) -> dict[str, Any]:
        """Return the function's arguments."""
        values = {
            name: value
            for name, value in ctx.params.items()
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        for one in self.parameters:
            if one.needed and one.name not in values:
                raise InputError(f"missing {one.opts[0]}", accepted=f"{one.opts[0]} {one.metavar}")
        set_talk(_TALK.value(values))
        return {part.name: part.value(values) for part in self.parts}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; usage errors name this command."""
        with augment_usage_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Call the function."""
        self.before()
        self.function(**self.values(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments and options in their sections: the common ones, or all."""
        sections: dict[str, list[tuple[str, str]]] = {}
        every = ctx.meta.get(__name__, not self.brief)
        for one in (one for one in self.parameters if one.usual or every):
            sections.setdefault(one.title, []).append(one.record())
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
        if not every:
            formatter.write(f"\n{ctx.command_path} --help-all shows all options.\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, the notes and the how-to."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.examples))
        super().format_epilog(ctx, formatter)
        if self.page:
            formatter.write(f"\nGuide: {self.page}\n")


def _show_all() -> None:
    context = click.get_current_context()
    context.meta[__name__] = True
    click.echo(context.get_help())


def stopping(names: list[str], text: str, show: Callable[[], None]) -> click.Option:
    """Return an option that prints something and ends the command, such as --version."""

    def react(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            show()
            ctx.exit()

    name = "stop" + names[0].replace("-", "_")
    return click.Option(
        [name, *names], help=text, is_flag=True, is_eager=True, expose_value=False, callback=react
    )


class Group(click.Group):
    """A group of commands; each is imported when it is called.

    Parameters
    ----------
    name, summary : str
        Name of the group and first line of its help.
    members : mapping of str to (str, str, str)
        Command name -> the module with the function or group of that name, the first line of its help, and
        its how-to. A module's ``SETTINGS`` are passed to `Command`.
    before : mapping of str to callable
        Command name -> function to call before its options are read.
    sections : mapping of str to sequence of str
        Title -> names of commands in that section of the help; default: all in "Commands".
    """

    def __init__(
        self,
        name: str,
        summary: str,
        members: Mapping[str, tuple[str, str, str]],
        before: Mapping[str, Callable[[], None]] | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name, help=summary, context_settings=_CONTEXT, **settings)
        self.members, self.before = members, before or {}
        self.sections = sections or {"Commands": [*members]}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, then the options."""
        width = max(map(len, self.members))
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self.members[name][1]) for name in names])
        click.Command.format_options(self, ctx, formatter)

    def load(self, name: str) -> click.Command:
        """Import a command or group."""
        path, _, page = self.members[name]
        module = import_module(path)
        command = getattr(module, name.replace("-", "_"))
        if isinstance(command, Group):
            return command
        before = self.before.get(name, lambda: None)
        return Command(command, name, before=before, page=page, **getattr(module, "SETTINGS", {}))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help."""
        return list(self.members)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command with name and summary only, for the help and for completion."""
        if cmd_name not in self.members:
            return None
        return click.Command(cmd_name, short_help=self.members[cmd_name][1])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the command that is called."""
        name, *rest = args
        if name in self.members:
            return name, self.load(name), rest
        if ctx.resilient_parsing:  # called by completion
            return None, None, rest
        if near := nearest(name, self.members):
            raise InputError(f"no such command: {name!r}; did you mean {' or '.join(near)}?")
        raise InputError("no such command", value=name, accepted=", ".join(self.members))
