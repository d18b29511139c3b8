"""Columns of text files whose lines are alike, many lines at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

_BLOCK_BYTES = 1 << 17  # small enough for fields to stay in the processor's cache


def blocks(data: bytes) -> Iterator[bytes]:
    """Yield `data` in pieces of whole lines, so that few lines at a time are held as fields."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + _BLOCK_BYTES)
        end = len(data) if end < 0 else end + 1
        yield data if end - begin == len(data) else data[begin:end]
        begin = end


def equal_neighbours(column: list[bytes]) -> Iterator[tuple[bytes, slice]]:
    """Yield each name that a column has, and the lines where it stands, as often as it begins anew."""
    begin = 0
    for name, group in groupby(column):
        end = begin + len(list(group))
        yield name, slice(begin, end)
        begin = end


def split_columns(data: bytes, width: int) -> list[list[bytes]] | None:
    r"""Split lines that are all alike into columns, without a step for each line.

    Parameters
    ----------
    data : bytes
        Whole lines; the last may lack its line end.
    width : int
        The number of fields, separated by ASCII white space, that each line shall have.

    Returns
    -------
    list of list of bytes, or None
        The columns; None where any line has another number of fields (a blank one has none), or
        the text is not valid UTF-8, or it holds a NUL byte.

    Examples
    --------
    >>> split_columns(b"1 0 a 1\n2 0 b 0\n", 4)
    [[b'1', b'2'], [b'0', b'0'], [b'a', b'b'], [b'1', b'0']]
    >>> split_columns(b"1 0 a\n2 0 b 0 1\n", 4) is None
    True
    """
    if b"\0" in data:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    # With line ends as fields of their own, every line has `width` fields exactly if there are
    # width + 1 fields a line and each last one of width + 1 is a line end.
    fields = data.replace(b"\n", b" \0 ").split()
    if not data.endswith(b"\n"):
        fields.append(b"\0")
    if len(fields) != lines * (width + 1) or fields[width :: width + 1].count(b"\0") != lines:
        return None
    return [fields[column :: width + 1] for column in range(width)]
