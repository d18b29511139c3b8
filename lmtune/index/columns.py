"""Columns on disk: raw little-endian arrays, written in pieces and memory-mapped for reading.

The file of a column ends with the digests of its blocks. Each block is checked when it is first read.
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

# Looking up one docno by binary search costs about as much as reading this many docnos sequentially.
_READS_PER_LOOKUP = 16
# Docnos that were read are kept in memory for collections of up to this many documents: 100 MB at most.
_MOST_KEPT = 1 << 20


class DuplicateDocnoError(ValueError):
    """Two documents have the same docno, which is the only argument."""


def write_docnos(folder: Path, docnos: Sequence[bytes]) -> dict[str, StoredColumn]:
    """Write the columns ``docnos``, ``docno_bytes`` and ``docno_ranks``.

    Raises
    ------
    DuplicateDocnoError
        If two documents share a docno.
    """
    # UTF-8 bytes sort in code-point order.
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
        Their ranks in ascending code-point order.
    """

    def __init__(self, strings: Strings, ranks: Column[np.int32]) -> None:
        self._strings = strings
        self._ranks = ranks
        self._kept = np.full(len(strings) if len(strings) <= _MOST_KEPT else 0, None)

    def names(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers.

        Raises
        ------
        IndexError
            If a number is not between 0 and the number of documents minus 1.
        """
        numbers = np.asarray(docs, np.int64)
        count = len(self._strings)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
            raise IndexError(f"document numbers must be from 0 to {count - 1}")
        if count > _MOST_KEPT:
            return [decode(docno) for docno in self._strings.take(numbers)]
        new = numbers[self._kept[numbers] == None]  # noqa: E711 - compared item by item
        if len(new):
            self._kept[new] = np.array([decode(docno) for docno in self._strings.take(new)], object)
        names: list[str] = self._kept[numbers].tolist()
        return names

    def numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos; -1 for unknown docnos.

        For many docnos, a temporary dictionary of all docnos is built.
        """
        wanted = [encode(docno) for docno in docnos]
        if len(wanted) * _READS_PER_LOOKUP > len(self._strings):
            table = {docno: number for number, docno in enumerate(self._strings[:])}
            numbers = (table.get(docno, -1) for docno in wanted)
        else:
            numbers = (self._strings.find(docno, self._by_docno) for docno in wanted)
        return np.fromiter(numbers, np.int32, len(wanted))

    @cached_property
    def _by_docno(self) -> Integers32:
        """The document numbers in ascending order of docnos."""
        order = np.empty(len(self._ranks), np.int32)
        order[self._ranks[:]] = np.arange(len(self._ranks), dtype=np.int32)
        return order


REBUILD = "a whole index; build it again with `lmtune index`"
"""What messages suggest for a damaged index."""
SMALL_BYTES = 256 << 20
"""Indexes with columns below this total size are checked completely when they are opened."""

_PADDING_BYTES = 8
"""Zeros after the bytes of `write_lists`, so that `Column.words` can read 8 bytes at every position."""

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True)
class StoredColumn:
    """A column's entry in the manifest.

    Attributes
    ----------
    file : str
        The name of the file in the index's folder.
    dtype : str
        NumPy's name of the element type, always little-endian: ``<i4``, ``|u1``.
    count : int
        Number of elements.
    crc32 : int
        CRC-32 of the digests of the blocks.
    """

    file: str
    dtype: str
    count: int
    crc32: int

    @property
    def size(self) -> int:
        """Size of the values in bytes."""
        return self.count * np.dtype(self.dtype).itemsize


def read_columns(content: Any, names: Collection[str]) -> dict[str, StoredColumn]:
    """Return the columns that a manifest describes.

    Raises
    ------
    ValueError
        If a column is missing, or its description is malformed.
    """
    kinds = typing.get_type_hints(StoredColumn)
    columns = require_types(content, dict.fromkeys(names, dict))
    entries = {name: require_types(columns[name], kinds) for name in names}
    return {name: StoredColumn(**{key: entry[key] for key in kinds}) for name, entry in entries.items()}


class ColumnWriter:
    """Writes a column's file piece by piece.

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
        """Append the digests, close the file and return its manifest entry."""
        self._file.seek(0)  # Reading to the end also moves back there for writing.
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
    """Write lists of bytes as two columns: the concatenated bytes, and the offsets.

    Parameters
    ----------
    folder : pathlib.Path
        The folder of the two files.
    name : str
        The column of the bytes, followed by 8 zeros.
    offsets : str
        The column of the n + 1 offsets into the bytes, as ``<u4`` if possible, else ``<i8``.
    pieces : iterable of (array of uint8 or bytes, array of int64)
        The lists in batches: their concatenated bytes, and the size of each list.
    """
    sizes = [np.zeros(1, np.int64)]
    with ColumnWriter(folder / name, "|u1") as lists:
        for content, list_sizes in pieces:
            lists.write(content)
            sizes.append(list_sizes)
        lists.write(bytes(_PADDING_BYTES))
        begins = np.concatenate(sizes).cumsum()
        kind = "<u4" if begins[-1] < 1 << 32 else "<i8"
        return {name: lists.close(), offsets: write_column(folder / offsets, kind, begins)}


def write_strings(
    folder: Path, name: str, offsets: str, pieces: Iterable[Sequence[bytes]]
) -> dict[str, StoredColumn]:
    """Write strings, in batches, with `write_lists`."""
    lists = ((b"".join(batch), np.fromiter(map(len, batch), np.int64, len(batch))) for batch in pieces)
    return write_lists(folder, name, offsets, lists)


BLOCK_BYTES = 1 << 14
"""Number of bytes that share a digest: files are checked in blocks of this size."""


def block_digests(stream: BinaryIO) -> bytes:
    """Return the CRC-32 of each block of a stream's rest, as little-endian numbers of 4 bytes."""
    return np.array(
        [zlib.crc32(block) for block in iter(partial(stream.read, BLOCK_BYTES), b"")], "<u4"
    ).tobytes()


