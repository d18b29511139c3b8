"""Rows of runs, judgments, topics and documents by their columns' names, from memory and from tables' files.

A table's file is known by its suffix: CSV with a header line, Parquet, JSON (records, or ranx's
``{topic: {docno: score}}``). Without numpy and, until a table is read, pandas.

The types of what users give as runs, judgments and topics are here too; `lmtune.io.frames` reads them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from lmtune.errors import InputError, PathLike, Place
from lmtune.io.csv_files import csv_rows
from lmtune.io.digests import parse_json
from lmtune.io.files import is_compressed, read_bytes

if TYPE_CHECKING:
    import pandas as pd


_Value = TypeVar("_Value", float, int)

TOPIC = ("qid", "query_id", "q_id", "query-id", "topic")
DOCNO = ("docno", "doc_id", "docid", "corpus-id")
_RANKED = ((*TOPIC, "query", "Query Text"), (*DOCNO, "Doc ID"))
_GRADES = ("label", "relevance", "rel", "gain", "grade", "rating", "Rating")
_LARGEST_GAIN = 999_999_999
_TEXT = ("text", "contents", "title", "body")


class Kind(NamedTuple):
    """One kind of what is given.

    Attributes
    ----------
    name : str
        For messages.
    columns : tuple of tuple of str
        The columns, each with the names that it may have.
    rows_of : str
        ir_datasets' method that yields the rows.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    rows_of: str

    @property
    def verb(self) -> str:
        """The verb that agrees with the name."""
        return "are" if self.name.endswith("s") else "is"

    @property
    def accepted(self) -> str:
        """The accepted forms, for `InputError`."""
        columns = ", ".join(" or ".join(names[:2]) for names in self.columns)
        return f"a path, a dictionary, or a frame or named rows with {columns}"


RUN = Kind("run", (*_RANKED, ("score",)), "scoreddocs_iter")
_RANKS = RUN._replace(columns=(*_RANKED, ("rank",)))
QRELS = Kind("judgments", (*_RANKED, (*_GRADES, "score")), "qrels_iter")
"""BEIR and ranx call a gain a score."""
TOPICS = Kind("topics", (TOPIC, ("query", *_TEXT)), "queries_iter")
DOCUMENTS = Kind("documents", ((*DOCNO, "id", "_id"), _TEXT), "docs_iter")


def is_table(path: PathLike) -> bool:
    """Tell from its suffix, before one that compresses, whether a file is a table."""
    return _suffix(path) in (".csv", ".json", ".parquet")


def read_table(path: PathLike) -> Any:
    """Read a table's file as a frame, or as what JSON holds.

    Raises
    ------
    InputError
        For a file that cannot be read or is not what its suffix says; for Parquet without pyarrow.
    """
    suffix = _suffix(path)
    if suffix == ".csv":
        return _frame_of_csv(path)
    if suffix == ".parquet":
        return _frame_of_parquet(path)
    data = read_bytes(path)
    try:
        return parse_json(data, pairs=_once)
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file=path) from None


def swapped(path: PathLike, kind: Kind) -> InputError:
    """Return the error for a run in judgments' place, or the other way round."""
    is_run = kind.name == RUN.name
    message = "this is a run, not judgments" if is_run else "these are judgments, not a run"
    return InputError(message, file=path, accepted="judgments come first, then runs")


def read_scores(data: Any, name: str, first: int = 1) -> dict[str, dict[str, float]]:
    """Return scores by topic and docno; where there are ranks alone, the score is minus the rank."""
    names = frame_columns(data)
    if names and "score" not in names and "rank" in names and not set(names) & set(_GRADES):
        ranks = _nested(data, _RANKS, name, _score, first)
        return {topic: {docno: -rank for docno, rank in places.items()} for topic, places in ranks.items()}
    return _nested(data, RUN, name, _score, first)


def read_gains(data: Any, name: str, first: int = 1) -> dict[str, dict[str, int]]:
    """Return gains by topic and docno; `first` is the first row's line."""
    if isinstance(data, dict) and all(map(_are_gains, data, data.values())):
        return {topic: dict(own) for topic, own in data.items() if own}
    return _nested(data, QRELS, name, _gain, first)


