"""The folder of a comparison of losses: tables, every epoch, the picture of convergence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lmtune.formats.csv_files import csv_text
from lmtune.measures.lists import Empty
from lmtune.measures.measure import parse_list_measure
from lmtune.reporting.loss_tables import loss_table
from lmtune.reporting.provenance import record
from lmtune.reporting.table import FILES
from lmtune.reranking.comparison import Outcome, history_rows
from lmtune.storage.folders import FolderKind, atomic_directory

RECORD = "made.json"
_PICTURES = ("convergence.svg", "convergence.png")
_HISTORY = "history.csv"
KIND = FolderKind(RECORD, (*FILES, *_PICTURES, RECORD, _HISTORY))
"""The folder of a comparison."""


def write_losses(path: Path, outcomes: Sequence[Outcome], empty: Sequence[Empty], *, data: str) -> None:
    """Write the folder, whole or not at all.

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
    with atomic_directory(path, KIND) as target:
        texts = {name: loss_table(outcomes, style, empty=empty) for name, style in FILES.items()}
        if rows := history_rows(outcomes):
            texts[_HISTORY] = csv_text(rows[0], ([*row.values()] for row in rows))
            _draw(target, outcomes)
        texts[RECORD] = json.dumps(record(data=data), indent=2) + "\n"
        for name, text in texts.items():
            (target / name).write_text(text, encoding="utf-8", newline="\n")


def _draw(target: Path, outcomes: Sequence[Outcome]) -> None:
    from lmtune.reporting.figures import Course, save, training_courses

    courses = [
        Course(
            outcome.label,
            [
                np.array([e.objective if e.epoch > t.settings.warm_up else np.nan for e in t.history])
                for t in outcome.trained
            ],
            [np.array([e.validation for e in t.history]) for t in outcome.trained],
        )
        for outcome in outcomes
        if outcome.trials
    ]
    [measure, *_] = [one.settings.measure for own in outcomes for one in own.trained]
    figure = training_courses(courses, measure=str(parse_list_measure(measure)))
    for name in _PICTURES:
        save(figure, target / name)
