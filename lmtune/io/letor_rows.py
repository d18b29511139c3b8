"""Parsing of LETOR rows, block by block."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Self

import numpy as np

from lmtune.arrays import Integers, Singles
from lmtune.errors import FilePosition, InputError, PathLike
from lmtune.io.files import decode_line, open_bytes, read_whole_lines
from lmtune.io.letor_kernels import parse_pairs
from lmtune.progress import note

HIGHEST_ID = 1 << 16
"""The largest feature id; it is limited because rows are stored dense."""

_BLOCK_BYTES = 1 << 20
_ROW = re.compile(rb"[ \t]*([0-9+.eE-]+)[ \t]+qid:([^ \t]+)")
_TOKEN = re.compile(rb"[^ \t]+")
_DOCID = re.compile(rb"[ \t#]*doc_?(?:id|no)[ \t]*[=:][ \t]*([^ \t]+)", re.IGNORECASE)
_FIRST_WORD = re.compile(rb"[ \t#]*([^ \t]+)")
_ZERO = re.compile(rb"0+:.*", re.DOTALL)
# Istella's sets mark missing values with the largest double, 1.797693134862316e308.
_LARGEST_DOUBLE = re.compile(rb"[+-]?(1\.797693134862[0-9]*[eE]\+?308|1797693134862[0-9]{296}(\.[0-9]*)?)")
# The fraction of a float32 has 29 bits fewer than that of a double. In doubles halfway between two float32
# values the last 28 bits are 0.
_LAST_BITS = (1 << 28) - 1
_LINE = "a line such as 2 qid:10 1:0.5 3:-1e-3 #docid = D1"


class ZeroIdError(InputError):
    """A feature with id 0 in a file that is read with ids from 1."""


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a LETOR file.

    Attributes
    ----------
    labels : numpy.ndarray of float32, shape (rows,)
        Grades.
    lines : numpy.ndarray of int64, shape (rows,)
        The line of each row in the file, from 1.
    queries : list of str
        The query of each row.
    docids : list of str or None
        The docid of each row; None if its comment has none.
    words : list of str or None
        The first word of each row's comment; None without a comment or with a docid.
    rows, ids, values : numpy.ndarray of int64, int64 and float32, shape (features,)
        The row in the block, the id, from 1, and the value of each feature; NaN marks a missing value.
    """

    labels: Singles
    lines: Integers
    queries: list[str]
    docids: list[str | None]
    words: list[str | None]
    rows: Integers
    ids: Integers
    values: Singles

    def dense(self) -> Singles:
        """Return the features as a matrix, shape (rows, largest id); features that are not in a row are 0."""
        out = np.zeros((self.labels.size, int(self.ids.max(initial=0))), np.float32)
        out[self.rows, self.ids - 1] = self.values
        return out


def read_blocks(
    path: PathLike, *, repeated: str, zero_based: bool = False, block_bytes: int = _BLOCK_BYTES
) -> Iterator[Block]:
    """Parse a file block by block; see `lmtune.io.letor.read_letor`."""
    line, lowest, once = 1, 0 if zero_based else 1, repeated == "error"
    with open_bytes(path) as stream:
        try:
            for raw in read_whole_lines(stream, path, block_bytes):
                lines = raw.replace(b"\r\n", b"\n").split(b"\n")[:-1]
                try:
                    block = _parse(path, lines, line, lowest, once)
                except InputError:
                    raise
                except ValueError:
                    raise _first_error(path, lines, line, lowest, once) from None
                line += len(lines)
                if block.labels.size:
                    yield block
        except InputError as error:
            if error.line is None:
                error.line = line
            raise


def _parse(path: PathLike, lines: Sequence[bytes], first: int, lowest: int, once: bool) -> Block:
    """Parse lines to a block; `first` is the number of the first line.

    Raises ValueError if a line is not a valid row.
    """
    labels: list[bytes] = []
    numbers: list[int] = []
    queries: list[str] = []
    docids: list[str | None] = []
    words: list[str | None] = []
    features: list[bytes] = []
    current, query = b"", ""
    with FilePosition(path) as position:
        for position.line, line in enumerate(lines, first):
            head, _, comment = line.partition(b"#")
            row = _ROW.match(head)
            if row is None:
                if head.strip(b" \t"):
                    raise ValueError(line)
                continue
            if row[2] != current:
                current, query = row[2], decode_line(row[2])
            docid = _DOCID.match(comment)
            word = _FIRST_WORD.match(comment) if docid is None else None
            docids.append(None if docid is None else decode_line(docid[1]))
            words.append(None if word is None else word[1].decode(errors="replace"))
            queries.append(query)
            labels.append(row[1])
            numbers.append(position.line)
            features.append(head[row.end() :])
    rows, ids, values = parse_features(features, lowest, lowest + HIGHEST_ID - 1)
    if once and has_repeats(rows * (HIGHEST_ID + 1) + ids):
        raise ValueError("a feature is repeated")
    grades = nearest_float32(labels)
    if not np.isfinite(grades).all() or any(text[:1] == b"-" and float(text) < 0 for text in labels):
        raise ValueError("a bad label")
    return Block(grades, np.array(numbers, np.int64), queries, docids, words, rows, ids, values)


