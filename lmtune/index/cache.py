"""The index of a collection: the one that is there if it is current, else a new one."""

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
from lmtune.progress import Count, counted

if TYPE_CHECKING:
    from lmtune.io.documents import DocumentSource

HOME = "indexes"
"""The folder, under the current one, that holds built indexes."""


def cached_path(
    source: DocumentSource, analyzer: Analyzer, home: PathLike = HOME, *, positions: bool = False
) -> Path:
    """Return where a collection's index is kept: ``indexes/NAME.STEMMER.STOPWORDS.DIGEST``.

    The digest tells collections of one name apart: it is of the path of the documents where they
    are files, of the analysis, of the index's format, and of whether it has positions: who needs these
    takes nothing away from who has opened an index without.
    """
    words = (source.name, analyzer.stemmer, Path(analyzer.stopwords).name)
    name = ".".join(part.replace(os.sep, "_").replace(":", "_") for part in words)
    origin = source.origin if isinstance(source, FileDocuments) else source.name
    parts = [INDEX_FORMAT, origin, analyzer.settings, *(["positions"] if positions else [])]
    whole = json.dumps(parts, sort_keys=True)
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
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
    """Open the collection's index, building it first where there is none that is current.

    Of several processes that find none, one builds it and the others wait.

    Parameters
    ----------
    source : DocumentSource, or others
        The documents; or a frame, rows, texts by docno, as `lmtune.io.frames` has it.
    analyzer : Analyzer, optional
        Tokenisation, stopwords and stemming; Anserini's default English analysis if not given.
    name : str
        What to call documents that have no name: their index stands under it.
    fields : sequence of str
        Fields of the documents that the index must have too; see `ColumnarIndex.field`.
    positions : bool
        Whether the index must have positions; one without stays beside it.
    home : path-like
        The folder that holds built indexes.
    beside : iterable of Analyzer
        Others that will be asked for: where an index has to be built, those that they lack are built too,
        in one pass over the documents.
    progress : callable or bool, optional
        Called with (bytes indexed, bytes in all) while building; True draws a bar.
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
    source, analyzer = as_documents(source, name=name), analyzer or Analyzer()
    views = {field: field_of(source, field) for field in fields}
    report = counted(progress, "indexing")

    def read(own: Analyzer) -> ColumnarIndex:
        try:
            return _open_current(cached_path(source, own, home, positions=positions), source, own, positions)
        except StaleError as reason:
            if not positions:  # one that has positions serves as well
                with contextlib.suppress(StaleError):
                    return _open_current(cached_path(source, own, home, positions=True), source, own)
            raise reason from None

    def build() -> ColumnarIndex:
        others = {
            cached_path(source, own, home, positions=positions): (own, partial(read, own)) for own in beside
        }
        with _lacking(others, path, on_build) as more:
            return build_index(source, path, analyzer, positions=positions, progress=report, beside=more)

    path = cached_path(source, analyzer, home, positions=positions)
    index = build_once(path, partial(read, analyzer), build, on_build)
    for field, view in views.items():

        def build_it(field: str = field, view: DocumentSource = view) -> ColumnarIndex:
            others = {}
            for own in beside:
                with contextlib.suppress(StaleError):
                    kept = read(own).path / FIELDS_FOLDER / field
                    others[kept] = own, partial(_open_current, kept, view, own)
            with _lacking(others, index.path / FIELDS_FOLDER / field, on_build) as more:
                whole = {kept.parents[1]: own for kept, own in more.items()}
                return build_field(source, index.path, field, analyzer, progress=report, beside=whole)

        kept = index.path / FIELDS_FOLDER / field
        build_once(kept, partial(_open_current, kept, view, analyzer), build_it, on_build)
    return index


@contextlib.contextmanager
def _lacking(
    others: Mapping[Path, tuple[Analyzer, Callable[[], ColumnarIndex]]],
    first: Path,
    on_build: Callable[[Path, str], None] | None,
) -> Iterator[dict[Path, Analyzer]]:
    """Give those of other indexes that are not current and that nobody else is building, locked."""
    with contextlib.ExitStack() as held:
        found = {}
        for path, (analyzer, read) in others.items():
            try:
                if path != first:
                    read()
            except StaleError as reason:
                if held.enter_context(locked(path, timeout=0)):
                    found[path] = analyzer
                    if on_build is not None:
                        on_build(path, str(reason))
        yield found


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
