"""Tables and results folder of categorical parameters: procedure, cases and effects."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from lmtune.collections.provenance import describe, record
from lmtune.io.csv_files import csv_text
from lmtune.io.result_folders import write_folder
from lmtune.measures.significance.tests import adjusted, paired_t_test
from lmtune.progress import Progress, quantity, silent
from lmtune.report.comparison_tables import DASH, interval_text, p_text, signed
from lmtune.report.figures.style import can_draw
from lmtune.report.recommendation import choice_answer
from lmtune.report.table import Cell, Column, Table, finite, in_all_formats, render, short
from lmtune.report.tuning_results import write_results_folder
from lmtune.tuning.choices.experiment import ChoiceResult, ChosenRow, effects
from lmtune.tuning.choices.stored import CASE_COLUMNS, CHOICES_KIND, FIRST, PICKED, PROCEDURE, SHOWN, TOPICS
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.result import DEFAULT, at_most
from lmtune.tuning.experiment.stored import CHOICES, CHOSEN_CASE


def choice_table(result: ChoiceResult, style: str = "table") -> str:
    """Render a result in one of `lmtune.report.table.STYLES`; plain text starts with the answer."""
    answer = partial(choice_answer, result)
    return render(style, lambda: choice_tables(result), lambda: choice_records(result), answer=answer)


def choice_tables(result: ChoiceResult) -> list[Table]:
    """Return the tables of the procedure, of the cases and of the analysis of variance."""
    one = result.tuned
    if one is None:
        return [_methods(result)]
    return [_methods(result), _cases(result, one), *_effects(result, one)]


def _methods(result: ChoiceResult) -> Table:
    groups: dict[object, list[list[str | Cell]]] = {}
    for measure, rows in groupby(result.rows, key=lambda one: one.row.measure):
        group = groups.setdefault(measure, [])
        pairs = [(one, result.case_row((measure, one.row.method), 0)) for one in rows]
        corrected = adjusted([paired_t_test(one.row.values, first.values) for one, first in pairs])
        for (one, first), p in zip(pairs, corrected, strict=True):
            means = first.mean, one.row.mean, one.score
            title = Cell(measure.title, repeated=bool(group))
            group.append([title, one.row.method, *map(short, means), DASH if math.isnan(p) else p_text(p)])
    topics = quantity(len(result.rows[0].row.topics), "topic")
    legend = (
        f"{FIRST}: {result.cases[0]}. {PICKED}: in each fold the best of {len(result.cases)} cases on the "
        f"training topics. Both are tuned there and evaluated on held-out topics ({topics})\n"
        f"In sample: mean of the chosen cases {'in inner folds' if result.inner else 'on training topics'}; "
        f"adjusted p: {PICKED} compared with {FIRST}, paired t-test, Holm's correction for each measure\n"
        f"{DEFAULT}: each case with its model's default parameters"
    )
    figures = (FIRST, PICKED, "In sample", "adjusted p")
    return Table.of(["Measure", "Method"], figures, groups.values(), "Chosen case, held out", legend)


def _cases(result: ChoiceResult, one: ChosenRow) -> Table:
    measure, method = one.row.measure, one.row.method
    counts = Counter(one.picks)
    rows, tuned = [], result.known_rows((measure, method))
    for number, case in enumerate(result.cases):
        row, proof = tuned.get(number), result.proofs.get((measure, number))
        texts = [*case.values.values(), short(result.case_row((measure, DEFAULT), number).mean)]
        texts += [DASH if row is None else short(row.mean)]
        texts += [DASH if row is None or row.final is None else short(row.final.train_value)]
        texts += [DASH if proof is None else at_most(proof.bound)] if result.proofs else []
        rows.append([*texts, f"{counts[number]}"])
    held_out = len(result.choices) + 1  # the column
    rows.sort(key=lambda texts: (texts[held_out] != DASH, *texts[held_out::-1]), reverse=True)
    figures = ["default", "held out", "all topics", *(["bound"] if result.proofs else []), "folds"]
    notes = [
        f"{measure.title} of each case: default parameters; tuned by {method}, held out; fitted on all "
        "topics. folds: how many chose the case"
    ]
    if result.proofs:
        notes.append("bound: no setting in the range has a higher mean on all topics")
    if len(tuned) < len(result.cases):
        why = "its bound excludes it" if result.proofs else "dropped by successive halving"
        notes.append(f"{DASH}: not tuned, {why}")
    names = [choice.name for choice in result.choices]
    return Table.of(names, figures, [rows], "Cases", "\n".join(notes))


def _effects(result: ChoiceResult, one: ChosenRow) -> Iterator[Table]:
    rows, factors = [], effects(result, (one.row.measure, one.row.method))
    for effect in sorted(factors, key=lambda e: (not e.best, -e.share)):
        texts = ["", "", ""]
        if effect.best:
            texts = [f"{effect.best} over {effect.worst}", signed(effect.difference)]
            texts.append(interval_text(effect.interval, signed))
        rows.append([effect.factor, f"{effect.share:.0%}", *texts])
    if rows:
        legend = (
            "share: of the variance of held-out means between cases, tuned and with default parameters\n"
            "difference: best minus worst option by mean, 95% CI over topics"
        )
        figures = ("share", Column("options", "left"), "difference", "95% CI")
        yield Table.of(["Choice"], figures, [rows], "Effect of each choice", legend)


def choice_records(result: ChoiceResult) -> list[Mapping[str, object]]:
    """Return a record for each case, measure and method, and for the procedure, at full precision."""
    records: list[Mapping[str, object]] = []
    for number, case in enumerate(result.cases):
        for one in result.rows:
            key = one.row.measure, one.row.method
            row, proof = result.known_rows(key).get(number), result.proofs.get((one.row.measure, number))
            fitted = None if row is None or row.final is None else row.final.train_value
            figures = None if row is None else row.mean, fitted, proof and proof.bound
            folds = sum(pick == number for pick in one.picks)
            records.append(_record(result, case.values, one, (*figures, folds)))
    chosen = {choice.name: PROCEDURE for choice in result.choices}
    for one in result.rows:
        figures = one.row.mean, one.score, result.bound(one.row.measure)
        records.append(_record(result, chosen, one, (*figures, len(one.picks))))
    return records


def _record(
    result: ChoiceResult, values: Mapping[str, str], one: ChosenRow, figures: Sequence[object]
) -> dict[str, object]:
    names = ("held_out", "in_sample", "bound", "folds")
    named = {"measure": str(one.row.measure), "method": one.row.method}
    return {"collection": result.name, **values, **named, **dict(zip(names, figures, strict=True))}


def choice_topics(result: ChoiceResult) -> Iterator[dict[str, object]]:
    """Yield the values of the cases and of the procedure on each test topic, by measure and method."""
    for one in result.rows:
        row, key = one.row, (one.row.measure, one.row.method)
        named = [(str(result.cases[case]), own.values) for case, own in result.known_rows(key).items()]
        for case, values in (*named, (PROCEDURE, row.values)):
            for topic, value in zip(row.topics, values.tolist(), strict=True):
                what = {"measure": str(row.measure), "method": row.method, "case": case}
                yield what | {"topic": topic, "value": value}


def chosen_by_fold(result: ChoiceResult) -> list[dict[str, Any]]:
    """Return the case and setting that each method chose in each fold and on all topics."""
    return [
        {
            "measure": str(one.row.measure),
            "method": one.row.method,
            "fold": fold,
            **result.cases[pick].values,
            **({} if fit is None else asdict(fit)),
        }
        for one in result.rows
        for fold, pick, fit in _picked(one)
    ]


def _picked(one: ChosenRow) -> Sequence[tuple[str, int, Any]]:
    folds = [
        (f"{number}", pick, fit)
        for number, (pick, fit) in enumerate(zip(one.picks, one.row.fits, strict=True), 1)
    ]
    return [*folds, ("all", one.final, one.row.final)]


def write_choices_folder(
    path: Path, result: ChoiceResult, prepared: Prepared, *, progress: Progress = silent
) -> None:
    """Write the results folder of categorical parameters atomically.

    The folder contains

    - the table in all formats;
    - ``tables.json``, the answer and tables that `lmtune report` shows;
    - ``choices.json``, the case and setting that each method chose in each fold;
    - ``topics.csv``, the values of the cases and of the procedure on each test topic;
    - ``interactions.svg`` and ``.png``, after a full search, if pictures can be drawn;
    - ``made.json``, the command, versions and digests;
    - ``chosen``, the results folder of the recommended case, for `lmtune search --from` and other commands.

    Parameters
    ----------
    path : path
        The folder.
    result : ChoiceResult
        The result to write.
    prepared : Prepared
        The recommended case.
    progress : Progress
        Called while the recommended case is written.

    Raises
    ------
    InputError
        If the folder has other content.
    """
    final = result.recommended.final if result.recommended else 0
    chosen = result.cases[final]
    tables = in_all_formats(partial(choice_table, result)) | {
        CHOICES: json.dumps(finite(chosen_by_fold(result)), indent=1) + "\n",
        SHOWN: json.dumps(_shown(result), indent=1) + "\n",
        TOPICS: csv_text(CASE_COLUMNS, ([*record.values()] for record in choice_topics(result))),
    }
    made = record(
        choices={choice.name: choice.values for choice in result.choices},
        inner_folds=result.inner,
        race=result.race,
        plan=chosen.plan.as_record(),
        collections=[describe(prepared.dataset, prepared.index)],
    )
    caution = (
        f"{chosen} was chosen among {quantity(len(result.cases), 'case')} with these topics, so the means "
        "here are too high; the folder above has means of the whole procedure"
    )
    with_caution = replace(
        result.results[final],
        notes=(*result.results[final].notes, caution),
        selected=None if result.recommended is None else result.recommended.row.method,
    )
    tuned = result.tuned
    known = {} if tuned is None else result.known_rows((tuned.row.measure, tuned.row.method))
    pictures: dict[str, bytes] = {}
    if len(known) == len(result.cases) and can_draw():
        from lmtune.report.figures import choice_interactions, rendered

        pictures = rendered("interactions", choice_interactions(result))
    write_folder(
        path,
        CHOICES_KIND,
        {**tables, **pictures},
        made,
        lambda folder: write_results_folder(
            folder / CHOSEN_CASE, [prepared], [with_caution], chosen.plan, progress=progress
        ),
    )


def _shown(result: ChoiceResult) -> dict[str, object]:
    """Return the answer, the tables, and the method that they describe."""
    one = result.tuned or result.recommended
    return {
        "answer": choice_answer(result)._asdict(),
        "method": DEFAULT if one is None else one.row.method,
        "final": result.recommended.final if result.recommended else 0,
        "tables": [asdict(table) for table in choice_tables(result)],
    }