def _are_gains(topic: Any, gains: Any) -> bool:
    """Say whether a topic's gains are as they are returned: most are, and checked far faster together."""
    if not isinstance(gains, dict) or {type(topic), *map(type, gains)} != {str}:
        return False
    values = gains.values()
    return {*map(type, values)} <= {int} and max(map(abs, values), default=0) <= _LARGEST_GAIN


def table_values(
    path: PathLike, read: Callable[[Any, str, int], dict[str, dict[str, _Value]]]
) -> dict[bytes, dict[bytes, _Value]]:
    """Read a table's file by `read_scores` or `read_gains`, its topics and docnos as UTF-8."""
    by_topic = read(read_table(path), os.fspath(path), 2 if _suffix(path) == ".csv" else 1)
    try:
        return {
            topic.encode(): {docno.encode(): value for docno, value in by_docno.items()}
            for topic, by_docno in by_topic.items()
        }
    except UnicodeEncodeError as error:
        raise InputError("a topic or docno is no text", file=path, value=error.object) from None


def _suffix(path: PathLike) -> str:
    plain = Path(path).with_suffix("") if is_compressed(path) else Path(path)
    return plain.suffix.lower()


def _frame_of_csv(path: PathLike) -> pd.DataFrame:
    """Read CSV: what is a number by its column, a number; all else, identifiers above all, as it stands."""
    import pandas as pd

    (_, header), *rows = list(csv_rows(path)) or [(1, [])]
    frame = pd.DataFrame([cells for _, cells in rows], columns=header, dtype=object)
    for name in {"score", "rank", *_GRADES} & set(header):
        frame[name] = pd.Series(map(_number, frame[name]), dtype=object)
    return frame


