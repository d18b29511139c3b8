"""What long work tells while it goes on: how far it is, what is worth knowing, how long it took.

Sentences go to the logger ``lmtune``, at level INFO, or DEBUG for details; the command line shows them.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Protocol

_LOGGER = logging.getLogger("lmtune")


class Progress(Protocol):
    """Called with a stage, how much of it is done, how much there is, and what to add to it."""

    def __call__(self, stage: str, done: int, total: int, detail: str = "") -> None:
        """Show it."""


def silent(stage: str, done: int, total: int, detail: str = "") -> None:
    """Show no progress."""


def note(text: str) -> None:
    """Say something in a sentence."""
    _LOGGER.info("%s", text)


def detail(text: str) -> None:
    """Say what only those who ask want to know."""
    _LOGGER.debug("%s", text)


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Say afterwards how long something took."""
    begin = time.perf_counter()
    yield
    note(f"{what} in {time.perf_counter() - begin:.1f} s")
