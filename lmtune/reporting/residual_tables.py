"""Runs' measures with their bounds over unjudged documents."""

from __future__ import annotations

from collections.abc import Sequence

from lmtune.measures.residual_bounds import FIGURES, Residuals, residual_records
from lmtune.reporting.table import Cell, Column, Table, name_columns, render, short

_LEGEND = (
    "Lowest and highest: over all ways to judge what the run ranks without a judgement, gains from 0 to the "
    "largest of the judgements"
)


def residual_table(found: Sequence[Residuals], style: str, *, per_topic: bool = False) -> str:
    """Render runs' bounds as `lmtune.reporting.table.render` does; with topics' own if asked for."""
    return render(
        style,
        lambda: residual_tables(found, per_topic=per_topic),
        lambda: residual_records(found, per_topic=per_topic),
    )


def residual_tables(found: Sequence[Residuals], *, per_topic: bool = False) -> list[Table]:
    """Make the table: a row for each run and measure, or topic."""
    names = ("run", "measure", *(["topic"] if per_topic else []))
    rows: dict[object, list[tuple[Cell, ...]]] = {}
    for record in residual_records(found, per_topic=per_topic):
        cells = [Cell(str(record[name])) for name in names]
        cells += [Cell(short(float(str(record[name])))) for name in FIGURES]
        rows.setdefault(record["run"], []).append(tuple(cells))
    columns = [*name_columns(*names), *map(Column, FIGURES)]
    return [Table(columns, list(rows.values()), "Measures and their bounds", _LEGEND)]
