"""Build an embedded index."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from lmtune.errors import InputError, PathLike, check_least
from lmtune.index import manifest
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.columns import Column, DuplicateDocnoError, StoredColumn
from lmtune.index.inversion import Inverter, SortedRun, invert, load_kernels, merge_docs, merge_postings
from lmtune.io.documents import DocumentBatch, DocumentSource, field_of, unchanged
from lmtune.io.folders import atomic_directory
from lmtune.parallel import Task, run_all, width
from lmtune.progress import Count
from lmtune.threads import cores

if TYPE_CHECKING:
    from lmtune.index.analysis import Analyzer
    from lmtune.index.protocol import StoredIndex


# Below this input size, starting workers takes longer than it saves.
_WORTH_WORKERS = 8 << 20
# Tasks for each worker: enough for all workers to finish at about the same time.
_SHARES_PER_WORKER = 4
_LEAST_SHARE = 1 << 20
# Tokens and postings take about 5 bytes of memory for each byte of text.
_MEMORY_PER_INPUT = 8


_Columns: TypeAlias = dict[str, StoredColumn]


class BuildOptions(NamedTuple):
    """Options of building; see `build_index`."""

    workers: int | None
    memory_bytes: int
    progress: Count | None = None
    positions: bool = False


def build_index(
    source: DocumentSource,
    path: PathLike,
    analyzer: Analyzer,
    *,
    fields: Sequence[str] = (),
    positions: bool = False,
    workers: int | None = None,
    memory_bytes: int = 1 << 30,
    progress: Count | None = None,
    beside: Mapping[Path, Analyzer] | None = None,
    finish: Callable[[StoredIndex], None] | None = None,
) -> ColumnarIndex:
    """Index a collection.

    The bytes of the index depend only on the documents and the analyzer, not on the number of workers or the
    memory budget. No files remain if building fails or is interrupted.

    Parameters
    ----------
    source : DocumentSource
        The documents.
    path : path-like
        The folder of the index. An existing index is replaced when the new one is complete.
    analyzer : Analyzer
        Analyses text into terms.
    fields : sequence of str
        Fields that are also indexed, as by `build_field`.
    positions : bool
        Whether to store term positions (one or two bytes a token); fields have none.
    workers : int, optional
        Number of processes that read and analyse, at least 1. The default is that of
        `joblib.parallel_config`, or the number of cores. With 1, or little input, this process does the work.
    memory_bytes : int, optional
        Memory budget of all processes together. It does not include the interpreters, the batches being
        read, the vocabulary (about 200 bytes for each term) and the docnos (about 120 for each document).
    progress : callable, optional
        Called in this thread with the bytes done and the total bytes (0 if not known).
    beside : mapping of path to Analyzer, optional
        Further analyzers, by the folders of their indexes. Documents are read and tokenized once for all.
        Each index has the same bytes as if it were built alone.
    finish : callable, optional
        Called with the complete index before it is moved to `path`, to add files to its folder.

    Returns
    -------
    ColumnarIndex
        The index, open.

    Raises
    ------
    InputError
        If a document cannot be read, two documents share a docno, there are no documents, a document file
        changes during the call, ``path`` is not an index, or another process writes an index there; and as
        `build_field`.
    """
    with _new_folders({Path(path): analyzer, **(beside or {})}) as folders:
        options = BuildOptions(workers, memory_bytes, progress, positions)
        written, *_ = write_indexes(source, folders, options)
        (first, _), *others = folders.items()
        for field in fields:
            same: Any = {"workers": workers, "memory_bytes": memory_bytes, "beside": dict(others)}
            build_field(source, first, field, analyzer, **same)
        if finish is not None:
            finish(ColumnarIndex.open(first, verify=False))
    return ColumnarIndex.open(path, verify=False, fingerprint=written.fingerprint)


@contextlib.contextmanager
def _new_folders(analyzers: Mapping[Path, Analyzer]) -> Iterator[dict[Path, Analyzer]]:
    """Yield temporary folders, which replace the paths at the end."""
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(atomic_directory(path, manifest.INDEX_KIND)) for path in analyzers]
        yield dict(zip(folders, analyzers.values(), strict=True))


def build_field(
    source: DocumentSource,
    index: PathLike,
    field: str,
    analyzer: Analyzer,
    *,
    workers: int | None = None,
    memory_bytes: int = 1 << 30,
    progress: Count | None = None,
    beside: Mapping[Path, Analyzer] | None = None,
) -> ColumnarIndex:
    """Index one field of the documents in the folder of their index; see `ColumnarIndex.field`.

    The field's index is a separate index with the same document numbers; term frequencies and document
    lengths are those of the field. Parameters are as in `build_index`.

    Raises
    ------
    InputError
        As `build_index`, and for a field that no document has.
    """
    view, indexes = field_of(source, field), {Path(index): analyzer, **(beside or {})}
    paths = {Path(parent, manifest.FIELDS_FOLDER, field): analyzer for parent, analyzer in indexes.items()}
    path = next(iter(paths))
    with _new_folders(paths) as folders:
        written, *_ = write_indexes(view, folders, BuildOptions(workers, memory_bytes, progress))
        if not written.total_terms:
            raise no_field(source, field)
    return ColumnarIndex.open(path, verify=False, fingerprint=written.fingerprint)


def no_field(source: DocumentSource, field: str) -> InputError:
    """Return the error for a field that no document has."""
    return InputError(
        "no document has this field, or a word in it",
        file=source.name,
        value=field,
        accepted="a key of JSON lines, an element of TREC documents",
    )


def write_indexes(
    source: DocumentSource, analyzers: Mapping[Path, Analyzer], options: BuildOptions
) -> list[manifest.Manifest]:
    """Write an index for each analyzer into its empty folder."""
    if options.workers is not None:
        check_least("bad number of workers", options.workers, 1)
    with unchanged(source):
        digest = source.digest()
        try:
            written = _index_text(source, analyzers, options)
        except DuplicateDocnoError as error:
            raise duplicate(source, str(error)) from None
    return [
        _write_manifest(source, digest, folder, analyzer, *written[folder])
        for folder, analyzer in analyzers.items()
    ]


def _write_manifest(
    source: DocumentSource, digest: str, folder: Path, analyzer: Analyzer, columns: _Columns, postings: int
) -> manifest.Manifest:
    """Write the manifest of a folder's columns."""
    content = manifest.Manifest(
        source=source.name,
        source_digest=digest,
        analyzer=analyzer.settings,
        analyzer_fingerprint=analyzer.fingerprint,
        num_docs=columns["doc_lengths"].count,
        total_terms=int(Column[Any](folder, columns["doc_lengths"])[:].sum(dtype=np.int64)),
        unique_terms=columns["term_bytes"].count - 1,
        num_postings=postings,
        columns={
            name: columns[name]
            for name in (*manifest.INDEX_COLUMNS, *manifest.POSITION_COLUMNS)
            if name in columns
        },
    )
    manifest.write_manifest(folder, content)
    return content


