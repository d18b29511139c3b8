"""CSV: one writer, one reader of what it wrote, and one that names the line of what is wrong."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lmtune.errors import InputError, PathLike
from lmtune.io.files import read_lines

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile(r"'*[=@]")


def csv_text(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a header line and rows; None is an empty cell, and numbers have all their digits.

    Text that a spreadsheet would take for a formula gets an apostrophe before it, which `parse_frame` drops.
    """
    return "".join(f"{','.join(map(_cell, row))}\n" for row in (tuple(columns), *rows))


def parse_frame(content: bytes, texts: Collection[str] = ()) -> pd.DataFrame:
    """Parse what `csv_text` wrote: some columns as text, all others as numbers, NaN where they are empty."""
    import pandas as pd

    header, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    columns = {_plain(name): [row[place] for row in rows] for place, name in enumerate(header)}
    return pd.DataFrame(
        {name: [*map(_plain if name in texts else _number, cells)] for name, cells in columns.items()}
    )


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
    """Take back what `_cell` put before text that looks like a formula."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


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
