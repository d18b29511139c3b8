"""Groups of commands, each imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click

from lmtune.cli.forms import CONTEXT, Command
from lmtune.errors import InputError


class Member(NamedTuple):
    """A command of a group: its help's first line, and the command, both made when needed."""

    name: str
    summary: Callable[[], str]
    load: Callable[[], click.Command]


def of_module(module: str, name: str, **settings: Any) -> Member:
    """Return the command that is a module's function; settings go to `lmtune.cli.forms.Command`.

    So do the module's ``SETTINGS``.
    """
    called = name.replace("-", "_")

    def load() -> Command:
        loaded = import_module(module)
        return Command(getattr(loaded, called), name, **getattr(loaded, "SETTINGS", {}), **settings)

    return Member(name, lambda: _summary(module, called), load)


def _summary(module: str, name: str) -> str:
    """Read a function's docstring; the module is not imported for it."""
    import ast

    source = find_spec(module)
    assert source is not None
    assert source.origin is not None
    for node in ast.parse(Path(source.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    raise AttributeError(name)


class Group(click.Group):
    """Commands that are loaded when they are called."""

    def __init__(self, name: str, summary: str, members: Iterable[Member], **settings: Any) -> None:
        super().__init__(name, help=summary, context_settings=CONTEXT, **settings)
        self.members = {member.name: member for member in members}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names, in the order of the help."""
        return list(self.members)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a name and a summary alone, which is what the help and completion show."""
        if cmd_name not in self.members:
            return None
        return click.Command(cmd_name, short_help=self.members[cmd_name].summary())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Load the command that is called."""
        name, *rest = args
        if name in self.members:
            return name, self.members[name].load(), rest
        if ctx.resilient_parsing:  # completion asks
            return None, None, rest
        raise InputError("no such command", value=name, accepted=", ".join(self.members))


def nested(name: str, summary: str, module: str) -> Member:
    """Return a group as a member of another; the module's function ``members`` yields its commands."""
    return Member(name, lambda: summary, lambda: Group(name, summary, import_module(module).members()))
