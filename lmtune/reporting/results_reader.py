"""A results folder read back into what `lmtune.reporting.results_writer.write_results` was given."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from lmtune.datasets.folds import Fold, read_kept
from lmtune.errors import InputError, PathLike
from lmtune.measures.measure import Measure, parse_measure
from lmtune.models.model import known_model
from lmtune.models.two_stage import TWO_STAGE
from lmtune.reporting.results_files import (
    ACCEPTED,
    CHOSEN,
    FINAL,
    FOLDS,
    RECORD,
    TABLE,
    TOPICS,
    TRACE,
    UNCHANGED,
    CsvFile,
    file_name,
)
from lmtune.storage.digests import read_json, read_whole, unsealed
from lmtune.storage.folders import is_folder
from lmtune.tuning.experiment.result import ALSO, DIRECT, RANKNET, UNDEFINED, CollectionResult, Fit, Row

if TYPE_CHECKING:
    import pandas as pd

_RECORD = {"command": str, "versions": dict, "plan": dict, "collections": list, "notes": dict}

_Key = tuple[str, str, str]  # collection, measure, method


@dataclass(frozen=True)
class StoredResults:
    """What a results folder holds.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    results : tuple of CollectionResult
        As they were written: rows, folds, traces, p-values and notes. Equal results, written and
        read back, are equal to the last bit.
    record : mapping
        ``made.json``: ``command``, ``versions``, ``plan``, ``collections``, ``notes``.
    """

    path: Path
    results: tuple[CollectionResult, ...]
    record: Mapping[str, Any]


def read_results(path: PathLike) -> StoredResults:
    """Read a results folder.

    ``made.json``, ``folds.json``, ``topics.csv``, ``parameters.csv`` and ``table.json`` have to be
    there and to agree with one another; ``final.csv`` and ``traces`` may be missing. Runs, the tables
    in other formats, and anything else in the folder are not read.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote.

    Returns
    -------
    StoredResults

    Raises
    ------
    InputError
        Where a file is missing or malformed (with the line), or disagrees with the others.
    """
    folder = Path(path)
    if not is_folder(folder):
        problem = "not a folder" if folder.exists() else "no such folder"
        raise InputError(problem, file=path, accepted=ACCEPTED)
    for name in (RECORD, FOLDS, TOPICS.place, CHOSEN.place, TABLE):
        if not (folder / name).is_file():
            raise InputError(f"not a results folder: {name} is missing", file=path, accepted=ACCEPTED)
    record = _record(folder / RECORD)
    digests = record.pop("files", {})
    folds = read_kept(folder / FOLDS, UNCHANGED)
    model = record["plan"].get("model", TWO_STAGE.name)
    rows = _rows(folder, folds, model)
    results = tuple(
        CollectionResult(
            name,
            own,
            rows[name],
            _traces(folder, name, rows[name], len(own)),
            tuple(record["notes"].get(name, ())),
            model,
        )
        for name, own in folds.items()
    )
    # After they were read: nobody has put other results in their place meanwhile.
    for name, expected in digests.items():
        # Runs and pictures are not read.
        if name.endswith((".csv", ".json")) and (folder / name).is_file():
            read_whole(folder / name, expected)
    return StoredResults(folder, results, record)


def _rows(folder: Path, folds: Mapping[str, tuple[Fold, ...]], model: str) -> dict[str, tuple[Row, ...]]:
    """Read each collection's rows from three files that have to agree with one another."""
    measures: dict[str, Measure] = {}
    values = _values(folder, measures)
    fits, finals = _fits(folder, model), _finals(folder, model)
    table = _table(folder / TABLE)
    for place, keys in ((CHOSEN.place, fits.keys()), (TABLE, table.keys())):
        if list(keys) != list(values):
            odd = next(iter(keys ^ values.keys()), "their order")
            _refuse("other rows than topics.csv", folder / place, odd)
    if list(dict.fromkeys(collection for collection, _, _ in values)) != list(folds):
        _refuse("other collections than topics.csv", folder / FOLDS, list(folds))
    rows: dict[str, list[Row]] = {name: [] for name in folds}
    for key, by_topic in values.items():
        collection, measure, method = key
        topics = tuple(topic for fold in folds[collection] for topic in fold.test)
        if tuple(by_topic) != topics:
            _refuse(f"other topics than folds.json for {' '.join(key)}", folder / TOPICS.place)
        if len(fits[key]) != len(folds[collection]):
            _refuse(f"not one line a fold for {' '.join(key)}", folder / CHOSEN.place)
        mean, p_values, cautions = table[key]
        own = np.array(list(by_topic.values()), np.float64)
        chosen, final = tuple(fits[key]), finals.get(key)
        row = Row(measures[measure], method, topics, own, chosen, p_values, final, cautions)
        if UNDEFINED not in cautions and not math.isclose(row.mean, mean, rel_tol=1e-9, abs_tol=1e-12):
            _refuse(f"not the mean in topics.csv for {' '.join(key)}", folder / TABLE, mean)
        rows[collection].append(row)
    if len({tuple((row.measure, row.method) for row in own) for own in rows.values()}) != 1:
        _refuse("collections with different measures or methods", folder / TOPICS.place)
    return {name: tuple(own) for name, own in rows.items()}


