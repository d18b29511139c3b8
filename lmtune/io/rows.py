"""Rows of runs, judgments, topics and documents with named columns, from memory and from table files.

The suffix of a file selects the table format: CSV with a header line, Parquet, or JSON (a list of records, or
ranx's ``{topic: {docno: score}}``). This module does not import numpy.

It also defines the types of accepted runs, judgments and topics, which `lmtune.io.frames` converts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from lmtune.errors import FilePosition, InputError, PathLike
from lmtune.io.csv_files import csv_rows
from lmtune.io.files import is_compressed, read_bytes
from lmtune.strict_json import parse_json

_Value = TypeVar("_Value", float, int)

TOPIC = ("qid", "query_id", "q_id", "query-id", "topic")
DOCNO = ("docno", "doc_id", "docid", "corpus-id")
QUERY_TEXT = ("query", "Query Text")
"""Columns of Quepid with a topic's text, which is also its name."""

QUERIES, RATINGS = "querySetQueries", "judgmentRatings"
"""Keys of OpenSearch's Search Relevance Workbench: the entries of a query set and of a judgment list."""

_RANKED = ((*TOPIC, *QUERY_TEXT), (*DOCNO, "Doc ID"))
_GRADES = ("label", "relevance", "rel", "gain", "grade", "rating", "Rating")
_LARGEST_GAIN = 999_999_999
_TEXT = ("text", "contents", "title", "body")


class _Table(dict[str, list[Any]]):
    """The columns of a table file by name, with a data frame's attribute ``columns``."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [*self]


class Kind(NamedTuple):
    """A kind of input: run, judgments, topics or documents.

    Attributes
    ----------
    name : str
        Name in messages.
    columns : tuple of tuple of str
        For each column its accepted names.
    rows_of : str
        The method of ir_datasets that yields the rows.
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
        """The accepted forms, for error messages."""
        columns = ", ".join(" or ".join(names[:2]) for names in self.columns)
        return f"a path, a dictionary, or a frame or named rows with {columns}"


RUN = Kind("run", (*_RANKED, ("score",)), "scoreddocs_iter")
_RANKS = RUN._replace(columns=(*_RANKED, ("rank",)))
QRELS = Kind("judgments", (*_RANKED, (*_GRADES, "score")), "qrels_iter")
"""Judgments; in BEIR and ranx the column of gains is called score."""
TOPICS = Kind("topics", (TOPIC, ("query", *_TEXT)), "queries_iter")
DOCUMENTS = Kind("documents", ((*DOCNO, "id", "_id"), _TEXT), "docs_iter")


THESE_ARE_JUDGMENTS = "these are judgments, not a run"


def is_table(path: PathLike) -> bool:
    """Return whether the suffix of a file, without a suffix of compression, names a table format."""
    return _suffix(path) in (".csv", ".json", ".parquet")


def read_table(path: PathLike) -> Any:
    """Read a table file as columns by name, or the content of a JSON file.

    Raises
    ------
    InputError
        If the file cannot be read or is not in the format of its suffix, or if Parquet needs pyarrow.
    """
    suffix = _suffix(path)
    if suffix == ".csv":
        return _table_of_csv(path)
    if suffix == ".parquet":
        return _table_of_parquet(path)
    data = read_bytes(path)
    try:
        content = parse_json(data, pairs=_distinct_keys)
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file=path) from None
    with FilePosition(path):
        lists = workbench_lists(content, RATINGS)
        return content if lists is None else [*_workbench_gains(lists)]


def swapped_files_error(path: PathLike, kind: Kind) -> InputError:
    """Return the error for a run where judgments are expected, or the reverse; `kind` is that of the file."""
    is_run = kind.name == RUN.name
    message = "this is a run, not judgments" if is_run else THESE_ARE_JUDGMENTS
    columns = "topic, iteration, docno, gain" if is_run else "topic, Q0, docno, rank, score, tag"
    accepted = f"lines of {columns}; as arguments, judgments come before runs"
    return InputError(message, file=path, accepted=accepted)


def read_scores(data: Any, name: str, first: int = 1) -> dict[str, dict[str, float]]:
    """Return scores by topic and docno; without scores, each score is minus the rank."""
    names = frame_columns(data)
    if names and "score" not in names and "rank" in names and not set(names) & set(_GRADES):
        ranks = _nested(data, _RANKS, name, _score, first)
        return {
            topic: {docno: -rank for docno, rank in by_docno.items()} for topic, by_docno in ranks.items()
        }
    return _nested(data, RUN, name, _score, first)


