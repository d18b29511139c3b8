"""The rows of LETOR files: parsed block by block, and put together."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_05UP, Context
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats import letor_kernels as kernels
from lmtune.formats.letor_kernels import fill_missing
from lmtune.progress import note
from lmtune.storage.files import decode_line, open_bytes, read_whole_lines

HIGHEST_ID = 1 << 16
"""The largest feature id: rows are kept dense."""

BLOCK_BYTES = 1 << 23
# The middle between two float32 has 113 digits at most; of longer decimals this rounding keeps on
# which side of it they lie.
_DIGITS = Context(prec=120, rounding=ROUND_05UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
_LARGEST = np.finfo(np.float32).max
_LINE = "a line such as 2 qid:10 1:0.5 3:-1e-3 #docid = D1"


_ZERO = re.compile("0+:.*")


class ZeroIdError(InputError):
    """A feature with the id 0 in a file whose ids were taken to count from 1."""


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows.

    Attributes
    ----------
    labels : numpy.ndarray of float32, shape (rows,)
        Grades.
    lines : numpy.ndarray of int64, shape (rows,)
        Each row's line in the file, from 1.
    query_rows : numpy.ndarray of int64, shape (changes,)
        The rows whose query is not that of the row before; 0 among them.
    queries : list of str
        The queries of these rows.
    docids : list of str or None
        Each row's docid, None where its comment has none.
    row_start, ids, values : numpy.ndarray
        Row r's features are ``row_start[r]`` to ``row_start[r + 1]`` of `ids`, from 1, and
        `values`, float32.
    missing : int
        How many of the values are NaN: missing.
    """

    labels: NDArray[np.float32]
    lines: NDArray[np.int64]
    query_rows: NDArray[np.int64]
    queries: list[str]
    docids: list[str | None]
    row_start: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.float32]
    missing: int

    @property
    def width(self) -> int:
        """The largest feature id."""
        return int(self.ids.max(initial=0))

    def dense(self, width: int) -> NDArray[np.float32]:
        """Return the features as (rows, width), 0 where a row has none."""
        out = np.zeros((self.labels.size, width), np.float32)
        kernels.scatter(self.row_start, self.ids, self.values, out)
        return out


