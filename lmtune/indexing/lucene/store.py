"""What was read from a Lucene index, kept on disk, so that the next run starts no Java.

A folder holds docnos and lengths as columns, and postings and analysed queries as logs.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.indexing.columns import (
    SMALL_BYTES,
    Column,
    Docnos,
    DuplicateDocnoError,
    StoredColumn,
    Strings,
    read_columns,
    write_docnos,
)
from lmtune.indexing.index import Postings
from lmtune.storage.digests import AppendLog, sealed_bytes, sealed_text, unsealed, unsealed_bytes
from lmtune.storage.files import atomic_write
from lmtune.storage.folders import FolderKind, atomic_directory

FORMAT = "lmtune lucene store 2"
"""Raised whenever the files' content changes its meaning."""

_FILE = "store.json"
_COLUMNS = ("docnos", "docno_bytes", "docno_ranks")
_KIND = FolderKind(_FILE, ("*", "candidates/*"))
_REMOVE = "this folder removed; it is made again"


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
        What the postings belong to, as for `AppendLog`.
    kind : str
        What the logs are called.
    """

    def __init__(self, folder: Path, of: str, kind: str = "postings") -> None:
        self._folder, self._log = folder, AppendLog(folder, kind, of)
        self._places = {
            line["term"]: _Place(f"{log}.bin", line["begin"], line["df"], line["values_crc32"])
            for log, line in self._log.lines()
        }
        self._checked: set[str] = set()
        self._mapped: dict[str, NDArray[np.int32]] = {}
        self._bytes: BinaryIO | None = None

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
        if self._bytes is None:
            self._bytes = Path(self._log.file.name).with_suffix(".bin").open("ab")
        values = np.concatenate(found or [np.empty(0)]).astype("<i4")
        begin = self._bytes.tell() // values.itemsize
        self._bytes.write(values.tobytes())
        self._bytes.flush()
        df, crc32 = values.size // 2, zlib.crc32(values.tobytes())
        self._log.append({"term": term, "begin": begin, "df": df, "values_crc32": crc32})
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


class LuceneStore:
    """An open store; see `create` and `open`.

    Attributes
    ----------
    path : pathlib.Path
        Its folder.
    facts : dict
        What it was made from: the commit's digest, counts, analysis.
    docnos : Docnos
        The docnos.
    """

    def __init__(self, path: Path, facts: dict[str, Any], columns: Mapping[str, StoredColumn]) -> None:
        self.path = path
        self.facts = facts
        mapped = {name: Column[Any](path, column, _REMOVE) for name, column in columns.items()}
        if sum(column.size for column in columns.values()) < SMALL_BYTES:
            for column in mapped.values():
                column[:]
        self._ranks: Column[np.int32] = mapped["docno_ranks"]
        self.docnos = Docnos(Strings(mapped["docnos"], mapped["docno_bytes"]), self._ranks)
        self._postings = PostingsLog(path, facts["digest"])
        self._positions = PostingsLog(path, facts["digest"], "positions")
        self._analyses = AppendLog(path, "analysis", facts["digest"])
        self._analysed = {
            (line["analysis"], line["text"]): line["terms"] for _, line in self._analyses.lines()
        }

    @classmethod
    def open(cls, path: Path, digest: str) -> LuceneStore | None:
        """Open the store of a commit; None where there is none, it is damaged or of another commit."""
        try:
            content = _read(path / _FILE)
            if content["facts"].get("digest") != digest:
                return None
            columns = read_columns(content["columns"], _COLUMNS)
            return cls(path, content["facts"], columns)
        except (OSError, ValueError):
            return None

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, Any], docnos: list[bytes]) -> LuceneStore:
        """Write a store of docnos alone; one that is there already is replaced.

        Raises
        ------
        InputError
            If two documents have the same docno, or the folder is something else.
        """
        with atomic_directory(path, _KIND) as folder:
            try:
                columns = write_docnos(folder, docnos)
            except DuplicateDocnoError as error:
                raise InputError(
                    "two documents of the index have one docno",
                    value=str(error),
                    accepted="an index where each docno comes once",
                ) from None
            described = {name: asdict(column) for name, column in columns.items()}
            content = {"format": FORMAT, "facts": dict(facts), "columns": described}
            (folder / _FILE).write_text(sealed_text(content), encoding="utf-8")
        return cls(path, dict(facts), columns)

    @cached_property
    def docno_rank(self) -> NDArray[np.int32]:
        """Each document's place among the docnos, shape (num_docs,)."""
        return self._ranks[:]

    @property
    def candidates_path(self) -> Path:
        """The folder for candidates extracted from the index."""
        return self.path / "candidates"

    def lengths(self, kind: str, read: Callable[[], NDArray[np.int32]]) -> NDArray[np.int32]:
        """Return lengths of a kind, read from the index where they are not kept yet."""
        path = self.path / f"{kind}_lengths"
        of = f"{FORMAT} {self.facts['digest']} {kind}"
        with contextlib.suppress(OSError, ValueError):
            return np.frombuffer(unsealed_bytes(path.read_bytes(), of), "<i4")
        lengths = read()
        with atomic_write(path, mode="binary") as stream:
            stream.write(sealed_bytes(lengths.astype("<i4").tobytes(), of))
        return lengths

    def postings(
        self, term: str, read: Callable[[], tuple[NDArray[np.int32], NDArray[np.int32]] | None]
    ) -> Postings | None:
        """Return a term's postings, read from the index where they are not kept yet."""
        return _kept(self._postings, term, read)

    def occurrences(
        self, term: str, read: Callable[[], tuple[NDArray[np.int32], NDArray[np.int32]] | None]
    ) -> Postings | None:
        """Return each occurrence's document, and as `tfs` its position, read where they are not kept yet."""
        return _kept(self._positions, term, read)

    def terms(self, analysis: str, text: str, read: Callable[[], list[str]]) -> list[str]:
        """Return a text's terms under an analysis, asked for where they are not kept yet."""
        key = analysis, text
        if key not in self._analysed:
            self._analysed[key] = read()
            self._analyses.append({"analysis": analysis, "text": text, "terms": self._analysed[key]})
        return list(self._analysed[key])


def _kept(
    log: PostingsLog, term: str, read: Callable[[], tuple[NDArray[np.int32], NDArray[np.int32]] | None]
) -> Postings | None:
    if term not in log:
        found = read()
        log.add(term, None if found is None else Postings(*found))
    return log.get(term)


def store_path(home: PathLike, index: Path) -> Path:
    """Return where the store of a Lucene index is kept: ``HOME/lucene-NAME-DIGEST``."""
    whole = index.resolve()
    digest = zlib.crc32(os.fsencode(whole))
    return Path(home, f"lucene-{whole.name}-{digest:08x}")


def stored_paths(home: PathLike, name: str) -> list[Path]:
    """Return the folders of indexes that were opened under a name before, without asking Java."""
    found = []
    for file in sorted(Path(home).glob(f"lucene-*/{_FILE}")):
        try:
            facts = _read(file)["facts"]
        except (OSError, ValueError):
            continue
        if facts["name"] == name:
            found.append(Path(facts["path"]))
    return found


def _read(file: Path) -> dict[str, Any]:
    content = unsealed(file.read_bytes(), kinds={"facts": dict, "columns": dict})
    if content.get("format") != FORMAT:
        raise ValueError("another format")
    return content
