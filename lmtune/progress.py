"""What long work tells while it goes on: how far it is, what is worth knowing, how long it took.

Sentences go to the logger ``lmtune``, at level INFO, or DEBUG for details; the command line shows them.
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
    """Called with a stage, how much of it is done, how much there is, and what to add to it."""

    def __call__(self, stage: str, done: int, total: int, detail: str = "") -> None:
        """Show it."""


def silent(stage: str, done: int, total: int, detail: str = "") -> None:
    """Show no progress."""


Count = Callable[[int, int], None]
"""Called with how much of some work is done, and how much there is."""


def no_count(done: int, total: int) -> None:
    """Show nothing of a count."""


def count_callback(progress: Callable[..., None] | bool | None, stage: str) -> Callable[..., None] | None:
    """Take True for a bar, in a terminal or a notebook, with what words there are; False for nothing."""
    if not isinstance(progress, bool):
        return progress
    return functools.partial(stage_callback(progress), stage) if progress else None


_FINE = 1000


def part_of(progress: Count, number: int, parts: int) -> Count:
    """Report one of some parts, counted from 0, to what shows the whole.

    Examples
    --------
    >>> part_of(lambda done, total: print(done, "of", total), 1, 4)(1, 2)
    1500 of 4000
    """
    return lambda done, total: progress(_FINE * number + _FINE * done // max(total, 1), _FINE * parts)


def stage_callback(progress: Progress | bool) -> Progress:
    """Take True for a bar a stage, in a terminal or a notebook; False for nothing."""
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return silent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notebooks without widgets get bars of text
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
    """Say something in a sentence."""
    _LOGGER.info("%s", text)


def quantity(number: int, noun: str, nouns: str | None = None) -> str:
    """Count something in words.

    Examples
    --------
    >>> quantity(1, "topic"), quantity(1200, "topic"), quantity(2, "query", "queries")
    ('1 topic', '1,200 topics', '2 queries')
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def detail(text: str) -> None:
    """Say what only those who ask want to know."""
    _LOGGER.debug("%s", text)


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Say afterwards how long something took."""
    begin = time.perf_counter()
    yield
    note(f"{what} in {time.perf_counter() - begin:.1f} s")