def digests_size(size: int) -> int:
    """Return the number of bytes that `block_digests` returns for `size` bytes."""
    return 4 * -(-size // BLOCK_BYTES)


class Blocks:
    """A file in memory, with a check of each block before it is first used.

    Parameters
    ----------
    content : memoryview
        The bytes of the file.
    digests : bytes-like
        The digests, from `block_digests`.
    path : path-like
        The file, for messages.
    accepted : str
        The accepted alternative to a damaged file, for messages.
    """

    def __init__(self, content: memoryview, digests: Any, path: PathLike, accepted: str) -> None:
        self._content = content
        self._digests: NDArray[np.uint32] = np.frombuffer(digests, "<u4")
        self._path = path
        self._accepted = accepted
        # Two views of the same flags: fast for single blocks, and for arrays of blocks.
        self._checked = bytearray(len(self._digests))
        self._checked_array = np.frombuffer(self._checked, np.bool_)

    def check(self, begin: int, end: int) -> None:
        """Check the blocks of the bytes from `begin` to `end`.

        Raises
        ------
        InputError
            If a block is damaged.
        """
        if begin < end:
            checked = self._checked
            for block in range(begin // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1):
                if not checked[block]:
                    self._check(block)

    def check_bytes(self, positions: Integers) -> None:
        """Check the blocks of single bytes, as `check` does."""
        blocks = positions // BLOCK_BYTES
        for block in np.unique(blocks[~self._checked_array[blocks]]).tolist():
            self._check(block)

    def _check(self, block: int) -> None:
        part = self._content[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
        if zlib.crc32(part) != self._digests[block]:
            raise self.damaged()
        self._checked[block] = True

    def damaged(self) -> InputError:
        """Return the error for a damaged block."""
        return InputError("damaged: a checksum differs", file=self._path, accepted=self._accepted)


class Column(Generic[_T]):
    """A memory-mapped column; each block is checked before it is first used.

    Parameters
    ----------
    folder : pathlib.Path
        The folder of the index.
    column : StoredColumn
        The column's entry in the manifest.
    accepted : str
        The accepted alternative to a damaged file, for messages.

    Attributes
    ----------
    bytes : memoryview
        The values as raw bytes, not checked.
    blocks : Blocks
        The checks of the bytes: call `Blocks.check` before reading `bytes`.

    Raises
    ------
    InputError
        If the file is missing, has another size, or belongs to another index.
    """

    def __init__(self, folder: Path, column: StoredColumn, accepted: str = REBUILD) -> None:
        path = folder / column.file
        expected = column.size + digests_size(column.size)
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != expected:
                    raise InputError(
                        f"damaged: the file should have {expected} bytes and has {size}",
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
        """Return the 8 bytes that begin at each byte, as little-endian numbers, without copying.

        The shape is (bytes - 7,). Only the bytes from `begin` to `end` are checked. The column must be one of
        bytes that `write_lists` wrote.
        """
        self.blocks.check(begin, end)
        return np.ndarray((len(self.bytes) - _PADDING_BYTES + 1,), "<u8", self.bytes, strides=(1,))

    def pair(self, at: int) -> tuple[int, int]:
        """Return the value at a position and the next one, of a column of offsets."""
        self.blocks.check(at * self._item, (at + 2) * self._item)
        return int(self._values[at]), int(self._values[at + 1])

    def take(self, positions: NDArray[np.integer]) -> NDArray[_T]:
        """Return the values at some positions, with the shape of `positions`."""
        self.blocks.check_bytes(np.asarray(positions, np.int64) * self._item)
        values: NDArray[_T] = self._values[positions]
        return values


def encode(text: str) -> bytes:
    """Encode text as UTF-8, lone surrogates included, so that bytes sort in code-point order."""
    return text.encode("utf-8", "surrogatepass")


def decode(raw: bytes) -> str:
    """Return the text that `encode` encoded."""
    return raw.decode("utf-8", "surrogatepass")


class Strings(Sequence[bytes]):
    """Memory-mapped strings: a sequence of bytes, read on demand.

    Parameters
    ----------
    text : Column
        The concatenated strings.
    offsets : Column
        The n + 1 offsets of their beginnings and ends.
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

    def take(self, positions: NDArray[np.integer]) -> list[bytes]:
        """Return the strings at some positions, in that order."""
        begins, ends = self._offsets.take(positions), self._offsets.take(positions + 1)
        non_empty = begins < ends
        blocks, text = self._text.blocks, self._text.bytes
        blocks.check_bytes(begins[non_empty])
        blocks.check_bytes(ends[non_empty] - 1)
        for at in np.flatnonzero(ends - begins > BLOCK_BYTES).tolist():
            blocks.check(int(begins[at]), int(ends[at]))
        pairs = zip(begins.tolist(), ends.tolist(), strict=True)
        return [bytes(text[begin:end]) for begin, end in pairs]

    def find(self, wanted: bytes, order: Sequence[int] | Integers32 | None = None) -> int:
        """Return the position of a string, or -1.

        Parameters
        ----------
        wanted : bytes
            The string.
        order : sequence of int, optional
            The positions in ascending order of their strings; by default the strings are ascending.
        """
        positions: Any = range(len(self)) if order is None else order
        at = bisect.bisect_left(positions, wanted, key=self.__getitem__)
        return int(positions[at]) if at < len(positions) and self[positions[at]] == wanted else -1
