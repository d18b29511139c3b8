"""Folders that keep results: files, and a record of how they were made with the checksum of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtune.errors import InputError, PathLike
from lmtune.io.csv_files import parse_frame
from lmtune.io.digests import digest, read_verified, sealed_text, unsealed
from lmtune.io.files import read_bytes
from lmtune.io.folders import FolderKind, atomic_directory, is_folder, recorded_files

if TYPE_CHECKING:
    import pandas as pd

RECORD = "made.json"
"""The file that says how the results were made, and marks a folder as ours to replace."""


def file_name(text: str) -> str:
    """Make a file name of any text, keeping letters, digits and ``.@()=-_``."""
    return re.sub(r"[^\w.@()=-]+", "_", text)


def write_folder(
    path: PathLike,
    kind: FolderKind,
    files: Mapping[str, str | bytes],
    record: Mapping[str, Any],
    write_more: Callable[[Path], object] | None = None,
) -> None:
    """Write a folder, whole or not at all; equal content gives equal bytes.

    Parameters
    ----------
    path : path-like
        The folder; an older one of its kind is replaced.
    kind : FolderKind
        Where it has records, `RECORD` lists the checksums of all files.
    files : mapping of str to str or bytes
        Contents by path in the folder.
    record : mapping
        How they were made, as JSON holds it.
    write_more : callable, optional
        Given the folder, writes further files into it.

    Raises
    ------
    InputError
        For a folder that holds something else.
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
    """A folder of results, of which nothing is read that its record does not list.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    record : dict
        How it was made, without ``files``.
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
        """Read a folder's record.

        Parameters
        ----------
        path : path-like
            The folder.
        kinds : mapping of str to type
            What the record holds, as for `lmtune.io.digests.require_types`.
        needed : iterable of str
            Files that have to be there.
        accepted : str
            What the folder should be, for messages.

        Raises
        ------
        InputError
            Where it is no such folder, a file is missing, or the record is damaged.
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
        """Return a folder with the files that its records list, without any where it has no records."""
        return cls(Path(path), {}, recorded_files(Path(path), kind))

    def json(self, name: str) -> Any:
        """Read a file of JSON, which has to be there.

        Raises
        ------
        InputError
            As `frame`.
        """
        return json.loads(read_verified(self.path / name, self.files.get(name) or 0))

    def frame(self, name: str, texts: Collection[str] = ()) -> pd.DataFrame | None:
        """Read a CSV file as `lmtune.io.csv_files.parse_frame` does; None where there is none.

        Raises
        ------
        InputError
            Where its content is not the one that the record lists.
        """
        checksum, path = self.files.get(name), self.path / name
        if checksum is None or not path.is_file():
            return None
        return parse_frame(read_verified(path, checksum), texts)
