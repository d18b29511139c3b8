"""Test collections by name: the embedded one, a folder, ir_datasets' or explicit files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lmtune.datasets import folder, irds
from lmtune.datasets.dataset import Dataset
from lmtune.datasets.names import find_named
from lmtune.datasets.pydocs import NAME as PYDOCS
from lmtune.datasets.pydocs import load_pydocs
from lmtune.errors import InputError
from lmtune.formats.documents import DocumentSource, FileDocuments, document_files
from lmtune.formats.qrels import read_qrels
from lmtune.formats.topics import read_topics

PathLike = str | os.PathLike[str]


def available() -> list[tuple[str, str]]:
    """List what `load` takes as a name.

    Returns
    -------
    list of (str, str)
        A name, or how such names look, and what it stands for.
    """
    return [
        (PYDOCS, "docstrings of numpy, scipy and pandas: in every installation, made in a second"),
        ("FOLDER", "a folder with docs.jsonl or TREC document files, topics.* and qrels.*"),
        (f"{irds.PREFIX}ID", "a collection of ir_datasets, by its identifier (it downloads)"),
    ]


def load(
    name: PathLike | None = None,
    *,
    documents: PathLike | None = None,
    topics: PathLike | None = None,
    qrels: PathLike | None = None,
    topic_fields: Sequence[str] = ("title",),
    need_documents: bool = True,
) -> Dataset:
    """Load a test collection.

    Parameters
    ----------
    name : path-like, optional
        ``pydocs`` (the embedded one), ``irds:ID`` (through ir_datasets), or a folder. Without it
        `documents`, `topics` and `qrels` say where everything is.
    documents : path-like, optional
        A document file or a folder of them, in place of the collection's own.
    topics, qrels : path-like, optional
        A file in place of the collection's own: a name, looked up as ``topics/topics.NAME.txt``
        and ``qrels/qrels.NAME.txt`` in the current folder (also ``.tsv``, ``.jsonl``, compressed),
        or else a path.
    topic_fields : sequence of {"title", "desc", "narr"}
        The fields of SGML topics that make the query.
    need_documents : bool
        Whether it is an error that nothing says where the documents are. Without documents an
        index has to stand for them.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If a part is missing, ambiguous or malformed, or nothing is known by the name.

    Examples
    --------
    >>> from lmtune.datasets.loading import load
    >>> load("pydocs").name
    'pydocs'
    """
    if name == PYDOCS:
        if topics is None:
            _check_title_alone(topic_fields)
        base = load_pydocs()
    elif isinstance(name, str) and name.startswith(irds.PREFIX):
        base = irds.load_irds(name.removeprefix(irds.PREFIX), topic_fields=topic_fields)
    elif name is not None:
        return _from_folder(Path(name), documents, topics, qrels, topic_fields, need_documents)
    else:
        return _from_files(documents, topics, qrels, topic_fields, need_documents)
    if documents is not None:
        base = replace(base, documents=FileDocuments(base.name, document_files(documents)))
    if topics is not None:
        path = find_named("topics", os.fspath(topics))
        base = replace(base, topics=read_topics(path, fields=topic_fields), topics_file=str(path))
    if qrels is not None:
        path = find_named("qrels", os.fspath(qrels))
        base = replace(base, qrels=read_qrels(path), qrels_file=str(path))
    return base


def _from_folder(
    path: Path,
    documents: PathLike | None,
    topics: PathLike | None,
    qrels: PathLike | None,
    topic_fields: Sequence[str],
    need_documents: bool,
) -> Dataset:
    if not path.is_dir():
        known = ", ".join(known for known, _ in available())
        raise InputError("no such collection", value=str(path), accepted=known)
    topics_file = folder.find_topics(path) if topics is None else _named("topics", topics)
    qrels_file = folder.find_qrels(path) if qrels is None else _named("qrels", qrels)
    if documents is not None:
        files = document_files(documents)
    else:
        files = folder.find_documents(path) if need_documents else []
    return _read(path.resolve().name, files, topics_file, qrels_file, topic_fields)


def _from_files(
    documents: PathLike | None,
    topics: PathLike | None,
    qrels: PathLike | None,
    topic_fields: Sequence[str],
    need_documents: bool,
) -> Dataset:
    if topics is None or qrels is None or (documents is None and need_documents):
        given = (("documents", documents), ("topics", topics), ("qrels", qrels))
        needed = given if need_documents else given[1:]
        lacking = [role for role, value in needed if value is None]
        raise InputError(
            f"nothing says where the {' and the '.join(lacking)} are",
            accepted="the name of a collection, or --documents (or --index), --topics and --qrels",
        )
    files = [] if documents is None else document_files(documents)
    stem = Path(os.fspath(topics if documents is None else documents)).resolve().name
    topics_file, qrels_file = _named("topics", topics), _named("qrels", qrels)
    return _read(stem.partition(".")[0] or stem, files, topics_file, qrels_file, topic_fields)


def _named(role: str, value: PathLike) -> Path:
    return find_named("topics" if role == "topics" else "qrels", os.fspath(value))


def _read(
    name: str,
    files: list[Path],
    topics_file: Path,
    qrels_file: Path,
    topic_fields: Sequence[str],
) -> Dataset:
    source: DocumentSource | None = FileDocuments(name, files) if files else None
    return Dataset(
        name=name,
        documents=source,
        topics=read_topics(topics_file, fields=topic_fields),
        qrels=read_qrels(qrels_file),
        topics_file=str(topics_file),
        qrels_file=str(qrels_file),
    )


def _check_title_alone(topic_fields: Sequence[str]) -> None:
    if tuple(topic_fields) != ("title",):
        raise InputError(
            f"the topics of {PYDOCS} have a title alone",
            value=",".join(topic_fields),
            accepted="title",
        )
