"""Groups of commands, each imported when it is asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from lmtune.cli.forms import STYLE, command
from lmtune.errors import InputError


@dataclass(frozen=True)
class Member:
    """A command of a group: its help's first line, and typer's command, both made when needed."""

    name: str
    summary: Callable[[], str]
    load: Callable[[], Any]


def of_module(module: str, name: str, **settings: Any) -> Member:
    """Return the command that is a module's function of the same name.

    Settings go to `lmtune.cli.forms.command`; the module's ``EPILOG`` is what the help ends with.
    """

    def load() -> Any:
        found = import_module(module)
        return command(getattr(found, name), epilog=getattr(found, "EPILOG", ""), **settings)

    return Member(name, lambda: _summary(module, name), load)


def _summary(module: str, name: str) -> str:
    """Read a function's docstring; the module is not imported for it."""
    source = find_spec(module)
    assert source is not None
    assert source.origin is not None
    for node in ast.parse(Path(source.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    raise AttributeError(name)


def group(
    summary: str, members: Iterable[Member], base: type[TyperGroup] = TyperGroup, **settings: Any
) -> typer.Typer:
    """Make a group of commands; settings go to typer."""
    known = {member.name: member for member in members}

    class Lazy(base):  # type: ignore[valid-type,misc]
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**{**attributes, "commands": {name: TyperCommand(name) for name in known}})

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            found = super().get_command(ctx, cmd_name)
            if found is not None:
                found.help = known[cmd_name].summary()
            return found

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, *rest = args
            if name not in known and ctx.resilient_parsing:  # completion asks
                return None, None, rest
            if name not in known:
                accepted = ", ".join(known)
                raise InputError("no such command", value=name, accepted=accepted)
            return name, known[name].load(), rest

    return typer.Typer(cls=Lazy, help=summary, **STYLE, **settings)


def nested(name: str, summary: str, module: str) -> Member:
    """Return a group as a member of another; the module's function ``members`` yields its own."""

    def show(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            print(ctx.get_help(), end="")

    def load() -> Any:
        app = group(summary, import_module(module).members(), add_completion=False)
        app.callback(invoke_without_command=True)(show)
        return get_command(app)

    return Member(name, lambda: summary, load)
