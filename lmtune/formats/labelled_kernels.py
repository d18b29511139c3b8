"""Compiled parsing of the extreme-classification repository's rows: labels, then features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.formats.letor_kernels import (
    _BAD,
    _COLON,
    _NINE,
    _UNDECIDED,
    _ZERO,
    Text,
    _ends,
    _line_ends,
    _number,
    _skip_blanks,
    _token_end,
)

DONE, BAD_LABEL, BAD_ID, BAD_VALUE = range(4)
"""The outcomes of `parse`: every row read, or why not."""

_COMMA = 44


class Rows(NamedTuple):
    """Arrays that `parse` fills.

    Attributes
    ----------
    label_starts, label_ids : shape (rows + 1,), (labels,)
        Row r's labels are ``label_starts[r]`` to ``label_starts[r + 1]`` of `label_ids`.
    starts, ids, values : shape (rows + 1,), (features,), (features,)
        Its features, likewise.
    undecided : shape (features, 3)
        Decimals that the caller must round: index in `values`, and bytes.
    """

    label_starts: NDArray[np.int64]
    label_ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.float32]
    undecided: NDArray[np.int64]


@compiled()
def _whole(text: Text, at: int, below: int) -> tuple[int, int]:
    """Read an id: the number, -1 where there is none below the bound, and its end."""
    begin, number = at, 0
    while _ZERO <= text[at] <= _NINE:
        if number < below:
            number = number * 10 + (text[at] - _ZERO)
        at += 1
    return number if begin < at and number < below else -1, at


@compiled()
def parse(text: Text, features: int, labels: int, rows: Rows) -> tuple[int, int, int, int]:
    """Parse whole lines, each ending in a line feed: a row each, blank ones too.

    Ids are below the numbers of `features` and `labels`. Returns DONE, 0, 0, or the first error and
    the bytes of its token; and how many decimals are undecided.
    """
    line = row = filled = named = open_ = 0
    rows.starts[0] = rows.label_starts[0] = 0
    while line < text.size:
        at = _skip_blanks(text, line)
        number, end = _whole(text, at, labels)
        more = text[end] != _COLON and not _line_ends(text, at)
        while more:
            if number < 0 or not (text[end] == _COMMA or _ends(text, end)):
                return BAD_LABEL, at, _token_end(text, at), 0
            rows.label_ids[named] = number
            named += 1
            more = text[end] == _COMMA
            at = _skip_blanks(text, end + more)
            number, end = _whole(text, at, labels)
        while not _line_ends(text, at):
            number, end = _whole(text, at, features)
            if number < 0 or text[end] != _COLON:
                return BAD_ID, at, _token_end(text, at), 0
            status, value, stop = _number(text, end + 1)
            if status == _BAD or not _ends(text, stop):
                return BAD_VALUE, end + 1, _token_end(text, end + 1), 0
            rows.ids[filled], rows.values[filled] = number, value
            if status == _UNDECIDED:
                rows.undecided[open_, 0], rows.undecided[open_, 1] = filled, end + 1
                rows.undecided[open_, 2] = stop
                open_ += 1
            filled += 1
            at = _skip_blanks(text, stop)
        row += 1
        rows.starts[row], rows.label_starts[row] = filled, named
        while text[at] != 10:
            at += 1
        line = at + 1
    return DONE, 0, 0, open_
