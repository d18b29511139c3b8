"""The engines that a Python package brings, asked by the very file that `deploy` writes."""

from __future__ import annotations

import contextlib
import logging
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lmtune.datasets.dataset import Dataset
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.deployment import PYTHON, Engine
from lmtune.errors import InputError
from lmtune.indexing.lucene import java
from lmtune.progress import Progress, silent

IN_PYTHON = tuple(name for name, own in ENGINES.items() if own.install)
"""The names of the engines that can be asked here."""


def run_engine(
    engine: Engine,
    files: Mapping[str, str],
    dataset: Dataset,
    *,
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
    documents = {own.docno: own.text for batch in dataset.documents.batches() for own in batch.read()}
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        with contextlib.chdir(folder), _own_log():
            return _asked(engine, documents, dataset.topics, hits, progress)


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


def _asked(
    engine: Engine, documents: Mapping[str, str], topics: Mapping[str, str], hits: int, progress: Progress
) -> dict[str, dict[str, float]]:
    if engine == ENGINES["lucene"]:
        java.start()
    run: dict[str, dict[str, float]] = {}
    try:
        functions: dict[str, Any] = runpy.run_path(PYTHON)
        progress(f"indexing by {engine.title}", 0, 1)
        index = functions["build"](documents)
        for done, (topic, query) in enumerate(topics.items(), 1):
            run[topic] = dict(functions["search"](index, query, hits))
            progress(f"asking {engine.title}", done, len(topics))
    except ModuleNotFoundError as error:
        raise InputError(
            f"{engine.title} is not installed", value=error.name, accepted=engine.install
        ) from error
    except Exception as error:  # of whatever kind the engine's are
        raise InputError(f"{engine.title} fails: {error}", accepted="an engine that runs") from error
    return run
