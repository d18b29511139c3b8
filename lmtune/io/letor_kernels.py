"""Compiled parsing of LETOR features, ``ID:VALUE``."""

from __future__ import annotations

import numpy as np

from lmtune.arrays import Bytes, Integers, Singles
from lmtune.compiled import compiled

_POWERS = np.array([float(f"1e{power}") for power in range(19)])
# The fraction of a float32 has 29 bits fewer than that of a double.
_REST = np.int64((1 << 29) - 1)
_MIDDLE = np.int64(1 << 28)
_NEAR = 4
_TAB, _NEWLINE, _SPACE, _PLUS, _MINUS, _POINT, _ZERO, _NINE, _COLON = 9, 10, 32, 43, 45, 46, 48, 57, 58


@compiled()
def parse_pairs(
    text: Bytes, lowest: int, highest: int, rows: Integers, ids: Integers, values: Singles, unparsed: Integers
) -> tuple[int, int]:
    """Parse rows of ``ID:VALUE`` pairs with ids from `lowest` to `highest`; each row ends with a line feed.

    The row, the id, counted from 1, and the value of each pair are written to `rows`, `ids` and `values`.
    Some values need exact parsing: those that are not plain decimals, and those too near to the middle
    between two float32 values. For these, `unparsed`, shape (n, 3), has the index of the pair and the
    begin and end of the value in the text.

    Returns
    -------
    tuple of int
        The numbers of pairs and of unparsed values; (-1, 0) if the text has other content.
    """
    at = row = count = open_ = 0
    while at < text.size:
        if text[at] == _NEWLINE or text[at] == _SPACE or text[at] == _TAB:
            row += text[at] == _NEWLINE
            at += 1
            continue
        begin = at
        number = 0
        while _ZERO <= text[at] <= _NINE:
            if number <= highest:
                number = number * 10 + (text[at] - _ZERO)
            at += 1
        if at == begin or text[at] != _COLON or not lowest <= number <= highest:
            return -1, 0
        begin = at + 1
        value, end = _parse_plain(text, begin)
        at = begin if end < 0 else end
        while text[at] != _SPACE and text[at] != _TAB and text[at] != _NEWLINE:
            at += 1
        off = abs((np.float64(value).view(np.int64) & _REST) - _MIDDLE)
        if at != end or off <= _NEAR:
            unparsed[open_, 0], unparsed[open_, 1], unparsed[open_, 2] = count, begin, at
            open_ += 1
        rows[count], ids[count], values[count] = row, number + 1 - lowest, value
        count += 1
    return count, open_


@compiled()
def _parse_plain(text: Bytes, at: int) -> tuple[float, int]:
    """Parse a decimal of at most 18 digits to a double with an error of at most 2 units in the last place.

    Returns
    -------
    tuple of float and int
        The number and the position of its end; the end is -1 if there are no digits or more than 18.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    mantissa = np.int64(0)
    digits = decimals = 0
    point = False
    while _ZERO <= text[at] <= _NINE or (text[at] == _POINT and not point):
        if text[at] == _POINT:
            point = True
        else:
            digits += 1
            decimals += point
            if digits <= 18:
                mantissa = mantissa * 10 + (text[at] - _ZERO)
        at += 1
    if not 1 <= digits <= 18:
        return 0.0, -1
    value = mantissa / _POWERS[decimals]
    return -value if negative else value, at
