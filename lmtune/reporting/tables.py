"""The experiment's table, as the SIGIR 2007 paper's Table 1 prints it, in five formats."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lmtune.errors import InputError
from lmtune.models.model import described
from lmtune.reporting.escaping import latex_escape, markdown_escape, one_line
from lmtune.tuning.result import DIRECT, RANKNET, SIGNIFICANCE, CollectionResult, Row

ABOVE_DIRECT, ABOVE_RANKNET = "†", "‡"
LEGEND = (
    f"Optimal: the best setting known on the test topics. "
    f"{ABOVE_DIRECT} (italics) significantly better than {DIRECT}, {ABOVE_RANKNET} (bold) than "
    f"{RANKNET}: two-sided paired t-test, p < {SIGNIFICANCE:g}"
)


def table(results: Sequence[CollectionResult], style: str = "table") -> str:
    """Render results.

    Parameters
    ----------
    results : sequence of CollectionResult
        One a collection, all with the same measures and methods.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text.

    Returns
    -------
    str
        Ends with a line end.

    Raises
    ------
    InputError
        For an unknown style.
    """
    if style not in STYLES:
        raise InputError("unknown table format", value=style, accepted=", ".join(STYLES))
    return STYLES[style](results)


def terminal_table(results: Sequence[CollectionResult]) -> Table:
    """Make the table that `table` prints as plain text, with italics and bold for a terminal."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("Metric")
    shown.add_column("Estimate")
    for result in results:
        shown.add_column(Text(one_line(result.name)), justify="left")
    for _, group in groupby(_lines(results), key=lambda line: line[0].measure):
        for number, rows in enumerate(group):
            cells = [
                Text(_number(row) + _marks(row, result), style=_style(row, result))
                for row, result in zip(rows, results, strict=True)
            ]
            metric = rows[0].measure.title if number == 0 else ""
            shown.add_row(metric, rows[0].method, *cells)
        shown.add_section()
    return shown


def full_legend(results: Sequence[CollectionResult]) -> str:
    """Explain the rows and marks of `terminal_table`; name a model other than two-stage."""
    return " ".join([LEGEND, *(f"({model})" for model in _models(results))])


def parameter_table(results: Sequence[CollectionResult]) -> Table:
    """Make the table of what each method chose on each fold."""
    shown = Table(box=None, pad_edge=False)
    for name in ("Collection", "Metric", "Estimate", "Fold"):
        shown.add_column(name)
    for name in ("lambda", "mu", "train", "test", "evaluations"):
        shown.add_column(name, justify="right")
    for result in results:
        for row in result.rows:
            for number, fit in enumerate(row.fits, 1):
                first = number == 1
                shown.add_row(
                    Text(one_line(result.name) if first else ""),
                    row.measure.title if first else "",
                    row.method if first else "",
                    str(number),
                    f"{fit.lambda_:.4f}",
                    f"{fit.mu:.2f}",
                    f"{fit.train_value:.4f}",
                    f"{fit.test_value:.4f}",
                    str(fit.evaluations),
                )
        shown.add_section()
    return shown


