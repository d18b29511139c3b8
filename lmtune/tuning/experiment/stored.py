"""Reading of results folders: an experiment's results, and the settings to use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lmtune.arrays import Columns, stack
from lmtune.collections.collection import Collection
from lmtune.collections.folds import Fold
from lmtune.collections.loading import PARTS
from lmtune.errors import InputError, PathLike, name_of
from lmtune.io.digests import digest, require_types, sealed_text, unsealed
from lmtune.io.files import atomic_write
from lmtune.io.folders import FolderKind, check_directory, recorded_files
from lmtune.io.result_folders import RECORD, StoredFolder, file_name
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.near_best import MARGIN
from lmtune.models.two_stage import TWO_STAGE
from lmtune.progress import note, quantity
from lmtune.tuning.experiment.result import (
    DEFAULT,
    DIRECT,
    CollectionResult,
    Fit,
    NearOptimal,
    Row,
    parameter_text,
)

if TYPE_CHECKING:
    pass

PAGE = "report.html"
"""The page that ``lmtune report`` writes to the folder."""

PICTURES = "pictures"
"""The folder of pictures that ``lmtune plot`` writes there."""

CHOICES, CHOSEN_CASE = "choices.json", "chosen"
"""Files of ``lmtune tune --choose``: the choices of each fold, and the folder of the recommended case."""

FOLDS, TABLE = "folds.json", "table.json"
TOPICS, CHOSEN, FINAL, NEAR, TEXTS = (
    f"{name}.csv" for name in ("topics", "parameters", "final", "near", "texts")
)

ACCEPTED = "a folder that lmtune tune --output wrote"

KIND = FolderKind(RECORD, (PAGE,), (RECORD, f"{PICTURES}/{RECORD}"), ("notes",))
"""A results folder. One with changed or unrecorded files is not replaced."""

NAMED = ("collection", "measure", "method")
"""The columns that identify a row."""

_TEXTS = (*NAMED, "topic", "text", "parameter", "at_edge", "ridge")
# All other columns of settings are parameters. Older files have no columns bound and ridge.
_NUMBERS = ("fold", "train", "test", "estimate", "evaluations", "bound")
_BY_COLLECTION = ("fixed_methods", "selected")
"""Optional mappings in the record."""

_KINDS = {
    "command": str,
    "versions": dict,
    "plan": dict,
    "collections": list[dict],  # type: ignore[type-arg]
    "notes": dict[str, list[str]],
}


@dataclass(frozen=True)
class StoredResults:
    """The content of a results folder.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    results : tuple of CollectionResult
        Rows, folds, traces (by file name), and notes. Reading restores written values bit for bit.
    record : mapping
        The content of ``made.json``: ``command``, ``versions``, ``plan``, ``collections``, ``notes``,
        ``files``.
    texts : dict of str to dict of str to str
        The topics' texts, each on one line, by collection; empty for results of older versions.
    """

    path: Path
    results: tuple[CollectionResult, ...]
    record: Mapping[str, Any]
    texts: dict[str, dict[str, str]] = field(default_factory=dict)

    def of_collection(self, name: str | None) -> tuple[CollectionResult, dict[str, Any]]:
        """Return the result and the record of the collection with this name, or of the only collection.

        Raises
        ------
        InputError
            If there are several collections and none has this name.
        """
        names = [result.name for result in self.results]
        wanted = name if name and ":" in name else Path(name or "").resolve().name
        if len(names) > 1 and wanted not in names:
            raise InputError(
                "the results have several collections, but none with this name",
                file=self.path,
                value=wanted,
                accepted=", ".join(names),
            )
        number = names.index(wanted) if len(names) > 1 else 0
        return self.results[number], self.record["collections"][number]


class FinalSetting(NamedTuple):
    """A model's setting, fitted on all topics of a collection.

    Attributes
    ----------
    model : str
        A name in `lmtune.models.model.MODELS`.
    values : dict of str to float
        The model's parameters by name.
    collection : Collection
        The collection to use it on, with the text analysis of the fit.
    """

    model: str
    values: dict[str, float]
    collection: Collection


def check_output(
    path: Path,
    kind: FolderKind,
    collections: Sequence[Collection],
    *,
    reads: Iterable[PathLike] = (),
    overwrite: bool = False,
) -> None:
    """Check before tuning that results can be written, and do not replace those of other collections.

    Parameters
    ----------
    path : path
        The results folder.
    kind : FolderKind
        The kind of results.
    collections : sequence of Collection
        The collections to tune on.
    reads : iterable of path-like
        See `lmtune.io.folders.check_directory`.
    overwrite : bool
        Whether to replace results of other collections.

    Raises
    ------
    InputError
        If the folder cannot be written, or has results of other collections.
    """
    check_directory(path, kind, reads=reads)
    made = next((file for file in (path / CHOSEN_CASE / RECORD, path / RECORD) if file.is_file()), None)
    if made is None or overwrite:
        return
    records = [entry.get("opened") for entry in unsealed(made.read_bytes())["collections"]]
    known = [_named(Collection.from_record(entry)) for entry in records if entry is not None]
    if known and known != [_named(entry) for entry in collections]:
        raise InputError(
            "will not replace results of another collection",
            file=path,
            value=", ".join(known),
            accepted="another folder, or --overwrite",
        )


def _named(collection: Collection) -> str:
    """Return a name made of a collection's name and the names of its files, without their folders."""
    name = collection.name or ""
    words = [name if ":" in name else Path(name).resolve().name] if name else []
    for part in PARTS:
        if file := getattr(collection, part):
            words += [f"--{part}", Path(file).name]
    return " ".join(words)


