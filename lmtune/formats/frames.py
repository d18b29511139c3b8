"""Users' objects in memory, read as lmtune's own runs, judgements, topics and documents.

Each of them may be given as

- a file's path;
- a frame (of pandas, or anything with ``columns``) with the columns of PyTerrier or of ir_datasets:
  ``qid docno score [rank]``, ``qid docno label``, ``qid query``, ``docno text``;
- rows with these names, such as ir_measures' and ir_datasets' named tuples, or dictionaries: a
  list or a generator;
- a dictionary: scores or gains by topic and docno, texts by topic or docno;
- for a run, the rankings that `lmtune.rank` yields;
- a run or judgements of ranx (anything with ``to_dict``), or a collection of ir_datasets.

Nothing of these packages is imported.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from lmtune.errors import InputError
from lmtune.formats.documents import Document, DocumentSource, ListDocuments
from lmtune.formats.qrels import read_qrels
from lmtune.formats.runs import Ranking, printed_scores, read_run
from lmtune.formats.topics import read_topics
from lmtune.formats.weighted_query import WeightedQuery

if TYPE_CHECKING:
    import pandas as pd

_PATH = (str, os.PathLike)
_Value = TypeVar("_Value", float, int)
_Found = TypeVar("_Found", bound=Collection[Any])

TOPIC = ("qid", "query_id", "topic")
DOCNO = ("docno", "doc_id")
_LARGEST_GAIN = 999_999_999
_TEXT = ("text", "contents", "title", "body")


class _Kind(NamedTuple):
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
        columns = ", ".join(" or ".join(names) for names in self.columns)
        return f"a path, a dictionary, or a frame or named rows with {columns}"


_RUN = _Kind("run", (TOPIC, DOCNO, ("score",)), "scoreddocs_iter")
_RANKS = _RUN._replace(columns=(TOPIC, DOCNO, ("rank",)))
_QRELS = _Kind("judgements", (TOPIC, DOCNO, ("label", "relevance", "gain")), "qrels_iter")
_TOPICS = _Kind("topics", (TOPIC, ("query", *_TEXT)), "queries_iter")
_DOCUMENTS = _Kind("documents", (DOCNO, _TEXT), "docs_iter")


def as_run(data: Any, *, name: str = "run") -> dict[str, dict[str, float]]:
    """Take anything for a run: finite scores by topic and docno.

    Where there are ranks and no scores, the score is minus the rank.

    Raises
    ------
    InputError
        For a missing column, an identifier that is neither text nor an integer, a score that is no
        finite number, a document ranked twice, or nothing at all; as `read_run` for a file.

    Examples
    --------
    >>> from collections import namedtuple
    >>> row = namedtuple("ScoredDoc", ["query_id", "doc_id", "score"])
    >>> as_run(iter([row("1", "a", 2), row("1", "b", 1.5)]))
    {'1': {'a': 2.0, 'b': 1.5}}
    """
    if isinstance(data, _PATH):
        return read_run(data)
    if _names(data) and "score" not in _names(data) and "rank" in _names(data):
        ranks = _nested(data, _RANKS, name, _score)
        return {topic: {docno: -rank for docno, rank in places.items()} for topic, places in ranks.items()}
    return _some(_nested(data, _RUN, name, _score), _RUN)


def as_qrels(data: Any, *, name: str = "judgements") -> dict[str, dict[str, int]]:
    """Take anything for judgements, if only of no topic: integer gains by topic and docno.

    Raises
    ------
    InputError
        As `as_run`; for a gain that is no integer.

    Examples
    --------
    >>> as_qrels([{"qid": 1, "docno": "a", "label": 2.0}])
    {'1': {'a': 2}}
    """
    return read_qrels(data) if isinstance(data, _PATH) else _nested(data, _QRELS, name, _gain)


def as_topics(data: Any, *, name: str = "topics") -> dict[str, str]:
    """Take anything for topics: query text by topic identifier.

    Raises
    ------
    InputError
        As `as_run`; for a topic that comes twice with different texts.
    """
    if isinstance(data, _PATH):
        return read_topics(data)
    topics: dict[str, str] = {}
    for row, (topic, query) in enumerate(_rows(data, _TOPICS, name), 1):
        identifier, text = _identifier(topic, name, row), query
        if isinstance(query, dict):
            text = WeightedQuery.of(query)
        if not isinstance(text, str) or topics.get(identifier, text) != text:
            problem = "has a second text" if isinstance(text, str) else "has no text"
            raise InputError(f"topic {identifier} {problem}", file=name, line=row, value=text)
        topics[identifier] = text
    return _some(topics, _TOPICS)


def as_documents(data: Any, *, name: str = "documents") -> DocumentSource:
    """Take anything for documents that can be read again and again.

    Rows of a generator are kept in memory; ir_datasets' collections are read anew each time.

    Raises
    ------
    InputError
        As `as_run`; paths are for `lmtune.load`.
    """
    if hasattr(data, "batches") and hasattr(data, "digest"):
        source: DocumentSource = data
        return source
    if isinstance(data, _PATH):
        raise InputError("documents by a path", value=data, accepted="lmtune.load(documents=...).documents")

    def documents(rows: Any) -> Iterator[Document]:
        for row, (docno, text) in enumerate(_rows(rows, _DOCUMENTS, name), 1):
            if not isinstance(text, str):
                raise InputError("a document has no text", file=name, line=row, value=text)
            yield Document(_identifier(docno, name, row), text)

    if hasattr(data, "docs_iter"):
        collection = f"irds:{data.dataset_id()}" if hasattr(data, "dataset_id") else name
        return ListDocuments(collection, lambda: documents(data))
    return ListDocuments(name, _some(tuple(documents(data)), _DOCUMENTS))


def named_runs(data: Any) -> Iterator[tuple[str, Any]]:
    """Tell runs apart: yield a name and what `as_run` takes for each, paths under their own name.

    Parameters
    ----------
    data : a run, an iterable of runs, or a mapping of names to runs
        As `as_run` takes them.
    """
    if isinstance(data, _PATH):
        yield os.fspath(data), data
    elif isinstance(data, Mapping) and data and not _is_by_docno(next(iter(data.values()))):
        yield from data.items()
    elif isinstance(data, Mapping) or _is_table(data) or not isinstance(data, Iterable):
        yield _name_of(data, "run"), data
    else:
        rest = iter(data)
        first = next(rest, None)
        if _field(first, TOPIC) is not None and not _is_table(first):
            yield "run", itertools.chain([first], rest)
            return
        for number, run in enumerate(itertools.chain([] if first is None else [first], rest), 1):
            yield os.fspath(run) if isinstance(run, _PATH) else _name_of(run, f"run {number}"), run


def run_frame(rankings: Iterable[Ranking]) -> pd.DataFrame:
    """Make a frame of rankings, as PyTerrier has them.

    Parameters
    ----------
    rankings : iterable of Ranking
        What `lmtune.rank` and `lmtune.reranking.reranked` yield.

    Returns
    -------
    pandas.DataFrame
        Columns ``qid``, ``docno``, ``score``, ``rank``, this from 0. Scores are those that `write_run`
        prints: sorted by them as trec_eval sorts, documents stand in their order.

    Examples
    --------
    >>> import numpy as np
    >>> print(run_frame([Ranking("1", ["b", "c"], np.array([-2.5, -2.5]))]))
      qid docno score rank
    0   1     b  -2.5    0
    1   1     c  -2.5    1
    """
    import pandas as pd

    parts = [
        pd.DataFrame(
            {"qid": one.topic, "docno": one.docnos, "score": printed_scores(one.docnos, one.scores)}
        ).assign(rank=range(len(one.docnos)))
        for one in rankings
    ]
    columns = {"qid": str, "docno": str, "score": np.float32, "rank": np.int64}
    parts = parts or [pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})]
    return pd.concat(parts, ignore_index=True)


def _is_by_docno(values: Any) -> bool:
    """Say whether these are one topic's scores by docno."""
    return isinstance(values, Mapping) and all(isinstance(value, Real) for value in values.values())


