"""CSV: one writer, and one reader that names the file and the line of what is wrong."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lmtune.errors import InputError, PathLike
from lmtune.storage.files import read_lines

_FORMULA = re.compile(r"'*[=@]")
_NAMES: dict[type | None, str] = {int: "a count", float: "a number", None: "a number"}


def csv_text(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a header line and rows; None is an empty cell, and numbers have all their digits.

    Text that a spreadsheet would take for a formula gets an apostrophe before it, which `read_csv` drops.
    """
    return "".join(f"{','.join(map(_cell, row))}\n" for row in (tuple(columns), *rows))


def read_csv(
    path: PathLike, columns: Mapping[str, type], *, texts: Collection[str] = (), accepted: str = ""
) -> tuple[list[int], dict[str, list[Any]]]:
    """Read a CSV file with a header line.

    Parameters
    ----------
    path : path-like
        The file, plain or compressed.
    columns : mapping of str to type
        Columns that have to be there, and what their cells hold: str, int (a count) or float (a
        finite number). All further columns hold numbers: whole ones stay whole, and empty cells
        read as NaN.
    texts : collection of str
        Further columns that hold text where they are there.
    accepted : str
        What a message says the file should be.

    Returns
    -------
    lines : list of int
        Each row's line in the file.
    table : dict of str to list
        The columns, in the file's order.

    Raises
    ------
    InputError
        For a missing column, a row of another length, or a cell of another kind.
    """
    rows = csv_rows(path)
    header = [_plain(name) for name in next(rows, (1, []))[1]]
    for name in columns:
        if name not in header:
            wanted = f"columns {', '.join(columns)}" + (f", of {accepted}" if accepted else "")
            raise InputError("a column is missing", file=path, line=1, value=name, accepted=wanted)
    lines: list[int] = []
    table: dict[str, list[Any]] = {name: [] for name in header}
    for line, cells in rows:
        lines.append(line)
        for (name, column), text in zip(table.items(), cells, strict=True):
            kind = str if name in texts else columns.get(name)
            try:
                column.append(_value(text, kind))
            except ValueError:
                message = f"not {_NAMES[kind]} in column {name}"
                raise InputError(message, file=path, line=line, value=text, accepted=accepted) from None
    return lines, table


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    if _FORMULA.match(text):
        text = f"'{text}"
    if not re.search(r'[",\r\n]', text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _plain(text: str) -> str:
    """Take back what `_cell` put before text that looks like a formula."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _value(text: str, kind: type | None) -> Any:
    if kind is str:
        return _plain(text)
    if kind is None and not text:
        return math.nan
    if kind is int and not text.isdecimal():
        raise ValueError
    if kind is not float and text.removeprefix("-").isdecimal():
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def csv_rows(path: PathLike) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with its line, the header first, all with as many columns."""
    reader = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
    columns = 0
    try:
        for cells in reader:
            if not (columns or cells):
                accepted = "the columns' names in the first line"
                raise InputError("a blank line", file=path, line=reader.line_num, accepted=accepted)
            if not columns and len(set(cells)) < len(cells):
                twice = next(name for name in cells if cells.count(name) > 1)
                raise InputError("a column twice", file=path, line=1, value=twice, accepted="each once")
            columns = columns or len(cells)
            if len(cells) != columns:
                raise InputError(
                    f"{len(cells)} columns",
                    file=path,
                    line=reader.line_num,
                    value=",".join(cells),
                    accepted=f"{columns}",
                )
            yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", file=path, line=reader.line_num) from None
