"""Compiled parsing of LETOR features: ``ID:VALUE`` pairs to numbers."""

from __future__ import annotations

import numpy as np

from lmtune.arrays import Bytes, Integers, Singles
from lmtune.compiled import compiled

_POWERS = np.array([float(f"1e{power}") for power in range(19)])
# A float32 has 29 bits of a double's fraction less.
_REST = np.int64((1 << 29) - 1)
_MIDDLE = np.int64(1 << 28)
_NEAR = 4
_TAB, _NEWLINE, _SPACE, _PLUS, _MINUS, _POINT, _ZERO, _NINE, _COLON = 9, 10, 32, 43, 45, 46, 48, 57, 58


@compiled()
def parse_pairs(
    text: Bytes, lowest: int, highest: int, rows: Integers, ids: Integers, values: Singles, left: Integers
) -> tuple[int, int]:
    """Parse rows of pairs, each row ending in a line feed, whose ids are `lowest` to `highest`.

    Fills `rows`, `ids`, from 1, and `values`, and `left`, (n, 3): the indices of values that are no
    plain decimals, or too near to the middle between two float32 values, and their bytes.

    Returns how many pairs and values left there are; -1, 0 where the text is something else.
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
            left[open_, 0], left[open_, 1], left[open_, 2] = count, begin, at
            open_ += 1
        rows[count], ids[count], values[count] = row, number + 1 - lowest, value
        count += 1
    return count, open_


@compiled()
def _parse_plain(text: Bytes, at: int) -> tuple[float, int]:
    """Parse a decimal of at most 18 digits to a double within 2 units in the last place, and its end.

    Without a digit, or with more of them, the end is -1.
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
