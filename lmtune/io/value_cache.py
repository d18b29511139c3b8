"""A cache on disk for several processes: values by key, each with a checksum."""

from __future__ import annotations

import sqlite3
import zlib
from functools import cached_property
from pathlib import Path

from lmtune.io.files import unwritable

_LARGEST = 900_000_000  # bytes; SQLite limits a row to 10**9
_TIMEOUT = 60.0  # seconds to wait while other processes write
_TABLE = "CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, value BLOB)"


class ValueCache:
    """Values by key in an SQLite file; damaged values count as missing.

    Parameters
    ----------
    path : pathlib.Path
        The file; its folder must exist.
    of : str
        Identity of the owner of the values; those of other owners count as missing.
    """

    def __init__(self, path: Path, of: str) -> None:
        self._path = path
        self._of = zlib.crc32(of.encode())

    def get(self, key: str) -> bytes | None:
        """Return the value of a key; None if it is missing or damaged."""
        name = _encode(key)
        try:
            row = self._database.execute("SELECT value FROM kept WHERE key = ?", [name]).fetchone()
        except sqlite3.Error:
            return None
        if row is None or row[0][-4:] != self._checksum(name, row[0][:-4]):
            return None
        return bytes(row[0][:-4])

    def put(self, key: str, value: bytes) -> None:
        """Store a value immediately; values of more than 900 MB are ignored.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        if len(value) > _LARGEST:
            return
        name = _encode(key)
        row = [name, value + self._checksum(name, value)]
        try:
            self._insert(row)
        except sqlite3.Error:  # replace a damaged file
            self.__dict__.pop("_database", None)
            try:
                self._path.unlink(missing_ok=True)
                self._insert(row)
            except (OSError, sqlite3.Error) as error:
                raise unwritable(self._path, OSError(str(error))) from error

    def _insert(self, row: list[bytes]) -> None:
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", row)

    @cached_property
    def _database(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=_TIMEOUT, check_same_thread=False)
        database.execute("PRAGMA synchronous = OFF")
        database.execute(_TABLE)
        return database

    def _checksum(self, name: bytes, value: bytes) -> bytes:
        return zlib.crc32(value, zlib.crc32(name, self._of)).to_bytes(4, "little")


def _encode(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
