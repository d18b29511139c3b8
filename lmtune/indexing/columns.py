"""Columns on disk: raw little-endian arrays, written in pieces and memory-mapped for reading."""

from __future__ import annotations

import bisect
import mmap
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.formats.files import unreadable

REBUILD = "a whole index; build it again with `lmtune index`"
_PIECE = 1 << 24


@dataclass(frozen=True)
class StoredColumn:
    """What the manifest says about one file.

    Attributes
    ----------
    file : str
        Its name inside the index's folder.
    dtype : str
        The type of its elements as numpy writes it, always little-endian: ``<i4``, ``|u1``.
    count : int
        How many elements it holds.
    crc32 : int
        CRC-32 of its bytes.
    """

    file: str
    dtype: str
    count: int
    crc32: int

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self.count * np.dtype(self.dtype).itemsize


class ColumnWriter:
    """Append arrays to a column's file, keeping count and checksum.

    Parameters
    ----------
    path : pathlib.Path
        The file to create.
    dtype : str
        The elements' type; arrays are converted to it.
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self._name = path.name
        self._dtype = np.dtype(dtype)
        self._count = 0
        self._crc32 = 0
        self._file = path.open("wb")

    def write(self, values: NDArray[Any] | bytes) -> None:
        """Append values, or raw bytes to a column of bytes."""
        if isinstance(values, bytes):
            values = np.frombuffer(values, np.uint8)
        raw = np.ascontiguousarray(values, self._dtype)
        self._file.write(raw.data)
        self._crc32 = zlib.crc32(raw.data, self._crc32)
        self._count += len(raw)

    def close(self) -> StoredColumn:
        """Finish the file and describe it."""
        self._file.close()
        return StoredColumn(self._name, self._dtype.str, self._count, self._crc32)

    def __enter__(self) -> ColumnWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def write_column(path: Path, dtype: str, values: NDArray[Any] | bytes) -> StoredColumn:
    """Write a whole column at once."""
    with ColumnWriter(path, dtype) as writer:
        writer.write(values)
        return writer.close()


def write_strings(
    path: Path, offsets_path: Path, pieces: Iterable[Sequence[bytes]]
) -> tuple[StoredColumn, StoredColumn]:
    """Write strings one after the other, and where each begins.

    Parameters
    ----------
    path, offsets_path : pathlib.Path
        The file of the bytes, and that of the n + 1 offsets into it.
    pieces : iterable of sequences of bytes
        The strings, some at a time.
    """
    end = 0
    with ColumnWriter(path, "|u1") as text, ColumnWriter(offsets_path, "<i8") as offsets:
        offsets.write(np.zeros(1, np.int64))
        for strings in pieces:
            ends = end + np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)))
            text.write(b"".join(strings))
            offsets.write(ends)
            end = int(ends[-1]) if len(ends) else end
        return text.close(), offsets.close()


def check_column(folder: Path, column: StoredColumn, *, verify: bool) -> None:
    """Check that a column's file is there whole.

    Parameters
    ----------
    folder : pathlib.Path
        The index's folder.
    column : StoredColumn
        What the manifest says about it.
    verify : bool
        Whether to read the file and compare its checksum, beside its size.

    Raises
    ------
    InputError
        If the file is missing, has another size or, on ``verify``, other content.
    """
    path = folder / column.file
    try:
        size = path.stat().st_size
    except OSError:
        raise InputError("the index lacks this file", file=path, accepted=REBUILD) from None
    if size != column.size:
        raise InputError(
            f"the index is damaged: the file should have {column.size} bytes and has {size}",
            file=path,
            accepted=REBUILD,
        )
    if verify and _file_crc32(path) != column.crc32:
        raise InputError("the index is damaged: the file's checksum differs", file=path, accepted=REBUILD)


def map_column(folder: Path, column: StoredColumn) -> NDArray[Any]:
    """Map a column's file into memory as a read-only array, shape (count,)."""
    return np.frombuffer(_map_file(folder / column.file), np.dtype(column.dtype))


def _map_file(path: Path) -> mmap.mmap | bytes:
    with _opened(path) as file:
        if path.stat().st_size == 0:
            return b""  # an empty file cannot be mapped
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from None


def _file_crc32(path: Path) -> int:
    crc32 = 0
    with _opened(path) as file:
        while piece := file.read(_PIECE):
            crc32 = zlib.crc32(piece, crc32)
    return crc32


def encode(text: str) -> bytes:
    """Encode text so that bytes sort as code points do, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def decode(raw: bytes) -> str:
    """Undo `encode`."""
    return raw.decode("utf-8", "surrogatepass")


class Strings(Sequence[bytes]):
    """Memory-mapped strings: a sequence of bytes that is never read as a whole.

    Parameters
    ----------
    folder : pathlib.Path
        The index's folder.
    text, offsets : StoredColumn
        The strings one after the other, and the n + 1 places where they begin and end.
    """

    def __init__(self, folder: Path, text: StoredColumn, offsets: StoredColumn) -> None:
        self._text = _map_file(folder / text.file)
        self._offsets: NDArray[np.int64] = map_column(folder, offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        return self._text[self._offsets[at] : self._offsets[at + 1]]

    def take(self, places: NDArray[np.integer]) -> list[bytes]:
        """Return the strings at the places given, in that order."""
        text = self._text
        begins = self._offsets[places].tolist()
        ends = self._offsets[places + 1].tolist()
        return [text[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def find(self, wanted: bytes, order: Sequence[int] | NDArray[np.int32] | None = None) -> int:
        """Return the place of a string, or -1.

        Parameters
        ----------
        wanted : bytes
            The string.
        order : sequence of int, optional
            The places in ascending order of their strings; by default they ascend as they stand.
        """
        places: Any = range(len(self)) if order is None else order
        at = bisect.bisect_left(places, wanted, key=self.__getitem__)
        return int(places[at]) if at < len(places) and self[places[at]] == wanted else -1