def parse_features(texts: Sequence[bytes], lowest: int, highest: int) -> tuple[Integers, Integers, Singles]:
    """Parse rows of ``ID:VALUE`` pairs with ids from `lowest` to `highest`.

    Returns
    -------
    rows, ids, values : numpy.ndarray, shape (features,)
        The row, the id, counted from 1, and the value of each feature; NaN marks a missing value.

    Raises
    ------
    ValueError
        If a text has other content.
    """
    text = b"\n".join([*texts, b""])
    most = len(text) // 4 + 1
    rows, ids, unparsed = np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, 3), np.int64)
    values = np.empty(most, np.float32)
    count, open_ = parse_pairs(np.frombuffer(text, np.uint8), lowest, highest, rows, ids, values, unparsed)
    if count < 0:
        raise ValueError("no pairs")
    indices = unparsed[:open_, 0].copy()
    values[indices] = _parse_values([text[begin:end] for _, begin, end in unparsed[:open_].tolist()])
    return rows[:count].copy(), ids[:count].copy(), values[:count].copy()


def _parse_values(texts: Sequence[bytes]) -> Singles:
    """Parse values of features; NaN marks a missing value."""
    values = nearest_float32([b"1e999" if text == b"NULL" else text for text in texts])
    for index in np.flatnonzero(np.isinf(values)).tolist():
        if texts[index] != b"NULL" and _LARGEST_DOUBLE.fullmatch(texts[index]) is None:
            raise ValueError("outside the range of float32")
        values[index] = np.nan
    return values


def nearest_float32(decimals: Sequence[bytes]) -> Singles:
    """Round decimals to the nearest float32, ties to even; numbers outside its range become infinite.

    Raises ValueError if a text is not a decimal.
    """
    if b"".join(decimals).translate(None, b"0123456789+-.eE"):
        raise ValueError("characters of other notations, such as nan and 1_0, which float accepts")
    doubles = np.fromiter(map(float, decimals), np.float64, len(decimals))
    with np.errstate(over="ignore"):
        singles = doubles.astype(np.float32)
        halfway = (doubles.view(np.int64) & _LAST_BITS == 0) & (singles != doubles)
        # The double is rounded too: compare it with the exact decimal to decide the direction.
        for index in np.flatnonzero(halfway).tolist():
            exact, double = Decimal(decimals[index].decode()), float(doubles[index])
            if exact != double:
                singles[index] = math.nextafter(double, math.inf if exact > double else -math.inf)
    return singles


def has_repeats(keys: Integers) -> bool:
    """Return whether any number is repeated."""
    if (np.diff(keys) > 0).all():
        return False
    ordered = np.sort(keys)
    return bool((ordered[1:] == ordered[:-1]).any())


def _first_error(path: PathLike, lines: Sequence[bytes], first: int, lowest: int, once: bool) -> InputError:
    """Return the error of the first line that is not a valid row."""
    row = next(row for row, line in enumerate(lines) if not _is_row(line, lowest, once=once))
    line, number = lines[row], first + row

    def error(message: str, value: bytes, accepted: str, kind: type[InputError] = InputError) -> InputError:
        shown = value.decode(errors="backslashreplace")
        return kind(message, file=path, line=number, value=shown, accepted=accepted)

    label, *rest = _TOKEN.findall(line.partition(b"#")[0])
    token = rest[0] if rest else b""
    if not _is_row(label + b" qid:1", lowest):
        return error("bad label", label, "a number, 0 or more, first in the line")
    if not token.startswith(b"qid:") or token == b"qid:":
        return error("no query after the label", token, f"qid:ID, in {_LINE}")
    for token in rest[1:]:
        if _is_row(b"1 qid:1 " + token, lowest):
            continue
        name, _, value = token.partition(b":")
        if not _is_row(b"1 qid:1 " + name + b":0", lowest) or b":" not in token:
            accepted = f"ID:VALUE with an ID from 1 to {HIGHEST_ID}, or from 0 in the whole file"
            kind = ZeroIdError if _ZERO.fullmatch(token) else InputError
            return error("bad feature", token, accepted, kind)
        accepted = "a finite number within the range of float32, such as 0.25 or -1e-3, or NULL if missing"
        return error("bad value of a feature", value, accepted)
    seen: dict[bytes, bytes] = {}
    token = next(t for t in rest[1:] if seen.setdefault(t.partition(b":")[0].lstrip(b"0"), t) is not t)
    return error("feature repeated in a row", token, "each once, or repeated='last'")


