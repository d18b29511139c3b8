"""The folder that keeps an experiment, read back: results, and the settings to use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lmtune.collections.collection import Collection
from lmtune.collections.folds import Fold
from lmtune.collections.loading import PARTS
from lmtune.errors import InputError, PathLike, name_of
from lmtune.io.digests import digest, sealed_text, unsealed
from lmtune.io.files import atomic_write
from lmtune.io.folders import FolderKind, check_directory, recorded
from lmtune.io.result_folders import RECORD, StoredFolder, file_name
from lmtune.measures.measure import parse_measure
from lmtune.models.two_stage import TWO_STAGE
from lmtune.progress import note, quantity
from lmtune.tuning.experiment.result import (
    DEFAULT,
    DIRECT,
    RANKNET,
    CollectionResult,
    Fit,
    Row,
    parameter_text,
)

if TYPE_CHECKING:
    import pandas as pd

PAGE = "report.html"
"""The page that ``lmtune report`` puts in the folder."""

PICTURES = "pictures"
"""The folder that ``lmtune plot`` puts there."""

CHOICES, CHOSEN_CASE = "choices.json", "chosen"
"""In a folder of ``lmtune tune --choose``: each fold's choices, and the folder of the recommended case."""

FOLDS, TABLE = "folds.json", "table.json"
TOPICS, CHOSEN, FINAL, NEAR, TEXTS = (
    f"{name}.csv" for name in ("topics", "parameters", "final", "near", "texts")
)

ACCEPTED = "a folder that lmtune tune --output wrote"

KIND = FolderKind(RECORD, (PAGE,), (RECORD, f"{PICTURES}/{RECORD}"), ("notes",))
"""A results folder; one that holds more than was recorded, or other content, is not replaced."""

NAMED = ("collection", "measure", "method")
"""The columns that name a row."""