def read_gains(data: Any, name: str, first: int = 1) -> dict[str, dict[str, int]]:
    """Return gains by topic and docno; `first` is the line number of the first row, for messages."""
    if isinstance(data, dict) and all(map(_are_gains, data, data.values())):
        return {topic: dict(gains) for topic, gains in data.items() if gains}
    return _nested(data, QRELS, name, _gain, first)


def _are_gains(topic: Any, gains: Any) -> bool:
    """Return whether the gains of a topic need no conversion; a much faster check than that of each row."""
    if not isinstance(gains, dict) or {type(topic), *map(type, gains)} != {str}:
        return False
    values = gains.values()
    return {*map(type, values)} <= {int} and max(map(abs, values), default=0) <= _LARGEST_GAIN


def table_values(
    path: PathLike, read: Callable[[Any, str, int], dict[str, dict[str, _Value]]]
) -> dict[bytes, dict[bytes, _Value]]:
    """Read a table file with `read_scores` or `read_gains`; topics and docnos are UTF-8 bytes."""
    by_topic = read(read_table(path), os.fspath(path), 2 if _suffix(path) == ".csv" else 1)
    try:
        return {
            topic.encode(): {docno.encode(): value for docno, value in by_docno.items()}
            for topic, by_docno in by_topic.items()
        }
    except UnicodeEncodeError as error:
        raise InputError("a topic or docno is not valid text", file=path, value=error.object) from None


def _suffix(path: PathLike) -> str:
    plain = Path(path).with_suffix("") if is_compressed(path) else Path(path)
    return plain.suffix.lower()


def _table_of_csv(path: PathLike) -> _Table:
    """Read CSV: columns of scores, ranks and gains as numbers, all others (identifiers, texts) as text."""
    (_, header), *rows = list(csv_rows(path)) or [(1, [])]
    columns = {name: [cells[i] for _, cells in rows] for i, name in enumerate(header)}
    numbers = {"score", "rank", *_GRADES}
    return _Table(
        {name: [*map(_number, cells)] if name in numbers else cells for name, cells in columns.items()}
    )


def _table_of_parquet(path: PathLike) -> _Table:
    """Read Parquet; the index of a stored data frame becomes ordinary columns."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        message = "Parquet needs pyarrow, which is not installed"
        raise InputError(message, file=path, accepted="pip install pyarrow") from None
    source = pa.BufferReader(read_bytes(path))
    try:
        table = pyarrow.parquet.read_table(source)
        return _Table(zip(table.column_names, (column.to_pylist() for column in table.columns), strict=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"not Parquet: {error}", file=path) from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
    """Return the column names of a data frame; an empty list for other objects."""
    return [str(name) for name in getattr(data, "columns", ())]


def _nested(
    data: Any, kind: Kind, name: str, read: Callable[[Any], _Value], first: int
) -> dict[str, dict[str, _Value]]:
    by_topic: dict[str, dict[str, _Value]] = {}
    with FilePosition(name) as position:
        for position.line, (topic, docno, value) in enumerate(rows_of(data, kind, name), first):
            values = by_topic.setdefault(identifier(topic), {})
            document = identifier(docno)
            if document in values:
                raise InputError(
                    f"a document occurs twice for topic {topic}",
                    value=document,
                    accepted="each document once for a topic",
                )
            values[document] = read(value)
    return by_topic


def rows_of(data: Any, kind: Kind, name: str) -> Iterable[tuple[Any, ...]]:
    """Return rows with the columns of a kind, from any accepted object."""
    if names := frame_columns(data):
        chosen = [next((alias for alias in wanted if alias in names), None) for wanted in kind.columns]
        if None in chosen:
            missing = kind.columns[chosen.index(None)]
            if missing == ("score",) and set(names) & set(_GRADES):
                raise swapped_files_error(name, QRELS)
            raise InputError(f"no column {missing[0]}", file=name, value=names, accepted=" or ".join(missing))
        if kind is QRELS and chosen[-1] == "score" and "rank" in names:
            raise swapped_files_error(name, RUN)
        columns = [data[column] for column in chosen]
        if chosen[0] in QUERY_TEXT and kind.columns[0] == _RANKED[0]:
            columns[0] = [*map(name_by_text, columns[0])]
        return zip(*columns, strict=True)
    if hasattr(data, "to_dict"):
        data = data.to_dict()
    if isinstance(data, Mapping):
        return _of_mapping(data, kind, name)
    if hasattr(data, kind.rows_of):
        data = getattr(data, kind.rows_of)()
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise InputError(
            f"cannot be read as {kind.name}", file=name, value=type(data).__name__, accepted=kind.accepted
        )
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
        if kind.columns[0] == _RANKED[0] and field_of_row(record, TOPIC) is None:
            values[0] = name_by_text(values[0])
        yield tuple(values)


def name_by_text(query: Any) -> Any:
    """Return the identifier of a topic that is named by its text: the words, joined by ``_``."""
    return "_".join(query.split()) if isinstance(query, str) else query


def workbench_lists(content: Any, key: str) -> list[Any] | None:
    """Return the entries of query sets or judgment lists of OpenSearch's Search Relevance Workbench.

    Parameters
    ----------
    content : object
        Parsed JSON: a list as it is imported, or an answer of the workbench, which may have several.
    key : str
        ``"querySetQueries"`` or ``"judgmentRatings"``.

    Returns
    -------
    list or None
        The entries; None for other content.
    """
    if not isinstance(content, dict):
        return None
    if isinstance(content.get(key), list):
        return list(content[key])
    hits = content.get("hits")
    found = hits.get("hits") if isinstance(hits, dict) else None
    if not isinstance(found, list) or "_shards" not in content:
        return None
    sources = [hit.get("_source") if isinstance(hit, dict) else None for hit in found]
    lists = [workbench_lists(source, key) for source in sources]
    return [entry for entries in lists if entries is not None for entry in entries] if any(lists) else None


def _workbench_gains(entries: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the ratings of judgment lists as rows; ratings are texts such as ``"2.000"`` there."""
    for entry in entries:
        is_rated = isinstance(entry, dict) and isinstance(entry.get("ratings"), list)
        for rating in entry["ratings"] if is_rated else [None]:
            if (
                not isinstance(rating, dict)
                or not {"docId", "rating"} <= rating.keys()
                or "query" not in entry
            ):
                raise InputError(
                    "not a list of ratings", value=entry, accepted="query and ratings of docId, rating"
                )
            gain = rating["rating"]
            yield {
                "query": entry["query"],
                "docno": rating["docId"],
                "rating": _number(gain) if isinstance(gain, str) else gain,
            }


