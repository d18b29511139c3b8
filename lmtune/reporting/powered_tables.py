"""Means, or differences, of a model's judgements corrected by people's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lmtune.judging.prediction_powered import FEW, PoweredResult
from lmtune.progress import quantity
from lmtune.reporting.comparison_tables import interval_text, signed
from lmtune.reporting.table import Cell, Column, Table, name_columns, render, short


def powered_table(result: PoweredResult, style: str) -> str:
    """Render corrected means as `lmtune.reporting.table.render` does."""
    return render(style, lambda: [table_of(result)], lambda: list(powered_records(result)))


def powered_records(result: PoweredResult) -> Iterator[Mapping[str, object]]:
    """Yield a record of each run and measure."""
    for row in result.rows:
        low, high = row.corrected.interval(result.confidence)
        yield {
            "run": row.run,
            "measure": row.measure,
            "baseline": result.baseline or None,
            "corrected": row.corrected.mean,
            "low": low,
            "high": high,
            "weight": row.corrected.weight,
            "people": row.human,
            "people_error": row.human_error,
            "model": row.model,
        }


def table_of(result: PoweredResult) -> Table:
    """Make the table."""
    number = signed if result.baseline else short
    rows = []
    for row in result.rows:
        ends = row.corrected.interval(result.confidence)
        texts = [row.run, row.measure, number(row.corrected.mean), interval_text(ends, number)]
        texts += [number(row.human), f"± {short(row.human_interval(result))}", number(row.model)]
        rows.append([Cell(text) for text in texts])
    what = f"difference from {result.baseline}" if result.baseline else "mean"
    percent = f"{result.confidence:.0%}"
    columns = [
        *name_columns("run", "measure"),
        *map(Column, (what, percent, "people alone", percent, "model alone")),
    ]
    legend = (
        f"Over {quantity(result.human + result.model, 'topic')}, as people would judge them: by the model's "
        f"judgements of all, corrected by people's of {result.human}; intervals by Student's t over topics"
    )
    if result.human < FEW:
        legend += f". With fewer than {FEW} of people's topics they hold less often than they say"
    return Table(columns, [rows], "Means corrected by people's judgements", legend)
