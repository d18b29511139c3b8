"""Reading of the results folders of ``lmtune tune --choose``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lmtune.arrays import Doubles
from lmtune.errors import PathLike
from lmtune.io.folders import FolderKind
from lmtune.io.result_folders import RECORD, StoredFolder
from lmtune.measures.measure import parse_measure
from lmtune.tuning.choices.experiment import case_name
from lmtune.tuning.experiment.result import Row
from lmtune.tuning.experiment.stored import CHOICES, CHOSEN_CASE, PAGE, PICTURES, StoredResults, read_results

FIRST, PICKED = "First", "Chosen"
"""Names of the rows that a page compares: the first case, and the procedure that chooses a case."""

SHOWN, TOPICS = "tables.json", "topics.csv"
CASE_COLUMNS = ("measure", "method", "case", "topic", "value")
PROCEDURE = "chosen"
"""The name in column ``case`` for the values of the procedure, which chooses a case on each fold."""

_PICTURES = f"{PICTURES}/{RECORD}"
CHOICES_KIND = FolderKind(
    RECORD, (PAGE, f"{CHOSEN_CASE}/{PAGE}"), (RECORD, _PICTURES, f"{CHOSEN_CASE}/{_PICTURES}"), ("choices",)
)
_ACCEPTED = "a folder that lmtune tune --choose --output wrote"
_KINDS: dict[str, Any] = {"command": str, "versions": dict, "choices": dict, "plan": dict}
_KINDS |= {"inner_folds": int, "race": bool, "collections": list[dict]}  # type: ignore[type-arg]


@dataclass(frozen=True)
class StoredChoices:
    """The content of a results folder of ``lmtune tune --choose``.

    Attributes
    ----------
    answer : mapping
        The attributes of `lmtune.report.table.Answer`.
    tables : list of mapping
        The printed tables: the attributes of `lmtune.report.table.Table`.
    method : str
        The method of the tables.
    final : int
        The number of the case to use; the folder `CHOSEN_CASE` contains its results.
    results : StoredResults
        The rows `FIRST` and `PICKED` of each measure by this method, folds, notes, texts and record.
    values : dict of (str, str) to numpy.ndarray
        This method's values on test topics, by measure and case, without the cases that a race dropped.
    """

    answer: Mapping[str, Any]
    tables: Sequence[Mapping[str, Any]]
    method: str
    final: int
    results: StoredResults
    values: Mapping[tuple[str, str], Doubles]


def is_choices(path: PathLike) -> bool:
    """Return whether ``lmtune tune --choose`` wrote a folder."""
    return (Path(path) / CHOICES).is_file()


def read_choices(path: PathLike) -> StoredChoices:
    """Read a results folder of ``lmtune tune --choose``.

    Raises
    ------
    InputError
        If a file is missing or was changed.
    """
    folder = StoredFolder.open(path, _KINDS, (SHOWN, TOPICS), _ACCEPTED)
    shown, chosen = folder.json(SHOWN), read_results(folder.path / CHOSEN_CASE)
    columns = folder.columns(TOPICS, CASE_COLUMNS[:-1])
    assert columns is not None
    by_case: dict[tuple[str, str], dict[str, float]] = {}
    cells = (columns[name].tolist() for name in CASE_COLUMNS)
    for measure, method, case, topic, value in zip(*cells, strict=True):
        if method == shown["method"]:
            by_case.setdefault((measure, case), {})[topic] = value
    values = {key: np.array([*by_topic.values()], np.float64) for key, by_topic in by_case.items()}
    first = case_name({name: levels[0] for name, levels in folder.record["choices"].items()})
    rows = tuple(
        Row(parse_measure(measure), name, tuple(by_case[measure, case]), values[measure, case], ())
        for measure in dict.fromkeys(measure for measure, _ in values)
        for name, case in ((FIRST, first), (PICKED, PROCEDURE))
    )
    results = tuple(replace(result, rows=rows, traces={}, near=None) for result in chosen.results)
    stored = replace(chosen, results=results, record=folder.record)
    return StoredChoices(shown["answer"], shown["tables"], shown["method"], shown["final"], stored, values)
