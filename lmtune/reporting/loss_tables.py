"""The table of losses compared: mean test nDCG with 95% intervals, in five formats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lmtune.measures.lists import Empty
from lmtune.measures.measure import exponential_ndcg
from lmtune.reporting.table import Cell, Column, Table, name_columns, render, short
from lmtune.reranking.comparison import Outcome
from lmtune.reranking.reranker import CUTOFFS

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
    return render(
        style,
        lambda: [_table(outcomes, empty)],
        lambda: _trial_records(outcomes, empty),
        content=lambda: as_records(outcomes, empty),
    )


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
                        "measure": str(exponential_ndcg(cutoff)),
                        "mean": interval.mean,
                        "half_width": None if math.isnan(interval.half) else interval.half,
                        "learning_rate": None if math.isnan(outcome.rate) else outcome.rate,
                        "trials": values,
                    }
                )
    return records


def _table(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> Table:
    groups = []
    for convention in empty:
        best = [max(o.interval(convention, cutoff).mean for o in outcomes) for cutoff in CUTOFFS]
        rows = []
        for outcome in outcomes:
            cells = [Cell(EMPTY[convention]), Cell(outcome.label)]
            for cutoff, top in zip(CUTOFFS, best, strict=True):
                mean, half = outcome.interval(convention, cutoff)
                spread = "" if math.isnan(half) else f" ± {short(half)}"
                cells.append(Cell(f"{short(mean)}{spread}", "†" if mean == top else ""))
            cells.append(Cell("" if math.isnan(outcome.rate) else f"{outcome.rate:g}"))
            rows.append(tuple(cells))
        groups.append(rows)
    return Table(
        [
            *name_columns("Empty queries", "Loss"),
            *(Column(str(exponential_ndcg(cutoff))) for cutoff in CUTOFFS),
            Column("rate"),
        ],
        groups,
        caption="Mean test nDCG over trials ± half of its 95% interval; † the best of its column",
    )


def _trial_records(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> list[dict[str, Any]]:
    return [
        {**{name: record[name] for name in ("empty", "loss", "measure")}, "trial": trial, "value": value}
        for record in as_records(outcomes, empty)
        for trial, value in enumerate(record["trials"], 1)
    ]
