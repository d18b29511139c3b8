"""What a command says while it works, all of it on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from lmtune.tuning.experiment import Progress as Report

_console = Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """Print one line."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def stages() -> Iterator[Report]:
    """Show one progress bar a stage; give a function of (stage, done, total, detail) that moves it.

    Nothing is shown where standard error is not a terminal.
    """
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=_console,
        transient=True,
        disable=not _console.is_terminal,
    ) as progress:
        tasks = {}

        def report(stage: str, done: int, total: int, detail: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total or None)
            text = f"{stage}: {detail}" if detail else stage
            progress.update(tasks[stage], description=text, completed=done, total=total or None)

        yield report


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Say afterwards how long something took."""
    begin = time.perf_counter()
    yield
    note(f"{what} in {time.perf_counter() - begin:.1f} s")