def _frame_of_parquet(path: PathLike) -> pd.DataFrame:
    """Read Parquet, what was a frame's index as columns."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        message = "Parquet needs pyarrow, which is not installed"
        raise InputError(message, file=path, accepted="pip install pyarrow") from None
    source = pa.BufferReader(read_bytes(path))
    try:
        table = pyarrow.parquet.read_table(source).replace_schema_metadata(None)
        frame: pd.DataFrame = table.to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"not Parquet: {error}", file=path) from None
    return frame


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} comes twice")
    return content


def _number(text: str) -> float | str:
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


def frame_columns(data: Any) -> list[str]:
    """Return the columns of a frame; none of anything else."""
    return [str(name) for name in getattr(data, "columns", ())]


def _nested(
    data: Any, kind: Kind, name: str, read: Callable[[Any], _Value], first: int
) -> dict[str, dict[str, _Value]]:
    by_topic: dict[str, dict[str, _Value]] = {}
    with Place(name) as place:
        for place.line, (topic, docno, value) in enumerate(rows_of(data, kind, name), first):
            values = by_topic.setdefault(identifier(topic), {})
            document = identifier(docno)
            if document in values:
                raise InputError(
                    f"a document comes twice for topic {topic}",
                    value=document,
                    accepted="each document once for a topic",
                )
            values[document] = read(value)
    return by_topic


def rows_of(data: Any, kind: Kind, name: str) -> Iterable[tuple[Any, ...]]:
    """Return rows of the columns that a kind has, from whatever is given."""
    if names := frame_columns(data):
        chosen = [next((alias for alias in wanted if alias in names), None) for wanted in kind.columns]
        if None in chosen:
            lacking = kind.columns[chosen.index(None)]
            if lacking == ("score",) and set(names) & set(_GRADES):
                raise swapped(name, QRELS)
            raise InputError(f"no column {lacking[0]}", file=name, value=names, accepted=" or ".join(lacking))
        if kind is QRELS and chosen[-1] == "score" and "rank" in names:
            raise swapped(name, RUN)
        return zip(*(data[column] for column in chosen), strict=True)
    if hasattr(data, "to_dict"):
        data = data.to_dict()
    if isinstance(data, Mapping):
        return _of_mapping(data, kind, name)
    if hasattr(data, kind.rows_of):
        data = getattr(data, kind.rows_of)()
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise InputError(f"no {kind.name}", file=name, value=type(data).__name__, accepted=kind.accepted)
    return _of_records(data, kind, name)


def _of_mapping(data: Mapping[Any, Any], kind: Kind, name: str) -> Iterator[tuple[Any, ...]]:
    for key, value in data.items():
        if len(kind.columns) == 2:
            yield key, value
        elif isinstance(value, Mapping):
            yield from ((key, docno, number) for docno, number in value.items())
        else:
            raise InputError(
                f"topic {key} has no dictionary by docno", file=name, value=value, accepted=kind.accepted
            )


def _of_records(data: Iterable[Any], kind: Kind, name: str) -> Iterator[tuple[Any, ...]]:
    for row, record in enumerate(data, 1):
        if hasattr(record, "printed_rows"):  # a Ranking
            yield from record.printed_rows()
            continue
        values = [field_of_row(record, names) for names in kind.columns]
        if hasattr(record, "default_text"):
            values[-1] = record.default_text()
        if None in values:
            missing = kind.columns[values.index(None)][0]
            raise InputError(
                f"a row has no {missing}", file=name, line=row, value=record, accepted=kind.accepted
            )
        yield tuple(values)


def field_of_row(record: Any, names: Iterable[str]) -> Any:
    """Return what a row has by one of the names, None where it has none."""
    if isinstance(record, Mapping):
        return next((record[name] for name in names if name in record), None)
    return next((getattr(record, name) for name in names if hasattr(record, name)), None)


def identifier(value: Any) -> str:
    """Return a topic or docno as text, or raise InputError."""
    if isinstance(value, str):
        return value
    if isinstance(value, Integral):
        return str(int(value))
    raise InputError("a topic or docno is neither text nor an integer", value=value, accepted="such as '51'")


def _score(value: Any) -> float:
    if not _is_finite(value):
        raise InputError("the score is no finite number", value=value, accepted="such as -7.25")
    return float(value)


def _gain(value: Any) -> int:
    if type(value) is int and abs(value) <= _LARGEST_GAIN:
        return value  # as nearly all are
    if not _is_finite(value) or int(value) != value or abs(value) > _LARGEST_GAIN:
        accepted = "an integer such as 0, 1, 2 or -1; if this is a run: judgments come first"
        raise InputError("the gain is no integer", value=value, accepted=accepted)
    return int(value)


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # an integer beyond a float
        return False


class Frame(Protocol):
    """A frame: pandas', polars'."""

    @property
    def columns(self) -> Any:
        """Names of its columns."""


class HasDict(Protocol):
    """A run or judgments of ranx."""

    def to_dict(self) -> Any:
        """Return values by topic and docno."""


class HasScores(Protocol):
    """A collection of ir_datasets with a run."""

    def scoreddocs_iter(self) -> Any:
        """Yield rows."""


class HasQrels(Protocol):
    """A collection of ir_datasets with judgments."""

    def qrels_iter(self) -> Any:
        """Yield rows."""


class HasQueries(Protocol):
    """A collection of ir_datasets with topics."""

    def queries_iter(self) -> Any:
        """Yield rows."""


Rows: TypeAlias = Iterable[tuple[Any, ...]] | Iterable[Mapping[str, Any]]
"""Named tuples, or dictionaries."""

RunLike: TypeAlias = PathLike | Frame | Mapping[str, Mapping[str, float]] | Rows | HasDict | HasScores
"""A run: a file's path, a frame, scores by topic and docno, rows, rankings, a run of ranx."""

RunsLike: TypeAlias = RunLike | Mapping[str, RunLike] | Iterable[RunLike]
"""A run, several, or several by name."""

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Gains by topic and docno."""

QrelsLike: TypeAlias = PathLike | Frame | Qrels | Rows | HasDict | HasQrels
"""Judgments, likewise, with gains."""

TopicsLike: TypeAlias = PathLike | Frame | Mapping[str, Any] | Rows | HasQueries
"""Topics: text, or weighted terms, by identifier."""