def _refuse(
    message: str, file: Path, value: object = None, *, line: int | None = None, accepted: str = UNCHANGED
) -> NoReturn:
    raise InputError(message, file=file, line=line, value=value, accepted=accepted)


def _record(path: Path) -> dict[str, Any]:
    record: Any = read_json(path, _RECORD, accepted=UNCHANGED)
    try:
        record = unsealed(record, kinds={"files": dict[str, int]})
    except ValueError as error:
        _refuse(f"damaged: {error}", path)
    notes = record["notes"].values()
    if not all(isinstance(own, list) and all(isinstance(n, str) for n in own) for own in notes):
        _refuse("bad notes", path, record["notes"])
    if not all(isinstance(one, dict) for one in record["collections"]):
        _refuse("bad collections", path, record["collections"])
    return dict(record)


def _values(folder: Path, measures: dict[str, Measure]) -> dict[_Key, dict[str, float]]:
    """Read each row's values by topic, and fill in the measures that their names stand for."""
    path = TOPICS.path(folder)
    lines, table = TOPICS.read(folder)
    values: dict[_Key, dict[str, float]] = {}
    columns = (table[name] for name in TOPICS.columns)
    for line, name, measure, method, topic, value in zip(lines, *columns, strict=True):
        own = values.setdefault((name, measure, method), {})
        if topic in own:
            _refuse("a topic twice", path, topic, line=line)
        own[topic] = value
        if measure not in measures:
            try:
                measures[measure] = parse_measure(measure)
            except InputError as error:
                _refuse(error.message, path, measure, line=line, accepted=error.accepted or UNCHANGED)
    return values


def _fits(folder: Path, model: str) -> dict[_Key, list[Fit]]:
    fits: dict[_Key, list[Fit]] = {}
    for key, line, row, params in _settings(CHOSEN, folder, model):
        own = fits.setdefault(key, [])
        if row["fold"] != len(own) + 1:
            accepted = str(len(own) + 1)
            _refuse(
                "a fold out of order", CHOSEN.path(folder), str(row["fold"]), line=line, accepted=accepted
            )
        bound = float(row.get("bound", math.nan))
        edges = _edges(row["at_edge"])
        means = row["train"], row["test"]
        own.append(Fit(params, *means, row["evaluations"], edges, None if math.isnan(bound) else bound))
    return fits


def _finals(folder: Path, model: str) -> dict[_Key, Fit]:
    """Read what was chosen on all topics; older folders have none."""
    if not FINAL.path(folder).is_file():
        return {}
    return {
        key: Fit(params, row["train"], row["estimate"], row["evaluations"], _edges(row["at_edge"]))
        for key, _, row, params in _settings(FINAL, folder, model)
    }


def _settings(
    file: CsvFile, folder: Path, model: str
) -> Iterator[tuple[_Key, int, dict[str, Any], dict[str, float]]]:
    """Read the lines that have a setting: whose it is, the line's number, its columns and the setting."""
    found = known_model(model)
    known = [parameter.name for parameter in found.parameters] if found else []
    lines, table = file.read(folder, parameters=known)
    names = [name for name in table if name not in file.columns and name not in file.more]
    for place, line in enumerate(lines):
        row = {name: column[place] for name, column in table.items()}
        params = {name: float(row[name]) for name in names}
        for name, value in params.items():
            if not math.isfinite(value):
                _refuse(f"not a number in column {name}", file.path(folder), value, line=line)
        yield (row["collection"], row["measure"], row["method"]), line, row, params


def _edges(text: str) -> tuple[str, ...]:
    return tuple(text.split(" and ")) if text else ()


def _table(path: Path) -> dict[_Key, tuple[float, dict[str, float], tuple[str, ...]]]:
    """Read each row's mean, its p-values and cautions."""
    content = read_json(path, accepted=UNCHANGED)
    table: dict[_Key, tuple[float, dict[str, float], tuple[str, ...]]] = {}
    for row in content if isinstance(content, list) else [content]:
        try:
            tests = {name: row[f"p_value_{name.lower()}"] for name in (DIRECT, RANKNET)}
            p_values = {name: float(p) for name, p in tests.items() if p is not None}
            cautions = tuple(map(str, row.get("cautions", ())))
            mean = math.nan if UNDEFINED in cautions else float(row["mean"])
            table[row["collection"], row["measure"], row["method"]] = mean, p_values, cautions
        except (AttributeError, KeyError, TypeError, ValueError):
            _refuse("not a row of the table", path, row)
    return table


def _traces(folder: Path, name: str, rows: Sequence[Row], folds: int) -> dict[str, pd.DataFrame]:
    # A measure's name may hold characters that file names do without.
    keys = {
        file_name(key): key
        for row in rows
        for fold in (*(f"fold{number}" for number in range(1, folds + 1)), "final")
        for kind in ("direct", "approx", "certificate", "boxes", *ALSO)
        for key in [f"{kind}-{row.measure}-{fold}"]
    }
    tables: dict[str, pd.DataFrame] = {}
    for path in sorted(TRACE.path(folder, name, "").parent.glob("*.csv")):
        table = TRACE.frame(folder, name, path.stem)
        if table is not None:
            tables[keys.get(path.stem, path.stem)] = table
    return tables
