"""CSV files: a writer with its reader, and a strict reader for input files that reports line numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lmtune.errors import InputError, PathLike
from lmtune.io.files import read_lines

if TYPE_CHECKING:
    from lmtune.arrays import Columns

_FORMULA = re.compile(r"'*[=@]")


def csv_text(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    """Format a header line and rows as CSV; None is an empty cell, and numbers have full precision.

    An apostrophe is put before text that a spreadsheet would evaluate as a formula; `parse_columns` removes
    it.
    """
    return "".join(f"{','.join(map(_cell, row))}\n" for row in (tuple(columns), *rows))


def columns_text(columns: Columns) -> str:
    """Format columns as CSV, as `csv_text` does; NaN is an empty cell."""
    cells = ([None if value != value else value for value in column.tolist()] for column in columns.values())
    return csv_text(columns, zip(*cells, strict=True))


def parse_columns(content: bytes, texts: Collection[str] = ()) -> Columns:
    """Parse the output of `csv_text`: columns in `texts` as text, others as numbers; empty cells are NaN."""
    import numpy as np

    header, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    columns = {_plain(name): [row[column] for row in rows] for column, name in enumerate(header)}
    return {
        name: np.array([*map(_plain, cells)], object) if name in texts else np.array([*map(_number, cells)])
        for name, cells in columns.items()
    }


def _number(text: str) -> float:
    return int(text) if text.removeprefix("-").isdecimal() else float(text or "nan")


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    if _FORMULA.match(text):
        text = f"'{text}"
    if not re.search(r'[",\r\n]', text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _plain(text: str) -> str:
    """Remove the apostrophe that `_cell` puts before formulas."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def csv_rows(path: PathLike) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of each row, the header first.

    Raises
    ------
    InputError
        For invalid CSV, a repeated column name, or rows with different numbers of columns.
    """
    reader = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
    columns = 0
    try:
        for cells in reader:
            if not (columns or cells):
                accepted = "column names in the first line"
                raise InputError(
                    "blank line instead of the header", file=path, line=reader.line_num, accepted=accepted
                )
            if not columns and len(set(cells)) < len(cells):
                twice = next(name for name in cells if cells.count(name) > 1)
                raise InputError(
                    "repeated column name", file=path, line=1, value=twice, accepted="distinct names"
                )
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
