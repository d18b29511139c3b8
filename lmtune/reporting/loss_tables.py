"""The table of losses compared: mean test nDCG with 95% intervals, in five formats."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from lmtune.errors import InputError
from lmtune.reporting.grids import Cell, Grid, latex_grid, markdown_grid, plain_grid
from lmtune.reranking.comparison import CUTOFFS, Outcome
from lmtune.reranking.ndcg import Empty

EMPTY = {"skip": "left out", "zero": "count 0"}
"""What queries without relevant documents do to a mean, by convention."""


def loss_table(
    outcomes: Sequence[Outcome], style: str = "table", *, empty: Sequence[Empty] = ("skip", "zero")
) -> str:
    """Render outcomes.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One a loss.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text. The best mean of each column has a dagger.
    empty : sequence of {"skip", "zero"}
        Conventions for queries without a relevant document; one block each.

    Raises
    ------
    InputError
        For an unknown style.
    """
    if style in ("csv", "json"):
        records = as_records(outcomes, empty)
        return _csv(records) if style == "csv" else json.dumps(records, indent=2) + "\n"
    if style not in _GRIDS:
        raise InputError("unknown table format", value=style, accepted=", ".join(STYLES))
    return _GRIDS[style](_grid(outcomes, empty))


def as_records(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> list[dict[str, Any]]:
    """Return one record a convention, loss and cutoff."""
    records = []
    for convention in empty:
        for outcome in outcomes:
            for place, cutoff in enumerate(CUTOFFS):
                interval = outcome.interval(convention, cutoff)
                values = outcome.values[convention][:, place].tolist()
                records.append(
                    {
                        "empty": convention,
                        "loss": outcome.label,
                        "measure": f"nDCG@{cutoff}",
                        "mean": interval.mean,
                        "half_width": None if math.isnan(interval.half) else interval.half,
                        "learning_rate": None if math.isnan(outcome.rate) else outcome.rate,
                        "trials": values,
                    }
                )
    return records


def _grid(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> Grid:
    groups = []
    for convention in empty:
        best = [max(o.interval(convention, cutoff).mean for o in outcomes) for cutoff in CUTOFFS]
        rows = []
        for outcome in outcomes:
            cells = [Cell(EMPTY[convention]), Cell(outcome.label)]
            for cutoff, top in zip(CUTOFFS, best, strict=True):
                mean, half = outcome.interval(convention, cutoff)
                spread = "" if math.isnan(half) else f" ± {_short(half)}"
                cells.append(Cell(f"{_short(mean)}{spread}", "†" if mean == top else ""))
            cells.append(Cell("" if math.isnan(outcome.rate) else f"{outcome.rate:g}"))
            rows.append(tuple(cells))
        groups.append(rows)
    header = ("Empty queries", "Loss", *(f"nDCG@{cutoff}" for cutoff in CUTOFFS), "rate")
    return Grid(header, groups, names=2)


def _short(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def _csv(records: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ["empty", "loss", "measure", "trial", "value"]
    writer.writerow(names)
    for record in records:
        for trial, value in enumerate(record["trials"], 1):
            writer.writerow([record["empty"], record["loss"], record["measure"], trial, value])
    return out.getvalue()


_GRIDS: dict[str, Callable[[Grid], str]] = {
    "table": plain_grid,
    "markdown": markdown_grid,
    "latex": latex_grid,
}
STYLES = (*_GRIDS, "csv", "json")