def _index_text(
    source: DocumentSource, analyzers: Mapping[Path, Analyzer], options: BuildOptions
) -> dict[Path, tuple[_Columns, int]]:
    """Write the columns; return the columns and the number of postings, by folder."""
    scratch = {folder / "runs": analyzer for folder, analyzer in analyzers.items()}
    for folder in scratch:
        folder.mkdir()
    written = {}
    for folder, runs in zip(scratch, _invert(source, scratch, options), strict=True):
        if not runs:
            raise InputError("no documents", file=source.name, accepted="at least one document")
        columns = merge_docs(runs, folder.parent)
        merged, postings = merge_postings(runs, folder.parent, options.memory_bytes)
        shutil.rmtree(folder)
        written[folder.parent] = columns | merged, postings
    return written


def _invert(
    source: DocumentSource, analyzers: Mapping[Path, Analyzer], options: BuildOptions
) -> list[list[SortedRun]]:
    """Invert all documents; return the runs of each analyzer."""
    requested = _requested_workers(options.workers)
    done, size, workers = 0, source.size, width(requested)

    def report(finished: int) -> None:
        nonlocal done
        done += finished
        if options.progress is not None:
            options.progress(done, size)

    batches = source.batches()
    first = list(_take(batches, _WORTH_WORKERS))
    all_batches = itertools.chain(first, batches)
    if workers == 1 or sum(batch.size for batch in first) < _WORTH_WORKERS:
        inverter = Inverter("run", analyzers, options.memory_bytes, options.positions)
        for batch in all_batches:
            inverter.add(batch.read())
            report(batch.size)
        return inverter.finish()
    largest_share = max(options.memory_bytes // (workers * _MEMORY_PER_INPUT), 1)
    share = min(max(size // (workers * _SHARES_PER_WORKER) or largest_share, _LEAST_SHARE), largest_share)
    memory = options.memory_bytes // workers
    make = partial(Inverter, analyzers=analyzers, memory_bytes=memory, positions=options.positions)
    sizes: list[int] = []

    def tasks() -> Iterator[Task]:
        while part := list(_take(all_batches, share)):
            sizes.append(sum(batch.size for batch in part))
            yield invert, {"make": make, "batches": part}

    # Load the code for merging while the workers are busy.
    threading.Thread(target=load_kernels).start()
    runs: dict[int, list[list[SortedRun]]] = {}
    for task, written in run_all(tasks(), requested):
        runs[task] = written
        report(sizes[task])
    parts = [runs[task] for task in sorted(runs)]
    return [[run for part in parts for run in part[number]] for number in range(len(analyzers))]


def _requested_workers(workers: int | None) -> int | None:
    return workers if workers is not None or width() else cores()


def workers_for(workers: int | None, size: int) -> int | None:
    """Return the number of workers for `lmtune.parallel.run_all`: 0 for one worker or little input."""
    requested = _requested_workers(workers)
    return 0 if width(requested) == 1 or 0 < size < _WORTH_WORKERS else requested


def _take(batches: Iterator[DocumentBatch], size: int) -> Iterator[DocumentBatch]:
    """Yield batches until they have ``size`` bytes together."""
    while size > 0 and (batch := next(batches, None)) is not None:
        yield batch
        size -= batch.size


def duplicate(source: DocumentSource, docno: str) -> InputError:
    """Return the error for a docno that occurs twice."""
    locations = source.locate(docno)
    file, line = locations[1] if len(locations) > 1 else (source.name, None)
    first = f", as at {locations[0][0]}:{locations[0][1]}" if locations else ""
    return InputError(
        f"a second document of the same docno{first}",
        file=file,
        line=line,
        value=docno,
        accepted="every docno once",
    )