def read_results(path: PathLike) -> StoredResults:
    """Read a results folder.

    It needs ``made.json``, ``folds.json``, ``topics.csv``, ``parameters.csv``, ``final.csv`` and
    ``table.json``. Runs, tables in other formats, and other files are not read.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote. With ``--choose``, the chosen case is read.

    Returns
    -------
    StoredResults

    Raises
    ------
    InputError
        If a file is missing or was changed.
    """
    home = Path(path) / CHOSEN_CASE if (Path(path) / CHOICES).is_file() else Path(path)
    folder = StoredFolder.open(home, _KINDS, (FOLDS, TOPICS, CHOSEN, FINAL, TABLE), ACCEPTED)
    record = {**{key: {} for key in _BY_COLLECTION}, **folder.record}
    try:
        require_types(record, dict.fromkeys(_BY_COLLECTION, dict))
    except ValueError as error:
        raise InputError(f"damaged: {error}", file=home / RECORD, accepted=ACCEPTED) from None
    rows, texts = _rows(folder), dict[str, Any]()
    near = _near(folder, record["plan"].get("margin", MARGIN))
    for line in _lines(folder, TEXTS):
        texts.setdefault(line["collection"], {})[line["topic"]] = line["text"]
    results = tuple(
        CollectionResult(
            name,
            tuple(Fold(tuple(fold["train"]), tuple(fold["test"])) for fold in folds),
            tuple(rows[name]),
            _traces(folder, name),
            tuple(record["notes"].get(name, ())),
            record["plan"].get("model", TWO_STAGE.name),
            near=near.get(name),
            fixed_method=record["fixed_methods"].get(name, DIRECT),
            selected=record["selected"].get(name),
        )
        for name, folds in folder.json(FOLDS).items()
    )
    return StoredResults(home, results, folder.record, texts)


def _near(folder: StoredFolder, margin: float) -> dict[str, NearOptimal]:
    """Read the near-optimal regions by collection."""
    columns = folder.columns(NEAR, _TEXTS)
    if columns is None or "bound" not in columns:  # Version 0.4 and earlier wrote boxes.
        return {}
    collections, bounds = columns.pop("collection"), columns.pop("bound").astype(np.float64)
    regions = {}
    for name in dict.fromkeys(collections.tolist()):
        rows = collections == name
        part = {key: column[rows] for key, column in columns.items() if not np.isnan(column[rows]).all()}
        regions[name] = NearOptimal(tuple(part), stack(part, part), bounds[rows], margin)
    return regions


def _lines(folder: StoredFolder, name: str) -> list[dict[str, Any]]:
    columns = folder.columns(name, _TEXTS) or {}
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _rows(folder: StoredFolder) -> dict[str, list[Row]]:
    """Read each collection's rows."""
    fits: dict[tuple[str, ...], list[Fit]] = {}
    for line in _lines(folder, CHOSEN):
        fits.setdefault(_key(line), []).append(_fit(line))
    finals = {_key(line): _fit(line) for line in _lines(folder, FINAL)}
    values: dict[tuple[str, ...], dict[str, float]] = {}
    for line in _lines(folder, TOPICS):
        values.setdefault(_key(line), {})[line["topic"]] = line["value"]
    rows: dict[str, list[Row]] = {}
    for line in folder.json(TABLE):
        key = _key(line)
        if line["mean"] is None:  # Version 0.4 and earlier wrote undefined measures.
            continue
        row = Row(
            parse_measure(line["measure"]),
            line["method"],
            tuple(values[key]),
            np.array([*values[key].values()], np.float64),
            tuple(fits[key]),
            finals.get(key),
            tuple(line["cautions"]),
        )
        rows.setdefault(line["collection"], []).append(row)
    return rows


