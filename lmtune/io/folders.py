"""Atomic writing of folders, and checks of output paths before a command starts its work.

Folders with files that lmtune did not write are never replaced.
"""

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
from lmtune.io.files import add_file_name, check_no_directory, unwritable
from lmtune.io.locks import ASIDE, is_temporary, remove, remove_leftovers, temporary, temporary_path
from lmtune.io.remote import is_remote


class FolderKind(NamedTuple):
    """A kind of folders that lmtune writes, and how to recognise them.

    Attributes
    ----------
    marker : str
        A file that every folder of this kind contains.
    files : tuple of str, optional
        Patterns of the paths that such a folder may contain; ``*`` does not match a slash. None allows any
        file.
    records : tuple of str
        Files written by `lmtune.io.digests.sealed`. Their ``files`` list further files and digests, with
        paths relative to the folder of the record.
    facts : tuple of str
        Keys of the first record that distinguish this kind from others.
    """

    marker: str
    files: tuple[str, ...] | None = None
    records: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


def check_directory(path: PathLike, kind: FolderKind, *, reads: Iterable[PathLike] = ()) -> None:
    """Check, before any work, that an output folder can be written.

    Parameters
    ----------
    path : path-like
        The folder to make or to replace.
    kind : FolderKind
        The kind of existing folder that may be replaced.
    reads : iterable of path-like
        Other files and folders that the command reads or writes; none may be inside the output folder.

    Raises
    ------
    InputError
        If the target is a file, the current folder or a folder of another kind, contains one of `reads`, or
        cannot be made.
    """
    check_apart(path, reads, whole=kind.files is not None)
    check_writable(path)
    _check_kind(path, kind)


def _check_kind(path: PathLike, kind: FolderKind) -> None:
    """Raise `InputError` if the target exists and is not a folder that may be replaced."""
    target = Path(os.path.realpath(path))
    remove_leftovers(target)
    while os.path.lexists(target):
        with contextlib.suppress(FileNotFoundError):
            before = target.stat()
            if not stat.S_ISDIR(before.st_mode):
                raise InputError("cannot write", file=path, value="a file", accepted="a folder's name")
            problem = _find_problem(target, kind)
            # If another process replaced the folder during the check, check the new one.
            if os.path.samestat(before, target.stat()):
                if problem is None:
                    return
                raise InputError(
                    f"will not replace a folder that {problem[0]}",
                    file=path,
                    value=problem[1],
                    accepted="a new or empty folder, or an unchanged one that lmtune wrote",
                )


def _find_problem(folder: Path, kind: FolderKind) -> tuple[str, str | None] | None:
    """Return why a folder must not be replaced, and the file that is the reason; None if it may be."""
    entries = [entry.name for entry in folder.iterdir() if not is_temporary(entry.name)]
    if not entries or (kind.files is None and kind.marker in entries):
        return None
    if kind.marker not in entries:
        return f"has no {kind.marker}", None
    listed = recorded_files(folder, kind)
    # Records come last: an unlisted file makes a more helpful message than an invalid record.
    for name in sorted(_files(folder), key=lambda name: (name in kind.records, name)):
        if name not in listed and not any(_matches(name, pattern) for pattern in kind.files or ()):
            return "contains a file that lmtune did not write", name
        if listed.get(name) is not None and listed[name] != _digest(folder / name):
            return "contains a changed file", name
    if kind.facts and not set(kind.facts) <= set(_record(folder / kind.records[0])):
        return "contains the results of another command", None
    return None


def _digest(path: Path) -> int | None:
    """Return the digest of a file's content; None if the file is missing."""
    with contextlib.suppress(FileNotFoundError):
        return digest(path.read_bytes())
    return None


def recorded_files(folder: Path, kind: FolderKind) -> dict[str, int | None]:
    """Return the digests of the files that a folder's records list; None for the records themselves."""
    digests: dict[str, int | None] = {}
    for record in kind.records:
        home = Path(record).parent
        listed = _record(folder / record).get("files")
        if isinstance(listed, dict):
            digests |= {(home / name).as_posix(): recorded for name, recorded in listed.items()}
            digests[record] = None
    return digests


