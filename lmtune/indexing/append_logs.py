"""Logs that only grow: what one process has found out, every later one knows.

Each process that finds something new writes a log of its own, a line at a time, after the bytes
that the line names. A process that is killed leaves at most a line without its end, and that is
not read.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.indexing.index import Postings
from lmtune.storage.digests import parse_json, sealed, unsealed
from lmtune.storage.files import unreadable


class _Place(NamedTuple):
    """Where a term's documents and frequencies stand, one after the other."""

    file: str
    begin: int
    df: int
    crc32: int


class PostingsLog:
    """Postings by term, in a folder of logs.

    Parameters
    ----------
    folder : pathlib.Path
        The folder; it must be there.
    of : str
        What the postings belong to, as for `append`.
    kind : str
        What the logs are called.
    """

    def __init__(self, folder: Path, of: str, kind: str = "postings") -> None:
        self._folder, self._of, self._kind = folder, of, kind
        self._places = {
            line["term"]: _Place(f"{log}.bin", line["begin"], line["df"], line["values_crc32"])
            for log, line in read_logs(folder, kind, of)
        }
        self._checked: set[str] = set()
        self._mapped: dict[str, NDArray[np.int32]] = {}
        self._bytes: BinaryIO | None = None
        self._lines: BinaryIO | None = None

    def __contains__(self, term: str) -> bool:
        """Tell whether the term's postings, or that there are none, are kept and whole."""
        place = self._places.get(term)
        if place is not None and term not in self._checked:
            if zlib.crc32(self._values(place).tobytes()) == place.crc32:
                self._checked.add(term)
            else:
                del self._places[term]
        return term in self._places

    def get(self, term: str) -> Postings | None:
        """Return the postings of a term that is kept, None where it has none."""
        place = self._places[term]
        return Postings(*self._values(place).reshape(2, -1)) if place.df else None

    def add(self, term: str, found: Postings | None) -> None:
        """Keep a term's postings, or that it has none."""
        if self._bytes is None or self._lines is None:
            self._bytes = new_log(self._folder, self._kind, ".bin")
            self._lines = Path(self._bytes.name).with_suffix(".jsonl").open("ab")
        values = np.concatenate(found or [np.empty(0)]).astype("<i4")
        begin = self._bytes.tell() // values.itemsize
        self._bytes.write(values.tobytes())
        self._bytes.flush()
        df, crc32 = values.size // 2, zlib.crc32(values.tobytes())
        line = {"term": term, "begin": begin, "df": df, "values_crc32": crc32}
        append(self._lines, line, self._of)
        self._places[term] = _Place(Path(self._bytes.name).name, begin, df, crc32)
        self._checked.add(term)

    def _values(self, place: _Place) -> NDArray[np.int32]:
        end = place.begin + 2 * place.df
        if len(self._mapped.get(place.file, ())) < end:
            try:
                self._mapped[place.file] = np.memmap(self._folder / place.file, "<i4", mode="r")
            except (OSError, ValueError):
                return np.empty(0, np.int32)
        return np.asarray(self._mapped.get(place.file, np.empty(0, np.int32))[place.begin : end])


def new_log(folder: Path, kind: str, suffix: str) -> BinaryIO:
    """Create the first log of a kind that no process has."""
    number = 0
    while True:
        path = folder / f"{kind}-{number:04d}{suffix}"
        try:
            return path.open("xb")
        except FileExistsError:
            number += 1
        except OSError as error:
            raise unreadable(path, error) from None


def append(log: BinaryIO, line: Mapping[str, Any], of: str) -> None:
    """Write a line at a log's end, at once; only `read_logs` of the same `of` will read it."""
    log.write(json.dumps(sealed(line, of)).encode() + b"\n")
    log.flush()


def read_logs(folder: Path, kind: str, of: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read the whole lines of all logs of a kind, each with its log's name; pass over damaged ones."""
    for path in sorted(folder.glob(f"{kind}-*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            with contextlib.suppress(ValueError):
                yield path.stem, unsealed(parse_json(line), of)