def read_blocks(
    path: PathLike, *, repeated: str, zero_based: bool = False, block_bytes: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Parse a file block by block; see `lmtune.formats.letor.read_letor`."""
    seen = np.full(HIGHEST_ID + 1, -1, np.int64)
    line, row, lowest = 1, 0, 0 if zero_based else 1
    with open_bytes(path) as stream:
        try:
            for raw in read_whole_lines(stream, path, block_bytes):
                block = _parse(path, raw, line, row if repeated == "error" else -1, lowest, seen)
                line += raw.count(b"\n")
                row += block.labels.size
                if block.labels.size:
                    yield block
        except InputError as error:
            if error.line is None:
                error.line = line
            raise


def nearest_float32(text: str) -> np.float32:
    """Return the float32 nearest to a decimal, ties to even; infinite beyond the largest."""
    double = float(text)
    if not math.isfinite(double) or abs(double) > 2.0 * float(_LARGEST):
        return np.float32(math.copysign(math.inf, double))
    if abs(double) < 1e-50:
        return np.float32(math.copysign(0.0, double))
    exact = Fraction(_DIGITS.create_decimal(text))
    with np.errstate(over="ignore"):
        guess = np.float32(double)
        near = [guess, np.nextafter(guess, np.float32(-np.inf)), np.nextafter(guess, np.float32(np.inf))]

    def distance(value: np.float32) -> tuple[Fraction, int]:
        # The next value after the largest would be 2**128: what rounds there is out of range.
        whole = Fraction(2) ** 128 if np.isinf(value) else Fraction(abs(float(value)))
        odd = 0 if np.isinf(value) else int(value.view(np.uint32)) & 1
        return abs(whole * (-1 if value < 0 else 1) - exact), odd

    return min(near, key=distance)


def _parse(path: PathLike, raw: bytes, line: int, stamp: int, lowest: int, seen: NDArray[np.int64]) -> Block:
    text = np.frombuffer(raw, np.uint8)
    parsed = _empty(raw.count(b"\n"), raw.count(b":"))
    code, begin, end = kernels.parse(text, stamp, lowest, seen, parsed)
    rows, filled, queries, undecided, missing = parsed.counts.tolist()
    for at, first, last in parsed.undecided[:undecided].tolist():
        value = nearest_float32(raw[first:last].decode())
        if np.isinf(value):
            what = kernels.BAD_LABEL if at < 0 else kernels.BAD_VALUE
            raise _error(path, raw, line, what, first, last)
        if at < 0:
            parsed.labels[-1 - at] = value
        else:
            parsed.values[at] = value
    if code != kernels.DONE:
        raise _error(path, raw, line, code, begin, end)
    newlines = np.flatnonzero(text == ord("\n"))
    numbers = line + np.searchsorted(newlines, parsed.lines[:rows])

    def decoded(row: int, span: list[int]) -> str:
        return decode_line(raw[span[0] : span[1]], path, int(numbers[row]))

    changes = parsed.query_rows[:queries].copy()
    docids = parsed.docids[:rows].tolist()
    return Block(
        labels=parsed.labels[:rows],
        lines=numbers,
        query_rows=changes,
        queries=list(map(decoded, changes.tolist(), parsed.query_spans[:queries].tolist())),
        docids=[None if span[0] < 0 else decoded(row, span) for row, span in enumerate(docids)],
        row_start=parsed.start[: rows + 1],
        ids=parsed.ids[:filled],
        values=parsed.values[:filled],
        missing=missing,
    )


def _empty(rows: int, values: int) -> kernels.Rows:
    """Make room for so many rows and values at most."""
    return kernels.Rows(
        labels=np.empty(rows, np.float32),
        lines=np.empty(rows, np.int64),
        query_rows=np.empty(rows, np.int64),
        query_spans=np.empty((rows, 2), np.int64),
        docids=np.empty((rows, 2), np.int64),
        start=np.empty(rows + 1, np.int64),
        ids=np.empty(values, np.int32),
        values=np.empty(values, np.float32),
        undecided=np.empty((values + rows, 3), np.int64),
        counts=np.empty(5, np.int64),
    )


def _error(path: PathLike, raw: bytes, line: int, code: int, begin: int, end: int) -> InputError:
    token = raw[begin:end].decode(errors="backslashreplace")
    finite = "a finite number within float32's range, such as 0.25 or -1e-3; NULL where it is missing"
    message, accepted = {
        kernels.BAD_LABEL: ("bad label", "a number, 0 or more, first in the line"),
        kernels.NO_QUERY: ("no query after the label", f"qid:ID, in {_LINE}"),
        kernels.BAD_ID: (
            "bad feature",
            f"ID:VALUE with an ID from 1 to {HIGHEST_ID}, or from 0 in the whole file",
        ),
        kernels.BAD_VALUE: ("bad value of a feature", finite),
        kernels.REPEATED: ("feature repeated in a row", "each once, or repeated='last'"),
    }[code]
    number = line + raw.count(b"\n", 0, begin)
    error = ZeroIdError if code == kernels.BAD_ID and _ZERO.fullmatch(token) else InputError
    return error(message, file=path, line=number, value=token, accepted=accepted)


@dataclass(frozen=True, eq=False)
class Letor:
    """The content of a LETOR file.

    Attributes
    ----------
    features : numpy.ndarray of float32, shape (rows, F)
        Column f has the feature with id f + 1; 0 where a row lacks it. Perhaps a memory map, which
        is then read-only.
    labels : numpy.ndarray of float32, shape (rows,)
        Grades, 0 or more.
    starts : numpy.ndarray of int64, shape (queries + 1,)
        Where each query's rows begin.
    queries : tuple of str
        Query identifiers, in the file's order.
    docnos : tuple of str or None
        The rows' docids; None where the file has none.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.float32]
    starts: NDArray[np.int64]
    queries: tuple[str, ...]
    docnos: tuple[str, ...] | None = None

    def widened(self, width: int) -> Self:
        """Return the same with `width` features at least: those that come to it are 0."""
        missing = width - self.features.shape[1]
        if missing <= 0:
            return self
        return replace(self, features=np.pad(self.features, ((0, 0), (0, missing))))


class Rest(NamedTuple):
    """All but the features, which are `width`, and of which some, `missing`, are NaN."""

    labels: NDArray[np.float32]
    starts: NDArray[np.int64]
    queries: tuple[str, ...]
    docnos: tuple[str, ...] | None
    width: int
    missing: int

    def complete(self, features: NDArray[np.float32], path: PathLike) -> None:
        """Fill in what is missing, and say so."""
        if self.missing:
            fill_missing(self.starts, features)
            how = "their feature's lowest in the query stands in, as in LETOR's MIN files"
            note(f"{os.fspath(path)}: {self.missing:,} values are missing; {how}")


def collect(
    path: PathLike,
    keep: Callable[[NDArray[np.float32]], object],
    *,
    repeated: str,
    docids: bool,
    zero_based: bool,
) -> Rest:
    """Read a file, giving its features to `keep` block by block, none narrower than that before."""
    labels: list[NDArray[np.float32]] = []
    docnos: list[str | None] = []
    queries: dict[str, int] = {}
    starts: list[int] = []
    lines: list[NDArray[np.int64]] = []
    width = rows = missing = 0
    current = None
    for block in read_blocks(path, repeated=repeated, zero_based=zero_based):
        for first, query in zip(block.query_rows.tolist(), block.queries, strict=True):
            if query == current:
                continue
            if query in queries:
                raise InputError(
                    "a query's rows do not stand together",
                    file=path,
                    line=int(block.lines[first]),
                    value=query,
                    accepted=f"rows sorted by query (it first came in line {queries[query]})",
                )
            queries[query] = int(block.lines[first])
            starts.append(rows + first)
            current = query
        width = max(width, block.width)
        keep(block.dense(width))
        labels.append(block.labels)
        lines.append(block.lines)
        if docids:
            docnos += block.docids
        rows += len(block.labels)
        missing += block.missing
    if not rows:
        raise InputError("the file has no rows", file=path, accepted="LABEL qid:QUERY ID:VALUE ...")
    starts.append(rows)
    named = _named(path, docnos, starts, np.concatenate(lines))
    return Rest(np.concatenate(labels), np.array(starts, np.int64), tuple(queries), named, width, missing)


def _named(
    path: PathLike, docids: Sequence[str | None], starts: Sequence[int], lines: NDArray[np.int64]
) -> tuple[str, ...] | None:
    """Return the docids, None where there are none; each must come once in its query."""
    named = tuple(docid for docid in docids if docid is not None)
    if not named:
        return None
    if len(named) < len(docids):
        missing = docids[0] is None
        row = next(row for row, docid in enumerate(docids) if (docid is None) != missing)
        raise InputError(
            "a docid, where the first row has none" if missing else "no docid, as the first row has",
            file=path,
            line=int(lines[row]),
            value=docids[row],
            accepted=f"one on each row or on none (the first row is line {int(lines[0])}), or docids=False",
        )
    for begin, end in itertools.pairwise(starts):
        if len(set(named[begin:end])) == end - begin:
            continue
        seen: dict[str, int] = {}
        row = next(row for row in range(begin, end) if seen.setdefault(named[row], row) != row)
        raise InputError(
            "a docid comes twice in its query",
            file=path,
            line=int(lines[row]),
            value=named[row],
            accepted=f"each once (first in line {int(lines[seen[named[row]]])}), or docids=False",
        )
    return named
