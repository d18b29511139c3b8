"""Small tables of text in the styles that papers, pages and screens want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from lmtune.reporting.escaping import latex_escape, markdown_escape, one_line
from lmtune.reporting.tables import plain

_RAISED = dict(zip("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
_DAGGERS = {"†": r"\dagger", "‡": r"\ddagger"}


class Cell(NamedTuple):
    """A figure or a name, and what stands raised behind it: a dagger, or letters."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Grid:
    """A table's cells.

    Attributes
    ----------
    header : tuple of str
        One a column.
    groups : sequence of sequence of rows
        Rows of cells, in groups that a line or a gap parts.
    names : int
        Leading columns that hold names and are set flush left; the others hold figures.
    """

    header: tuple[str, ...]
    groups: Sequence[Sequence[tuple[Cell, ...]]]
    names: int = 1


def plain_grid(grid: Grid) -> str:
    """Render as text with aligned columns."""
    shown = Table(box=None, pad_edge=False)
    for place, name in enumerate(grid.header):
        marked = any(row[place].mark for group in grid.groups for row in group)
        left = place < grid.names or marked
        shown.add_column(Text(one_line(name)), justify="left" if left else "right")
    for group in grid.groups:
        for row in group:
            shown.add_row(*(Text(one_line(cell.text) + _raised(cell.mark)) for cell in row))
    return plain(shown)


def markdown_grid(grid: Grid) -> str:
    """Render as a Markdown table."""
    rules = ["---" if place < grid.names else "---:" for place in range(len(grid.header))]
    lines = [[markdown_escape(name) for name in grid.header], rules]
    lines += [[_markdown(cell) for cell in row] for group in grid.groups for row in group]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex_grid(grid: Grid) -> str:
    """Render as LaTeX's tabular."""
    columns = "l" * grid.names + "r" * (len(grid.header) - grid.names)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline"]
    lines.append(" & ".join(latex_escape(name) for name in grid.header) + r" \\")
    for group in grid.groups:
        lines.append(r"\hline")
        lines += [" & ".join(_latex(cell) for cell in row) + r" \\" for row in group]
    lines += [r"\hline", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _raised(mark: str) -> str:
    if not mark or mark in _DAGGERS:
        return mark
    raised = "".join(_RAISED.get(letter, " ") for letter in mark)
    return f"^{mark}" if " " in raised else raised  # Unicode has no raised q that fonts have


def _markdown(cell: Cell) -> str:
    text = markdown_escape(cell.text)
    return text + (cell.mark if cell.mark in _DAGGERS or not cell.mark else f"<sup>{cell.mark}</sup>")


def _latex(cell: Cell) -> str:
    text = latex_escape(cell.text).replace("∞", r"$\infty$")
    return text + (f"$^{{{_DAGGERS.get(cell.mark, cell.mark)}}}$" if cell.mark else "")
