"""A results folder read back into what `lmtune.reporting.results.write_results` was given."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from lmtune.candidates.formula import TWO_STAGE
from lmtune.errors import InputError
from lmtune.formats.files import read_bytes, read_lines
from lmtune.measures.measure import Measure, parse_measure
from lmtune.reporting.results import RECORD, file_name
from lmtune.tuning.folds import Fold
from lmtune.tuning.result import ALSO, DIRECT, RANKNET, CollectionResult, Fit, Row

if TYPE_CHECKING:
    import pandas as pd

_ACCEPTED = "a folder that lmtune tune --output wrote"
_UNCHANGED = f"{_ACCEPTED}, unchanged"
_TOPICS = ("collection", "measure", "method", "topic", "value")
_PARAMETERS = (
    "collection",
    "measure",
    "method",
    "fold",
    "lambda",
    "mu",
    "train",
    "test",
    "evaluations",
    "at_edge",
)
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


def read_results(path: str | os.PathLike[str]) -> StoredResults:
    """Read a results folder.

    ``made.json``, ``folds.json``, ``topics.csv``, ``parameters.csv`` and ``table.json`` have to be
    there and to agree with one another; ``traces`` may be missing. Runs, the tables in other
    formats, and anything else in the folder are not read.

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
    if not folder.is_dir():
        problem = "not a folder" if folder.exists() else "no such folder"
        raise InputError(problem, file=path, accepted=_ACCEPTED)
    for name in (RECORD, "folds.json", "topics.csv", "parameters.csv", "table.json"):
        if not (folder / name).is_file():
            raise InputError(f"not a results folder: {name} is missing", file=path, accepted=_ACCEPTED)
    record = _record(folder / RECORD)
    folds = _folds(folder / "folds.json")
    measures: dict[str, Measure] = {}
    values = _values(folder / "topics.csv", measures)
    fits = _fits(folder / "parameters.csv")
    means, p_values = _table(folder / "table.json")
    for name, keys in (("parameters.csv", fits), ("table.json", means)):
        if list(keys) != list(values):
            odd = next(iter(keys.keys() ^ values.keys()), "their order")
            _refuse("other rows than topics.csv", folder / name, odd)
    if list(dict.fromkeys(collection for collection, _, _ in values)) != list(folds):
        _refuse("other collections than topics.csv", folder / "folds.json", list(folds))
    rows: dict[str, list[Row]] = {name: [] for name in folds}
    for key, by_topic in values.items():
        collection, measure, method = key
        expected = tuple(topic for fold in folds[collection] for topic in fold.test)
        if tuple(by_topic) != expected:
            _refuse(f"other topics than folds.json for {' '.join(key)}", folder / "topics.csv")
        if len(fits[key]) != len(folds[collection]):
            _refuse(f"not one line a fold for {' '.join(key)}", folder / "parameters.csv")
        own = np.array(list(by_topic.values()), np.float64)
        row = Row(measures[measure], method, expected, own, tuple(fits[key]), p_values[key])
        if not math.isclose(row.mean, means[key], rel_tol=1e-9, abs_tol=1e-12):
            _refuse(f"not the mean in topics.csv for {' '.join(key)}", folder / "table.json", means[key])
        rows[collection].append(row)
    shapes = {tuple((row.measure, row.method) for row in own) for own in rows.values()}
    if len(shapes) != 1:
        _refuse("collections with different measures or methods", folder / "topics.csv")
    results = tuple(
        CollectionResult(
            name,
            folds[name],
            tuple(rows[name]),
            _traces(folder / "traces" / file_name(name), rows[name], len(folds[name])),
            tuple(record["notes"].get(name, ())),
            record["plan"].get("model", TWO_STAGE.name),
        )
        for name in folds
    )
    return StoredResults(folder, results, record)


def _refuse(
    message: str, file: Path, value: object = None, *, line: int | None = None, accepted: str = _UNCHANGED
) -> NoReturn:
    raise InputError(message, file=file, line=line, value=value, accepted=accepted)


def _record(path: Path) -> dict[str, Any]:
    record = _json(path)
    if not isinstance(record, dict):
        _refuse("not an object", path, record)
    for name, kind in _RECORD.items():
        if not isinstance(record.get(name), kind):
            _refuse(f"bad or missing {name}", path, record.get(name))
    notes = record["notes"].values()
    if not all(isinstance(own, list) and all(isinstance(n, str) for n in own) for own in notes):
        _refuse("bad notes", path, record["notes"])
    if not all(isinstance(one, dict) for one in record["collections"]):
        _refuse("bad collections", path, record["collections"])
    return record


def _folds(path: Path) -> dict[str, tuple[Fold, ...]]:
    content = _json(path)
    if not isinstance(content, dict) or not content:
        _refuse("no collection", path, content)
    folds = {}
    for name, parts in content.items():
        if not isinstance(parts, list) or not all(_is_fold(part) for part in parts):
            _refuse(f"bad folds of {name}", path)
        folds[name] = tuple(Fold(tuple(part["train"]), tuple(part["test"])) for part in parts)
        topics = [topic for fold in folds[name] for topic in fold.test]
        if not topics or len(set(topics)) < len(topics):
            _refuse(f"no test topics, or one in two folds, of {name}", path)
    return folds


