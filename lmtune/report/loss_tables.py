"""Tables and results folders of compared losses and of feature importance."""

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
from lmtune.report.comparison_tables import DASH, interval_text, letters, measure_label, p_text
from lmtune.report.figures import Course, difference_intervals, rendered, training_courses
from lmtune.report.figures.style import FOLDER_FORMATS
from lmtune.report.recommendation import loss_answer
from lmtune.report.table import TABLE_FILES, Cell, Table, in_all_formats, render, short
from lmtune.rerank.comparison import OVER, Outcome, contrasts, history_rows

EMPTY = {"skip": "left out", "zero": "count 0"}
"""How queries without relevant documents count in a mean: texts by convention."""

_HISTORY, _CONVERGENCE, _IMPORTANCE = "history.csv", "convergence", "importance"
LOSSES, IMPORTANCE = (
    FolderKind(
        RECORD, (*TABLE_FILES, RECORD, _HISTORY, *(f"{figure}.{format_}" for format_ in FOLDER_FORMATS))
    )
    for figure in (_CONVERGENCE, _IMPORTANCE)
)
"""The kinds of results folders: compared losses and feature importance."""

_MOST_DRAWN = 40


def loss_table(
    outcomes: Sequence[Outcome], style: str = "table", *, empty: Sequence[Empty] = ("skip", "zero")
) -> str:
    """Render the means of compared losses.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One a loss.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text, which starts with the answer. Letters name the losses that are
        significantly worse, over queries and over trials.
    empty : sequence of {"skip", "zero"}
        Conventions for queries without a relevant document; one group of rows each.

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
    """Return one record for each convention, loss and measure."""
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
                        "learning_rates": list(outcome.rates),
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
    """Return the adjusted p-values of one loss compared with each other loss."""
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
    rows: dict[tuple[str, str], list[str | Cell]] = {}
    why: dict[str, None] = {}
    for line in every:
        start: list[str | Cell] = [EMPTY[line["empty"]], names[line["loss"]], line["loss"]]
        row = rows.setdefault((line["empty"], line["loss"]), start)
        marks = ["".join(names[other] for other in line["better_than"][over]) for over in OVER]
        few = several and len(line["trials"]) < FEWEST and len(names) > 1
        flat = [any(map(math.isnan, line["adjusted_p"][over].values())) for over in OVER]
        why |= {f"{quantity(len(line['trials']), 'trial')}: a t-test needs {FEWEST}": None} if few else {}
        why |= {"no t-test of a difference without variance": None} if any(flat) else {}
        dashes = [DASH if no_test else "" for no_test in (flat[0], few or (several and flat[1]))]
        row.append(Cell(short(line["mean"]), marks[0], caution=dashes[0]))
        spread = f"± {short(line['half_width'])}"
        row.append(Cell(spread, marks[1] if several else "", caution=dashes[1]))
        if line["measure"] == measures[-1]:
            row.append(next(one.rate_text for one in outcomes if one.label == line["loss"]))
    over = "trials" if several else "queries"
    heads, shared = column_names(outcomes[0].measures)
    remarks = "; ".join(filter(None, [shared, *(f"{DASH} {text}" for text in why)]))
    notes = [*_significance_notes(len(outcomes), several), *([remarks] if remarks else [])]
    return Table.of(
        ["Empty queries", "", "System"],
        [*(text for head in heads for text in (head, over)), "rate"],
        [[row for (line, _), row in rows.items() if line == convention] for convention in empty],
        f"Test means over queries and trials, ± half of the 95% CI over {over}",
        "\n".join(notes),
    )


def _significance_notes(losses: int, several: bool) -> list[str]:
    """Return the notes on significance; none for a single loss."""
    if losses < 2:
        return []
    after = "; letters after ±: over trials, paired by seed" if several else ""
    return [
        f"Letters: systems that are significantly worse, over queries with means over trials{after}",
        "Two-sided paired t-tests, Holm's correction over "
        f"{quantity(losses * (losses - 1) // 2, 'pair')}, adjusted p < 0.05",
    ]


def _trial_records(outcomes: Sequence[Outcome], empty: Sequence[Empty]) -> list[dict[str, Any]]:
    return [
        {**{name: record[name] for name in ("empty", "loss", "measure")}, "trial": trial, "value": value}
        for record in _loss_records(outcomes, empty)
        for trial, value in enumerate(record["trials"], 1)
    ]


def write_losses(path: Path, outcomes: Sequence[Outcome], empty: Sequence[Empty], *, data: str) -> None:
    """Write the results folder of compared losses: tables, training history, picture of convergence.

    Parameters
    ----------
    path : path
        The folder.
    outcomes : sequence of Outcome
        One a loss.
    empty : sequence of {"skip", "zero"}
        Conventions for queries without a relevant document; one group of rows each.
    data : str
        The name of the training data.

    Raises
    ------
    InputError
        If the folder has other content.
    """
    tables = in_all_formats(partial(loss_table, outcomes, empty=empty))
    pictures: dict[str, bytes] = {}
    if rows := history_rows(outcomes):
        tables[_HISTORY] = csv_text(rows[0], ([*row.values()] for row in rows))
        measure = next(trained.settings.validation_measure for one in outcomes for trained in one.trained)
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
    """Render the result of `lmtune.rerank.applying.permutation_importance`.

    Parameters
    ----------
    comparison : Comparison
        One system for each shuffled feature, compared with the full ranker.
    gains : mapping of str to float
        LightGBM's gain of each feature; empty for networks.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text.
    """
    rows = _importance_records(comparison, gains)
    return render(style, lambda: [_importance(comparison, rows)], lambda: rows)


def _importance_records(comparison: Comparison, gains: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return one record a feature, the most important first."""
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
    [name], [whole] = losses.measures, losses.means(losses.systems[0])
    measure, _, gains = measure_label(name).partition(" (")  # a short header, gains in the note
    notes = [
        f"lost: decrease of {measure}{f' ({gains}' if gains else ''} from {short(whole)} when a feature's "
        "values are shuffled among a query's documents; among queries if constant for each query",
        f"† significant (two-sided paired t-test over {len(losses.topics)} queries, Holm's correction over "
        f"{len(rows)} features); 95% CIs are simultaneous (Bonferroni)",
    ]
    if with_gain:
        notes.append("gain: share of the gain of all splits in training (LightGBM)")
    caption = "Decrease of the measure when a feature's values are shuffled"
    figures = [f"{measure} lost", "95% CI", "adjusted p", *(["gain"] if with_gain else [])]
    return Table.of(["Feature"], figures, [cells], caption, "\n".join(notes))


def write_importance(path: Path, comparison: Comparison, gains: Mapping[str, float]) -> None:
    """Write the results folder of feature importance, with a picture of the most important features."""
    ordered = tuple(sorted(comparison.contrasts, key=lambda contrast: contrast.difference))[:_MOST_DRAWN]
    drawn = replace(comparison, contrasts=ordered)
    figure = difference_intervals(drawn, title="one feature's values shuffled")
    tables = in_all_formats(partial(importance_table, comparison, gains))
    write_folder(path, IMPORTANCE, {**tables, **rendered(_IMPORTANCE, figure)}, record(NEURAL))