def _key(line: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(line[name] for name in NAMED)


def _fit(line: Mapping[str, Any]) -> Fit:
    params = {name: float(value) for name, value in line.items() if name not in (*_TEXTS, *_NUMBERS)}
    edges = tuple(line["at_edge"].split(" and ")) if line["at_edge"] else ()
    bound = float(line.get("bound", np.nan))
    means = line["train"], line["estimate"] if "estimate" in line else line["test"]
    return Fit(
        params, *means, line["evaluations"], edges, None if np.isnan(bound) else bound, line.get("ridge", "")
    )


def _traces(folder: StoredFolder, name: str) -> dict[str, Columns]:
    """Read a collection's traces, as far as the record lists them."""
    home = f"traces/{file_name(name)}/"
    tables = {Path(file).stem: folder.columns(file) for file in folder.files if file.startswith(home)}
    return {stem: table for stem, table in tables.items() if table is not None}


def take_final(
    path: PathLike, collection: Collection, *, measure: str | None = None, method: str | None = None
) -> FinalSetting:
    """Read the setting to use: the recommended one for a measure, or that of a method.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote, also with ``--choose``.
    collection : Collection
        The collection to use the setting on. Its name selects among results of several collections.
    measure : str, optional
        The measure that the setting was tuned for; by default the results' first measure.
    method : str, optional
        The method, in upper or lower case; by default the recommended one.

    Raises
    ------
    InputError
        If the folder has no results or no such setting, or none of several collections has this name.
    """
    result, recorded = read_results(path).of_collection(collection.name)
    row = final_row(path, result, measure, method)
    recommended = result.recommended_for(row.measure)
    assert row.setting is not None
    params = row.setting.params
    setting = ", ".join(f"{name} = {parameter_text(name, value)}" for name, value in params.items())
    how = f"{row.method} for {row.measure.title} on {result.name}"
    if row.method != DEFAULT:
        how += f", fitted on all {quantity(len(result.topics), 'topic')}"
    if recommended is not None and recommended is not row:
        how += f"; recommended: {recommended.method}"
    note(f"{result.model} with {setting} ({how})")
    return FinalSetting(result.model, params, collection.as_recorded(recorded))


def final_row(
    path: PathLike, result: CollectionResult, measure: str | None = None, method: str | None = None
) -> Row:
    """Return the row of the setting that `take_final` reads; raise the same errors."""
    wanted = result.measures[0] if measure is None else parse_measure(measure)
    row = result.recommended_for(wanted)
    if method is not None:
        named = (
            other
            for other in result.rows
            if other.measure == wanted and other.method.lower() == method.lower()
        )
        row = next(named, None)
    if row is not None and row.setting is not None:
        return row
    able = [other for other in result.rows if other.setting is not None]
    if row is not None and method is None:
        problem, value = "the recommended setting was not fitted on all topics (tune --no-final)", row.method
    else:
        problem, value = "no setting of this measure and method", f"{wanted} {method or ''}".strip()
    accepted = (
        ", ".join(f"{other.measure} {other.method}" for other in able) or "results of lmtune tune --final"
    )
    raise InputError(problem, file=path, value=value, accepted=accepted)


def reopened(path: PathLike, name: str | None = None) -> Collection:
    """Return the collection that was tuned on, from the results' record.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote.
    name : str, optional
        The name of one of several collections. If it is the path of a folder, the collection is read from
        there.

    Raises
    ------
    InputError
        If the folder has no results, or its record does not contain the collection.
    """
    _, recorded = read_results(path).of_collection(name)
    if "opened" not in recorded:
        raise InputError(
            "the results do not record how to open their collection",
            file=path,
            accepted="results of this version: tune again",
        )
    collection = Collection.from_record(recorded["opened"])
    collection = replace(collection, exclude_self=recorded.get("exclude_self"))
    return collection if name is None or not Path(name).is_dir() else replace(collection, name=name)


def record_pictures(results: Path, files: Sequence[Path]) -> None:
    """Record in a results folder which pictures lmtune wrote, so that it may replace them."""
    home = results / PICTURES
    known = recorded_files(home, FolderKind(RECORD, records=(RECORD,)))
    known.pop(RECORD, None)
    known |= {file.name: digest(file.read_bytes()) for file in files}
    with atomic_write(home / RECORD) as stream:
        stream.write(sealed_text({"files": known}, indent=2))


def check_names(names: Sequence[str | None]) -> None:
    """Raise `InputError` if files of two collections would have the same name."""
    kept = [file_name(name if name and ":" in name else name_of(name or "")) for name in names]
    if len(set(kept)) < len(kept):
        raise InputError("two collections have the same name", value=list(names), accepted="different names")
