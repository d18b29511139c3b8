"""Cache data of a Lucene index on disk, so that the next run does not start Java.

A store is a folder. Docnos are columns; lengths, postings and analysed queries are in one key-value file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lmtune.arrays import Integers32
from lmtune.errors import InputError, PathLike
from lmtune.index.columns import (
    SMALL_BYTES,
    Column,
    Docnos,
    DuplicateDocnoError,
    StoredColumn,
    Strings,
    read_columns,
    write_docnos,
)
from lmtune.index.protocol import Postings
from lmtune.io.digests import sealed_text, unsealed
from lmtune.io.folders import FolderKind, atomic_directory
from lmtune.io.value_cache import ValueCache
from lmtune.strict_json import parse_json

STORE_FORMAT = "lmtune lucene store 2"
"""Its number is to be increased whenever the content of the files changes its meaning."""

_FILE = "store.json"
_KEPT = "kept.sqlite"
_COLUMNS = ("docnos", "docno_bytes", "docno_ranks")
_KIND = FolderKind(_FILE, ("*", "candidates/*"))
_REMOVE = "this folder removed; it will be rebuilt"


class LuceneStore:
    """An open store; see `create` and `open`.

    Attributes
    ----------
    path : pathlib.Path
        The folder of the store.
    facts : dict
        Facts about the index: digest of the commit, counts, analysis.
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
        self._kept = ValueCache(path / _KEPT, facts["digest"])

    @classmethod
    def open(cls, path: Path, digest: str) -> LuceneStore | None:
        """Open the store of a commit; return None if there is none, or it is damaged or of another commit."""
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
        """Write a store with only docnos; an existing store is replaced.

        Raises
        ------
        InputError
            If two documents have the same docno, or the folder is not a store.
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
            content = {"format": STORE_FORMAT, "facts": dict(facts), "columns": described}
            (folder / _FILE).write_text(sealed_text(content), encoding="utf-8")
        return cls(path, dict(facts), columns)

    @cached_property
    def docno_rank(self) -> Integers32:
        """Each document's rank among the docnos, shape (num_docs,)."""
        return self._ranks[:]

    @property
    def candidates_path(self) -> Path:
        """The folder for candidates extracted from the index."""
        return self.path / "candidates"

    def lengths(self, kind: str, read: Callable[[], Integers32]) -> Integers32:
        """Return the lengths of a kind, cached or by calling `read`."""
        return np.frombuffer(self._value(f"lengths {kind}", lambda: _as_bytes(read())), "<i4")

    def postings(
        self, term: str, read: Callable[[], tuple[Integers32, Integers32] | None]
    ) -> Postings | None:
        """Return a term's postings, cached or by calling `read`."""
        return self._pairs(f"postings {term}", read)

    def occurrences(
        self, term: str, read: Callable[[], tuple[Integers32, Integers32] | None]
    ) -> Postings | None:
        """Return each occurrence's document, and its position as `tfs`, cached or by calling `read`."""
        return self._pairs(f"positions {term}", read)

    def terms(self, analysis: str, text: str, read: Callable[[], list[str]]) -> list[str]:
        """Return the terms of a text by an analysis, cached or by calling `read`."""
        key = f"analysis {json.dumps([analysis, text])}"
        terms: list[str] = parse_json(self._value(key, lambda: json.dumps(read()).encode()))
        return terms

    def _pairs(self, key: str, read: Callable[[], tuple[Integers32, Integers32] | None]) -> Postings | None:
        value = self._value(key, lambda: _as_bytes(*(read() or ())))
        return Postings(*np.frombuffer(value, "<i4").reshape(2, -1)) if value else None

    def _value(self, key: str, read: Callable[[], bytes]) -> bytes:
        value = self._kept.get(key)
        if value is None:
            value = read()
            self._kept.put(key, value)
        return value


def _as_bytes(*arrays: Integers32) -> bytes:
    return b"".join(array.astype("<i4").tobytes() for array in arrays)


def store_path(home: PathLike, index: Path) -> Path:
    """Return the folder of the store of a Lucene index: ``HOME/lucene-NAME-DIGEST``."""
    absolute = index.resolve()
    digest = zlib.crc32(os.fsencode(absolute))
    return Path(home, f"lucene-{absolute.name}-{digest:08x}")


def stored_paths(home: PathLike, name: str) -> list[Path]:
    """Return the folders of indexes that were opened under a name before, without starting Java."""
    paths = []
    for file in sorted(Path(home).glob(f"lucene-*/{_FILE}")):
        try:
            facts = _read(file)["facts"]
        except (OSError, ValueError):
            continue
        if facts["name"] == name:
            paths.append(Path(facts["path"]))
    return paths


def _read(file: Path) -> dict[str, Any]:
    content = unsealed(file.read_bytes(), kinds={"facts": dict, "columns": dict})
    if content.get("format") != STORE_FORMAT:
        raise ValueError("another format")
    return content
