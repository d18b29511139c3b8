"""Tables of losses compared and of features' importance, and the folders that keep them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lmtune.collections.provenance import NEURAL, record
from lmtune.io.csv_files import csv_text
from lmtune.io.folders import FolderKind
from lmtune.io.result_folders import RECORD, write_folder
from lmtune.measures.lists import Empty
from lmtune.measures.measure import column_names
from lmtune.measures.significance.comparison import Comparison
from lmtune.measures.significance.tests import FEWEST
from lmtune.progress import quantity
from lmtune.report.comparison_tables import DASH, interval_text, letters, p_text
from lmtune.report.figures import Course, difference_intervals, rendered, training_courses
from lmtune.report.figures.style import FOLDER_FORMATS
from lmtune.report.recommendation import loss_answer
from lmtune.report.table import TABLE_FILES, Cell, Table, in_all_formats, render, short
from lmtune.rerank.comparison import OVER, Outcome, contrasts, history_rows

EMPTY = {"skip": "left out", "zero": "count 0"}
"""How queries without relevant documents count in a mean, by convention."""

_HISTORY, _CONVERGENCE, _IMPORTANCE = "history.csv", "convergence", "importance"
LOSSES, IMPORTANCE = (
    FolderKind(
        RECORD, (*TABLE_FILES, RECORD, _HISTORY, *(f"{figure}.{format_}" for format_ in FOLDER_FORMATS))
    )
    for figure in (_CONVERGENCE, _IMPORTANCE)
)
"""The folders that keep losses compared, and features' importance."""

_MOST_DRAWN = 40


def loss_table(
    outcomes: Sequence[Outcome], style: str = "table", *, empty: Sequence[Empty] = ("skip", "zero")
) -> str:
    """Render outcomes.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One a loss.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text, which opens with the answer. The best mean of each column has a
        dagger; letters name the losses that one is significantly better than, over queries and over trials.
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
        answer=lambda: loss_answer(outcomes, empty[0]),
        content=lambda: _loss_records(outcomes, empty),
    )


def _loss_records(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> list[dict[str, Any]]:
    """Return one record a convention, loss and measure."""
    records = []
    for convention in empty:
        tests = {
            measure: {over: contrasts(outcomes, convention, measure, over=over) for over in OVER}
            for measure in outcomes[0].measures
        }
        for outcome in outcomes:
            for measure, both in tests.items():
                name, interval = str(measure), outcome.interval(convention, measure)
                p_values = {over: _p_values(test, outcome.label) for over, test in both.items()}
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
                            over: [other for other in p if test and test.beats(name, outcome.label, other)]
                            for (over, test), p in zip(both.items(), p_values.values(), strict=True)
                        },
                        "adjusted_p": p_values,
                    }
                )
    return records


def _p_values(comparison: Comparison | None, loss: str) -> dict[str, float]:
    """Return the corrected p-values of one loss against each other."""
    p_values = {}
    for contrast in comparison.contrasts if comparison else ():
        sides = [contrast.system, contrast.against]
        if loss in sides:
            sides.remove(loss)
            p_values[sides[0]] = contrast.adjusted["t"]
    return p_values


def _table(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> Table:
    names = dict(zip((line.label for line in outcomes), letters(len(outcomes)), strict=True))
    measures, several = [*map(str, outcomes[0].measures)], len(outcomes[0].queries) > 1
    every = _loss_records(outcomes, empty)
    best = {
        (convention, measure): max(
            line["mean"] for line in every if (line["empty"], line["measure"]) == (convention, measure)
        )
        for convention in empty
        for measure in measures
    }
    rows: dict[tuple[str, str], list[str | Cell]] = {}
    why: dict[str, None] = {}
    for line in every:
        start: list[str | Cell] = [EMPTY[line["empty"]], names[line["loss"]], line["loss"]]
        row = rows.setdefault((line["empty"], line["loss"]), start)
        marks = ["".join(names[other] for other in line["better_than"][over]) for over in OVER]
        top = line["mean"] == best[line["empty"], line["measure"]]
        few = several and len(line["trials"]) < FEWEST and len(names) > 1
        flat = [any(map(math.isnan, line["adjusted_p"][over].values())) for over in OVER]
        why |= {f"{quantity(len(line['trials']), 'trial')}: a t-test needs {FEWEST}": None} if few else {}
        why |= {"no t-test of a difference without variance": None} if any(flat) else {}
        dashes = [DASH if no_test else "" for no_test in (flat[0], few or (several and flat[1]))]
        row.append(Cell(short(line["mean"]), marks[0] + ("†" if top else ""), caution=dashes[0]))
        spread = f"± {short(line['half_width'])}"
        row.append(Cell(spread, marks[1] if several else "", caution=dashes[1]))
        if line["measure"] == measures[-1]:
            row.append("" if line["learning_rate"] is None else f"{line['learning_rate']:g}")
    over = "trials" if several else "queries"
    heads, shared = column_names(outcomes[0].measures)
    said = filter(None, [_legend(len(outcomes), several), shared, *(f"{DASH} {text}" for text in why)])
    return Table.of(
        ["Empty queries", "", "Loss"],
        [*(text for head in heads for text in (head, over)), "rate"],
        [[row for (line, _), row in rows.items() if line == convention] for convention in empty],
        f"Mean test values over queries and trials ± half of their 95% interval over {over}",
        "; ".join(said),
    )


def _legend(losses: int, several: bool) -> str:
    """Explain the marks."""
    if losses < 2:
        return ""
    trials = "; behind ± the same over trials, paired by seed" if several else ""
    return (
        "† the best mean of its column. Raised letters: the losses that a mean is significantly better than, "
        f"over queries, each with its mean over trials{trials}: two-sided paired t-tests, Holm's correction "
        f"over {quantity(losses * (losses - 1) // 2, 'pair')}, adjusted p < 0.05"
    )


def _trial_records(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> list[dict[str, Any]]:
    return [
        {**{name: record[name] for name in ("empty", "loss", "measure")}, "trial": trial, "value": value}
        for record in _loss_records(outcomes, empty)
        for trial, value in enumerate(record["trials"], 1)
    ]


def write_losses(path: Path, outcomes: Sequence[Outcome], empty: Sequence[Empty], *, data: str) -> None:
    """Write the folder of losses compared: tables, every epoch, the picture of convergence.

    Parameters
    ----------
    path : path
        The folder.
    outcomes : sequence of Outcome
        A loss each.
    empty : sequence of {"skip", "zero"}
        How queries without a relevant document count; a table's column each.
    data : str
        The name of what was learnt from.

    Raises
    ------
    InputError
        For a folder that holds something else.
    """
    tables = in_all_formats(partial(loss_table, outcomes, empty=empty))
    pictures: dict[str, bytes] = {}
    if rows := history_rows(outcomes):
        tables[_HISTORY] = csv_text(rows[0], ([*row.values()] for row in rows))
        measure = next(trained.settings.chosen_by for one in outcomes for trained in one.trained)
        courses = [_course(outcome) for outcome in outcomes if outcome.trials]
        pictures = rendered(_CONVERGENCE, training_courses(courses, measure=measure.label))
    write_folder(path, LOSSES, {**tables, **pictures}, record(data=data))


def _course(outcome: Outcome) -> Course:
    return Course(
        outcome.label,
        [
            np.array([e.objective if e.epoch > one.settings.warm_up else np.nan for e in one.history])
            for one in outcome.trained
        ],
        [np.array([e.validation for e in one.history]) for one in outcome.trained],
    )


def importance_table(comparison: Comparison, gains: Mapping[str, float], style: str = "table") -> str:
    """Render the losses by `lmtune.rerank.applying.permutation_importance`.

    Parameters
    ----------
    comparison : Comparison
        A system a feature.
    gains : mapping of str to float
        LightGBM's gain of each feature; empty for networks.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text.
    """
    rows = _importance_records(comparison, gains)
    return render(style, lambda: [_importance(comparison, rows)], lambda: rows)


def _importance_records(comparison: Comparison, gains: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return one record a feature, the most important one first."""
    total = sum(gains.values())
    return [
        {
            "feature": contrast.system,
            "measure": contrast.measure,
            "loss": -contrast.difference,
            "low": -contrast.interval[1],
            "high": -contrast.interval[0],
            "adjusted_p": contrast.adjusted["t"],
            **({"gain": gains[contrast.system] / total if total else 0.0} if gains else {}),
        }
        for contrast in sorted(comparison.contrasts, key=lambda one: one.difference)
    ]


