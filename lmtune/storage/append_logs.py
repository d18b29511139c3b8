"""Logs that only grow: what one process has found out, every later one knows.

A process that is killed leaves at most a line without its end, and that is not read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from lmtune.storage.digests import sealed_text, unsealed
from lmtune.storage.files import unwritable


class AppendLog:
    """Lines of JSON in a folder: each process that has a new one writes a file of its own.

    Parameters
    ----------
    folder : pathlib.Path
        The folder; it must be there.
    kind : str
        How the files' names begin.
    of : str
        What the lines belong to; those of others are passed over.
    """

    def __init__(self, folder: Path, kind: str, of: str) -> None:
        self._folder, self._kind, self._of = folder, kind, of
        self._file: BinaryIO | None = None

    def lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Read the whole lines of all files, each with its file's name; pass over damaged ones."""
        for path in sorted(self._folder.glob(f"{self._kind}-*.jsonl")):
            for line in path.read_bytes().split(b"\n")[:-1]:
                with contextlib.suppress(ValueError):
                    yield path.stem, unsealed(line, self._of)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write a line at the end of this process' file, at once."""
        self.file.write(sealed_text(line, self._of, indent=None).encode())
        self.file.flush()

    @property
    def file(self) -> BinaryIO:
        """The file of this process, the first by its number that no other has made."""
        number = 0
        while self._file is None:
            path = self._folder / f"{self._kind}-{number:04d}.jsonl"
            try:
                self._file = path.open("xb")
            except FileExistsError:
                number += 1
            except OSError as error:
                raise unwritable(path, error) from None
        return self._file
