"""Locks between processes: what several of them want built is built by one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from lmtune.errors import PathLike
from lmtune.storage.temporaries import lock_path, sweep

T = TypeVar("T")


class StaleError(Exception):
    """The reason why the content of a path is not current."""


def build_once(
    path: PathLike,
    read: Callable[[], T],
    build: Callable[[], T],
    on_build: Callable[[Path, str], None] | None = None,
) -> T:
    """Read the content of a path, building it first where it is not current.

    Of several processes that find nothing current, one builds and the others wait, then read.

    Parameters
    ----------
    path : path-like
        What is kept.
    read : callable
        Returns it, or raises `StaleError` with the reason.
    build : callable
        Builds it, keeps it and returns it.
    on_build : callable, optional
        Called with the path and the reason before building.
    """
    with contextlib.suppress(StaleError):
        current = read()
        _tidy(path)
        return current
    with locked(path):
        try:
            return read()  # whoever held the lock may have built it
        except StaleError as reason:
            if on_build is not None:
                on_build(Path(path), str(reason))
        return build()


@contextlib.contextmanager
def locked(path: PathLike, *, timeout: float = -1) -> Iterator[bool]:
    """Keep other processes and threads that ask for the same lock waiting meanwhile.

    The lock is a file ``.NAME.lock`` beside the path, removed at the end. The system frees it when
    its process is killed; the file that is then left locks nothing. Where the folder cannot be
    written nobody waits.

    Parameters
    ----------
    path : path-like
        What is going to be made; missing parent folders are made.
    timeout : float
        Seconds to wait, in [0, inf); for ever where it is negative.

    Yields
    ------
    bool
        Whether the lock is ours.
    """
    from filelock import FileLock  # as slow to import as reading a small file

    file = lock_path(Path(os.path.realpath(path)))
    lock = FileLock(file)
    with contextlib.suppress(OSError):  # its Timeout is one
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=timeout, poll_interval=0.01)
    try:
        yield lock.is_locked
    finally:
        if lock.is_locked:
            file.unlink(missing_ok=True)
            lock.release()


def _tidy(path: PathLike) -> None:
    """Remove leftovers of killed processes beside a whole file or folder: half-written ones, their lock."""
    target = Path(os.path.realpath(path))
    sweep(target)
    if lock_path(target).exists():
        with locked(target, timeout=0):
            pass
