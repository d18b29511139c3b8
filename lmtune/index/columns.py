"""Columns on disk: raw little-endian arrays, written in pieces, memory-mapped for reading; docnos by number.

Behind a column's values its file has the digests of its blocks: what is read of a column is checked
as it is read.
"""

from __future__ import annotations

import bisect
import mmap
import os
import typing
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Bytes, Integers, Integers32
from lmtune.errors import InputError, PathLike
from lmtune.io.digests import digest, require_types
from lmtune.io.files import unreadable

# Looking up one docno costs about as much as reading this many in one go.
_READS_PER_LOOKUP = 16


class DuplicateDocnoError(ValueError):
    """Two documents share a docno, which is the only argument."""


def write_docnos(folder: Path, docnos: Sequence[bytes]) -> dict[str, StoredColumn]:
    """Write the columns ``docnos``, ``docno_bytes`` and ``docno_ranks``.

    Raises
    ------
    DuplicateDocnoError
        If two documents share a docno.
    """
    # UTF-8 sorts as code points do.
    order = sorted(range(len(docnos)), key=docnos.__getitem__)
    for one, other in pairwise(order):
        if docnos[one] == docnos[other]:
            raise DuplicateDocnoError(decode(docnos[one]))
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    columns = write_strings(folder, "docnos", "docno_bytes", [docnos])
    return {**columns, "docno_ranks": write_column(folder / "docno_ranks", "<i4", ranks)}


