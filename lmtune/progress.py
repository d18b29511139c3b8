"""Progress, notes and times of long computations.

Notes go to the logger ``lmtune``, at level INFO, or DEBUG for details. The command line prints them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

_LOGGER = logging.getLogger("lmtune")


class Progress(Protocol):
    """A callback that shows progress: stage, amount done, total amount, further text."""

    def __call__(self, stage: str, done: int, total: int, detail: str = "") -> None:
        """Show the progress of a stage; a total of 0 means unknown."""


def silent(stage: str, done: int, total: int, detail: str = "") -> None:
    """Ignore progress: a `Progress` that shows nothing."""


Count = Callable[[int, int], None]
"""A callback with the amount of work done and the total amount."""


def no_count(done: int, total: int) -> None:
    """Ignore progress: a `Count` that shows nothing."""


def count_callback(progress: Callable[..., None] | bool | None, stage: str) -> Callable[..., None] | None:
    """Return the callback for a progress argument: True makes a bar, False and None give None.

    Callables are returned unchanged. Bars work in a terminal and in a notebook.
    """
    if not isinstance(progress, bool):
        return progress
    return functools.partial(stage_callback(progress), stage) if progress else None


_FINE = 1000


def part_of(progress: Count, number: int, parts: int) -> Count:
    """Return a callback for one of several equal parts of a whole; `number` counts from 0.

    Examples
    --------
    >>> part_of(lambda done, total: print(done, "of", total), 1, 4)(1, 2)
    1500 of 4000
    """
    return lambda done, total: progress(_FINE * number + _FINE * done // max(total, 1), _FINE * parts)


def stage_callback(progress: Progress | bool) -> Progress:
    """Return the callback for a progress argument: True makes one bar per stage, False ignores progress.

    Callables are returned unchanged. Bars work in a terminal and in a notebook.
    """
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return silent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in notebooks without widgets, bars are text
        from tqdm.auto import tqdm
    bars: dict[str, Any] = {}

    def report(stage: str, done: int, total: int, detail: str = "") -> None:
        bar = bars.get(stage)
        if bar is None:
            bar = bars[stage] = tqdm(total=total or None, desc=stage)
        bar.total = total or None
        bar.set_postfix_str(detail, refresh=False)
        bar.update(done - bar.n)
        if total and done >= total:
            bars.pop(stage).close()

    return report


def note(text: str) -> None:
    """Log a note for users, at level INFO."""
    _LOGGER.info("%s", text)


def quantity(number: int, noun: str, nouns: str | None = None) -> str:
    """Format a number with its noun in singular or plural.

    Examples
    --------
    >>> quantity(1, "topic"), quantity(1200, "topic"), quantity(2, "query", "queries")
    ('1 topic', '1,200 topics', '2 queries')
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def detail(text: str) -> None:
    """Log a detail, at level DEBUG."""
    _LOGGER.debug("%s", text)


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Log a note with the duration of the ``with`` block."""
    begin = time.perf_counter()
    yield
    note(f"{what} in {time.perf_counter() - begin:.1f} s")
