"""Compiled parsing of LETOR rows: bytes to numbers, one pass, exact.

A decimal is read as the nearest float32, ties to even. Its first 19 digits and a power of ten give
a double within a few units in the last place; only where that lies as near as that to the middle
between two float32 values, or outside their normal range, the caller is asked to decide exactly
(after Clinger, "How to read floating point numbers accurately", 1990).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

DONE, BAD_LABEL, NO_QUERY, BAD_ID, BAD_VALUE, REPEATED = range(6)
"""The outcomes of `parse`: every row read, or why not."""

_OK, _BAD, _UNDECIDED, _MISSING = range(4)
# Of 1.797693134862316e308, which Istella's sets have for a value that is missing.
_LARGEST_DOUBLE = np.uint64(1797693134862)
_NEWLINE, _RETURN, _SPACE, _TAB, _HASH, _COLON, _EQUALS = 10, 13, 32, 9, 35, 58, 61
_ZERO, _NINE, _PLUS, _MINUS, _POINT = 48, 57, 43, 45, 46
_UPPER_E, _LOWER_E, _UNDERSCORE = 69, 101, 95
_SMALLEST_POWER, _LARGEST_POWER = -80, 60
_POWERS = np.array([float(f"1e{power}") for power in range(-_SMALLEST_POWER + 1)])
# A float32 has 29 bits of a double's fraction less.
_REST = np.int64((1 << 29) - 1)
_MIDDLE = np.int64(1 << 28)
_NEAR = 16
_SMALLEST_NORMAL = 1.1754943508222876e-38
_LARGEST = 3.4028234663852886e38

ROWS, FEATURES, QUERIES, UNDECIDED, MISSING = range(5)
"""The entries of `Rows.counts`."""

Text = NDArray[np.uint8]


class Rows(NamedTuple):
    """Arrays that `parse` fills.

    Attributes
    ----------
    labels, lines : shape (rows,)
        Each row's label, and where its line begins.
    query_rows, query_spans : shape (rows,), (rows, 2)
        The rows whose query is not that of the row before, and its bytes.
    docids : shape (rows, 2)
        The bytes of each row's docid, -1 where there is none.
    start, ids, values : shape (rows + 1,), (features,), (features,)
        Row r's features are ``start[r]`` to ``start[r + 1]`` of `ids`, from 1, and `values`.
    undecided : shape (rows + features, 3)
        Decimals that the caller must round: index in `values`, or -1 - row for a label, and bytes.
    counts : shape (4,)
        How much of these is filled.
    """

    labels: NDArray[np.float32]
    lines: NDArray[np.int64]
    query_rows: NDArray[np.int64]
    query_spans: NDArray[np.int64]
    docids: NDArray[np.int64]
    start: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.float32]
    undecided: NDArray[np.int64]
    counts: NDArray[np.int64]


@compiled()
def _number(text: Text, at: int) -> tuple[int, np.float32, int]:
    """Read a decimal that begins at `at`: (status, float32 value, position after it)."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    mantissa, kept, power, at = _digits(text, at)
    if kept < 0:
        return _BAD, np.float32(0), at
    if text[at] == _LOWER_E or text[at] == _UPPER_E:
        exponent, at = _exponent(text, at + 1)
        if at < 0:
            return _BAD, np.float32(0), at
        power += exponent
    sign = -1.0 if negative else 1.0
    if mantissa == np.uint64(0):
        return _OK, np.float32(sign * 0.0), at
    if kept >= 13 and kept - 1 + power == 308 and _first(mantissa, kept) == _LARGEST_DOUBLE:
        return _MISSING, np.float32(np.nan), at
    status, value = _nearest(mantissa, kept, power)
    return status, np.float32(sign * value), at


@compiled()
def _first(mantissa: np.uint64, kept: int) -> np.uint64:
    """Return the first 13 of a number's digits."""
    for _ in range(kept - 13):
        mantissa = mantissa // np.uint64(10)
    return mantissa


@compiled()
def _feature(text: Text, at: int) -> tuple[int, np.float32, int]:
    """Read a feature's value as `_number` does, or NULL: NaN stands for one that is missing."""
    if text[at] == 78 and text[at + 1] == 85 and text[at + 2] == 76 and text[at + 3] == 76:
        return _MISSING, np.float32(np.nan), at + 4
    status, value, end = _number(text, at)
    return status, value, end


