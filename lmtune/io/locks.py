"""Locks between processes, and the hidden files beside a target while it is written.

What several processes want built is built by one. The process that writes a temporary file has it
locked. The system frees a lock when its process ends, however it ends: what nobody has locked is nobody's.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from lmtune.errors import PathLike

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_T = TypeVar("_T")


class StaleError(Exception):
    """The reason why the content of a path is not current."""


def build_once(
    path: PathLike,
    read: Callable[[], _T],
    build: Callable[[], _T],
    on_build: Callable[[Path, str], None] | None = None,
) -> _T:
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
        _tidy_all(path)
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


def _tidy_all(path: PathLike) -> None:
    """Remove leftovers of killed processes beside a whole file or folder: half-written ones, their lock."""
    target = Path(os.path.realpath(path))
    sweep(target)
    if lock_path(target).exists():
        with locked(target, timeout=0):
            pass


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
    """Return the file that is locked while a target is made; see `lmtune.io.locks`."""
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
