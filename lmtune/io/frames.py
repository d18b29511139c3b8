"""Conversion of objects in memory to runs, judgments, topics and documents.

Accepted objects:

- the path of a file, also of a table (see `lmtune.io.rows`);
- a data frame (of pandas, or any object with ``columns``) with the columns of PyTerrier or ir_datasets:
  ``qid docno score [rank]``, ``qid docno label``, ``qid query`` or ``docno text``, or other usual names;
- a list or generator of rows with these names: named tuples, such as those of ir_measures and ir_datasets, or
  dictionaries;
- a dictionary: scores or gains by topic and docno, texts by topic or docno;
- for a run, the rankings that `lmtune.rank` returns;
- a run or judgments of ranx (any object with ``to_dict``), or a dataset of ir_datasets.

None of these packages is imported here.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lmtune.errors import FilePosition, InputError
from lmtune.io.documents import Document, DocumentSource, ListDocuments
from lmtune.io.qrels import read_qrels
from lmtune.io.rows import (
    DOCUMENTS,
    RUN,
    TOPICS,
    Kind,
    QrelsLike,
    RunLike,
    RunsLike,
    TopicsLike,
    field_of_row,
    identifier,
    read_gains,
    read_scores,
    rows_of,
)
from lmtune.io.runs import Ranking, printed_scores, read_run
from lmtune.io.topics import WeightedQuery, read_topics
from lmtune.showing import data_frame

if TYPE_CHECKING:
    import pandas as pd

_PATH = (str, os.PathLike)
_Data = TypeVar("_Data", bound=Collection[Any])


def as_run(data: RunLike, *, name: str = "run") -> dict[str, dict[str, float]]:
    """Convert any accepted object to a run: finite scores by topic and docno.

    If there are ranks but no scores, each score is minus the rank.

    Raises
    ------
    InputError
        For a missing column, an identifier that is neither text nor an integer, a score that is not a finite
        number, a document ranked twice, or an empty run. For a file, as `read_run`.

    Examples
    --------
    >>> from collections import namedtuple
    >>> row = namedtuple("ScoredDoc", ["query_id", "doc_id", "score"])
    >>> as_run(iter([row("1", "a", 2), row("1", "b", 1.5)]))
    {'1': {'a': 2.0, 'b': 1.5}}
    """
    if isinstance(data, _PATH):
        return read_run(data)
    return _require_nonempty(read_scores(data, name), RUN)


def as_qrels(data: QrelsLike, *, name: str = "judgments") -> dict[str, dict[str, int]]:
    """Convert any accepted object to judgments: integer gains by topic and docno; may be empty.

    Raises
    ------
    InputError
        As `as_run`, and for a gain that is not an integer.

    Examples
    --------
    >>> as_qrels([{"qid": 1, "docno": "a", "label": 2.0}])
    {'1': {'a': 2}}
    """
    return read_qrels(data) if isinstance(data, _PATH) else read_gains(data, name)


def as_topics(data: TopicsLike, *, name: str = "topics") -> dict[str, str]:
    """Convert any accepted object to topics: query text by topic identifier.

    Raises
    ------
    InputError
        As `as_run`, and for a topic with two different texts.
    """
    if isinstance(data, _PATH):
        return read_topics(data)
    topics: dict[str, str] = {}
    with FilePosition(name) as position:
        for position.line, (topic, query) in enumerate(rows_of(data, TOPICS, name), 1):
            topic_id = identifier(topic)
            text = WeightedQuery.of(query) if isinstance(query, dict) else query
            if not isinstance(text, str) or topics.get(topic_id, text) != text:
                problem = "has a second text" if isinstance(text, str) else "has no text"
                raise InputError(f"topic {topic_id} {problem}", value=text)
            topics[topic_id] = text
    return _require_nonempty(topics, TOPICS)


def as_documents(data: Any, *, name: str = "documents") -> DocumentSource:
    """Convert any accepted object to a document source, which can be read several times.

    Rows of a generator are kept in memory; datasets of ir_datasets are read again each time.

    Raises
    ------
    InputError
        As `as_run`, and for a path: use `lmtune.load` for files.
    """
    if hasattr(data, "batches") and hasattr(data, "digest"):
        source: DocumentSource = data
        return source
    if isinstance(data, _PATH):
        raise InputError(
            "documents cannot be given by a path here",
            value=data,
            accepted="lmtune.load(documents=...).documents",
        )

    def documents(rows: Any) -> Iterator[Document]:
        with FilePosition(name) as position:
            for position.line, (docno, text) in enumerate(rows_of(rows, DOCUMENTS, name), 1):
                if not isinstance(text, str):
                    raise InputError("a document has no text", value=text)
                yield Document(identifier(docno), text)

    if hasattr(data, "docs_iter"):
        collection = f"irds:{data.dataset_id()}" if hasattr(data, "dataset_id") else name
        return ListDocuments(collection, lambda: documents(data))
    return ListDocuments(name, _require_nonempty(tuple(documents(data)), DOCUMENTS))


def named_runs(data: RunsLike) -> Iterator[tuple[str, Any]]:
    """Yield the name and the data of each run; the name of a path is the path.

    Parameters
    ----------
    data : a run, an iterable of runs, or a mapping of names to runs
        Each run in a form that `as_run` accepts.
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
        if field_of_row(first, RUN.columns[0]) is not None and not _is_table(first):
            yield "run", itertools.chain([first], rest)
            return
        for number, run in enumerate(itertools.chain([] if first is None else [first], rest), 1):
            yield os.fspath(run) if isinstance(run, _PATH) else _name_of(run, f"run {number}"), run


def run_frame(rankings: Iterable[Ranking]) -> pd.DataFrame:
    """Return rankings as a data frame in PyTerrier's format.

    Parameters
    ----------
    rankings : iterable of Ranking
        From `lmtune.rank` or `lmtune.rerank.reranked`.

    Returns
    -------
    pandas.DataFrame
        Columns ``qid``, ``docno``, ``score`` and ``rank``, which begins at 0. The scores are those that
        `write_run` prints, so that trec_eval ranks the documents in the same order.

    Examples
    --------
    >>> import numpy as np
    >>> print(run_frame([Ranking("1", ["b", "c"], np.array([-2.5, -2.5]))]))
      qid docno score rank
    0   1     b  -2.5    0
    1   1     c  -2.5    1
    """
    ranked = list(rankings)
    scores = [printed_scores(one.docnos, one.scores) for one in ranked]
    columns: dict[str, Any] = {
        "qid": [one.topic for one in ranked for _ in one.docnos],
        "docno": [docno for one in ranked for docno in one.docnos],
        "score": np.concatenate([np.empty(0, np.float32), *scores]),
        "rank": [rank for one in ranked for rank in range(len(one.docnos))],
    }
    return data_frame(columns).astype({"qid": str, "docno": str, "rank": np.int64})


def _is_by_docno(values: Any) -> bool:
    """Return whether a value is a dictionary of scores by docno, for one topic."""
    return isinstance(values, Mapping) and all(isinstance(value, Real) for value in values.values())


def _is_table(data: Any) -> bool:
    return any(hasattr(data, name) for name in ("columns", "to_dict", "scoreddocs_iter"))


def _name_of(run: Any, default: str) -> str:
    name = getattr(run, "name", None)
    return name if isinstance(name, str) and name else default


def _require_nonempty(data: _Data, kind: Kind) -> _Data:
    if not data:
        raise InputError(f"the {kind.name} {kind.verb} empty", accepted=kind.accepted)
    return data