@compiled()
def _digits(text: Text, at: int) -> tuple[np.uint64, int, int, int]:
    """Read digits with a point or without: the first 19, how many these are, a power of ten, the end.

    Without a digit -1 instead of how many.
    """
    mantissa = np.uint64(0)
    kept = 0
    power = 0
    first = at
    point = -1
    while True:
        c = text[at]
        if _ZERO <= c <= _NINE:
            if kept < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(c - _ZERO)
                if mantissa != np.uint64(0):
                    kept += 1
                if point >= 0:
                    power -= 1
            elif point < 0:
                power += 1
        elif c == _POINT and point < 0:
            point = at
        else:
            break
        at += 1
    if at - first == (point >= 0):
        kept = -1
    return mantissa, kept, power, at


@compiled()
def _exponent(text: Text, at: int) -> tuple[int, int]:
    """Read what follows an e: the exponent, at most a billion, and its end, -1 where there is none."""
    down = text[at] == _MINUS
    if down or text[at] == _PLUS:
        at += 1
    if not _ZERO <= text[at] <= _NINE:
        return 0, -1
    exponent = 0
    while _ZERO <= text[at] <= _NINE:
        if exponent < 100_000_000:
            exponent = exponent * 10 + (text[at] - _ZERO)
        at += 1
    return -exponent if down else exponent, at


@compiled()
def _nearest(mantissa: np.uint64, kept: int, power: int) -> tuple[int, float]:
    """Return a double that rounds to the float32 nearest to mantissa times ten to a power, if sure."""
    if not _SMALLEST_POWER <= power <= _LARGEST_POWER:
        return _UNDECIDED, 1.0
    value = np.float64(mantissa)
    value = value / _POWERS[-power] if power < 0 else value * _POWERS[power]
    if not _SMALLEST_NORMAL <= value <= _LARGEST:
        return _UNDECIDED, 1.0
    # Both factors are exact doubles: the quotient or product is rounded once, or not at all.
    short = kept <= 15 and -22 <= power <= 22
    if not (short and power == 0):
        off = abs((np.float64(value).view(np.int64) & _REST) - _MIDDLE)
        if off == 0 or (not short and off <= _NEAR):
            return _UNDECIDED, 1.0
    return _OK, value


@compiled()
def _line_ends(text: Text, at: int) -> bool:
    if text[at] == _RETURN:
        at += 1
    return int(text[at]) == _NEWLINE


@compiled()
def _ends(text: Text, at: int) -> bool:
    """Tell whether a token may end before position `at`."""
    c = text[at]
    if c == _RETURN:
        c = text[at + 1]
        return int(c) == _NEWLINE
    return c in (_SPACE, _TAB, _NEWLINE, _HASH)


@compiled()
def _token_end(text: Text, at: int) -> int:
    while not _ends(text, at):
        at += 1
    return at


@compiled()
def _skip_blanks(text: Text, at: int) -> int:
    while text[at] == _SPACE or text[at] == _TAB:
        at += 1
    return at


@compiled()
def _docid(text: Text, at: int) -> tuple[int, int]:
    """Find the docid in a comment whose text begins at `at`: its begin and end, or -1, -1."""
    while text[at] == _SPACE or text[at] == _TAB or text[at] == _HASH:
        at += 1
    # The key's letters as one number in base 256, in lower case: docid or docno.
    key = 0
    while 65 <= (text[at] & 0xDF) <= 90 or text[at] == _UNDERSCORE:
        if text[at] != _UNDERSCORE:
            if key >> 40:
                return -1, -1
            key = (key << 8) | (text[at] | 0x20)
        at += 1
    if key != 0x646F636964 and key != 0x646F636E6F:
        return -1, -1
    at = _skip_blanks(text, at)
    if text[at] != _EQUALS and text[at] != _COLON:
        return -1, -1
    begin = _skip_blanks(text, at + 1)
    at = begin
    while not _ends(text, at) or text[at] == _HASH:
        at += 1
    if at == begin:
        return -1, -1
    return begin, at


@compiled()
def parse(text: Text, stamp: int, lowest: int, seen: NDArray[np.int64], rows: Rows) -> tuple[int, int, int]:
    """Parse whole lines, each ending in a line feed, whose features' ids count from `lowest`.

    With `stamp`, the number of rows parsed before, a feature that comes twice in a row is an error;
    with -1 it is not. `seen`, -1 at first, one longer than the highest id, is scratch that calls
    share.

    Returns DONE, 0, 0, or the first error and the bytes of its token.
    """
    rows.counts[:] = 0
    rows.start[0] = 0
    line = row = filled = 0
    while line < text.size:
        at = _skip_blanks(text, line)
        if text[at] != _HASH and not _line_ends(text, at):
            rows.lines[row] = line
            code, at, end = _parse_head(text, at, row, rows)
            if code != DONE:
                return code, at, end
            mark = row + stamp if stamp >= 0 else -1
            code, at, end, filled = _parse_features(text, at, row, filled, mark, lowest, seen, rows)
            if code != DONE:
                return code, at, end
            row += 1
            rows.start[row] = filled
        while text[at] != _NEWLINE:
            at += 1
        line = at + 1
    rows.counts[ROWS] = row
    rows.counts[FEATURES] = filled
    return DONE, 0, 0


