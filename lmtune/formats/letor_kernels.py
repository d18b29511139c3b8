"""Compiled parsing of LETOR rows: bytes to numbers, one pass, exact.

A decimal is read as the nearest float32, ties to even. Its first 19 digits and a power of ten give
a double within a few units in the last place; only where that lies as near as that to the middle
between two float32 values, or outside their normal range, the caller is asked to decide exactly
(after Clinger, "How to read floating point numbers accurately", 1990).
"""

from __future__ import annotations

import numpy as np

from lmtune.compiled import compiled

DONE, BAD_LABEL, NO_QUERY, BAD_ID, BAD_VALUE, REPEATED = range(6)
"""What `parse` ends with: every row read, or why not."""

_OK, _BAD, _UNDECIDED = range(3)
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


@compiled()
def _number(text, at):  # type: ignore[no-untyped-def]
    """Read a decimal that begins at `at`: (status, float32 value, position after it)."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    mantissa = np.uint64(0)
    kept = 0
    power = 0
    digits = 0
    fraction = False
    while True:
        c = text[at]
        if _ZERO <= c <= _NINE:
            digits += 1
            if kept < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(c - _ZERO)
                if mantissa != np.uint64(0):
                    kept += 1
                if fraction:
                    power -= 1
            elif not fraction:
                power += 1
        elif c == _POINT and not fraction:
            fraction = True
        else:
            break
        at += 1
    if digits == 0:
        return _BAD, np.float32(0), at
    if text[at] == _LOWER_E or text[at] == _UPPER_E:
        at += 1
        down = text[at] == _MINUS
        if down or text[at] == _PLUS:
            at += 1
        if not _ZERO <= text[at] <= _NINE:
            return _BAD, np.float32(0), at
        exponent = 0
        while _ZERO <= text[at] <= _NINE:
            if exponent < 100_000_000:
                exponent = exponent * 10 + (text[at] - _ZERO)
            at += 1
        power += -exponent if down else exponent
    sign = -1.0 if negative else 1.0
    if mantissa == np.uint64(0):
        return _OK, np.float32(sign * 0.0), at
    if not _SMALLEST_POWER <= power <= _LARGEST_POWER:
        return _UNDECIDED, np.float32(sign), at
    value = np.float64(mantissa)
    value = value / _POWERS[-power] if power < 0 else value * _POWERS[power]
    if not _SMALLEST_NORMAL <= value <= _LARGEST:
        return _UNDECIDED, np.float32(sign), at
    # Both factors are exact doubles: the quotient or product is rounded once, or not at all.
    short = kept <= 15 and -22 <= power <= 22
    if not (short and power == 0):
        off = abs((np.float64(value).view(np.int64) & _REST) - _MIDDLE)
        if off == 0 or (not short and off <= _NEAR):
            return _UNDECIDED, np.float32(sign), at
    return _OK, np.float32(sign * value), at


@compiled()
def _ends(text, at):  # type: ignore[no-untyped-def]
    """Tell whether a token may end before position `at`."""
    c = text[at]
    if c == _RETURN:
        return text[at + 1] == _NEWLINE
    return c in (_SPACE, _TAB, _NEWLINE, _HASH)


@compiled()
def _token_end(text, at):  # type: ignore[no-untyped-def]
    while not _ends(text, at):
        at += 1
    return at


@compiled()
def _skip_blanks(text, at):  # type: ignore[no-untyped-def]
    while text[at] == _SPACE or text[at] == _TAB:
        at += 1
    return at


@compiled()
def _docid(text, at):  # type: ignore[no-untyped-def]
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
def parse(  # type: ignore[no-untyped-def]
    text,
    stamp,
    highest,
    labels,
    lines,
    query_rows,
    query_spans,
    docids,
    row_start,
    ids,
    values,
    undecided,
    seen,
):
    """Parse whole lines, each ending in a line feed, into the arrays given.

    ``lines`` gets where each row's line begins; ``query_rows`` and ``query_spans`` the rows whose
    query is not that of the row before, and its bytes; ``docids`` the bytes of each row's docid,
    -1 where there is none; row r's features are ``row_start[r]`` to ``row_start[r + 1]`` of ``ids``
    (from 1) and ``values``; ``undecided`` gets (index in values, or -1 - row for a label, begin,
    end) of decimals that the caller must round. With ``stamp``, the number of rows parsed before,
    a feature that comes twice in a row is an error; with -1 it is not. ``seen``, of ``highest`` + 1
    numbers, -1 at first, is scratch that calls share.

    Returns DONE, 0, 0, or the first error and the bytes of its token; then the numbers of rows,
    features, queries and undecided decimals.
    """
    position = 0
    row = 0
    filled = 0
    queries = 0
    doubtful = 0
    last_begin = 0
    last_end = -1
    row_start[0] = 0
    strict = stamp >= 0
    while position < text.size:
        line = position
        at = _skip_blanks(text, position)
        if text[at] == _NEWLINE or text[at] == _RETURN or text[at] == _HASH:
            if text[at] == _RETURN and text[at + 1] != _NEWLINE:
                end = _token_end(text, at + 1)
                return BAD_LABEL, at, end, row, filled, queries, doubtful
            while text[at] != _NEWLINE:
                at += 1
            position = at + 1
            continue
        status, value, stop = _number(text, at)
        if status == _BAD or value < 0 or not _ends(text, stop):
            return BAD_LABEL, at, _token_end(text, at), row, filled, queries, doubtful
        labels[row] = value
        lines[row] = line
        if status == _UNDECIDED:
            undecided[doubtful, 0] = -1 - row
            undecided[doubtful, 1] = at
            undecided[doubtful, 2] = stop
            doubtful += 1
        at = _skip_blanks(text, stop)
        begin = at + 4
        named = text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100
        if not named or text[at + 3] != _COLON or _ends(text, begin):
            return NO_QUERY, at, _token_end(text, at), row, filled, queries, doubtful
        at = _token_end(text, begin)
        same = at - begin == last_end - last_begin
        if same:
            for k in range(at - begin):
                if text[begin + k] != text[last_begin + k]:
                    same = False
                    break
        last_begin, last_end = begin, at
        if not same:
            query_rows[queries] = row
            query_spans[queries, 0] = begin
            query_spans[queries, 1] = at
            queries += 1
        docids[row, 0] = -1
        docids[row, 1] = -1
        top = 0
        mark = row + (stamp if strict else 0)
        while True:
            at = _skip_blanks(text, at)
            c = text[at]
            if c == _NEWLINE or (c == _RETURN and text[at + 1] == _NEWLINE):
                break
            if c == _HASH:
                docids[row, 0], docids[row, 1] = _docid(text, at + 1)
                break
            begin = at
            number = 0
            while _ZERO <= text[at] <= _NINE:
                if number <= highest:
                    number = number * 10 + (text[at] - _ZERO)
                at += 1
            if at == begin or text[at] != _COLON or number < 1 or number > highest:
                return BAD_ID, begin, _token_end(text, begin), row, filled, queries, doubtful
            status, value, stop = _number(text, at + 1)
            if status == _BAD or not _ends(text, stop):
                end = _token_end(text, at + 1)
                return BAD_VALUE, at + 1, end, row, filled, queries, doubtful
            if strict:
                if number <= top and seen[number] == mark:
                    return REPEATED, begin, stop, row, filled, queries, doubtful
                seen[number] = mark
            if number > top:
                top = number
            ids[filled] = number
            values[filled] = value
            if status == _UNDECIDED:
                undecided[doubtful, 0] = filled
                undecided[doubtful, 1] = at + 1
                undecided[doubtful, 2] = stop
                doubtful += 1
            filled += 1
            at = stop
        while text[at] != _NEWLINE:
            at += 1
        position = at + 1
        row += 1
        row_start[row] = filled
    return DONE, 0, 0, row, filled, queries, doubtful


@compiled()
def scatter(row_start, ids, values, out):  # type: ignore[no-untyped-def]
    """Set out[r, id - 1] to each value of row r, of shape (rows, features); the last one counts."""
    for r in range(out.shape[0]):
        for k in range(row_start[r], row_start[r + 1]):
            out[r, ids[k] - 1] = values[k]
