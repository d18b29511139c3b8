"""Tables as plain text, Markdown, LaTeX and HTML; their records as CSV and JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from lmtune.errors import InputError, visible
from lmtune.io.csv_files import csv_text

if TYPE_CHECKING:
    pass

Record = Mapping[str, object]

_DAGGERS = {"†": r"\dagger", "‡": r"\ddagger"}
_RAISED_LATEX = _DAGGERS | {"§": r"\S", "¶": r"\P"}
# There is no superscript q that fonts support.
_RAISED = dict(zip("abcdefghijklmnoprstuvwxyz†‡", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ†‡", strict=True))
_LATEX = (
    {"\\": r"\textbackslash ", "^": r"\^{}", "~": r"\~{}", "–": "--"}
    | {character: rf"\{character}" for character in "&%$#_{}"}
    | {character: f"${character}$" for character in "<>|"}
    | {mark: f"${command}$" for mark, command in _RAISED_LATEX.items()}
)
# An underscore within a word is no markup.
_MARKDOWN = re.compile(r"[\\`*<&|\[$~]|(?<![^\W_])_|_(?![^\W_])")


class Cell(NamedTuple):
    """A number or a name in a table.

    Attributes
    ----------
    text : str
        The content.
    mark : str
        Superscript after the text: daggers or letters.
    repeated : bool
        Whether the row above has the same text; only Markdown prints it again.
    caution : str
        Reference to the legend: superscript at the end of the cell, in every format.
    """

    text: str
    mark: str = ""
    repeated: bool = False
    caution: str = ""


class Column(NamedTuple):
    """A column's header and alignment.

    Attributes
    ----------
    name : str
        The header.
    align : {"right", "left"}
        Right for numbers, left for names.
    marked : bool
        Whether marks may follow the numbers; plain text then aligns them left.
    """

    name: str
    align: str = "right"
    marked: bool = False


@dataclass(frozen=True)
class Table:
    """A table: columns, rows, caption and legend.

    Attributes
    ----------
    columns : sequence of Column
        From left to right.
    groups : sequence of sequence of rows
        Groups of rows of cells; formats with rules separate the groups.
    caption : str
        Printed in LaTeX and HTML only.
    legend : str
        Notes below the table, one a line: marks, columns, tests.
    """

    columns: Sequence[Column]
    groups: Sequence[Sequence[Sequence[Cell]]]
    caption: str
    legend: str = ""

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        figures: Sequence[str | Column],
        groups: Iterable[Iterable[Iterable[Any]]],
        caption: str = "",
        legend: str = "",
    ) -> Table:
        """Make a table of columns with names, then columns with numbers; a cell may be a string."""
        cells = [
            [[Cell(part) if isinstance(part, str) else part for part in row] for row in group]
            for group in groups
        ]
        numbers = [Column(header) if isinstance(header, str) else header for header in figures]
        return cls([*(Column(header, "left") for header in names), *numbers], cells, caption, legend)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Table:
        """Make a table from the result of `dataclasses.asdict`."""
        groups = [[[Cell(*cell) for cell in row] for row in group] for group in record["groups"]]
        columns = [Column(*column) for column in record["columns"]]
        return cls(columns, groups, record["caption"], record["legend"])

    @property
    def notes(self) -> list[str]:
        """The legend's lines."""
        return self.legend.split("\n") if self.legend else []

    def first(self, most: int) -> Table:
        """Return the table with its first rows, at most `most`."""
        rows = list(self._rows())
        if len(rows) <= most:
            return self
        caption = f"{self.caption} (the first {most} of {len(rows):,} rows)"
        return replace(self, groups=[rows[:most]], caption=caption)

    def text(self) -> str:
        """Render as plain text with aligned columns."""
        lines = [[one_line(column.name) for column in self.columns]]
        lines += [[_plain(cell) for cell in row] for row in self._rows()]
        widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
        left = [side == "left" for side in self._sides()]
        shown = []
        for line in lines:
            blanks = [" " * (width - _width(text)) for text, width in zip(line, widths, strict=True)]
            cells = [t + b if flush else b + t for t, b, flush in zip(line, blanks, left, strict=True)]
            shown.append("  ".join(cells).rstrip() + "\n")
        return "".join(shown) + (f"{self.legend}\n" if self.legend else "")

    def markdown(self) -> str:
        """Render as a Markdown table with its legend below."""
        rules = ["---" if column.align == "left" else "---:" for column in self.columns]
        lines = [[markdown_escape(column.name) for column in self.columns], rules]
        lines += [[_markdown(cell) for cell in row] for row in self._rows()]
        legend = markdown_escape(self._sentences())
        return "".join(f"| {' | '.join(line)} |\n" for line in lines) + (f"\n{legend}\n" if legend else "")

    def latex(self) -> str:
        """Render as a LaTeX table with booktabs rules."""
        sides = "".join(column.align[0] for column in self.columns)
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_escape(self.caption)}}}"]
        lines += [rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
        lines.append(" & ".join(latex_escape(column.name) for column in self.columns) + r" \\")
        for group in self.groups:
            lines.append(r"\midrule")
            lines += [" & ".join(map(_latex, row)) + r" \\" for row in group]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if legend := _latex(Cell(self._sentences())):
            lines.append(rf"\par\smallskip{{\footnotesize {legend}\par}}")
        return "\n".join([*lines, r"\end{table}", ""])

    def html(self) -> str:
        """Render as an HTML table for notebooks, with caption and legend."""
        sides = [f' style="text-align: {column.align}"' for column in self.columns]
        names = (escape(one_line(column.name)) for column in self.columns)
        header = "".join(f"<th{side}>{name}</th>" for side, name in zip(sides, names, strict=True))
        lines = [f"<table><caption>{escape(self.caption)}</caption>", f"<thead><tr>{header}</tr></thead>"]
        for group in self.groups:
            rows = (zip(sides, map(_html, row), strict=True) for row in group)
            lines += [
                "<tbody>",
                *("<tr>" + "".join(f"<td{s}>{c}</td>" for s, c in row) + "</tr>" for row in rows),
            ]
            lines.append("</tbody>")
        legend = _html(Cell(self._sentences()))
        return (
            "\n".join([*lines, "</table>"]) + (f"\n<p><small>{legend}</small></p>" if legend else "") + "\n"
        )

    def _rows(self) -> Iterator[Sequence[Cell]]:
        return (row for group in self.groups for row in group)

    def _sides(self) -> list[str]:
        """Return the alignment of each column in plain text: left if marks follow the numbers."""
        return [
            "left" if column.marked or any(row[number].mark for row in self._rows()) else column.align
            for number, column in enumerate(self.columns)
        ]

    def _sentences(self) -> str:
        return f"{'. '.join(self.notes)}." if self.legend else ""


_RENDERERS: dict[str, Callable[[Table], str]] = {
    "table": Table.text,
    "markdown": Table.markdown,
    "latex": Table.latex,
}
STYLES = (*_RENDERERS, "csv", "json")
"""The formats of all tables; ``"table"`` is plain text."""

TABLE_FILES = {"table.txt": "table", "table.md": "markdown", "table.tex": "latex"} | {
    f"table.{style}": style for style in ("csv", "json")
}
"""The formats of a table's files, by file name."""


def render(
    style: str,
    tables: Callable[[], Sequence[Table]],
    records: Callable[[], Sequence[Record]],
    *,
    answer: Callable[[], Answer | None] = lambda: None,
    columns: Sequence[str] = (),
    content: Callable[[], object] | None = None,
    indent: int = 2,
) -> str:
    """Render tables or their records in one of `STYLES`.

    Parameters
    ----------
    style : {"table", "markdown", "latex", "csv", "json"}
        The first three print the tables, one below the other.
    tables : callable
        Returns the tables.
    records : callable
        Returns the rows of CSV, with numbers at full precision.
    answer : callable, optional
        Returns the answer above the tables of plain text, or None.
    columns : sequence of str, optional
        The columns of CSV; default: the keys of the first record.
    content : callable, optional
        Returns the content of JSON; default: the records.
    indent : int
        The indent of JSON.

    Returns
    -------
    str
        Ends with a newline.

    Raises
    ------
    InputError
        For an unknown style.
    """
    if style == "csv":
        rows = finite(records())
        columns = columns or list(rows[0])
        return csv_text(columns, ([row[name] for name in columns] for row in rows))
    if style == "json":
        return json.dumps(finite((content or records)()), indent=indent) + "\n"
    if style not in _RENDERERS:
        raise InputError("unknown table format", value=style, accepted=", ".join(STYLES))
    text = "\n".join(_RENDERERS[style](table) for table in tables())
    return with_answer(answer(), text) if style == "table" else text


def in_all_formats(render_style: Callable[[str], str]) -> dict[str, str]:
    """Render in each of `STYLES`; return the texts by file name, as in `TABLE_FILES`."""
    return {name: render_style(style) for name, style in TABLE_FILES.items()}


def finite(content: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by None."""
    if isinstance(content, Mapping):
        return {name: finite(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [finite(part) for part in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def short(value: float) -> str:
    """Format a number with four decimals, as trec_eval does, but never as -0.0000.

    Examples
    --------
    >>> short(0.25), short(-0.25), short(-0.00001)
    ('0.2500', '-0.2500', '0.0000')
    """
    return f"{value:z.4f}"


def listed(names: Sequence[str]) -> str:
    """Join names for a sentence: a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def one_line(text: str) -> str:
    """Collapse white space to single spaces and escape control characters."""
    return visible(re.sub(r"\s+", " ", text))


class Answer(NamedTuple):
    """The answer printed above a result's tables.

    Attributes
    ----------
    title : str
        Collection or files, system and topics.
    lines : sequence of (str, str)
        Pairs of a label and a text.
    """

    title: str
    lines: Sequence[tuple[str, str]] = ()

    def text(self) -> str:
        """Format as plain text with aligned texts; ends with an empty line."""
        width = max((_width(label) for label, _ in self.lines), default=0)
        lines = [f"  {label}{' ' * (width - _width(label))}   {one_line(text)}" for label, text in self.lines]
        return "".join(f"{line}\n" for line in [one_line(self.title), "", *lines, *([""] if lines else [])])


def with_answer(answer: Answer | None, tables: str) -> str:
    """Put an answer, if there is one, above tables."""
    return f"{answer.text()}{tables}" if answer else tables


def markdown_escape(text: str) -> str:
    """Escape markup, HTML and mathematics for a cell of a Markdown table."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def latex_escape(text: str) -> str:
    """Escape LaTeX's special characters."""
    return "".join(_LATEX.get(character, character) for character in one_line(text))


def _plain(cell: Cell) -> str:
    if cell.repeated:
        return ""
    raised = "".join(_RAISED.get(letter, " ") for letter in cell.mark)
    return one_line(cell.text) + (f"^{cell.mark}" if " " in raised else raised) + cell.caution


def _markdown(cell: Cell) -> str:
    raised = cell.mark if set(cell.mark) <= _DAGGERS.keys() else f"<sup>{cell.mark}</sup>"
    return f"{markdown_escape(cell.text)}{raised}{cell.caution}"


def _html(cell: Cell) -> str:
    if cell.repeated:
        return ""
    text = escape(visible(one_line(cell.text)))
    raised = cell.mark + cell.caution
    return text + (f"<sup>{escape(raised)}</sup>" if raised else "")


def _latex(cell: Cell) -> str:
    if cell.repeated:
        return ""
    text = latex_escape(cell.text)
    shown = cell.mark + cell.caution
    raised = "".join(_RAISED_LATEX.get(letter, letter) for letter in shown)
    return text + (f"$^{{{raised}}}$" if shown else "")


def _width(text: str) -> int:
    """Return the width of a text in terminal columns."""
    if text.isascii():
        return len(text)  # rich is slow to import
    from rich.cells import cell_len

    return cell_len(text)
