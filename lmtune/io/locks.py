"""Locks between processes, and temporary files beside a target while it is written.

If several processes need the same file, one of them builds it. A process holds a lock on every temporary
file that it writes. The system frees a lock when its process ends for any reason, so an unlocked temporary
file can be removed.
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
    """The content of a path is missing or out of date; the message gives the reason."""


def build_once(
    path: PathLike,
    read: Callable[[], _T],
    build: Callable[[], _T],
    on_build: Callable[[Path, str], None] | None = None,
) -> _T:
    """Read the content of a path; build it first if it is missing or out of date.

    If several processes need it at once, one builds and the others wait, then read.

    Parameters
    ----------
    path : path-like
        The file or folder.
    read : callable
        Returns the content, or raises `StaleError` with the reason.
    build : callable
        Builds and stores the content, and returns it.
    on_build : callable, optional
        Called with the path and the reason before building.

    Returns
    -------
    object
        The content that `read` or `build` returned.
    """
    with contextlib.suppress(StaleError):
        current = read()
        _clean_up(path)
        return current
    with locked(path):
        try:
            return read()  # another process may have built it while this one waited
        except StaleError as reason:
            if on_build is not None:
                on_build(Path(path), str(reason))
        return build()


@contextlib.contextmanager
def locked(path: PathLike, *, timeout: float = -1) -> Iterator[bool]:
    """Lock a path against other processes and threads for the ``with`` block.

    The lock is a file ``.NAME.lock`` beside the path, removed at the end. If the process is killed, the
    system frees the lock, and the file has no effect. In a folder that is not writable nothing is locked.

    Parameters
    ----------
    path : path-like
        The file or folder that will be made; missing parent folders are made.
    timeout : float
        Seconds to wait for the lock; a negative number waits without limit.

    Yields
    ------
    bool
        Whether the lock was acquired.
    """
    from filelock import FileLock  # importing it takes as long as reading a small file

    file = lock_path(Path(os.path.realpath(path)))
    lock = FileLock(file)
    with contextlib.suppress(OSError):  # filelock's Timeout is an OSError
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=timeout, poll_interval=0.01)
    try:
        yield lock.is_locked
    finally:
        if lock.is_locked:
            file.unlink(missing_ok=True)
            lock.release()


def _clean_up(path: PathLike) -> None:
    """Remove temporary files and locks of killed processes beside a complete file or folder."""
    target = Path(os.path.realpath(path))
    remove_leftovers(target)
    if lock_path(target).exists():
        with locked(target, timeout=0):
            pass


_NAME = re.compile(r"\.(.+)\.[0-9]+\.[0-9a-f]{8}\.(?:tmp|old)", re.S)
# File systems allow 255 bytes; `temporary_path` needs the rest.
_LONGEST_BYTES = 200

ASIDE = "old"
"""The suffix of a folder that is moved aside while it is replaced."""


def temporary_path(target: Path, suffix: str = "tmp") -> Path:
    """Return an unused hidden path beside a target."""
    import secrets  # with its dependencies, importing it takes as long as reading a small file

    return target.parent / f".{_short(target.name)}.{os.getpid()}.{secrets.token_hex(4)}.{suffix}"


def lock_path(target: Path) -> Path:
    """Return the path of the lock file of a target."""
    return target.parent / f".{_short(target.name)}.lock"


def is_temporary(name: str) -> bool:
    """Return whether a file name comes from `temporary_path` or `lock_path`."""
    return _NAME.fullmatch(name) is not None or (name.startswith(".") and name.endswith(".lock"))


@contextlib.contextmanager
def temporary(target: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """Make a locked temporary file or folder beside a target; leftovers of killed processes are removed.

    Parameters
    ----------
    target : path
        The path that will be written; not a link.
    make : callable
        Makes a new file or folder at a path.

    Yields
    ------
    pathlib.Path
        The temporary file or folder. If it still exists at the end of the ``with`` block, it is removed.
    """
    remove_leftovers(target)
    path, lock = temporary_path(target), None
    try:
        while lock is None:
            make(path)
            try:
                lock = try_lock(path)
            except OSError:  # without locks no other process removes it
                break
            # Another process may have removed the file before it was locked.
            path = path if lock is not None else temporary_path(target)
        yield path
    finally:
        try:
            _discard(path)
        finally:  # repeat, in case a signal interrupted the first call
            _discard(path)
            if lock is not None:
                os.close(lock)


def _discard(path: Path) -> None:
    if path.is_dir():
        remove(path)
    else:
        path.unlink(missing_ok=True)


def try_lock(path: Path) -> int | None:
    """Lock a file or folder without waiting.

    Returns
    -------
    int or None
        A file descriptor; closing it frees the lock. None if another process has locked or removed the path.

    Raises
    ------
    OSError
        If the system or the file system does not support locks.
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


def remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed processes beside a target; restore a folder that one moved aside."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = [entry.name for entry in target.parent.iterdir()]
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None and match[1] == _short(target.name):
            with contextlib.suppress(OSError):
                _remove_or_restore(target.parent / name, target)


def _remove_or_restore(path: Path, target: Path) -> None:
    lock = try_lock(path)
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
    """Remove a folder; ignore files that cannot be removed."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_LONGEST_BYTES])
