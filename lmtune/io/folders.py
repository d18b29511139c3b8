"""Folders written whole or not at all, never in the place of others'; outputs checked before the work."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lmtune.errors import InputError, PathLike
from lmtune.io.digests import digest, unsealed
from lmtune.io.files import check_no_directory, named, unwritable
from lmtune.io.locks import ASIDE, beside, is_temporary, remove, sweep, temporary


class FolderKind(NamedTuple):
    """Folders that lmtune writes, told from those of others.

    Attributes
    ----------
    marker : str
        What each of them holds.
    files : tuple of str, optional
        The files that they may hold, as patterns of paths in them, where ``*`` stands for no slash;
        any where it is None.
    records : tuple of str
        Files, written by `lmtune.io.digests.sealed`, whose ``files`` list further ones with
        their digests, by paths from the record's folder.
    facts : tuple of str
        Keys of the first record that folders of other kinds lack.
    """

    marker: str
    files: tuple[str, ...] | None = None
    records: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


def check_directory(path: PathLike, kind: FolderKind, *, reads: Iterable[PathLike] = ()) -> None:
    """Raise at once what writing a folder would raise in the end.

    Parameters
    ----------
    path : path-like
        The folder to make or to replace.
    kind : FolderKind
        What it may hold to be replaced.
    reads : iterable of path-like
        What else the command reads or writes; it must not lie in the folder.

    Raises
    ------
    InputError
        If the target is a file, a foreign folder, the current one, holds something that is read,
        or cannot be made.
    """
    check_apart(path, reads, whole=kind.files is not None)
    check_writable(path)
    _check_ours(path, kind)


def _check_ours(path: PathLike, kind: FolderKind) -> None:
    target = Path(os.path.realpath(path))
    sweep(target)
    while os.path.lexists(target):
        with contextlib.suppress(FileNotFoundError):
            before = target.stat()
            if not stat.S_ISDIR(before.st_mode):
                raise InputError("cannot write", file=path, value="a file", accepted="a folder's name")
            problem = _problem(target, kind)
            # Another process may be replacing the folder.
            if os.path.samestat(before, target.stat()):
                if problem is None:
                    return
                raise InputError(
                    f"will not replace a folder that {problem[0]}",
                    file=path,
                    value=problem[1],
                    accepted="a new folder's name, an empty folder, or one as lmtune wrote it",
                )


def _problem(folder: Path, kind: FolderKind) -> tuple[str, str | None] | None:
    """Say why a folder is not ours to replace, and which file tells."""
    entries = [entry.name for entry in folder.iterdir() if not is_temporary(entry.name)]
    if not entries or (kind.files is None and kind.marker in entries):
        return None
    if kind.marker not in entries:
        return f"has no {kind.marker}", None
    listed = recorded(folder, kind)
    # What a record does not list tells more than that the record is none of ours.
    for name in sorted(_files(folder), key=lambda name: (name in kind.records, name)):
        if name not in listed and not any(_matches(name, pattern) for pattern in kind.files or ()):
            return "holds files of others", name
        if listed.get(name) is not None and listed[name] != _digest(folder / name):
            return "holds a file that was changed since", name
    if kind.facts and not set(kind.facts) <= set(_record(folder / kind.records[0])):
        return "holds the results of another command", None
    return None


def _digest(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return digest(path.read_bytes())
    return None


def recorded(folder: Path, kind: FolderKind) -> dict[str, int | None]:
    """Return the files that a folder's records list, with their digests; the records themselves have None."""
    digests: dict[str, int | None] = {}
    for record in kind.records:
        home = Path(record).parent
        listed = _record(folder / record).get("files")
        if isinstance(listed, dict):
            digests |= {(home / name).as_posix(): known for name, known in listed.items()}
            digests[record] = None
    return digests


def _record(path: Path) -> dict[str, Any]:
    """Read a record; one that is missing or damaged has nothing."""
    with contextlib.suppress(OSError, ValueError):
        return unsealed(path.read_bytes())
    return {}


def _files(folder: Path) -> Iterator[str]:
    for home, folders, files in os.walk(folder):
        links = (name for name in folders if Path(home, name).is_symlink())
        for name in (*files, *links):
            if not is_temporary(name):
                yield Path(home, name).relative_to(folder).as_posix()


def _matches(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def is_folder(path: PathLike) -> bool:
    """Tell whether a folder is there, and put it back where a killed process had moved it aside."""
    if not os.path.lexists(path):
        sweep(Path(os.path.realpath(path)))
    return Path(path).is_dir()


@contextlib.contextmanager
def atomic_directory(path: PathLike, kind: FolderKind | None = None) -> Iterator[Path]:
    """Write a folder whole or not at all.

    Parameters
    ----------
    path : path-like
        The folder to make or to replace. Missing parents are made.
    kind : FolderKind, optional
        An existing folder that is neither empty nor of this kind is left alone, with an InputError.

    Yields
    ------
    pathlib.Path
        An empty folder beside the target. It takes the target's place when the ``with`` block
        ends (an old folder is moved aside for that moment, then removed), and is removed when the
        block raises.

    Raises
    ------
    InputError
        If the target is a file, a foreign folder (see `kind`), or cannot be made.
    """
    target = Path(os.path.realpath(path))
    _check_replaceable(path, kind)
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(temporary(target, Path.mkdir))
        except OSError as error:
            raise unwritable(path, error) from error
        aside = beside(target, ASIDE)
        try:
            yield made
            _check_replaceable(path, kind)
            while not _replaced(target, made, aside):
                # Another process was faster; what it put there is as much ours to replace.
                remove(aside)
                _check_replaceable(path, kind)
        except BaseException as error:
            named(error, path)
            raise
        finally:
            remove(aside)


def _check_replaceable(path: PathLike, kind: FolderKind | None) -> None:
    if kind is not None:
        _check_ours(path, kind)
    elif Path(path).exists() and not Path(path).is_dir():
        raise InputError("cannot write", file=path, value="a file", accepted="a folder's name")


def _replaced(target: Path, made: Path, aside: Path) -> bool:
    """Put a folder in a target's place; False where the place is taken meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        target.replace(aside)
    try:
        made.replace(target)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        with contextlib.suppress(OSError):  # it will be found there: see `sweep`
            aside.replace(target)
        raise
    return True


_OTHER = "another place"


def check_file(path: PathLike, *, reads: Iterable[PathLike] = ()) -> None:
    """Raise at once what `lmtune.io.files.atomic_write` would raise in the end.

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
