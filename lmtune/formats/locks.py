"""Locks between processes: what several of them want made is made by one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes and threads that ask for the same lock waiting meanwhile.

    The lock is a file ``.NAME.lock`` beside the path, removed at the end. The system frees it when
    its process is killed; the file that is then left locks nothing. Where there can be no lock
    (on Windows, or where the folder cannot be written) nobody waits.

    Parameters
    ----------
    path : path-like
        What is going to be made; missing parent folders are made.
    """
    target = Path(os.path.realpath(path))
    file = target.parent / f".{target.name}.lock"
    held = _acquired(file)
    try:
        yield
    finally:
        if held is not None:
            with contextlib.suppress(OSError):
                file.unlink()
            held.close()


def _acquired(file: Path) -> BinaryIO | None:
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        file.parent.mkdir(parents=True, exist_ok=True)
        while fcntl is not None:
            held = stack.enter_context(file.open("ab"))
            fcntl.flock(held, fcntl.LOCK_EX)
            # Who held it before has removed the file, and another may have a new one.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(held.fileno()), file.stat()):
                    stack.pop_all()
                    return held
            stack.close()
    return None