def plain(shown: Table) -> str:
    """Render a rich table without colours or a terminal's width."""
    console = Console(file=io.StringIO(), width=10_000, color_system=None, force_terminal=False)
    console.print(shown)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def csv_text(records: Sequence[Mapping[str, object]]) -> str:
    """Write records with the same keys, one or more, as CSV with a header line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def as_records(results: Sequence[CollectionResult]) -> list[dict[str, object]]:
    """Flatten results to one dictionary a row, with every figure at full precision."""
    all_two_stage = not _models(results)
    return [
        {
            "collection": result.name,
            **({} if all_two_stage else {"model": result.model}),
            "measure": str(row.measure),
            "method": row.method,
            "mean": row.mean,
            "topics": len(row.topics),
            **{f"p_value_{name.lower()}": row.p_values.get(name) for name in (DIRECT, RANKNET)},
            **{f"beats_{name.lower()}": row.beats(name, result.rows) for name in (DIRECT, RANKNET)},
            "evaluations": sum(fit.evaluations for fit in row.fits),
        }
        for result in results
        for row in result.rows
    ]


def _plain(results: Sequence[CollectionResult]) -> str:
    return f"{plain(terminal_table(results))}{full_legend(results)}\n"


def _markdown(results: Sequence[CollectionResult]) -> str:
    names = [markdown_escape(result.name) for result in results]
    lines = ["| Metric | Estimate | " + " | ".join(names) + " |", "| --- | --- |" + " ---: |" * len(results)]
    for rows in _lines(results):
        cells = []
        for row, result in zip(rows, results, strict=True):
            bold = "**" if row.beats(RANKNET, result.rows) else ""
            italics = "_" if row.beats(DIRECT, result.rows) else ""
            cells.append(f"{bold}{italics}{_number(row)}{italics}{bold}")
        lines.append(f"| {rows[0].measure.title} | {rows[0].method} | {' | '.join(cells)} |")
    legend = f"_Italics_: significantly better than {DIRECT}; **bold**: than {RANKNET}"
    lines += ["", f"{legend} (two-sided paired t-test, p < {SIGNIFICANCE:g})."]
    lines[-1] += "".join(f" {model[0].upper()}{model[1:]}." for model in _models(results))
    return "\n".join(lines) + "\n"


def _latex(results: Sequence[CollectionResult]) -> str:
    names = " & ".join(latex_escape(result.name) for result in results)
    lines = [rf"\begin{{tabular}}{{ll{'r' * len(results)}}}", r"\hline", rf"Metric & Estimate & {names} \\"]
    for measure, group in groupby(_lines(results), key=lambda line: line[0].measure):
        lines.append(r"\hline")
        for number, rows in enumerate(group):
            cells = []
            for row, result in zip(rows, results, strict=True):
                cell = _number(row)
                if row.beats(DIRECT, result.rows):
                    cell = rf"\textit{{{cell}}}"
                if row.beats(RANKNET, result.rows):
                    cell = rf"\textbf{{{cell}}}"
                cells.append(cell)
            metric = latex_escape(measure.title) if number == 0 else ""
            lines.append(rf"{metric} & {rows[0].method} & {' & '.join(cells)} \\")
    lines += [r"\hline", r"\end{tabular}"]
    legend = f"Italics: significantly better than {DIRECT}; bold: than {RANKNET}"
    lines.append(f"% {legend} (two-sided paired t-test, p < {SIGNIFICANCE:g}).")
    lines += [f"% {model}" for model in _models(results)]
    return "\n".join(lines) + "\n"


def _csv(results: Sequence[CollectionResult]) -> str:
    return csv_text(as_records(results))


def _json(results: Sequence[CollectionResult]) -> str:
    return json.dumps(as_records(results), indent=2) + "\n"


STYLES: dict[str, Callable[[Sequence[CollectionResult]], str]] = {
    "table": _plain,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": _json,
}


def _models(results: Sequence[CollectionResult]) -> list[str]:
    """Describe the models other than two-stage smoothing, each once."""
    names = dict.fromkeys(result.model for result in results)
    return [text for name in names for text in described(name)]


def _lines(results: Sequence[CollectionResult]) -> list[tuple[Row, ...]]:
    return list(zip(*(result.rows for result in results), strict=True))


def _number(row: Row) -> str:
    text = f"{row.mean:.4f}"
    return text.removeprefix("0")


def _marks(row: Row, result: CollectionResult) -> str:
    direct = ABOVE_DIRECT if row.beats(DIRECT, result.rows) else ""
    return direct + (ABOVE_RANKNET if row.beats(RANKNET, result.rows) else "")


def _style(row: Row, result: CollectionResult) -> str:
    styles = ["italic"] if row.beats(DIRECT, result.rows) else []
    styles += ["bold"] if row.beats(RANKNET, result.rows) else []
    return " ".join(styles)
