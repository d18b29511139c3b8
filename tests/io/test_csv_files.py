"""CSV written and read back, and each defect with its line."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.errors import InputError
from lmtune.io.csv_files import columns_text, csv_rows, csv_text, parse_columns

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"))


def test_text_is_that_of_the_standard_library() -> None:
    rows: list[list[object]] = [["a", 1, 0.1], ['b,"c"', None, True], ["d\ne", -2, 1e-300]]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["x", "y,z", "w"], *rows])
    assert csv_text(["x", "y,z", "w"], rows) == out.getvalue()
    assert csv_text(iter(["x"]), []) == "x\n"


@pytest.mark.slow
@given(st.lists(st.tuples(TEXT, st.integers(0, 2**60), st.floats(allow_nan=False) | st.none())))
def test_what_was_written_is_read_back(rows: list[tuple[object, ...]]) -> None:
    columns = parse_columns(csv_text(["name", "count", "value"], rows).encode(), ["name", "other"])
    assert list(columns) == ["name", "count", "value"]
    lines = zip(*(column.tolist() for column in columns.values()), strict=True)
    for row, (name, count, read) in zip(rows, lines, strict=True):
        value = math.nan if row[2] is None else row[2]
        assert [name, count, repr(float(read))] == [*row[:2], repr(value)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\na,b\nx,1\n", "a.csv:1: blank line instead of the header"),
        ("a,a\nx,1\n", "a.csv:1: repeated column name"),
        ("name,count,value\na,1,2\nb,1\n", "a.csv:3: 2 columns: 'b,1'; accepted: 3"),
        ('name,count,value\n"a,1,2\n', "a.csv:2: not CSV"),
    ],
)
def test_each_defect_has_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        list(csv_rows(path))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "'=x", "''@", "'quoted", "a=b", "-5", "=a,b", "NA", ""])
def test_no_cell_is_a_formula_and_texts_come_back(text: str) -> None:
    written = csv_text(["topic", "value"], [[text, 0.5]])
    assert not any(cell.startswith(("=", "@")) for row in csv.reader(io.StringIO(written)) for cell in row)
    columns = parse_columns(written.encode(), ["topic"])
    assert {name: column.tolist() for name, column in columns.items()} == {"topic": [text], "value": [0.5]}


def test_columns_are_written_as_pandas_writes_them() -> None:
    columns = {
        "start": np.array([0, 1, 10**15]),
        "line": np.array(["best mu", 'a,"b"', ""], object),
        "mu": np.array([1e-5, math.nan, 100000.0]),
        "cost": np.array([1 / 3, -math.inf, 1e16]),
    }
    assert columns_text(columns) == pd.DataFrame(columns).to_csv(index=False, lineterminator="\n")
