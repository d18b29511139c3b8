"""One table in every format, with every kind of cell."""

from __future__ import annotations

import csv
import io
import json

import pytest

from lmtune.errors import InputError
from lmtune.report.table import STYLES, Cell, Column, Table, render, short

MADE = Table(
    [
        *(Column(name, "left") for name in ("Name", "of\n_what_")),
        Column("x|y"),
        Column("marked", marked=True),
        Column("z"),
    ],
    [
        [
            (Cell("漢字"), Cell("a|b_c"), Cell("1.5"), Cell("0.5"), Cell("0.25", "ab")),
            (Cell("漢字", repeated=True), Cell("d"), Cell("10.25"), Cell("0.75", "†‡"), Cell("0.125")),
        ],
        [(Cell("end"), Cell(""), Cell("–"), Cell("1", "‡"), Cell("2", "q"))],
    ],
    caption="100 % made up",
    legend="Raised: better than base_line",
)
RECORDS: list[dict[str, object]] = [{"name": 'a,"b"', "value": 0.1}, {"name": "c", "value": None}]


def test_plain_text_lines_columns_up_as_wide_as_they_are_shown() -> None:
    assert MADE.text().splitlines() == [
        "Name  of _what_    x|y  marked  z",
        "漢字  a|b_c        1.5  0.5     0.25ᵃᵇ",
        "      d          10.25  0.75†‡  0.125",
        "end                  –  1‡      2^q",
        "Raised: better than base_line",
    ]


def test_markdown_names_every_row() -> None:
    assert MADE.markdown().splitlines() == [
        r"| Name | of \_what\_ | x\|y | marked | z |",
        "| --- | --- | ---: | ---: | ---: |",
        r"| 漢字 | a\|b_c | 1.5 | 0.5 | 0.25<sup>ab</sup> |",
        "| 漢字 | d | 10.25 | 0.75†‡ | 0.125 |",
        "| end |  | – | 1‡ | 2<sup>q</sup> |",
        "",
        "Raised: better than base_line.",
    ]


def test_latex_is_a_table_with_caption_and_legend() -> None:
    assert MADE.latex().splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{100 \% made up}",
        r"\begin{tabular}{llrrr}",
        r"\toprule",
        r"Name & of \_what\_ & x$|$y & marked & z \\",
        r"\midrule",
        r"漢字 & a$|$b\_c & 1.5 & 0.5 & 0.25$^{ab}$ \\",
        r" & d & 10.25 & 0.75$^{\dagger\ddagger}$ & 0.125 \\",
        r"\midrule",
        r"end &  & -- & 1$^{\ddagger}$ & 2$^{q}$ \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip{\footnotesize Raised: better than base\_line.\par}",
        r"\end{table}",
    ]


def test_records_are_csv_and_json() -> None:
    text = render("csv", lambda: [], lambda: RECORDS)
    assert text == 'name,value\n"a,""b""",0.1\nc,\n'
    assert [row["value"] for row in csv.DictReader(io.StringIO(text))] == ["0.1", ""]
    assert json.loads(render("json", lambda: [], lambda: RECORDS)) == RECORDS
    assert json.loads(render("json", lambda: [], lambda: [], content=lambda: {"a": 1})) == {"a": 1}
    assert render("csv", lambda: [], lambda: [], columns=["a", "b"]) == "a,b\n"


def test_tables_follow_each_other() -> None:
    text = render("table", lambda: [MADE, MADE], lambda: [])
    assert text == f"{MADE.text()}\n{MADE.text()}"
    with pytest.raises(InputError, match=f"'html'; accepted: {', '.join(STYLES)}"):
        render("html", lambda: [], lambda: [])


def test_short_figures() -> None:
    figures = [0.25, -0.25, 1.0, 0.99999, -3.5, 0.0]
    assert [short(x) for x in figures] == ["0.2500", "-0.2500", "1.0000", "1.0000", "-3.5000", "0.0000"]
