"""Checks of an output's path before the work whose result it is to keep."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from lmtune.errors import InputError, PathLike
from lmtune.storage.files import check_no_directory, unwritable
from lmtune.storage.temporaries import temporary

_OTHER = "another place"


def check_file(path: PathLike, *, reads: Iterable[PathLike] = ()) -> None:
    """Raise at once what `lmtune.storage.files.atomic_write` would raise in the end.

    Parameters
    ----------
    path : path-like
        The file to write.
    reads : iterable of path-like
        Files that the command reads, and folders that are none to write into.

    Raises
    ------
    InputError
        If the target is a directory, one of the files that are read, or cannot be made.
    """
    check_no_directory(path)
    check_apart(path, reads, whole=False)
    check_writable(path)


def check_apart(path: PathLike, reads: Iterable[PathLike], *, whole: bool) -> None:
    """Raise InputError where a target is something that is read.

    Parameters
    ----------
    path : path-like
        The file or folder to write.
    reads : iterable of path-like
        What is read; it need not exist.
    whole : bool
        Whether a folder is going to be replaced: nothing that is read may lie in it, nor may it be
        the current folder or hold it.

    Raises
    ------
    InputError
        If it is, by whatever name.
    """
    target = Path(os.path.realpath(path))
    if whole and Path.cwd().is_relative_to(target):
        raise InputError("will not replace the current folder", file=path, accepted=_OTHER)
    for name in reads:
        read = Path(os.path.realpath(name))
        inside = not whole and read.is_dir() and target.is_relative_to(read)
        if inside or (whole and read.is_relative_to(target)) or _same(read, target):
            raise InputError(
                "the output would replace what the command reads",
                file=path,
                value=os.fspath(name),
                accepted=_OTHER,
            )


def _same(one: Path, two: Path) -> bool:
    try:
        return one == two or one.samefile(two)
    except OSError:
        return False


def check_writable(path: PathLike) -> None:
    """Raise InputError where a file or folder cannot be made; what is missing above it is not made."""
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not (target.is_file() or target.is_dir()):
            return  # a pipe or a device
        home = next(folder for folder in target.parents if folder.exists())
        with temporary(home / target.name, partial(Path.touch, exist_ok=False)):
            pass
    except OSError as error:
        raise unwritable(path, error) from error
