"""Locks between processes: what several of them want made is made by one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from lmtune.errors import PathLike
from lmtune.formats.temporaries import hold, lock_path, sweep


@contextlib.contextmanager
def locked(path: PathLike) -> Iterator[None]:
    """Keep other processes and threads that ask for the same lock waiting meanwhile.

    The lock is a file ``.NAME.lock`` beside the path, removed at the end. The system frees it when
    its process is killed; the file that is then left locks nothing. Where there can be no lock
    (on Windows, or where the folder cannot be written) nobody waits.

    Parameters
    ----------
    path : path-like
        What is going to be made; missing parent folders are made.
    """
    file = lock_path(Path(os.path.realpath(path)))
    held = _acquired(file)
    try:
        yield
    finally:
        if held is not None:
            with contextlib.suppress(OSError):
                file.unlink()
            os.close(held)


def tidy(path: PathLike) -> None:
    """Remove what killed processes left beside something that is whole: half-written ones, their lock."""
    target = Path(os.path.realpath(path))
    sweep(target)
    file = lock_path(target)
    with contextlib.suppress(OSError):
        held = hold(file)
        if held is not None:
            file.unlink()
            os.close(held)


def _acquired(file: Path) -> int | None:
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file.touch()
            held = hold(file, wait=True)
            # Who held it before has removed the file, and another may have a new one.
            if held is not None:
                return held
    return None