def _is_fold(part: object) -> bool:
    return isinstance(part, dict) and all(
        isinstance(part.get(role), list) and all(isinstance(topic, str) for topic in part[role])
        for role in ("train", "test")
    )


def _values(path: Path, measures: dict[str, Measure]) -> dict[_Key, dict[str, float]]:
    """Read each row's values by topic, and fill in the measures that their names stand for."""
    values: dict[_Key, dict[str, float]] = {}
    for line, fields in _lines(path, _TOPICS):
        name, measure, method, topic, value = fields
        own = values.setdefault((name, measure, method), {})
        if topic in own:
            _refuse("a topic twice", path, topic, line=line)
        own[topic] = _number(value, path, line)
        if measure not in measures:
            try:
                measures[measure] = parse_measure(measure)
            except InputError as error:
                raise InputError(
                    error.message, file=path, line=line, value=measure, accepted=error.accepted
                ) from None
    return values


def _fits(path: Path) -> dict[_Key, list[Fit]]:
    fits: dict[_Key, list[Fit]] = {}
    for line, fields in _lines(path, _PARAMETERS, optional=("bound",)):
        name, measure, method, fold, *numbers, evaluations, edges, bound = fields
        own = fits.setdefault((name, measure, method), [])
        if fold != str(len(own) + 1):
            _refuse("a fold out of order", path, fold, line=line, accepted=str(len(own) + 1))
        lambda_, mu, train, test = (_number(text, path, line) for text in numbers)
        if not (evaluations.isascii() and evaluations.isdigit()):
            _refuse("not a count", path, evaluations, line=line)
        own.append(
            Fit(
                lambda_,
                mu,
                train,
                test,
                int(evaluations),
                tuple(edges.split(" and ")) if edges else (),
                _number(bound, path, line) if bound else None,
            )
        )
    return fits


def _table(path: Path) -> tuple[dict[_Key, float], dict[_Key, dict[str, float]]]:
    """Read each row's mean and its p-values."""
    content = _json(path)
    means: dict[_Key, float] = {}
    p_values: dict[_Key, dict[str, float]] = {}
    for row in content if isinstance(content, list) else [content]:
        try:
            key = (row["collection"], row["measure"], row["method"])
            tests = {name: row[f"p_value_{name.lower()}"] for name in (DIRECT, RANKNET)}
            means[key] = float(row["mean"])
            p_values[key] = {name: float(p) for name, p in tests.items() if p is not None}
        except (KeyError, TypeError, ValueError):
            _refuse("not a row of the table", path, row)
    return means, p_values


def _traces(folder: Path, rows: Sequence[Row], folds: int) -> dict[str, pd.DataFrame]:
    if not folder.is_dir():
        return {}
    # A measure's name may hold characters that file names do without.
    names = {
        file_name(name): name
        for row in rows
        for fold in range(1, folds + 1)
        for kind in ("direct", "certificate", "boxes", *ALSO)
        for name in [f"{kind}-{row.measure}-fold{fold}"]
    }
    found = sorted(folder.glob("*.csv"))
    return {names.get(path.stem, path.stem): _trace(path) for path in found}


def _trace(path: Path) -> pd.DataFrame:
    import pandas as pd

    lines = _csv(path)
    _, header = next(lines, (1, []))
    columns: list[list[float]] = [[] for _ in header]
    for line, fields in lines:
        for column, text in zip(columns, fields, strict=True):
            # Whole numbers stay whole; nothing is written where there is no value.
            whole = text.removeprefix("-").isdecimal()
            column.append(int(text) if whole else _number(text, path, line) if text else math.nan)
    return pd.DataFrame(dict(zip(header, columns, strict=True)))


def _lines(
    path: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[int, list[str]]]:
    """Yield a CSV file's lines below its header; optional columns that are absent are empty."""
    lines = _csv(path)
    _, header = next(lines, (1, []))
    if header not in ([*columns], [*columns, *optional]):
        _refuse("not the header", path, ",".join(header), line=1, accepted=",".join(columns))
    padding = [""] * (len(columns) + len(optional) - len(header))
    for line, fields in lines:
        yield line, fields + padding


def _csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a CSV file, the header first, all with as many columns."""
    reader = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
    columns = 0
    try:
        for fields in reader:
            columns = columns or len(fields)
            if len(fields) != columns:
                _refuse(
                    f"{len(fields)} columns",
                    path,
                    ",".join(fields),
                    line=reader.line_num,
                    accepted=f"{columns}",
                )
            yield reader.line_num, fields
    except csv.Error as error:
        _refuse(f"not CSV: {error}", path, line=reader.line_num)


def _number(text: str, path: Path, line: int) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        _refuse("not a number", path, text, line=line, accepted="a finite number")
    return number


def _json(path: Path) -> Any:
    try:
        return json.loads(read_bytes(path))
    except json.JSONDecodeError as error:
        _refuse(f"not JSON: {error.msg}", path, line=error.lineno)
    except (UnicodeDecodeError, RecursionError) as error:
        _refuse("not JSON", path, str(error))
