"""What a command says while it works, all of it on standard error."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lmtune.cli.messages import note
from lmtune.errors import visible

if TYPE_CHECKING:
    import io

    from lmtune.progress import Progress as Report

_console = Console(stderr=True, highlight=False)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


logging.getLogger("lmtune").addHandler(_Notes())
logging.getLogger("lmtune").setLevel(logging.INFO)


@contextlib.contextmanager
def stages() -> Iterator[Report]:
    """Show one progress bar a stage; give a function of (stage, done, total, detail) that moves it.

    Nothing is shown where standard error is not a terminal.
    """
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=_console,
        transient=True,
        disable=not _console.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def report(stage: str, done: int, total: int, detail: str = "") -> None:
        # Until there is something to tell the screen is left to others, such as downloads.
        if not tasks:
            progress.start()
        if stage not in tasks:
            tasks[stage] = progress.add_task(stage, total=total or None)
        text = visible(f"{stage}: {detail}" if detail else stage)
        shown = done < total or not total  # what is done makes room
        progress.update(tasks[stage], description=text, completed=done, total=total or None, visible=shown)

    try:
        yield report
    finally:
        if tasks:
            progress.stop()


@contextlib.contextmanager
def utf8_output() -> Iterator[TextIO]:
    """Give standard output as a UTF-8 stream, whatever the locale."""
    stream = cast("io.TextIOWrapper", sys.stdout)
    stream.flush()
    stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    yield stream
    stream.flush()
