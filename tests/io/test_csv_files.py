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
from lmtune.io.csv_files import csv_rows, csv_text, parse_frame

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
    frame = parse_frame(csv_text(["name", "count", "value"], rows).encode(), ["name", "other"])
    assert list(frame) == ["name", "count", "value"]
    for row, line in zip(rows, frame.to_dict("records"), strict=True):
        value = math.nan if row[2] is None else row[2]
        assert [line["name"], line["count"], repr(float(line["value"]))] == [*row[:2], repr(value)]


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
    assert parse_frame(written.encode(), ["topic"]).to_dict("records") == [{"topic": text, "value": 0.5}]
