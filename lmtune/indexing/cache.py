"""The index of a collection: the one that is there if it is current, else a new one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lmtune.indexing.analysis import Analyzer
from lmtune.indexing.builder import build_index
from lmtune.indexing.columnar import ColumnarIndex, stale_reason

if TYPE_CHECKING:
    from lmtune.formats.documents import DocumentSource

HOME = "indexes"
"""The folder, under the current one, that holds built indexes."""


def cached_path(source: DocumentSource, analyzer: Analyzer, home: str | os.PathLike[str] = HOME) -> Path:
    """Return where a collection's index is kept: ``indexes/NAME.STEMMER.STOPWORDS``."""
    parts = (source.name, analyzer.stemmer, Path(analyzer.stopwords).name)
    return Path(home, ".".join(part.replace(os.sep, "_").replace(":", "_") for part in parts))


def index_for(
    source: DocumentSource,
    analyzer: Analyzer | None = None,
    *,
    home: str | os.PathLike[str] = HOME,
    progress: Callable[[int, int], None] | None = None,
    on_build: Callable[[Path, str], None] | None = None,
) -> ColumnarIndex:
    """Open the collection's index, building it first where there is none that is current.

    Parameters
    ----------
    source : DocumentSource
        The documents.
    analyzer : Analyzer, optional
        Tokenisation, stopwords and stemming; Anserini's default English analysis if not given.
    home : path-like
        The folder that holds built indexes.
    progress : callable, optional
        Called with (bytes indexed, bytes in all) while building.
    on_build : callable, optional
        Called with the index's folder and the reason before building.

    Returns
    -------
    ColumnarIndex

    Raises
    ------
    InputError
        For documents that cannot be indexed.
    """
    analyzer = analyzer or Analyzer()
    path = cached_path(source, analyzer, home)
    reason = stale_reason(path, source, analyzer)
    if reason is None:
        return ColumnarIndex.open(path, verify=False)
    if on_build is not None:
        on_build(path, reason)
    return build_index(source, path, analyzer, progress=progress)
