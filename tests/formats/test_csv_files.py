"""CSV written and read back, and each defect with its line."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.errors import InputError
from lmtune.formats.csv_files import csv_text, read_csv

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"))
COLUMNS = {"name": str, "count": int, "value": float}


def test_text_is_that_of_the_standard_library() -> None:
    rows: list[list[object]] = [["a", 1, 0.1], ['b,"c"', None, True], ["d\ne", -2, 1e-300]]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["x", "y,z", "w"], *rows])
    assert csv_text(["x", "y,z", "w"], rows) == out.getvalue()
    assert csv_text(iter(["x"]), []) == "x\n"


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            TEXT,
            st.integers(0, 2**60),
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none(),
        )
    )
)
def test_what_was_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(csv_text([*COLUMNS, "more"], rows), encoding="utf-8", newline="\n")
    _, table = read_csv(path, COLUMNS)
    assert list(table) == [*COLUMNS, "more"]
    for row, *cells in zip(rows, *table.values(), strict=True):
        last = math.nan if row[3] is None else row[3]
        assert [*map(repr, cells)] == [*map(repr, (*row[:3], last))]


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('name,count,value\n"a\nb",1,2\nc,3,4\n')
    assert read_csv(path, COLUMNS)[0] == [3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv:1: a column is missing: 'name'; accepted: columns name, count, value"),
        ("name,value\n", "a.csv:1: a column is missing: 'count'"),
        ("name,count,value\na,1,2\nb,1\n", "a.csv:3: 2 columns: 'b,1'; accepted: 3"),
        ("name,count,value\na,-1,2\n", "a.csv:2: not a count in column count: '-1'"),
        ("name,count,value\na,1.0,2\n", "a.csv:2: not a count in column count: '1.0'"),
        ("name,count,value\na,1,\n", "a.csv:2: not a number in column value: ''"),
        ("name,count,value\na,1,nan\n", "a.csv:2: not a number in column value: 'nan'"),
        ("name,count,value,more\na,1,2,inf\n", "a.csv:2: not a number in column more: 'inf'"),
        ('name,count,value\n"a,1,2\n', "a.csv:2: not CSV"),
    ],
)
def test_each_defect_has_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_csv(path, COLUMNS)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "'=x", "''@", "'quoted", "a=b", "-5", "=a,b"])
def test_no_cell_is_a_formula_and_texts_come_back(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(csv_text(["topic", text], [[text, 0.5]]))
    with path.open(newline="") as file:
        assert not any(cell.startswith(("=", "@")) for row in csv.reader(file) for cell in row)
    assert read_csv(path, {"topic": str})[1] == {"topic": [text], text: [0.5]}
