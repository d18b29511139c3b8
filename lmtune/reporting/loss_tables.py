"""The table of losses compared: mean test nDCG with 95% intervals, in five formats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lmtune.measures.lists import Empty
from lmtune.measures.significance.contrasts import Comparison
from lmtune.measures.significance.tests import FEWEST
from lmtune.progress import quantity
from lmtune.reporting.comparison_tables import DASH, letters
from lmtune.reporting.table import Cell, Column, Table, name_columns, render, short
from lmtune.reranking.comparison import OVER, Outcome, contrasts

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
        ``"table"`` is plain text. The best mean of each column has a dagger; letters name the
        losses that one is significantly better than, over queries and over trials.
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
    """Return one record a convention, loss and measure."""
    records = []
    for convention in empty:
        tests = {
            measure: {over: contrasts(outcomes, convention, measure, over=over) for over in OVER}
            for measure in outcomes[0].measures
        }
        for outcome in outcomes:
            for measure, own in tests.items():
                name, interval = str(measure), outcome.interval(convention, measure)
                p_values = {over: _p_values(found, outcome.label) for over, found in own.items()}
                records.append(
                    {
                        "empty": convention,
                        "loss": outcome.label,
                        "measure": name,
                        "mean": interval.mean,
                        "half_width": None if math.isnan(interval.half) else interval.half,
                        "learning_rate": None if math.isnan(outcome.rate) else outcome.rate,
                        "trials": outcome.by_trial(convention, measure).tolist(),
                        "better_than": {
                            over: [other for other in p if found and found.beats(name, outcome.label, other)]
                            for (over, found), p in zip(own.items(), p_values.values(), strict=True)
                        },
                        "adjusted_p": p_values,
                    }
                )
    return records


def _p_values(found: Comparison | None, loss: str) -> dict[str, float]:
    """Return the corrected p-values of one loss against each other."""
    p_values = {}
    for contrast in found.contrasts if found else ():
        sides = [contrast.system, contrast.against]
        if loss in sides:
            sides.remove(loss)
            p_values[sides[0]] = contrast.adjusted["t"]
    return p_values


def _table(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> Table:
    names = dict(zip((own.label for own in outcomes), letters(len(outcomes)), strict=True))
    measures, several = [*map(str, outcomes[0].measures)], len(outcomes[0].queries) > 1
    every = as_records(outcomes, empty)
    best = {
        (convention, measure): max(
            own["mean"] for own in every if (own["empty"], own["measure"]) == (convention, measure)
        )
        for convention in empty
        for measure in measures
    }
    rows: dict[tuple[str, str], list[Cell]] = {}
    why: dict[str, None] = {}
    for own in every:
        start = (Cell(EMPTY[own["empty"]]), Cell(names[own["loss"]]), Cell(own["loss"]))
        row = rows.setdefault((own["empty"], own["loss"]), [*start])
        marks = ["".join(names[other] for other in own["better_than"][over]) for over in OVER]
        top = own["mean"] == best[own["empty"], own["measure"]]
        few = several and len(own["trials"]) < FEWEST and len(names) > 1
        flat = [any(map(math.isnan, own["adjusted_p"][over].values())) for over in OVER]
        why |= {f"{quantity(len(own['trials']), 'trial')}: a t-test needs {FEWEST}": None} if few else {}
        why |= {"no t-test of a difference without variance": None} if any(flat) else {}
        dashes = [DASH if no_test else "" for no_test in (flat[0], few or (several and flat[1]))]
        row.append(Cell(short(own["mean"]), marks[0] + ("†" if top else ""), caution=dashes[0]))
        spread = f"± {short(own['half_width'])}"
        row.append(Cell(spread, marks[1] if several else "", caution=dashes[1]))
        if own["measure"] == measures[-1]:
            row.append(Cell("" if own["learning_rate"] is None else f"{own['learning_rate']:g}"))
    over = "trials" if several else "queries"
    headers = [Column(text) for measure in measures for text in [measure, over]]
    return Table(
        [*name_columns("Empty queries", "", "Loss"), *headers, Column("rate")],
        [[row for (own, _), row in rows.items() if own == convention] for convention in empty],
        caption=f"Mean test values over queries and trials ± half of their 95% interval over {over}",
        legend="; ".join([_legend(len(outcomes), several), *(f"{DASH} {said}" for said in why)]),
    )


def _legend(losses: int, several: bool) -> str:
    """Say what the marks mean."""
    if losses < 2:
        return ""
    trials = "; behind ± the same over trials, paired by seed" if several else ""
    return (
        "† the best mean of its column. Raised letters: the losses that a mean is significantly better than, "
        f"over queries, each with its mean over trials{trials}: two-sided paired t-tests, Holm's correction "
        f"over {quantity(losses * (losses - 1) // 2, 'pair')}, adjusted p < .05"
    )


def _trial_records(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> list[dict[str, Any]]:
    return [
        {**{name: record[name] for name in ("empty", "loss", "measure")}, "trial": trial, "value": value}
        for record in as_records(outcomes, empty)
        for trial, value in enumerate(record["trials"], 1)
    ]