_TEXTS = (*NAMED, "topic", "text", "parameter", "at_edge", "ridge")
# All other columns of settings are parameters; older files have neither bound nor ridge.
_NUMBERS = ("fold", "train", "test", "estimate", "evaluations", "bound")
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
        As they were written: rows, folds, traces (by the names of their files), p-values and notes.
        Equal results, written and read back, are equal to the last bit.
    record : mapping
        ``made.json``: ``command``, ``versions``, ``plan``, ``collections``, ``notes``, ``files``.
    texts : dict of str to dict of str to str
        Topics' texts, on one line each, by collection; results of old have none.
    """

    path: Path
    results: tuple[CollectionResult, ...]
    record: Mapping[str, Any]
    texts: dict[str, dict[str, str]] = field(default_factory=dict)

    def of_collection(self, name: str | None) -> tuple[CollectionResult, dict[str, Any]]:
        """Return the result on a collection of this name, or of the only one, and what was recorded of it.

        Raises
        ------
        InputError
            Where several are of none with this name.
        """
        names = [result.name for result in self.results]
        wanted = name if name and ":" in name else Path(name or "").resolve().name
        if len(names) > 1 and wanted not in names:
            raise InputError(
                "the results are of several collections, of none with this name",
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
        Its parameters by name.
    collection : Collection
        The one to use it on, with the analysis that it was fitted for.
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
    """Raise at once where results cannot be kept, or would replace those of other collections.

    Parameters
    ----------
    path : path
        The folder.
    kind : FolderKind
        That of the results.
    collections : sequence of Collection
        What is going to be tuned on.
    reads : iterable of path-like
        As for `lmtune.io.folders.check_directory`.
    overwrite : bool
        Whether results of other collections are replaced too.

    Raises
    ------
    InputError
        If they cannot, or would.
    """
    check_directory(path, kind, reads=reads)
    made = next((file for file in (path / CHOSEN_CASE / RECORD, path / RECORD) if file.is_file()), None)
    if made is None or overwrite:
        return
    records = [own.get("opened") for own in unsealed(made.read_bytes())["collections"]]
    known = [_named(Collection.from_record(own)) for own in records if own is not None]
    if known and known != [_named(own) for own in collections]:
        raise InputError(
            "will not replace results of another collection",
            file=path,
            value=", ".join(known),
            accepted="another folder, or --overwrite",
        )


def _named(collection: Collection) -> str:
    """Name a collection by its name and files, wherever these are."""
    name = collection.name or ""
    words = [name if ":" in name else Path(name).resolve().name] if name else []
    for part in PARTS:
        if given := getattr(collection, part):
            words += [f"--{part}", Path(given).name]
    return " ".join(words)


def read_results(path: PathLike) -> StoredResults:
    """Read a results folder whose tables are as they were written.

    ``made.json``, ``folds.json``, ``topics.csv``, ``parameters.csv``, ``final.csv`` and ``table.json``
    have to be there. Runs, the tables in other formats, and anything else in the folder are not read.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote; of one with ``--choose``, the chosen case is read.

    Returns
    -------
    StoredResults

    Raises
    ------
    InputError
        Where a file is missing or was changed.
    """
    home = Path(path) / CHOSEN_CASE if (Path(path) / CHOICES).is_file() else Path(path)
    folder = StoredFolder.open(home, _KINDS, (FOLDS, TOPICS, CHOSEN, FINAL, TABLE), ACCEPTED)
    record = folder.record
    rows, near, texts = _rows(folder), dict[str, Any](), dict[str, Any]()
    for line in _lines(folder, NEAR):
        near.setdefault(line["collection"], {})[line["parameter"]] = line["low"], line["high"]
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
            near=near.get(name, {}),
            selected=record.get("selected", {}).get(name),
        )
        for name, folds in folder.json(FOLDS).items()
    )
    return StoredResults(home, results, record, texts)


def _lines(folder: StoredFolder, name: str) -> list[dict[str, Any]]:
    frame = folder.frame(name, _TEXTS)
    return [] if frame is None else frame.to_dict("records")  # type: ignore[return-value]


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
        if line["mean"] is None:  # not told from these judgments: so until 0.5
            continue
        tests = {name: line[f"p_value_{name.lower()}"] for name in (DIRECT, RANKNET)}
        row = Row(
            parse_measure(line["measure"]),
            line["method"],
            tuple(values[key]),
            np.array([*values[key].values()], np.float64),
            tuple(fits[key]),
            {name: p for name, p in tests.items() if p is not None},
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


def _traces(folder: StoredFolder, name: str) -> dict[str, pd.DataFrame]:
    """Read the traces of a collection that the record lists."""
    home = f"traces/{file_name(name)}/"
    frames = {Path(file).stem: folder.frame(file) for file in folder.files if file.startswith(home)}
    return {stem: frame for stem, frame in frames.items() if frame is not None}


def take_final(
    path: PathLike, collection: Collection, *, measure: str | None = None, method: str | None = None
) -> FinalSetting:
    """Take the setting that is recommended for a measure, or the one that a method chose on all topics.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote, with ``--choose`` too.
    collection : Collection
        What the setting is for; of results of several collections, those of its name are taken.
    measure : str, optional
        What it was tuned for; by default the results' first measure.
    method : str, optional
        Another method than the recommended one, in upper or lower case.

    Raises
    ------
    InputError
        For a folder that is none of results or has no such setting, and for a collection whose name
        several results lack.
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
    """Return the row that `take_final` takes the setting of, or raise as it does."""
    wanted = result.measures[0] if measure is None else parse_measure(measure)
    row = result.recommended_for(wanted)
    if method is not None:
        named = (own for own in result.rows if own.measure == wanted and own.method.lower() == method.lower())
        row = next(named, None)
    if row is not None and row.setting is not None:
        return row
    able = [own for own in result.rows if own.setting is not None]
    if row is not None and method is None:
        problem, value = "the recommended setting was not fitted on all topics (tune --no-final)", row.method
    else:
        problem, value = "no setting of this measure and method", f"{wanted} {method or ''}".strip()
    accepted = ", ".join(f"{own.measure} {own.method}" for own in able) or "results of lmtune tune --final"
    raise InputError(problem, file=path, value=value, accepted=accepted)


def reopened(path: PathLike, name: str | None = None) -> Collection:
    """Return the collection that was tuned on, as the record says.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote.
    name : str, optional
        Of several collections: which. Where it is the path of a folder, the collection is there now.

    Raises
    ------
    InputError
        For a folder that is none of results, or whose record does not say it.
    """
    _, recorded = read_results(path).of_collection(name)
    if "opened" not in recorded:
        raise InputError(
            "the results do not say how to open their collection", file=path, accepted="those of a tuning now"
        )
    collection = Collection.from_record(recorded["opened"])
    collection = replace(collection, exclude_self=recorded.get("exclude_self"))
    return collection if name is None or not Path(name).is_dir() else replace(collection, name=name)


def record_pictures(results: Path, files: Sequence[Path]) -> None:
    """Note in a results folder which pictures are lmtune's, so that they are replaced with it."""
    home = results / PICTURES
    known = recorded(home, FolderKind(RECORD, records=(RECORD,)))
    known.pop(RECORD, None)
    known |= {file.name: digest(file.read_bytes()) for file in files}
    with atomic_write(home / RECORD) as stream:
        stream.write(sealed_text({"files": known}, indent=2))


def check_names(names: Sequence[str | None]) -> None:
    """Raise InputError for collections whose files would have one name."""
    kept = [file_name(name if name and ":" in name else name_of(name or "")) for name in names]
    if len(set(kept)) < len(kept):
        raise InputError("two collections have one name", value=list(names), accepted="different names")
