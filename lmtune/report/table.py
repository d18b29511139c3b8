"""One table as plain text, Markdown, LaTeX and HTML; the records behind it as CSV and JSON."""

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
    import pandas as pd

Record = Mapping[str, object]

_DAGGERS = {"†": r"\dagger", "‡": r"\ddagger", "↓": r"\downarrow", "⇓": r"\Downarrow"}
_RAISED_LATEX = _DAGGERS | {"§": r"\S", "¶": r"\P"}
# Unicode has no raised q that fonts have.
_RAISED = dict(zip("abcdefghijklmnoprstuvwxyz†‡↓⇓", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ†‡↓⇓", strict=True))
_LATEX = (
    {"\\": r"\textbackslash ", "^": r"\^{}", "~": r"\~{}", "–": "--"}
    | {character: rf"\{character}" for character in "&%$#_{}"}
    | {character: f"${character}$" for character in "<>|"}
    | {mark: f"${command}$" for mark, command in _RAISED_LATEX.items()}
)
# Within a word an underscore says nothing.
_MARKDOWN = re.compile(r"[\\`*<&|\[$~]|(?<![^\W_])_|_(?![^\W_])")


class Cell(NamedTuple):
    """A figure or a name.

    Attributes
    ----------
    text : str
        What it says.
    mark : str
        What stands raised behind it: daggers, or letters.
    style : str
        ``"italic"``, ``"bold"`` or both; in Markdown and LaTeX they stand for the mark.
    repeated : bool
        Whether the row above says the same; shown in Markdown alone.
    caution : str
        What stands raised behind all else, in every format: a reference to the legend.
    """

    text: str
    mark: str = ""
    style: str = ""
    repeated: bool = False
    caution: str = ""


class Column(NamedTuple):
    """A column's header, and how its cells are set.

    Attributes
    ----------
    name : str
        The header.
    align : {"right", "left"}
        Figures stand flush right, names flush left.
    marked : bool
        Whether marks may follow the figures: plain text sets these flush left.
    """

    name: str
    align: str = "right"
    marked: bool = False


@dataclass(frozen=True)
class Table:
    """A table's cells.

    Attributes
    ----------
    columns : sequence of Column
        From left to right.
    groups : sequence of sequence of rows
        Rows of cells, in groups that a line parts where the format has lines.
    caption : str
        What it shows; only LaTeX prints it.
    legend : str
        What the marks mean.
    typeset_legend : tuple of Cell
        The same for Markdown and LaTeX, where that differs.
    """

    columns: Sequence[Column]
    groups: Sequence[Sequence[Sequence[Cell]]]
    caption: str
    legend: str = ""
    typeset_legend: tuple[Cell, ...] = ()

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        figures: Sequence[str | Column],
        groups: Iterable[Iterable[Iterable[Any]]],
        caption: str = "",
        legend: str = "",
    ) -> Table:
        """Make a table with columns of names, flush left, then of figures; cells may be texts alone."""
        cells = [
            [[Cell(part) if isinstance(part, str) else part for part in row] for row in group]
            for group in groups
        ]
        others = [Column(header) if isinstance(header, str) else header for header in figures]
        return cls([*(Column(header, "left") for header in names), *others], cells, caption, legend)

    @classmethod
    def from_record(cls, kept: Mapping[str, Any]) -> Table:
        """Make a table of what `dataclasses.asdict` made of it."""
        groups = [[[Cell(*cell) for cell in row] for row in group] for group in kept["groups"]]
        columns = [Column(*column) for column in kept["columns"]]
        return cls(columns, groups, kept["caption"], kept["legend"])

    def first(self, most: int) -> Table:
        """Return the beginning of a table that has more rows, and this one otherwise."""
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
        """Render as a Markdown table, and its legend below."""
        rules = ["---" if column.align == "left" else "---:" for column in self.columns]
        lines = [[markdown_escape(column.name) for column in self.columns], rules]
        lines += [[_markdown(cell) for cell in row] for row in self._rows()]
        legend = "".join(map(_markdown, self._typeset_legend()))
        return "".join(f"| {' | '.join(line)} |\n" for line in lines) + (f"\n{legend}\n" if legend else "")

    def latex(self) -> str:
        """Render as LaTeX's table, with the lines of the package booktabs."""
        sides = "".join(column.align[0] for column in self.columns)
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_escape(self.caption)}}}"]
        lines += [rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
        lines.append(" & ".join(latex_escape(column.name) for column in self.columns) + r" \\")
        for group in self.groups:
            lines.append(r"\midrule")
            lines += [" & ".join(map(_latex, row)) + r" \\" for row in group]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if legend := "".join(map(_latex, self._typeset_legend())):
            lines.append(rf"\par\smallskip{{\footnotesize {legend}\par}}")
        return "\n".join([*lines, r"\end{table}", ""])

    def html(self) -> str:
        """Render as an HTML table for notebooks, its caption above and its legend below."""
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
        legend = "".join(map(_html, self._typeset_legend()))
        return (
            "\n".join([*lines, "</table>"]) + (f"\n<p><small>{legend}</small></p>" if legend else "") + "\n"
        )

    def _rows(self) -> Iterator[Sequence[Cell]]:
        return (row for group in self.groups for row in group)

    def _sides(self) -> list[str]:
        """Say how plain text aligns each column: figures line up only where no mark follows them."""
        return [
            "left" if column.marked or any(row[number].mark for row in self._rows()) else column.align
            for number, column in enumerate(self.columns)
        ]

    def _typeset_legend(self) -> tuple[Cell, ...]:
        return self.typeset_legend or ((Cell(f"{self.legend}."),) if self.legend else ())


_RENDERERS: dict[str, Callable[[Table], str]] = {
    "table": Table.text,
    "markdown": Table.markdown,
    "latex": Table.latex,
}
STYLES = (*_RENDERERS, "csv", "json")
"""The formats of every table of lmtune; ``"table"`` is plain text."""

TABLE_FILES = {"table.txt": "table", "table.md": "markdown", "table.tex": "latex"} | {
    f"table.{style}": style for style in ("csv", "json")
}
"""The files that keep a table in all formats, and their formats."""


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
    """Render tables, or the records behind them, in one of `STYLES`.

    Parameters
    ----------
    style : {"table", "markdown", "latex", "csv", "json"}
        The first three show the tables, one below the other.
    tables, records : callable
        Make the tables, and the rows of CSV, with every figure at full precision.
    answer : callable, optional
        Makes what plain text opens with, or None.
    columns : sequence of str, optional
        Those of CSV; by default the first record's.
    content : callable, optional
        Makes what JSON holds; by default the records.
    indent : int
        Of JSON.

    Returns
    -------
    str
        Ends with a line end.

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
    shown = "\n".join(_RENDERERS[style](table) for table in tables())
    return opened_by(answer(), shown) if style == "table" else shown


def in_all_formats(rendered: Callable[[str], str]) -> dict[str, str]:
    """Render in each of `STYLES`; return the texts by the names of `TABLE_FILES`."""
    return {name: rendered(style) for name, style in TABLE_FILES.items()}


def frame_text(frame: pd.DataFrame) -> str:
    """Write a frame as CSV, every figure at full precision."""
    return str(frame.to_csv(index=False, lineterminator="\n"))


def finite(content: Any) -> Any:
    """Put None for numbers that are undefined, which JSON has none of."""
    if isinstance(content, Mapping):
        return {name: finite(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [finite(part) for part in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def short(value: float) -> str:
    """Print four digits, as trec_eval does.

    Examples
    --------
    >>> short(0.25), short(-0.25), short(1.0)
    ('0.2500', '-0.2500', '1.0000')
    """
    return f"{value:.4f}"


def listed(names: Sequence[str]) -> str:
    """Join names as a sentence does: a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def one_line(text: str) -> str:
    """Put single spaces for all white space, and escapes for control characters."""
    return visible(re.sub(r"\s+", " ", text))


class Answer(NamedTuple):
    """What a result opens with.

    Attributes
    ----------
    title : str
        The collection or files, the system and the topics.
    lines : sequence of (str, str)
        A label and a text each.
    """

    title: str
    lines: Sequence[tuple[str, str]] = ()

    def text(self) -> str:
        """Lay out as plain text, with the texts in a column; ends with an empty line."""
        width = max((_width(label) for label, _ in self.lines), default=0)
        lines = [f"  {label}{' ' * (width - _width(label))}   {one_line(text)}" for label, text in self.lines]
        return "".join(f"{line}\n" for line in [one_line(self.title), "", *lines, *([""] if lines else [])])


def opened_by(answer: Answer | None, tables: str) -> str:
    """Put an answer, if there is one, above tables."""
    return f"{answer.text()}{tables}" if answer else tables


def markdown_escape(text: str) -> str:
    """Make text fit for a cell of a Markdown table: nothing in it is markup, HTML or mathematics."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def latex_escape(text: str) -> str:
    """Make text fit for LaTeX."""
    return "".join(_LATEX.get(character, character) for character in one_line(text))


def _plain(cell: Cell) -> str:
    if cell.repeated:
        return ""
    raised = "".join(_RAISED.get(letter, " ") for letter in cell.mark)
    return one_line(cell.text) + (f"^{cell.mark}" if " " in raised else raised) + cell.caution


def _markdown(cell: Cell) -> str:
    before = ("**" if "bold" in cell.style else "") + ("_" if "italic" in cell.style else "")
    raised = cell.mark if set(cell.mark) <= _DAGGERS.keys() else f"<sup>{cell.mark}</sup>"
    return f"{before}{markdown_escape(cell.text)}{before[::-1]}{'' if before else raised}{cell.caution}"


def _html(cell: Cell) -> str:
    if cell.repeated:
        return ""
    text = escape(visible(one_line(cell.text)))
    for name, tag in (("italic", "em"), ("bold", "strong")):
        if name in cell.style:
            text = f"<{tag}>{text}</{tag}>"
    raised = cell.mark + cell.caution
    return text + (f"<sup>{escape(raised)}</sup>" if raised else "")


def _latex(cell: Cell) -> str:
    if cell.repeated:
        return ""
    text = latex_escape(cell.text)
    for name, command in (("italic", "textit"), ("bold", "textbf")):
        if name in cell.style:
            text = rf"\{command}{{{text}}}"
    shown = ("" if cell.style else cell.mark) + cell.caution
    raised = "".join(_RAISED_LATEX.get(letter, letter) for letter in shown)
    return text + (f"$^{{{raised}}}$" if shown else "")


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)  # without rich, which takes a while to import
    from rich.cells import cell_len

    return cell_len(text)