def _importance(losses: Comparison, rows: list[dict[str, Any]]) -> Table:
    with_gain = "gain" in rows[0]
    cells = [
        [
            row["feature"],
            Cell(short(row["loss"]), "†" if row["loss"] > 0 and row["adjusted_p"] < 0.05 else ""),
            *(interval_text((row["low"], row["high"])), p_text(row["adjusted_p"])),
            *([f"{row['gain']:.1%}"] if with_gain else []),
        ]
        for row in rows
    ]
    [measure], [whole] = losses.measures, losses.means(losses.systems[0])
    gain = "; gain: LightGBM's, the share of all splits' gain in training" if with_gain else ""
    legend = (
        f"{measure} of {len(losses.topics)} queries is {short(whole)}; lost where a feature's values "
        "are shuffled among a query's documents (one that they share: among queries). † significant: "
        "two-sided paired t-test over queries, Holm's correction over "
        f"{len(rows)} features; the intervals hold together (Bonferroni){gain}"
    )
    caption = "What the measure loses where a feature's values are shuffled"
    figures = [f"{measure} lost", "95% interval", "adjusted p", *(["gain"] if with_gain else [])]
    return Table.of(["Feature"], figures, [cells], caption, legend)


def write_importance(path: Path, comparison: Comparison, gains: Mapping[str, float]) -> None:
    """Write the folder of features' importance; the picture has the most important ones."""
    ordered = tuple(sorted(comparison.contrasts, key=lambda contrast: contrast.difference))[:_MOST_DRAWN]
    drawn = replace(comparison, contrasts=ordered)
    figure = difference_intervals(drawn, title="one feature's values shuffled")
    tables = in_all_formats(partial(importance_table, comparison, gains))
    write_folder(path, IMPORTANCE, {**tables, **rendered(_IMPORTANCE, figure)}, record(NEURAL))
