"""Open the cached index of a collection, or build it if there is none or it is stale."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtune.errors import InputError, PathLike
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_field, build_index
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.manifest import FIELDS_FOLDER, INDEX_FORMAT
from lmtune.io.documents import field_of
from lmtune.io.file_documents import FileDocuments
from lmtune.io.frames import as_documents
from lmtune.io.locks import StaleError, build_once, locked
from lmtune.progress import Count, count_callback

if TYPE_CHECKING:
    from lmtune.io.documents import DocumentSource

HOME = "indexes"
"""Default folder of built indexes, in the current folder."""


def cached_path(
    source: DocumentSource, analyzer: Analyzer, home: PathLike = HOME, *, positions: bool = False
) -> Path:
    """Return the folder of a collection's cached index: ``indexes/NAME.STEMMER.STOPWORDS.DIGEST``.

    The digest distinguishes collections with the same name. It covers the path of the documents (if they are
    files), the analysis, the index format, and whether the index has positions. An index with positions thus
    does not replace one without that another process has open.
    """
    words = (source.name, analyzer.stemmer, Path(analyzer.stopwords).name)
    name = ".".join(part.replace(os.sep, "_").replace(":", "_") for part in words)
    origin = source.origin if isinstance(source, FileDocuments) else source.name
    parts = [INDEX_FORMAT, origin, analyzer.settings, *(["positions"] if positions else [])]
    text = json.dumps(parts, sort_keys=True)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Path(home, f"{name}.{digest[:8]}")


def index_for(
    source: Any,
    analyzer: Analyzer | None = None,
    *,
    name: str = "documents",
    fields: Sequence[str] = (),
    positions: bool = False,
    home: PathLike = HOME,
    beside: Iterable[Analyzer] = (),
    progress: Count | bool | None = None,
    on_build: Callable[[Path, str], None] | None = None,
) -> ColumnarIndex:
    """Open the collection's index; build it first if there is none or it is not current.

    If several processes need it at the same time, one builds it and the others wait.

    Parameters
    ----------
    source : DocumentSource, or others
        The documents; or a data frame, rows, or texts by docno, as accepted by `lmtune.io.frames`.
    analyzer : Analyzer, optional
        Tokenisation, stopwords and stemming; Anserini's default English analysis if not given.
    name : str
        Name of documents that have none; part of the name of the index's folder.
    fields : sequence of str
        Fields that the index must also have; see `ColumnarIndex.field`.
    positions : bool
        Whether the index must have positions. An existing index without positions is not replaced.
    home : path-like
        The folder of built indexes.
    beside : iterable of Analyzer
        Further analyzers that will be needed. If an index has to be built, the missing indexes of these are
        built too, in the same pass over the documents.
    progress : callable or bool, optional
        Called with (bytes indexed, total bytes) while building; True shows a progress bar.
    on_build : callable, optional
        Called before building, with the index's folder and the reason.

    Returns
    -------
    ColumnarIndex

    Raises
    ------
    InputError
        If the documents cannot be indexed.
    """
    source, analyzer = as_documents(source, name=name), analyzer or Analyzer()
    views = {field: field_of(source, field) for field in fields}
    report = count_callback(progress, "indexing")

    def read(wanted: Analyzer) -> ColumnarIndex:
        with_positions = cached_path(source, wanted, home, positions=True)
        try:
            path = cached_path(source, wanted, home, positions=positions)
            return _open_current(path, source, wanted, positions)
        except StaleError as reason:
            if not positions:  # an index with positions can be used too
                with contextlib.suppress(StaleError):
                    return _open_current(with_positions, source, wanted)
            raise reason from None

    def build() -> ColumnarIndex:
        others = {
            cached_path(source, other, home, positions=positions): (other, partial(read, other))
            for other in beside
        }
        with _missing_indexes(others, path, on_build) as more:
            return build_index(source, path, analyzer, positions=positions, progress=report, beside=more)

    path = cached_path(source, analyzer, home, positions=positions)
    index = build_once(path, partial(read, analyzer), build, on_build)
    for field, view in views.items():

        def build_it(field: str = field, view: DocumentSource = view) -> ColumnarIndex:
            others = {}
            for other in beside:
                with contextlib.suppress(StaleError):
                    folder = read(other).path / FIELDS_FOLDER / field
                    others[folder] = other, partial(_open_current, folder, view, other)
            with _missing_indexes(others, index.path / FIELDS_FOLDER / field, on_build) as more:
                indexes = {folder.parents[1]: other for folder, other in more.items()}
                return build_field(source, index.path, field, analyzer, progress=report, beside=indexes)

        field_path = index.path / FIELDS_FOLDER / field
        build_once(field_path, partial(_open_current, field_path, view, analyzer), build_it, on_build)
    return index


@contextlib.contextmanager
def _missing_indexes(
    others: Mapping[Path, tuple[Analyzer, Callable[[], ColumnarIndex]]],
    first: Path,
    on_build: Callable[[Path, str], None] | None,
) -> Iterator[dict[Path, Analyzer]]:
    """Lock and yield the other indexes that are not current and that no other process is building."""
    with contextlib.ExitStack() as locks:
        missing = {}
        for path, (analyzer, read) in others.items():
            try:
                if path != first:
                    read()
            except StaleError as reason:
                if locks.enter_context(locked(path, timeout=0)):
                    missing[path] = analyzer
                    if on_build is not None:
                        on_build(path, str(reason))
        yield missing


def _open_current(
    path: Path, source: DocumentSource, analyzer: Analyzer, positions: bool = False
) -> ColumnarIndex:
    try:
        index = ColumnarIndex.open(path)
    except InputError as error:
        raise StaleError(error.message) from None
    if (reason := index.stale_reason(source, analyzer, positions=positions)) is not None:
        raise StaleError(reason)
    return index