def _is_table(data: Any) -> bool:
    return any(hasattr(data, name) for name in ("columns", "to_dict", "scoreddocs_iter"))


def _name_of(run: Any, otherwise: str) -> str:
    name = getattr(run, "name", None)
    return name if isinstance(name, str) and name else otherwise


def _names(data: Any) -> list[str]:
    """Return the columns of a frame; none of anything else."""
    return [str(name) for name in getattr(data, "columns", ())]


def _nested(
    data: Any, kind: _Kind, name: str, read: Callable[[Any, str, int], _Value]
) -> dict[str, dict[str, _Value]]:
    by_topic: dict[str, dict[str, _Value]] = {}
    for row, (topic, docno, value) in enumerate(_rows(data, kind, name), 1):
        values = by_topic.setdefault(_identifier(topic, name, row), {})
        document = _identifier(docno, name, row)
        if document in values:
            raise InputError(
                f"a document comes twice for topic {topic}",
                file=name,
                line=row,
                value=document,
                accepted="each document once for a topic",
            )
        values[document] = read(value, name, row)
    return by_topic


def _rows(data: Any, kind: _Kind, name: str) -> Iterable[tuple[Any, ...]]:
    """Return rows of the columns that a kind has, from whatever is given."""
    if names := _names(data):
        chosen = [next((alias for alias in wanted if alias in names), None) for wanted in kind.columns]
        if None in chosen:
            missing = kind.columns[chosen.index(None)][0]
            raise InputError(f"no column {missing}", file=name, value=names, accepted=kind.accepted)
        return zip(*(data[column] for column in chosen), strict=True)
    if hasattr(data, "to_dict"):
        data = data.to_dict()
    if isinstance(data, Mapping):
        return _of_mapping(data, kind, name)
    if hasattr(data, kind.rows_of):
        data = getattr(data, kind.rows_of)()
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise InputError(f"no {kind.name}", value=type(data).__name__, accepted=kind.accepted)
    return _of_records(data, kind, name)


