"""Run engines that are Python packages, with the script that `deploy` writes."""

from __future__ import annotations

import contextlib
import importlib
import logging
import runpy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lmtune.collections.dataset import Dataset
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.checking import Run
from lmtune.engines.deployment import PYTHON, Engine
from lmtune.errors import InputError
from lmtune.index.lucene import java
from lmtune.io.documents import DocumentSource, field_of
from lmtune.progress import Progress, silent

IN_PYTHON = tuple(name for name, engine in ENGINES.items() if engine.install)
"""Names of the engines that run in Python."""


def run_engine(
    engine: Engine,
    files: Mapping[str, str],
    dataset: Dataset,
    *,
    fields: Sequence[str] = (),
    hits: int = 1000,
    progress: Progress = silent,
) -> dict[str, dict[str, float]]:
    """Index the documents with an engine and search all topics, in a temporary folder.

    Parameters
    ----------
    engine : Engine
        An engine that is a Python package.
    files : mapping of str to str
        The files that `lmtune.engines.deployment.deploy` wrote for the engine.
    dataset : Dataset
        Documents and topics.
    fields : sequence of str
        The fields that ``build`` of the script indexes; if empty, each document is one text.
    hits : int
        Number of documents for each topic.
    progress : Progress
        Called after each topic.

    Returns
    -------
    dict of str to dict of str to float
        Scores by topic and docno, in the engine's order.

    Raises
    ------
    InputError
        If the files have no Python script, the package is not installed, or the engine fails.
    """
    if PYTHON not in files:
        raise InputError(
            f"{engine.title} cannot be run from Python with this setting and analysis",
            accepted=f"another of {', '.join(IN_PYTHON)}; or lmtune check-run with the engine's run",
        )
    if dataset.documents is None:
        raise InputError("no documents to index", value=dataset.name, accepted="a collection with documents")
    documents = _read(dataset.documents, fields)
    if engine == ENGINES["lucene"]:
        java.start()
    run: dict[str, dict[str, float]] = {}
    with _functions(files, engine.title, engine.install) as functions:
        progress(f"indexing with {engine.title}", 0, 1)
        index = functions["build"](documents)
        for done, (topic, query) in enumerate(dataset.topics.items(), 1):
            run[topic] = dict(functions["search"](index, query, hits))
            progress(f"searching with {engine.title}", done, len(dataset.topics))
    return run


def _read(source: DocumentSource, fields: Sequence[str]) -> dict[str, Any]:
    """Return the texts by docno, or by docno and field if there are fields."""
    if fields:
        texts = {name: _read(field_of(source, name), ()) for name in fields}
        return {docno: {name: texts[name][docno] for name in fields} for docno in texts[fields[0]]}
    return {document.docno: document.text for batch in source.batches() for document in batch.read()}


def run_qdrant(files: Mapping[str, str], runs: Mapping[str, Run], *, progress: Progress = silent) -> Run:
    """Fuse runs with Qdrant's local mode, in one Qdrant collection for each topic.

    Parameters
    ----------
    files : mapping of str to str
        The files that `lmtune.engines.hybrid.deploy_fusion` wrote for Qdrant.
    runs : mapping of str to mapping
        The runs, by the names in `files`. A document has, for each run that ranks it, a vector of length 1:
        its score.
    progress : Progress
        Called after each topic.

    Raises
    ------
    InputError
        If qdrant-client is not installed, or fails.
    """
    topics = list(dict.fromkeys(topic for run in runs.values() for topic in run))
    fused: dict[str, dict[str, float]] = {}
    queries = {name: [1.0] for name in runs}
    with _functions(files, "Qdrant", "pip install qdrant-client") as functions:
        qdrant: Any = importlib.import_module("qdrant_client")
        client, models = qdrant.QdrantClient(":memory:"), qdrant.models
        vector = models.VectorParams(size=1, distance=models.Distance.DOT)
        for number, topic in enumerate(topics):
            docnos = sorted({docno for run in runs.values() for docno in run.get(topic, ())})
            vectors = [
                {name: [run[topic][docno]] for name, run in runs.items() if docno in run.get(topic, ())}
                for docno in docnos
            ]
            client.create_collection(str(number), vectors_config=dict.fromkeys(runs, vector))
            points = [models.PointStruct(id=n, vector=scores) for n, scores in enumerate(vectors)]
            client.upsert(str(number), points)
            hits = functions["search"](client, str(number), queries, len(docnos))
            fused[topic] = {docnos[n]: score for n, score in hits}
            client.delete_collection(str(number))
            progress("searching with Qdrant", number + 1, len(topics))
    return fused


@contextlib.contextmanager
def _restored_root_logger() -> Iterator[None]:
    """Restore the root logger at the end: some packages change it when imported."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _functions(files: Mapping[str, str], title: str, install: str) -> Iterator[dict[str, Any]]:
    """Yield the functions of the Python script, run in a temporary folder; raise `InputError` if it fails."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        with contextlib.chdir(folder), _restored_root_logger():
            try:
                yield runpy.run_path(PYTHON)
            except ModuleNotFoundError as error:
                raise InputError(f"{title} is not installed", value=error.name, accepted=install) from error
            except Exception as error:  # engines raise exceptions of any type
                raise InputError(f"{title} failed: {error}", accepted="an engine that runs") from error
