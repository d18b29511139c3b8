"""What a command says while it works, all of it on standard error."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from lmtune.cli.messages import note, talk
from lmtune.errors import visible

if TYPE_CHECKING:
    from lmtune.progress import Progress as Report

_console = Console(stderr=True, highlight=False)
_EVERY, _OFTEN = 30.0, 2.0
"""Seconds between lines where there is no terminal; when told to say more."""


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


logging.getLogger("lmtune").addHandler(_Notes())
logging.getLogger("lmtune").setLevel(logging.INFO)


@contextlib.contextmanager
def stages() -> Iterator[Report]:
    """Show how far work is; give a function of (stage, done, total, detail) that tells it.

    A terminal has a bar a stage; elsewhere a line is printed now and then.
    """
    if talk().quiet or not _console.is_terminal:
        yield _lines()
        return
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=_console,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def report(stage: str, done: int, total: int, detail: str = "") -> None:
        # Until there is something to tell the screen is left to others, such as downloads.
        if not tasks:
            progress.start()
        if stage not in tasks:
            tasks[stage] = progress.add_task(stage, total=total or None)
        text = visible(_described(stage, detail))
        shown = done < total or not total  # what is done makes room
        progress.update(tasks[stage], description=text, completed=done, total=total or None, visible=shown)

    try:
        yield report
    finally:
        if tasks:
            progress.stop()


def _lines() -> Report:
    """Return a function that prints a line when the last one is a while ago."""
    last = time.monotonic()
    begun: dict[str, tuple[float, int]] = {}

    def report(stage: str, done: int, total: int, detail: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        begin, before = begun.setdefault(stage, (now, done))
        if now - last < (_OFTEN if talk().verbose else _EVERY):
            return
        last = now
        words = [f"{done} done" if not total else f"{100 * done // total} %", f"{_clock(now - begin)} so far"]
        if before < done < total:
            words.append(f"about {_clock((now - begin) * (total - done) / (done - before))} left")
        note(f"{_described(stage, detail)}: {', '.join(words)}")

    return report


def _described(stage: str, detail: str) -> str:
    return f"{stage}: {detail}" if detail else stage


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


@contextlib.contextmanager
def utf8_output() -> Iterator[TextIO]:
    """Give standard output as a UTF-8 stream, whatever the locale."""
    sys.stdout.flush()
    stream = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
    try:
        yield stream
    finally:
        stream.detach()