def field_of_row(record: Any, names: Iterable[str]) -> Any:
    """Return the value of the first name that a row has; None if it has none of them."""
    if isinstance(record, Mapping):
        return next((record[name] for name in names if name in record), None)
    return next((getattr(record, name) for name in names if hasattr(record, name)), None)


def identifier(value: Any) -> str:
    """Return a topic or docno as text; raise `InputError` if it is neither text nor an integer."""
    if isinstance(value, str):
        return value
    if isinstance(value, Integral):
        return str(int(value))
    raise InputError("a topic or docno is neither text nor an integer", value=value, accepted="such as '51'")


def _score(value: Any) -> float:
    if not _is_finite(value):
        raise InputError("the score is not a finite number", value=value, accepted="such as -7.25")
    return float(value)


def _gain(value: Any) -> int:
    if type(value) is int and abs(value) <= _LARGEST_GAIN:
        return value  # the usual case
    if not _is_finite(value) or int(value) != value or abs(value) > _LARGEST_GAIN:
        accepted = "an integer such as 0, 1, 2 or -1; if this is a run: judgments come first"
        raise InputError("the gain is not an integer", value=value, accepted=accepted)
    return int(value)


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # an integer outside the range of a float
        return False


class Frame(Protocol):
    """A data frame, for example of pandas or polars."""

    @property
    def columns(self) -> Any:
        """Names of the columns."""


class HasDict(Protocol):
    """A run or judgments of ranx."""

    def to_dict(self) -> Any:
        """Return values by topic and docno."""


class HasScores(Protocol):
    """A dataset of ir_datasets with a run."""

    def scoreddocs_iter(self) -> Any:
        """Yield rows."""


class HasQrels(Protocol):
    """A dataset of ir_datasets with judgments."""

    def qrels_iter(self) -> Any:
        """Yield rows."""


class HasQueries(Protocol):
    """A dataset of ir_datasets with topics."""

    def queries_iter(self) -> Any:
        """Yield rows."""


Rows: TypeAlias = Iterable[tuple[Any, ...]] | Iterable[Mapping[str, Any]]
"""Named tuples, or dictionaries."""

RunLike: TypeAlias = PathLike | Frame | Mapping[str, Mapping[str, float]] | Rows | HasDict | HasScores
"""A run: a path, a data frame, scores by topic and docno, rows, rankings, or a run of ranx."""

RunsLike: TypeAlias = RunLike | Mapping[str, RunLike] | Iterable[RunLike]
"""One run, several runs, or runs by name."""

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Gains by topic and docno."""

QrelsLike: TypeAlias = PathLike | Frame | Qrels | Rows | HasDict | HasQrels
"""Judgments: a path, a data frame, gains by topic and docno, rows, or judgments of ranx."""

TopicsLike: TypeAlias = PathLike | Frame | Mapping[str, Any] | Rows | HasQueries
"""Topics: a path, a data frame, rows, or texts or weighted terms by identifier."""