class Docnos:
    """The docnos of a collection, memory-mapped.

    Parameters
    ----------
    strings : Strings
        The docnos in document order.
    ranks : Column of int32, shape (documents,)
        Each one's place in ascending code-point order.
    """

    def __init__(self, strings: Strings, ranks: Column[np.int32]) -> None:
        self._strings = strings
        self._ranks = ranks

    def names(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers.

        Raises
        ------
        IndexError
            If a number is not that of a document.
        """
        numbers = np.asarray(docs, np.int64)
        count = len(self._strings)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
            raise IndexError(f"document numbers must be from 0 to {count - 1}")
        return [decode(docno) for docno in self._strings.take(numbers)]

    def numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos, -1 where there is no such docno.

        Many are looked up in a dictionary of all docnos, which lives no longer than the call.
        """
        wanted = [encode(docno) for docno in docnos]
        if len(wanted) * _READS_PER_LOOKUP > len(self._strings):
            table = {docno: number for number, docno in enumerate(self._strings[:])}
            found = (table.get(docno, -1) for docno in wanted)
        else:
            found = (self._strings.find(docno, self._by_docno) for docno in wanted)
        return np.fromiter(found, np.int32, len(wanted))

    @cached_property
    def _by_docno(self) -> Integers32:
        order = np.empty(len(self._ranks), np.int32)
        order[self._ranks[:]] = np.arange(len(self._ranks), dtype=np.int32)
        return order


REBUILD = "a whole index; build it again with `lmtune index`"
SMALL_BYTES = 256 << 20
"""Columns of this size together are all checked when they are opened."""

_SPARE = 8

_T = TypeVar("_T", bound=np.generic)


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
        CRC-32 of the digests of its blocks.
    """

    file: str
    dtype: str
    count: int
    crc32: int

    @property
    def size(self) -> int:
        """The values' size in bytes."""
        return self.count * np.dtype(self.dtype).itemsize


def read_columns(content: Any, names: Collection[str]) -> dict[str, StoredColumn]:
    """Return what JSON says of columns.

    Raises
    ------
    ValueError
        Where one is missing, or is described otherwise.
    """
    kinds = typing.get_type_hints(StoredColumn)
    columns = require_types(content, dict.fromkeys(names, dict))
    described = {name: require_types(columns[name], kinds) for name in names}
    return {name: StoredColumn(**{key: own[key] for key in kinds}) for name, own in described.items()}


class ColumnWriter:
    """Append arrays to a column's file, keeping count and digests.

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
        self._file = path.open("w+b")

    def write(self, values: NDArray[Any] | bytes) -> None:
        """Append values, or raw bytes to a column of bytes."""
        if isinstance(values, bytes):
            values = np.frombuffer(values, np.uint8)
        raw = np.ascontiguousarray(values, self._dtype)
        self._file.write(raw.data)
        self._count += len(raw)

    def close(self) -> StoredColumn:
        """Finish the file and describe it."""
        self._file.seek(0)
        digests = block_digests(self._file)
        self._file.write(digests)
        self._file.close()
        return StoredColumn(self._name, self._dtype.str, self._count, digest(digests))

    def __enter__(self) -> ColumnWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def write_column(path: Path, dtype: str, values: NDArray[Any] | bytes) -> StoredColumn:
    """Write a whole column at once."""
    with ColumnWriter(path, dtype) as writer:
        writer.write(values)
        return writer.close()


def write_lists(
    folder: Path, name: str, offsets: str, pieces: Iterable[tuple[Bytes | bytes, Integers]]
) -> dict[str, StoredColumn]:
    """Write lists of bytes one after the other, and where each begins in the smallest type.

    Parameters
    ----------
    folder : pathlib.Path
        Where the two files are written.
    name, offsets : str
        The column of the bytes, behind which come 8 zeros, and that of the n + 1 offsets into it.
    pieces : iterable of (array of uint8 or bytes, array of int64)
        Some lists at a time: their bytes, and how many each has.
    """
    sizes = [np.zeros(1, np.int64)]
    with ColumnWriter(folder / name, "|u1") as lists:
        for content, own in pieces:
            lists.write(content)
            sizes.append(own)
        lists.write(bytes(_SPARE))
        begins = np.concatenate(sizes).cumsum()
        kind = "<u4" if begins[-1] < 1 << 32 else "<i8"
        return {name: lists.close(), offsets: write_column(folder / offsets, kind, begins)}


def write_strings(
    folder: Path, name: str, offsets: str, pieces: Iterable[Sequence[bytes]]
) -> dict[str, StoredColumn]:
    """Write strings, some at a time, as `write_lists` does."""
    lists = ((b"".join(own), np.fromiter(map(len, own), np.int64, len(own))) for own in pieces)
    return write_lists(folder, name, offsets, lists)


BLOCK_BYTES = 1 << 14
"""Bytes of a large file that share a digest: what is read of it is checked in steps of these."""


def block_digests(stream: BinaryIO) -> bytes:
    """Return the digests of the blocks of a stream's rest, as little-endian numbers of 4 bytes."""
    return np.array(
        [zlib.crc32(block) for block in iter(partial(stream.read, BLOCK_BYTES), b"")], "<u4"
    ).tobytes()


def digests_size(size: int) -> int:
    """Return how many bytes `block_digests` returns for so many bytes."""
    return 4 * -(-size // BLOCK_BYTES)


class Blocks:
    """A file in memory of which only those blocks are used whose digest was found right.

    Parameters
    ----------
    content : memoryview
        Its bytes.
    digests : bytes-like
        As `block_digests` returned them.
    path : path-like
        The file, for messages.
    accepted : str
        What to have instead, for messages.
    """

    def __init__(self, content: memoryview, digests: Any, path: PathLike, accepted: str) -> None:
        self._content = content
        self._digests: NDArray[np.uint32] = np.frombuffer(digests, "<u4")
        self._path = path
        self._accepted = accepted
        # Looked at one by one and many at a time.
        self._seen = bytearray(len(self._digests))
        self._many_seen = np.frombuffer(self._seen, np.bool_)

    def check(self, begin: int, end: int) -> None:
        """Check the blocks from one byte up to another.

        Raises
        ------
        InputError
            Where one is damaged.
        """
        if begin < end:
            seen = self._seen
            for block in range(begin // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1):
                if not seen[block]:
                    self._check(block)

    def check_places(self, places: Integers) -> None:
        """Check the blocks that hold some bytes, as `check` does."""
        blocks = places // BLOCK_BYTES
        for block in np.unique(blocks[~self._many_seen[blocks]]).tolist():
            self._check(block)

    def _check(self, block: int) -> None:
        part = self._content[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
        if zlib.crc32(part) != self._digests[block]:
            raise self.damaged()
        self._seen[block] = True

    def damaged(self) -> InputError:
        """Return the error to raise where a block is damaged."""
        return InputError("damaged: a checksum differs", file=self._path, accepted=self._accepted)


class Column(Generic[_T]):
    """A memory-mapped column, whose blocks are checked before they are first used.

    Parameters
    ----------
    folder : pathlib.Path
        The index's folder.
    column : StoredColumn
        What the manifest says about it.
    accepted : str
        What to have instead of a damaged one, for messages.

    Raises
    ------
    InputError
        If the file is missing, has another size, or is of another index.
    """

    def __init__(self, folder: Path, column: StoredColumn, accepted: str = REBUILD) -> None:
        path = folder / column.file
        whole = column.size + digests_size(column.size)
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != whole:
                    raise InputError(
                        f"damaged: the file should have {whole} bytes and has {size}",
                        file=path,
                        accepted=accepted,
                    )
                # An empty file cannot be mapped.
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except FileNotFoundError:
            raise InputError("the index lacks this file", file=path, accepted=accepted) from None
        except OSError as error:
            raise unreadable(path, error) from None
        content = memoryview(mapped)
        self.bytes, digests = content[: column.size], content[column.size :]
        if digest(digests) != column.crc32:
            raise InputError("damaged: a checksum differs", file=path, accepted=accepted)
        self.blocks = Blocks(self.bytes, digests, path, accepted)
        self._values: NDArray[_T] = np.frombuffer(self.bytes, np.dtype(column.dtype))
        self._item = self._values.itemsize

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, part: slice) -> NDArray[_T]:
        """Return consecutive values, shape (values,), read-only."""
        begin, end, _ = part.indices(len(self._values))
        self.blocks.check(begin * self._item, end * self._item)
        return self._values[begin:end]

    def words(self, begin: int, end: int) -> NDArray[np.uint64]:
        """Return the 8 bytes from each byte on as a number, shape (bytes - 7,), some bytes checked.

        Only of bytes that `write_lists` wrote. Nothing is copied.
        """
        self.blocks.check(begin, end)
        return np.ndarray((len(self.bytes) - _SPARE + 1,), "<u8", self.bytes, strides=(1,))

    def pair(self, at: int) -> tuple[int, int]:
        """Return a value and the next one, of a column of offsets."""
        self.blocks.check(at * self._item, (at + 2) * self._item)
        return int(self._values[at]), int(self._values[at + 1])

    def take(self, places: NDArray[np.integer]) -> NDArray[_T]:
        """Return the values at some places, of their shape."""
        self.blocks.check_places(np.asarray(places, np.int64) * self._item)
        values: NDArray[_T] = self._values[places]
        return values


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
    text, offsets : Column
        The strings one after the other, and the n + 1 places where they begin and end.
    """

    def __init__(self, text: Column[np.uint8], offsets: Column[np.int64]) -> None:
        self._text = text
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        begin, end = self._offsets.pair(at)
        self._text.blocks.check(begin, end)
        return bytes(self._text.bytes[begin:end])

    def take(self, places: NDArray[np.integer]) -> list[bytes]:
        """Return the strings at the places given, in that order."""
        begins, ends = self._offsets.take(places), self._offsets.take(places + 1)
        filled = begins < ends
        blocks, text = self._text.blocks, self._text.bytes
        blocks.check_places(begins[filled])
        blocks.check_places(ends[filled] - 1)
        for place in np.flatnonzero(ends - begins > BLOCK_BYTES).tolist():
            blocks.check(int(begins[place]), int(ends[place]))
        pairs = zip(begins.tolist(), ends.tolist(), strict=True)
        return [bytes(text[begin:end]) for begin, end in pairs]

    def find(self, wanted: bytes, order: Sequence[int] | Integers32 | None = None) -> int:
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