@compiled(inline=True)
def _parse_head(text: Text, at: int, row: int, rows: Rows) -> tuple[int, int, int]:
    """Parse a row's label and query: DONE and where they end, or an error and its token."""
    status, value, end = _number(text, at)
    if status in (_BAD, _MISSING) or value < 0 or not _ends(text, end):
        return BAD_LABEL, at, _token_end(text, at)
    rows.labels[row] = value
    if status == _UNDECIDED:
        _leave_undecided(rows, -1 - row, at, end)
    at = _skip_blanks(text, end)
    begin = at + 4
    named = text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100
    if not named or text[at + 3] != _COLON or _ends(text, begin):
        return NO_QUERY, at, _token_end(text, at)
    end = _token_end(text, begin)
    query = rows.counts[QUERIES]
    if query == 0 or not _same(text, begin, end, rows.query_spans[query - 1]):
        rows.query_rows[query] = row
        rows.query_spans[query, 0] = begin
        rows.query_spans[query, 1] = end
        rows.counts[QUERIES] = query + 1
    return DONE, end, end


@compiled(inline=True)
def _parse_features(
    text: Text, at: int, row: int, filled: int, mark: int, lowest: int, seen: NDArray[np.int64], rows: Rows
) -> tuple[int, int, int, int]:
    """Parse a row's features and docid: the same, and how many features there are by now.

    `mark`, the row's own, tells ids that come twice; with -1 they may.
    """
    rows.docids[row, 0] = -1
    rows.docids[row, 1] = -1
    highest = seen.size - 1
    top = 0
    while True:
        at = _skip_blanks(text, at)
        if _line_ends(text, at):
            break
        if text[at] == _HASH:
            rows.docids[row, 0], rows.docids[row, 1] = _docid(text, at + 1)
            break
        begin = at
        number = 0
        while _ZERO <= text[at] <= _NINE:
            if number <= highest:
                number = number * 10 + (text[at] - _ZERO)
            at += 1
        number += 1 - lowest
        if at == begin or text[at] != _COLON or number < 1 or number > highest:
            return BAD_ID, begin, _token_end(text, begin), filled
        at += 1
        status, value, end = _feature(text, at)
        if status == _BAD or not _ends(text, end):
            return BAD_VALUE, at, _token_end(text, at), filled
        if mark >= 0:
            if number <= top and seen[number] == mark:
                return REPEATED, begin, end, filled
            seen[number] = mark
        if number > top:
            top = number
        rows.ids[filled] = number
        rows.values[filled] = value
        if status == _UNDECIDED:
            _leave_undecided(rows, filled, at, end)
        elif status == _MISSING:
            rows.counts[MISSING] += 1
        filled += 1
        at = end
    return DONE, at, at, filled


@compiled()
def _leave_undecided(rows: Rows, at: int, begin: int, end: int) -> None:
    count = rows.counts[UNDECIDED]
    rows.undecided[count, 0] = at
    rows.undecided[count, 1] = begin
    rows.undecided[count, 2] = end
    rows.counts[UNDECIDED] = count + 1


@compiled()
def _same(text: Text, begin: int, end: int, other: NDArray[np.int64]) -> bool:
    """Tell whether a token and the one between the positions `other` hold the same bytes."""
    at = begin
    while at < end and text[at] == text[other[0] + at - begin]:
        at += 1
    return at == end and other[1] - other[0] == end - begin


@compiled()
def scatter(
    start: NDArray[np.int64], ids: NDArray[np.int32], values: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    """Set out[r, id - 1] to each value of row r, of shape (rows, features); the last one counts."""
    for r in range(out.shape[0]):
        for k in range(start[r], start[r + 1]):
            out[r, ids[k] - 1] = values[k]


@compiled()
def fill_missing(starts: NDArray[np.int64], features: NDArray[np.float32]) -> None:
    """Put, where a feature is NaN, its lowest value in the query; 0 where the query has none."""
    for q in range(starts.size - 1):
        rows = features[starts[q] : starts[q + 1]]
        for f in range(rows.shape[1]):
            lowest = np.float32(np.inf)
            missing = False
            for r in range(rows.shape[0]):
                missing |= np.isnan(rows[r, f])
                if rows[r, f] < lowest:
                    lowest = rows[r, f]
            if missing:
                for r in range(rows.shape[0]):
                    if np.isnan(rows[r, f]):
                        rows[r, f] = lowest if lowest < np.inf else np.float32(0)
