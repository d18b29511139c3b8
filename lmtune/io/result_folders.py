"""Results folders: files, and a record of how they were made, with the checksums of all files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtune.errors import InputError, PathLike
from lmtune.io.csv_files import parse_columns
from lmtune.io.digests import digest, read_verified, sealed_text, unsealed
from lmtune.io.files import read_bytes
from lmtune.io.folders import FolderKind, atomic_directory, is_folder, recorded_files
from lmtune.strict_json import parse_json

if TYPE_CHECKING:
    from lmtune.arrays import Columns

RECORD = "made.json"
"""The file that records how the results were made; lmtune replaces only folders that contain it."""


def file_name(text: str) -> str:
    """Convert text to a file name: all characters but letters, digits and ``.@()=-_`` become ``_``."""
    return re.sub(r"[^\w.@()=-]+", "_", text)


def write_folder(
    path: PathLike,
    kind: FolderKind,
    files: Mapping[str, str | bytes],
    record: Mapping[str, Any],
    write_more: Callable[[Path], object] | None = None,
) -> None:
    """Write a results folder atomically; equal content gives equal bytes.

    Parameters
    ----------
    path : path-like
        The folder; an existing folder of the same kind is replaced.
    kind : FolderKind
        The kind of the folder. If it has records, `RECORD` lists the checksums of all files.
    files : mapping of str to str or bytes
        Contents by path in the folder.
    record : mapping
        How the results were made; JSON must be able to represent it.
    write_more : callable, optional
        Writes further files into the folder that it gets.

    Raises
    ------
    InputError
        If the path is a folder of another kind.
    """
    with atomic_directory(path, kind) as folder:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        if write_more is not None:
            write_more(folder)
        text = json.dumps(dict(record), indent=2) + "\n"
        if kind.records:
            written = [file for file in sorted(folder.rglob("*")) if file.is_file()]
            listed = {file.relative_to(folder).as_posix(): digest(file.read_bytes()) for file in written}
            text = sealed_text({**record, "files": listed}, indent=2)
        (folder / RECORD).write_text(text, encoding="utf-8", newline="\n")


@dataclass(frozen=True)
class StoredFolder:
    """A results folder; only files that its record lists are read.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    record : dict
        How the results were made, without ``files``.
    files : dict of str to int
        The checksum of each file, by its path in the folder.
    """

    path: Path
    record: dict[str, Any]
    files: Mapping[str, int | None]

    @classmethod
    def open(
        cls, path: PathLike, kinds: Mapping[str, Any], needed: Iterable[str], accepted: str
    ) -> StoredFolder:
        """Read the record of a results folder.

        Parameters
        ----------
        path : path-like
            The folder.
        kinds : mapping of str to type
            The types of values in the record; see `lmtune.io.digests.require_types`.
        needed : iterable of str
            Files that must exist.
        accepted : str
            A description of the expected folder, for messages.

        Raises
        ------
        InputError
            If the path is not a results folder, a file is missing, or the record is damaged.
        """
        folder = Path(path)
        if not is_folder(folder):
            problem = "not a folder" if folder.exists() else "no such folder"
            raise InputError(problem, file=path, accepted=accepted)
        for name in (RECORD, *needed):
            if not (folder / name).is_file():
                raise InputError(f"not a results folder: {name} is missing", file=path, accepted=accepted)
        try:
            record = unsealed(read_bytes(folder / RECORD), kinds={**kinds, "files": dict[str, int]})
        except ValueError as error:
            accepted = f"{accepted}, unchanged"
            raise InputError(f"damaged: {error}", file=folder / RECORD, accepted=accepted) from None
        files = record.pop("files")
        if missing := [name for name in needed if name not in files]:
            problem = f"damaged: {missing[0]} is not listed"
            raise InputError(problem, file=folder / RECORD, accepted=accepted)
        return cls(folder, record, files)

    @classmethod
    def of_kind(cls, path: PathLike, kind: FolderKind) -> StoredFolder:
        """Return a folder with the files that its records list; it has no files if it has no records."""
        return cls(Path(path), {}, recorded_files(Path(path), kind))

    def json(self, name: str) -> Any:
        """Read a JSON file.

        Raises
        ------
        InputError
            If the file is missing, or its content differs from the record.
        """
        return parse_json(read_verified(self.path / name, self.files.get(name) or 0), infinite=True)

    def columns(self, name: str, texts: Collection[str] = ()) -> Columns | None:
        """Read a CSV file as `lmtune.io.csv_files.parse_columns` does; return None if it is missing.

        Raises
        ------
        InputError
            If the content of the file differs from the record.
        """
        checksum, path = self.files.get(name), self.path / name
        if checksum is None or not path.is_file():
            return None
        return parse_columns(read_verified(path, checksum), texts)