def _record(path: Path) -> dict[str, Any]:
    """Read a record; return an empty dictionary if it is missing or damaged."""
    with contextlib.suppress(OSError, ValueError):
        return unsealed(path.read_bytes())
    return {}


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of files and linked folders, relative to the folder, with slashes."""
    for home, folders, files in os.walk(folder):
        links = (name for name in folders if Path(home, name).is_symlink())
        for name in (*files, *links):
            if not is_temporary(name):
                yield Path(home, name).relative_to(folder).as_posix()


def _matches(name: str, pattern: str) -> bool:
    """Return whether a relative path matches a pattern of `FolderKind.files`."""
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def is_folder(path: PathLike) -> bool:
    """Return whether a folder exists, after restoring one that a killed process had moved aside."""
    if not os.path.lexists(path):
        remove_leftovers(Path(os.path.realpath(path)))
    return Path(path).is_dir()


@contextlib.contextmanager
def atomic_directory(path: PathLike, kind: FolderKind | None = None) -> Iterator[Path]:
    """Write a folder atomically.

    Parameters
    ----------
    path : path-like
        The folder to make or to replace. Missing parent folders are made.
    kind : FolderKind, optional
        The kind of existing folder that may be replaced, if it is not empty. By default any folder.

    Yields
    ------
    pathlib.Path
        An empty folder beside the target. It replaces the target when the ``with`` block ends, and is removed
        if the block raises. The old folder is moved aside during the replacement, then removed.

    Raises
    ------
    InputError
        If the target is a file or a folder of another kind, or cannot be made.
    """
    target = Path(os.path.realpath(path))
    _check_replaceable(path, kind)
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(temporary(target, Path.mkdir))
        except OSError as error:
            raise unwritable(path, error) from error
        aside = temporary_path(target, ASIDE)
        try:
            yield made
            _check_replaceable(path, kind)
            while not _replace_folder(target, made, aside):
                # Another process made the target meanwhile: replace its folder too.
                remove(aside)
                _check_replaceable(path, kind)
        except BaseException as error:
            add_file_name(error, path)
            raise
        finally:
            remove(aside)


def _check_replaceable(path: PathLike, kind: FolderKind | None) -> None:
    """Raise `InputError` if the target is a file, or a folder of another kind than `kind`."""
    if kind is not None:
        _check_kind(path, kind)
    elif Path(path).exists() and not Path(path).is_dir():
        raise InputError("cannot write", file=path, value="a file", accepted="a folder's name")


def _replace_folder(target: Path, made: Path, aside: Path) -> bool:
    """Move a folder to the target; return False if another process made the target meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        target.replace(aside)
    try:
        made.replace(target)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        with contextlib.suppress(OSError):  # otherwise `remove_leftovers` restores it
            aside.replace(target)
        raise
    return True


_ANOTHER_PATH = "another path"


def check_file(path: PathLike, *, reads: Iterable[PathLike] = ()) -> None:
    """Check, before any work, that `lmtune.io.files.atomic_write` can write a file.

    Parameters
    ----------
    path : path-like
        The file to write.
    reads : iterable of path-like
        Files that the command reads, and folders that must not contain the output.

    Raises
    ------
    InputError
        If the target is a directory, one of the files that are read, or cannot be made.
    """
    check_no_directory(path)
    check_apart(path, reads, whole=False)
    check_writable(path)


def check_apart(path: PathLike, reads: Iterable[PathLike], *, whole: bool) -> None:
    """Check that an output does not replace an input.

    Parameters
    ----------
    path : path-like
        The file or folder to write.
    reads : iterable of path-like
        The inputs; they need not exist.
    whole : bool
        Whether a whole folder will be replaced: it must contain neither an input nor the current folder.

    Raises
    ------
    InputError
        If the output would replace an input; links are resolved.
    """
    target = Path(os.path.realpath(path))
    if whole and Path.cwd().is_relative_to(target):
        raise InputError("will not replace the current folder", file=path, accepted=_ANOTHER_PATH)
    for name in reads:
        read = Path(os.path.realpath(name))
        inside = not whole and read.is_dir() and target.is_relative_to(read)
        if inside or (whole and read.is_relative_to(target)) or _is_same_file(read, target):
            raise InputError(
                "the output would replace what the command reads",
                file=path,
                value=os.fspath(name),
                accepted=_ANOTHER_PATH,
            )


def _is_same_file(one: Path, two: Path) -> bool:
    """Return whether two paths are the same file, also by a hard link; False if one does not exist."""
    try:
        return one == two or one.samefile(two)
    except OSError:
        return False


def check_writable(path: PathLike) -> None:
    """Raise `InputError` if a file or folder cannot be made, by making a temporary file beside it.

    If parent folders are missing, the temporary file is made in the closest existing one.
    """
    if is_remote(path):
        raise InputError("object storage is only read", file=path, accepted="a local path")
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not (target.is_file() or target.is_dir()):
            return  # a pipe or a device
        home = next(folder for folder in target.parents if folder.exists())
        with temporary(home / target.name, partial(Path.touch, exist_ok=False)):
            pass
    except OSError as error:
        raise unwritable(path, error) from error
