"""The engines that a Python package brings, asked by the very file that `deploy` writes."""

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

IN_PYTHON = tuple(name for name, own in ENGINES.items() if own.install)
"""The names of the engines that can be asked here."""


def run_engine(
    engine: Engine,
    files: Mapping[str, str],
    dataset: Dataset,
    *,
    fields: Sequence[str] = (),
    hits: int = 1000,
    progress: Progress = silent,
) -> dict[str, dict[str, float]]:
    """Let an engine index documents and answer topics, in a folder of its own.

    Parameters
    ----------
    engine : Engine
        One that a package brings.
    files : mapping of str to str
        What `lmtune.engines.deployment.deploy` wrote for it.
    dataset : Dataset
        Documents and topics.
    fields : sequence of str
        Those that the files' ``build`` takes; none: documents are texts.
    hits : int
        Documents a topic.
    progress : Progress
        Called after each topic.

    Returns
    -------
    dict of str to dict of str to float
        The engine's scores by topic and docno, in its order.

    Raises
    ------
    InputError
        Where no file is for Python, its package is not installed, or the engine fails.
    """
    if PYTHON not in files:
        raise InputError(
            f"{engine.title} has no call in Python for this setting and analysis",
            accepted=f"another of {', '.join(IN_PYTHON)}; or its run, for lmtune check-run",
        )
    if dataset.documents is None:
        raise InputError("no documents to index", value=dataset.name, accepted="a collection with documents")
    documents = _read(dataset.documents, fields)
    if engine == ENGINES["lucene"]:
        java.start()
    run: dict[str, dict[str, float]] = {}
    with _functions(files, engine.title, engine.install) as functions:
        progress(f"indexing by {engine.title}", 0, 1)
        index = functions["build"](documents)
        for done, (topic, query) in enumerate(dataset.topics.items(), 1):
            run[topic] = dict(functions["search"](index, query, hits))
            progress(f"asking {engine.title}", done, len(dataset.topics))
    return run


def _read(source: DocumentSource, fields: Sequence[str]) -> dict[str, Any]:
    """Return documents' texts by docno, or by docno and field where there are fields."""
    if fields:
        each = {name: _read(field_of(source, name), ()) for name in fields}
        return {docno: {name: each[name][docno] for name in fields} for docno in each[fields[0]]}
    return {own.docno: own.text for batch in source.batches() for own in batch.read()}


def run_qdrant(files: Mapping[str, str], runs: Mapping[str, Run], *, progress: Progress = silent) -> Run:
    """Let Qdrant's local mode fuse runs, in a collection a topic.

    Parameters
    ----------
    files : mapping of str to str
        What `lmtune.engines.hybrid.deploy_fusion` wrote for Qdrant.
    runs : mapping of str to mapping
        Runs by the names that the files have; each is a vector of one number, the score, of the documents
        that it holds.
    progress : Progress
        Called after each topic.

    Raises
    ------
    InputError
        Where qdrant-client is not installed, or fails.
    """
    topics = list(dict.fromkeys(topic for run in runs.values() for topic in run))
    fused: dict[str, dict[str, float]] = {}
    asked = {name: [1.0] for name in runs}
    with _functions(files, "Qdrant", "pip install qdrant-client") as functions:
        qdrant: Any = importlib.import_module("qdrant_client")
        client, models = qdrant.QdrantClient(":memory:"), qdrant.models
        vector = models.VectorParams(size=1, distance=models.Distance.DOT)
        for number, topic in enumerate(topics):
            docnos = sorted({docno for run in runs.values() for docno in run.get(topic, ())})
            held = [
                {name: [run[topic][docno]] for name, run in runs.items() if docno in run.get(topic, ())}
                for docno in docnos
            ]
            client.create_collection(str(number), vectors_config=dict.fromkeys(runs, vector))
            client.upsert(str(number), [models.PointStruct(id=n, vector=own) for n, own in enumerate(held)])
            found = functions["search"](client, str(number), asked, len(docnos))
            fused[topic] = {docnos[n]: score for n, score in found}
            client.delete_collection(str(number))
            progress("asking Qdrant", number + 1, len(topics))
    return fused


@contextlib.contextmanager
def _own_log() -> Iterator[None]:
    """Undo what a package does to everybody's log as it is imported."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _functions(files: Mapping[str, str], title: str, install: str) -> Iterator[dict[str, Any]]:
    """Give the functions of a file in Python, in a folder of its own; what fails there is the engine's."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        with contextlib.chdir(folder), _own_log():
            try:
                yield runpy.run_path(PYTHON)
            except ModuleNotFoundError as error:
                raise InputError(f"{title} is not installed", value=error.name, accepted=install) from error
            except Exception as error:  # of whatever kind the engine's are
                raise InputError(f"{title} fails: {error}", accepted="an engine that runs") from error