def _of_mapping(data: Mapping[Any, Any], kind: _Kind, name: str) -> Iterator[tuple[Any, ...]]:
    for key, value in data.items():
        if len(kind.columns) == 2:
            yield key, value
        elif isinstance(value, Mapping):
            yield from ((key, docno, number) for docno, number in value.items())
        else:
            raise InputError(
                f"topic {key} has no dictionary by docno", file=name, value=value, accepted=kind.accepted
            )


def _of_records(data: Iterable[Any], kind: _Kind, name: str) -> Iterator[tuple[Any, ...]]:
    for row, record in enumerate(data, 1):
        if isinstance(record, Ranking):
            scores = printed_scores(record.docnos, record.scores).tolist()
            yield from ((record.topic, *pair) for pair in zip(record.docnos, scores, strict=True))
            continue
        values = [_field(record, names) for names in kind.columns]
        if hasattr(record, "default_text"):
            values[-1] = record.default_text()
        if None in values:
            missing = kind.columns[values.index(None)][0]
            raise InputError(
                f"a row has no {missing}", file=name, line=row, value=record, accepted=kind.accepted
            )
        yield tuple(values)


def _field(record: Any, names: Iterable[str]) -> Any:
    if isinstance(record, Mapping):
        return next((record[name] for name in names if name in record), None)
    return next((getattr(record, name) for name in names if hasattr(record, name)), None)


def _identifier(value: Any, name: str, row: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Integral):
        return str(int(value))
    raise InputError(
        "a topic or docno is neither text nor an integer",
        file=name,
        line=row,
        value=value,
        accepted="such as '51'",
    )


def _score(value: Any, name: str, row: int) -> float:
    if not _is_finite(value):
        raise InputError(
            "the score is no finite number", file=name, line=row, value=value, accepted="such as -7.25"
        )
    return float(value)


def _gain(value: Any, name: str, row: int) -> int:
    if type(value) is int and abs(value) <= _LARGEST_GAIN:
        return value  # as nearly all are
    if not _is_finite(value) or int(value) != value or abs(value) > _LARGEST_GAIN:
        accepted = "an integer such as 0, 1, 2 or -1"
        raise InputError("the gain is no integer", file=name, line=row, value=value, accepted=accepted)
    return int(value)


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _some(data: _Found, kind: _Kind) -> _Found:
    if not data:
        raise InputError(f"the {kind.name} {kind.verb} empty", accepted=kind.accepted)
    return data
