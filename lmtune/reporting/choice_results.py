"""The folder that keeps choices: tables, every topic's values, and the chosen case's own results."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

from lmtune.formats.csv_files import csv_text
from lmtune.progress import Progress, quantity, silent
from lmtune.reporting.choice_tables import choice_table, chosen_by_fold, topic_records
from lmtune.reporting.provenance import command, describe, versions
from lmtune.reporting.result_folder import RECORD, ResultFolder
from lmtune.reporting.table import finite, in_all_formats
from lmtune.reporting.tuning_results import keep_results
from lmtune.storage.folders import FolderKind
from lmtune.tuning.choices.experiment import ChoiceResult
from lmtune.tuning.experiment.preparation import Prepared

CHOSEN = "chosen"
"""The folder there of the chosen case, as `lmtune tune --output` writes it."""
CHOICES_KIND = FolderKind(RECORD, (), (RECORD,))

TOPICS = "topics.csv"
_COLUMNS = ("measure", "method", "case", "topic", "value")


def keep_choices(path: Path, result: ChoiceResult, ready: Prepared, *, progress: Progress = silent) -> None:
    """Write what was chosen, whole or not at all.

    It holds the table in all formats; ``choices.json``, what each method chose on each fold;
    ``topics.csv``, each case's and the procedure's values of every test topic; ``made.json``; and in
    ``chosen`` the tuning results of the case that is recommended, which `lmtune search --from` and others
    take.

    Parameters
    ----------
    path : path
        The folder.
    result : ChoiceResult
        What was chosen.
    ready : Prepared
        The recommended case.
    progress : Progress
        Called while the chosen case is written.

    Raises
    ------
    InputError
        For a folder that holds something else.
    """
    final = result.recommended.final if result.recommended else 0
    chosen = result.cases[final]
    tables = in_all_formats(partial(choice_table, result)) | {
        "choices.json": json.dumps(finite(chosen_by_fold(result)), indent=1) + "\n",
        TOPICS: csv_text(_COLUMNS, ([record[name] for name in _COLUMNS] for record in topic_records(result))),
    }
    record = {
        "command": command(),
        "versions": versions(),
        "choices": {choice.name: choice.values for choice in result.choices},
        "inner_folds": result.inner,
        "plan": chosen.plan.as_record(),
        "collections": [describe(ready.dataset, ready.index)],
    }
    caution = (
        f"{chosen} was chosen among {quantity(len(result.cases), 'case')} with these topics' help: the means "
        "here flatter it, those of the folder above do not"
    )
    own = replace(result.results[final], notes=(*result.results[final].notes, caution))
    ResultFolder(tables, record).write(
        path,
        CHOICES_KIND,
        lambda folder: keep_results(folder / CHOSEN, [ready], [own], chosen.plan, progress=progress),
    )
