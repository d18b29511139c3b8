"""Progress bars on standard error, and UTF-8 tables on standard output."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from lmtune.cli.messages import note, on_screen, talk
from lmtune.errors import visible
from lmtune.progress import quantity

if TYPE_CHECKING:
    import io
    from pathlib import Path

    from lmtune.progress import Progress as Report
    from lmtune.report.figures import Picture

_console = Console(stderr=True, highlight=False)
_EVERY, _OFTEN = 30.0, 2.0
"""Seconds between progress lines without a terminal; the second with --verbose."""


class _TimeLeft(ProgressColumn):
    """Remaining time of a stage."""

    def render(self, task: Task) -> Text:
        left = _time_left(task)
        return Text("-:--:--" if left is None else _clock(left), style="progress.remaining")


def _time_left(task: Task) -> float | None:
    """Return the seconds left at the mean pace so far; the recent pace varies too much."""
    if task.elapsed is None or not task.completed or task.total is None:
        return None
    return task.elapsed * (task.total - task.completed) / task.completed


@contextlib.contextmanager
def stages() -> Iterator[Report]:
    """Show progress; yield a function of (stage, done, total, detail) that updates it.

    A terminal shows one bar per stage; otherwise a line is printed every 30 seconds.
    """
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        _TimeLeft(),
        console=_console,
        transient=True,
        disable=talk().quiet or not _console.is_terminal,
    )
    tasks: dict[str, TaskID] = {}
    current: list[TaskID] = []

    def report(stage: str, done: int, total: int, detail: str = "") -> None:
        # Start at the first report: before, downloads may show their own bars.
        if not tasks:
            progress.start()
        if stage not in tasks:
            tasks[stage] = progress.add_task(stage, total=total or None)
        current[:] = [tasks[stage]]
        text = visible(f"{stage}: {detail}" if detail else stage)
        shown = done < total or not total  # hide finished stages
        progress.update(tasks[stage], description=text, completed=done, total=total or None, visible=shown)

    ended = threading.Event()
    if not _console.is_terminal and not talk().quiet:
        threading.Thread(target=_print_lines, args=(progress, current, ended), daemon=True).start()
    try:
        yield report
    finally:
        ended.set()
        if tasks:
            progress.stop()


def _print_lines(progress: Progress, current: Sequence[TaskID], ended: threading.Event) -> None:
    """Print the progress of the current stage at intervals, until the work has ended."""
    while not ended.wait(_OFTEN if talk().verbose else _EVERY):
        for task in progress.tasks:
            if task.id in current and task.visible:
                far = f"{task.completed:.0f} done" if task.total is None else f"{task.percentage:.0f} %"
                words = [f"{task.description}: {far}", f"{_clock(task.elapsed)} so far"]
                words += [f"about {_clock(left)} left"] if (left := _time_left(task)) else []
                note(", ".join(words))


def _clock(seconds: float | None) -> str:
    return str(timedelta(seconds=round(seconds or 0)))


@contextlib.contextmanager
def utf8_output() -> Iterator[TextIO]:
    """Yield standard output as a UTF-8 stream, whatever the locale."""
    stream = cast("io.TextIOWrapper", sys.stdout)
    stream.flush()
    stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    yield stream
    stream.flush()


def show_table(text: str) -> None:
    """Write a table to standard output in UTF-8, whatever the locale."""
    with utf8_output() as stream:
        stream.write(on_screen(text))


def draw_pictures(pictures: Iterable[Picture], folder: Path) -> None:
    """Draw pictures as SVG files in a folder; where they cannot be drawn, print a note."""
    from lmtune.report.figures.style import can_draw, save

    if not can_draw():
        return
    names = []
    for picture in pictures:
        save(picture.figure, folder / f"{picture.name}.svg")
        names.append(picture.name)
    note(f"drew {quantity(len(names), 'picture')} in {folder}")
