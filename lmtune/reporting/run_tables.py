"""Several runs' measures side by side."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lmtune.errors import InputError
from lmtune.measures.from_files import Evaluation
from lmtune.measures.trec_names import Value
from lmtune.reporting.escaping import latex_escape, markdown_escape, one_line
from lmtune.reporting.trec_eval import shown, topic_columns


class _Grid(NamedTuple):
    head: list[str]
    rows: list[list[str]]
    names: int  # columns of names, before those of numbers


def run_table(
    evaluations: Sequence[Evaluation], style: str, *, per_topic: bool = False, summary: bool = True
) -> str:
    """Render runs evaluated with the same measures.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        One a run.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text. The first three have a column a run and a row a measure, or the
        other way round where there are more runs than measures; ``"csv"`` has a row a value.
        Those two and ``"json"`` keep full precision.
    per_topic, summary : bool
        The values of each topic; those of all topics together.

    Returns
    -------
    str
        Ends with a line end.

    Raises
    ------
    InputError
        For an unknown style.
    """
    if style in _RECORDS:
        return _RECORDS[style](evaluations, per_topic, summary)
    if style not in _GRIDS:
        raise InputError("unknown table format", value=style, accepted=", ".join((*_GRIDS, *_RECORDS)))
    return _GRIDS[style](_grid(evaluations, per_topic, summary))


def run_names(evaluations: Sequence[Evaluation]) -> list[str]:
    """Name runs by their tags, or by their files where a tag comes twice."""
    tags = [found.tag for found in evaluations]
    if len(set(tags)) == len(tags):
        return tags
    stems = [Path(found.file).name for found in evaluations]
    return stems if len(set(stems)) == len(stems) else [found.file for found in evaluations]


def _grid(evaluations: Sequence[Evaluation], per_topic: bool, summary: bool) -> _Grid:
    names = [one_line(name) for name in run_names(evaluations)]
    cells: dict[tuple[str, str], list[str]] = {}
    for place, found in enumerate(evaluations):
        for label, topic, value in _values(found, per_topic, summary):
            row = cells.setdefault((label, topic), [""] * len(names))
            row[place] = shown(value).strip()
    cells.pop(("runid", "all"), None)
    if per_topic:
        ordered = sorted(cells, key=lambda key: key[1] == "all")
        return _Grid(["measure", "topic", *names], [[*key, *cells[key]] for key in ordered], names=2)
    rows = [[label, *row] for (label, _), row in cells.items()]
    if len(names) <= len(rows):
        return _Grid(["measure", *names], rows, names=1)
    head, *turned = [list(column) for column in zip(["run", *names], *rows, strict=True)]
    return _Grid(head, turned, names=1)


def _values(found: Evaluation, per_topic: bool, summary: bool) -> Iterator[tuple[str, str, Value]]:
    """Yield measure, topic and value, as trec_eval orders them."""
    if per_topic:
        columns = topic_columns(found)
        for place, topic in enumerate(found.topics):
            if topic in found.retrieved:
                for column in columns:
                    yield column.label, topic, column.values[place]
    if summary:
        for column in found.columns:
            if column.mean is not None:
                yield column.label, "all", column.mean


def _plain(grid: _Grid) -> str:
    lines = [grid.head, *grid.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = []
    for line in lines:
        cells = [
            cell.ljust(width) if place < grid.names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip() + "\n")
    return "".join(text)


def _markdown(grid: _Grid) -> str:
    marks = ["---"] * grid.names + ["---:"] * (len(grid.head) - grid.names)
    escaped = [[markdown_escape(cell) for cell in line] for line in (grid.head, *grid.rows)]
    lines = [escaped[0], marks, *escaped[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _latex(grid: _Grid) -> str:
    lines = [" & ".join(latex_escape(cell) for cell in line) + r" \\" for line in (grid.head, *grid.rows)]
    form = "l" * grid.names + "r" * (len(grid.head) - grid.names)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{form}}}",
            r"\hline",
            lines[0],
            r"\hline",
            *lines[1:],
            r"\hline",
            r"\end{tabular}",
            "",
        ]
    )


def _csv(evaluations: Sequence[Evaluation], per_topic: bool, summary: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", "file", "measure", "topic", "value"])
    for name, found in zip(run_names(evaluations), evaluations, strict=True):
        for label, topic, value in _values(found, per_topic, summary):
            writer.writerow([name, found.file, label, topic, value])
    return out.getvalue()


def _json(evaluations: Sequence[Evaluation], per_topic: bool, summary: bool) -> str:
    records = []
    for name, found in zip(run_names(evaluations), evaluations, strict=True):
        by_topic: dict[str, dict[str, Value]] = {}
        for label, topic, value in _values(found, per_topic, summary=False):
            by_topic.setdefault(topic, {})[label] = value
        record: dict[str, object] = {"run": name, "file": found.file}
        if summary:
            record["all"] = {label: value for label, _, value in _values(found, False, summary=True)}
        if per_topic:
            record["topics"] = by_topic
        records.append(record)
    return json.dumps(records, indent=1) + "\n"


_GRIDS: dict[str, Callable[[_Grid], str]] = {"table": _plain, "markdown": _markdown, "latex": _latex}
_RECORDS: dict[str, Callable[[Sequence[Evaluation], bool, bool], str]] = {"csv": _csv, "json": _json}
