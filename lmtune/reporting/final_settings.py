"""A setting that tuning ended with, taken from its results folder for another use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lmtune.datasets.collection import Collection
from lmtune.errors import InputError, PathLike
from lmtune.measures.measure import parse_measure
from lmtune.progress import note
from lmtune.reporting.results_reader import StoredResults, read_results
from lmtune.reporting.tuning_tables import parameter_text, topics_of
from lmtune.tuning.experiment.result import DIRECT, CollectionResult, Row


class FinalSetting(NamedTuple):
    """A model's setting, fitted on all topics of a collection.

    Attributes
    ----------
    model : str
        A name in `lmtune.models.model.MODELS`.
    values : dict of str to float
        Its parameters by name.
    collection : Collection
        The one to use it on, with the analysis that it was fitted for.
    """

    model: str
    values: dict[str, float]
    collection: Collection


def take_final(
    path: PathLike, collection: Collection, *, measure: str | None = None, method: str = DIRECT
) -> FinalSetting:
    """Take the setting that a method chose on all topics for a measure.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote.
    collection : Collection
        What the setting is for; of results of several collections, those of its name are taken.
    measure : str, optional
        What it was tuned for; by default the results' first measure.
    method : str
        How, in upper or lower case.

    Raises
    ------
    InputError
        For a folder that is none of results or has no such setting, and for a collection whose name
        several results lack.
    """
    stored = read_results(path)
    place, result = of_collection(stored, collection.name)
    row = _row(path, result.rows, measure, method)
    assert row.final is not None
    said = ", ".join(f"{name} = {parameter_text(name, value)}" for name, value in row.final.params.items())
    note(
        f"{result.model} with {said}, fitted on all {len(topics_of(result)):,} topics of {result.name} for "
        f"{row.measure.title} by {row.method}"
    )
    analysis: dict[str, Any] | None = stored.record["collections"][place].get("analysis")
    return FinalSetting(result.model, row.final.params, replace(collection, analysis=analysis))


def of_collection(stored: StoredResults, name: str | None) -> tuple[int, CollectionResult]:
    """Return the place of the result on a collection of this name, or of the only one, and the result.

    Raises
    ------
    InputError
        Where several are of none with this name.
    """
    names = [result.name for result in stored.results]
    if len(names) == 1:
        return 0, stored.results[0]
    own = name if name and ":" in name else Path(name or "").resolve().name
    if own not in names:
        raise InputError(
            "the results are of several collections, of none with this name",
            file=stored.path,
            value=own,
            accepted=", ".join(names),
        )
    return names.index(own), stored.results[names.index(own)]


def _row(path: PathLike, rows: Sequence[Row], measure: str | None, method: str) -> Row:
    final = [row for row in rows if row.final is not None]
    if not final:
        raise InputError(
            "no setting was fitted on all topics", file=path, accepted="results of lmtune tune, with --final"
        )
    wanted = final[0].measure if measure is None else parse_measure(measure)
    found = [row for row in final if row.measure == wanted and row.method.lower() == method.lower()]
    if not found:
        raise InputError(
            "no final setting of this measure and method",
            file=path,
            value=f"{wanted} {method}",
            accepted=", ".join(f"{row.measure} {row.method}" for row in final),
        )
    return found[0]
