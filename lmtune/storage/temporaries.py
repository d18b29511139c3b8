"""Hidden files and folders beside a target while it is written; those of killed processes go.

The process that writes one has it locked. The system frees the lock when the process ends, however
it ends: what nobody has locked is nobody's.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_NAME = re.compile(r"\.(.+)\.[0-9]+\.[0-9a-f]{8}\.(?:tmp|old)", re.S)
# File systems allow 255; the rest is ours.
_LONGEST_BYTES = 200

ASIDE = "old"
"""The suffix of a folder that is moved aside while another takes its place."""


def beside(target: Path, suffix: str = "tmp") -> Path:
    """Return a hidden path beside a target that nobody uses."""
    import secrets  # with what it imports as slow as reading a small file

    return target.parent / f".{_short(target.name)}.{os.getpid()}.{secrets.token_hex(4)}.{suffix}"


def lock_path(target: Path) -> Path:
    """Return the file that is locked while a target is made; see `lmtune.storage.locks`."""
    return target.parent / f".{_short(target.name)}.lock"


def is_temporary(name: str) -> bool:
    """Tell whether a file's name is one of `beside`, or of a lock."""
    return _NAME.fullmatch(name) is not None or (name.startswith(".") and name.endswith(".lock"))


@contextlib.contextmanager
def temporary(target: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """Make a file or folder beside a target that stays ours; what killed processes left there goes.

    Parameters
    ----------
    target : path
        What is going to be written, no link.
    make : callable
        Makes a file or a folder where there is none.

    Yields
    ------
    pathlib.Path
        What was made; what is there in the end goes.
    """
    sweep(target)
    path, lock = beside(target), None
    try:
        while lock is None:
            make(path)
            try:
                lock = hold(path)
            except OSError:  # no locks here: nobody takes it away
                break
            # Before it was locked it may have looked like a dead process's.
            path = path if lock is not None else beside(target)
        yield path
    finally:
        try:
            _discard(path)
        finally:  # again, as a signal may have come just now
            _discard(path)
            if lock is not None:
                os.close(lock)


def _discard(path: Path) -> None:
    if path.is_dir():
        remove(path)
    else:
        path.unlink(missing_ok=True)


def hold(path: Path) -> int | None:
    """Lock a file or folder; None where another has it, or has taken it away.

    Returns
    -------
    int or None
        A descriptor; closing it frees the lock.

    Raises
    ------
    OSError
        Where there are no locks.
    """
    if fcntl is None:
        raise OSError("no locks")
    with contextlib.suppress(FileNotFoundError, BlockingIOError), contextlib.ExitStack() as stack:
        descriptor = os.open(path, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.lstat()):
            stack.pop_all()
            return descriptor
    return None


def sweep(target: Path) -> None:
    """Remove leftovers of killed processes beside a target, and put back a folder that one moved aside."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = [entry.name for entry in target.parent.iterdir()]
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None and match[1] == _short(target.name):
            with contextlib.suppress(OSError):
                _tidy(target.parent / name, target)


def _tidy(path: Path, target: Path) -> None:
    lock = hold(path)
    if lock is None:
        return
    try:
        if path.suffix == f".{ASIDE}" and not os.path.lexists(target):
            path.rename(target)
        else:
            _discard(path)
    finally:
        os.close(lock)


def remove(folder: Path) -> None:
    """Remove a folder, as far as it goes."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_LONGEST_BYTES])
