"""Commands killed at random moments: what was there stays, and repeated they end as if undisturbed.

`make attack` kills more often: ``LMTUNE_KILLS`` is how often each command is killed.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from forked_commands import Commands, Ended
from small_world import ORDERS, Order, make_world

from lmtune.io.locks import is_temporary

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("LMTUNE_KILLS", "1"))
SIGNALS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}

VOLATILE = re.compile(r"model/(seconds\.csv|model\.json)|luc/.*")
"""What differs between equal runs: times, names of Lucene's segments."""


ASIDE = re.compile(r"\.([^/]+)\.[0-9]+\.[0-9a-f]{8}\.old(?=/)")
"""A folder whose place another takes at this moment."""


class World(NamedTuple):
    """Where commands run, a copy of how it is when all of them have, and how each of them ended."""

    home: Path
    copy: Path
    commands: Commands
    ended: dict[str, Ended]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> World:
    base = tmp_path_factory.mktemp("kills")
    home = base / "home"
    make_world(home)
    ended = {}
    for order in ORDERS:
        if order.is_here:
            ended[order.name] = commands.run(order.arguments, cwd=home)
            assert ended[order.name].status == 0, ended[order.name].said
    shutil.copytree(home, base / "copy")
    return World(home, base / "copy", commands, ended)


def content(folder: Path) -> dict[str, bytes]:
    """Read all files; of those that differ between equal runs only that they are there."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file():
            found[re.sub(r"luc/_.*", "luc/_", name)] = b"" if VOLATILE.fullmatch(name) else path.read_bytes()
    return found


def stray(folder: Path) -> list[str]:
    """List what is hidden, and folders that are empty."""
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.name.startswith(".") or (path.is_dir() and not any(path.iterdir()))
    ]


def start(world: World, order: Order, *, anew: bool) -> None:
    """Put everything back, less what the command removes, and what it writes if it is to begin anew."""
    shutil.rmtree(world.home)
    shutil.copytree(world.copy, world.home)
    for name in (*order.drops, *(order.writes if anew else ())):
        path = world.home / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.name)
def test_killed_and_repeated(order: Order, world: World) -> None:
    if not order.is_here:
        pytest.skip("an extra that it needs is not installed")
    draw = random.Random(order.name)
    start(world, order, anew=False)
    expected = content(world.home)
    undisturbed = world.ended[order.name]
    for _ in range(KILLS):
        anew = draw.random() < 0.5
        start(world, order, anew=anew)
        sent = draw.choice(list(SIGNALS))
        # A moment between two changes to files is as likely as one of computing.
        when: dict[str, Any] = {"at": draw.randint(1, undisturbed.changes)}
        if draw.random() < 0.3:
            when = {"after": draw.random() * undisturbed.seconds}
        case = f"{order.name}, {sent.name}, {when}, anew: {anew}"
        killed = world.commands.run(order.arguments, cwd=world.home, sent=sent, **when)
        assert killed.status in (0, SIGNALS[sent]), f"{case}: {killed.said}"
        if not anew:  # the old results, perhaps moved aside, or the new ones, which are equal
            files = (ASIDE.sub(r"\1", name) for name in content(world.home))
            whole = {name for name in files if not is_temporary(Path(name).name)}
            assert whole >= expected.keys(), case
        elif sent != signal.SIGKILL:
            assert not [name for name in stray(world.home) if is_temporary(Path(name).name)], case
        again = world.commands.run(order.arguments, cwd=world.home)
        assert again.status == 0, f"{case}: {again.said}"
        assert content(world.home) == expected, case
        assert stray(world.home) == [], case
