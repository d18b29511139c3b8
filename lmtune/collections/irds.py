"""Test collections of ir_datasets, by identifier."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from lmtune.collections.dataset import Dataset
from lmtune.errors import InputError
from lmtune.io.documents import Document, ListDocuments

IRDS = "irds:"
# Names of TREC's topic fields in the collections of ir_datasets.
_FIELD_NAMES = {"title": ("title",), "desc": ("description", "desc"), "narr": ("narrative", "narr")}
_ACCEPTED = (
    "an identifier whose files ir_datasets can download or already has"
    " (its page about the collection says where licensed files come from)"
)


def identifiers() -> list[str]:
    """Return the identifiers of ir_datasets."""
    import ir_datasets

    return sorted(map(str, ir_datasets.registry))


def load_irds(
    identifier: str,
    *,
    topic_fields: Sequence[str] = ("title",),
    need: Collection[str] = ("documents", "topics", "qrels"),
) -> Dataset:
    """Load topics and judgments through ir_datasets; documents are read on demand.

    Parameters
    ----------
    identifier : str
        Identifier in ir_datasets, without ``irds:``, such as ``beir/nfcorpus/test``.
    topic_fields : sequence of {"title", "desc", "narr"}
        The fields of the query, joined by a space. If topics have no title, the default text of ir_datasets
        is used instead.
    need : collection of {"documents", "topics", "qrels"}
        The parts to load; the others are empty.

    Returns
    -------
    Dataset
        The collection, with the default texts of ir_datasets as documents. ir_datasets downloads to the
        folder in the environment variable ``IR_DATASETS_HOME``.

    Raises
    ------
    InputError
        If the identifier is unknown, the collection has no documents, topics or judgments, a field is
        missing, a document has two different gains, or the files cannot be downloaded.
    """
    collection = _find(identifier)
    has = {"documents": collection.has_docs, "topics": collection.has_queries, "qrels": collection.has_qrels}
    lacking = [role for role in has if role in need and not has[role]()]
    if lacking:
        raise InputError(
            f"this collection of ir_datasets has no {' and no '.join(lacking)}",
            value=IRDS + identifier,
            accepted="a collection with documents, queries and qrels, often one level below",
        )
    documents = ListDocuments(
        IRDS + identifier, partial(_documents, identifier), _fields(identifier, collection)
    )
    return Dataset(
        name=IRDS + identifier,
        documents=documents if "documents" in need else None,
        topics=_topics(identifier, collection, topic_fields) if "topics" in need else {},
        qrels=_qrels(identifier, collection) if "qrels" in need else {},
        topics_file=IRDS + identifier,
        qrels_file=IRDS + identifier,
        versions={"ir_datasets": _version()},
    )


def _find(identifier: str) -> Any:
    with _one_line_errors(identifier):
        import ir_datasets

        # Keep its temporary files in its home, and its progress bars and messages out of the output.
        os.environ.setdefault("IR_DATASETS_TMP", str(ir_datasets.util.home_path() / "tmp"))
        if not sys.stderr.isatty():
            os.environ.setdefault("IR_DATASETS_DL_DISABLE_PBAR", "true")
        ir_datasets.log.easy().logger().setLevel(logging.CRITICAL)
        try:
            return ir_datasets.load(identifier)
        except KeyError:
            raise InputError(
                "ir_datasets has no such collection",
                value=IRDS + identifier,
                accepted="an identifier that it lists, such as irds:beir/nfcorpus/test",
            ) from None


def _version() -> str:
    import ir_datasets

    return str(ir_datasets.__version__)


def _documents(identifier: str, field: str | None = None) -> Iterator[Document]:
    collection = _find(identifier)
    with _one_line_errors(identifier):
        for document in collection.docs_iter():
            text = document.default_text() if field is None else str(getattr(document, field) or "")
            yield Document(str(document.doc_id), text)


def _fields(identifier: str, collection: Any) -> dict[str, Callable[[], Iterator[Document]]]:
    """Return a function for each field of the documents, which iterates over its texts."""
    names = collection.docs_cls()._fields if collection.has_docs() else ()
    return {name: partial(_documents, identifier, name) for name in names if name != "doc_id"}


def _topics(identifier: str, collection: Any, topic_fields: Sequence[str]) -> dict[str, str]:
    topics: dict[str, str] = {}
    with _one_line_errors(identifier):
        has = collection.queries_cls()._fields
        parts = [_field(identifier, field, has) for field in topic_fields]
        for query in collection.queries_iter():
            text = " ".join(str(part(query) or "") for part in parts)
            topics[str(query.query_id)] = " ".join(text.split())
    return topics


def _field(identifier: str, field: str, has: Sequence[str]) -> Callable[[Any], str | None]:
    for name in _FIELD_NAMES.get(field, ()):
        if name in has:
            return lambda query: getattr(query, name)
    if field == "title":
        return lambda query: query.default_text()
    there = [field for field, names in _FIELD_NAMES.items() if set(names) & set(has)]
    raise InputError(
        "the topics do not have this field",
        file=IRDS + identifier,
        value=field,
        accepted=", ".join(dict.fromkeys(["title", *there])),
    )


def _qrels(identifier: str, collection: Any) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    with _one_line_errors(identifier):
        for number, judgment in enumerate(collection.qrels_iter(), 1):
            topic, docno = str(judgment.query_id), str(judgment.doc_id)
            gain = int(judgment.relevance)
            if qrels.setdefault(topic, {}).setdefault(docno, gain) != gain:
                raise InputError(
                    f"judgment {number} of topic {topic} gives a document a second gain",
                    file=IRDS + identifier,
                    value=docno,
                    accepted="one gain for each topic and document",
                )
    return qrels


@contextmanager
def _one_line_errors(identifier: str) -> Iterator[None]:
    """Convert all errors of ir_datasets (downloads, licences, damaged files) to `InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        cause = _cause(error)
        raise InputError(
            f"ir_datasets cannot read this collection ({type(cause).__name__}: {_first(cause)})",
            value=IRDS + identifier,
            accepted=_ACCEPTED,
        ) from error


def _cause(error: Exception) -> Exception:
    """Return the error of the last download source, if all sources failed."""
    sources = error.args[1] if len(error.args) > 1 else None
    if isinstance(error, RuntimeError) and isinstance(sources, list) and sources:
        last = sources[-1][-1]
        return last if isinstance(last, Exception) else error
    return error


def _first(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return text if len(text) <= 160 else f"{text[:157]}..."