def _is_row(line: bytes, lowest: int, *, once: bool = False) -> bool:
    try:
        _parse("", [line], 1, lowest, once)
    except InputError:
        return True
    except ValueError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class Letor:
    """The content of a LETOR file.

    Attributes
    ----------
    features : numpy.ndarray of float32, shape (rows, F)
        Column f is the feature with id f + 1; features that are not in a row are 0. May be a read-only memory
        map.
    labels : numpy.ndarray of float32, shape (rows,)
        Grades, 0 or more.
    starts : numpy.ndarray of int64, shape (queries + 1,)
        The first row of each query, and the number of rows.
    queries : tuple of str
        Query identifiers, in the order of the file.
    docnos : tuple of str or None
        The docids of the rows; None if the file has none.
    """

    features: Singles
    labels: Singles
    starts: Integers
    queries: tuple[str, ...]
    docnos: tuple[str, ...] | None = None

    def widened(self, width: int) -> Self:
        """Return the data with at least `width` features; added features are 0."""
        missing = width - self.features.shape[1]
        if missing <= 0:
            return self
        return replace(self, features=np.pad(self.features, ((0, 0), (0, missing))))


def read_rows(path: PathLike, *, repeated: str, docids: bool, zero_based: bool) -> Letor:
    """Read a LETOR file without a cache; see `lmtune.io.letor.read_letor`."""
    features: list[Singles] = []
    labels: list[Singles] = []
    lines: list[Integers] = []
    docnos: list[str | None] = []
    words: list[str | None] = []
    queries: dict[str, int] = {}
    starts: list[int] = []
    rows = 0
    current = None
    for block in read_blocks(path, repeated=repeated, zero_based=zero_based):
        for row, query in enumerate(block.queries):
            if query == current:
                continue
            if query in queries:
                raise InputError(
                    "the rows of a query are not consecutive",
                    file=path,
                    line=int(block.lines[row]),
                    value=query,
                    accepted=f"rows grouped by query (its first row is line {queries[query]})",
                )
            queries[query] = int(block.lines[row])
            starts.append(rows + row)
            current = query
        features.append(block.dense())
        labels.append(block.labels)
        lines.append(block.lines)
        if docids:
            docnos += block.docids
            words += block.words
        rows += len(block.labels)
    if not rows:
        raise InputError("the file has no rows", file=path, accepted="LABEL qid:QUERY ID:VALUE ...")
    starts.append(rows)
    names = _checked_docids(path, docnos, starts, np.concatenate(lines)) or _bare_docids(path, words, starts)
    stacked = _stacked(features)
    _fill_missing(path, starts, stacked)
    return Letor(stacked, np.concatenate(labels), np.array(starts, np.int64), tuple(queries), names)


def _stacked(blocks: list[Singles]) -> Singles:
    """Stack blocks, padding narrower ones with 0; each block is removed from the list once it is copied."""
    out = np.zeros((sum(map(len, blocks)), max(block.shape[1] for block in blocks)), np.float32)
    end = len(out)
    while blocks:
        block = blocks.pop()
        out[end - len(block) : end, : block.shape[1]] = block
        end -= len(block)
    return out


def _fill_missing(path: PathLike, starts: Sequence[int], features: Singles) -> None:
    """Replace NaN by the lowest value of the feature in the query, or by 0 if there is none; print a note."""
    missing = 0
    for begin, end in itertools.pairwise(starts):
        rows = features[begin:end]
        if (unknown := np.isnan(rows)).any():
            missing += int(np.count_nonzero(unknown))
            lowest = np.nan_to_num(np.fmin.reduce(rows, axis=0))
            np.copyto(rows, lowest, where=unknown)
    if missing:
        how = "replaced by the lowest value of the feature in the query, as in LETOR's MIN files"
        note(f"{os.fspath(path)}: {missing:,} values are missing; {how}")


def _bare_docids(
    path: PathLike, words: Sequence[str | None], starts: Sequence[int]
) -> tuple[str, ...] | None:
    """Return the first words of comments if they can be docids: in all rows, and distinct in each query."""
    named = tuple(word for word in words if word is not None)
    parts = [named[begin:end] for begin, end in itertools.pairwise(starts)]
    if not named or len(named) < len(words) or any(len(set(part)) < len(part) for part in parts):
        return None
    note(f"{os.fspath(path)}: the first word of each comment is the docid, such as {named[0]!r}")
    return named


def _checked_docids(
    path: PathLike, docids: Sequence[str | None], starts: Sequence[int], lines: Integers
) -> tuple[str, ...] | None:
    """Check that all rows or none have a docid, and that docids of a query are distinct; return them."""
    named = tuple(docid for docid in docids if docid is not None)
    if not named:
        return None
    if len(named) < len(docids):
        missing = docids[0] is None
        row = next(row for row, docid in enumerate(docids) if (docid is None) != missing)
        raise InputError(
            "a docid, but the first row has none" if missing else "no docid, but the first row has one",
            file=path,
            line=int(lines[row]),
            value=docids[row],
            accepted=f"docids in all rows or none (the first row is line {int(lines[0])}), or docids=False",
        )
    for begin, end in itertools.pairwise(starts):
        if len(set(named[begin:end])) == end - begin:
            continue
        seen: dict[str, int] = {}
        row = next(row for row in range(begin, end) if seen.setdefault(named[row], row) != row)
        raise InputError(
            "a docid is repeated in its query",
            file=path,
            line=int(lines[row]),
            value=named[row],
            accepted=f"each once (first in line {int(lines[seen[named[row]]])}), or docids=False",
        )
    return named
