"""Building an embedded index."""

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


# Below this much input, starting workers takes longer than they save.
_WORTH_WORKERS = 8 << 20
# A worker's share of the input at a time: small enough that all end at about the same time.
_SHARES_PER_WORKER = 4
_LEAST_SHARE = 1 << 20
# Tokens and postings take about 5 bytes of memory for each byte of text.
_MEMORY_PER_INPUT = 8


_Columns: TypeAlias = dict[str, StoredColumn]


class How(NamedTuple):
    """How indexes are built, as `build_index` takes it."""

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

    The index's bytes depend on the documents and the analyzer alone, not on the number of
    workers or the memory. Nothing is left behind when building fails or is interrupted.

    Parameters
    ----------
    source : DocumentSource
        The documents.
    path : path-like
        The index's folder. An index that is there already is replaced once the new one is whole.
    analyzer : Analyzer
        Turns text into terms.
    fields : sequence of str
        Fields of the documents to index too, as `build_field` does.
    positions : bool
        Whether to keep where terms stand, but for the fields: a byte or two a token.
    workers : int, optional
        How many processes read and analyse, at least 1; by default as `joblib.parallel_config` says,
        or the number of cores. With 1, or little input, this process does it.
    memory_bytes : int, optional
        A budget for all processes together. Beyond it come the interpreters themselves, the
        batches being read, the vocabulary and the docnos (about 200 bytes for each term, 120 for
        each document).
    progress : callable, optional
        Called in this thread with the bytes done and the bytes in all (0 if not known).
    beside : mapping of path to Analyzer, optional
        Further analyzers, by their indexes' folders: documents are read and made tokens once for all, and
        each index has the bytes that it has when it is built alone.
    finish : callable, optional
        Called with the index before it takes its place, to add to its folder.

    Returns
    -------
    ColumnarIndex
        The index, open.

    Raises
    ------
    InputError
        If a document cannot be read, two share a docno, there are none at all, a file of them
        changes meanwhile, or ``path`` is something else than an index, or at the end another one;
        as `build_field`.
    """
    with _new_folders({Path(path): analyzer, **(beside or {})}) as folders:
        made, *_ = write_indexes(source, folders, How(workers, memory_bytes, progress, positions))
        (first, _), *others = folders.items()
        for field in fields:
            how: Any = {"workers": workers, "memory_bytes": memory_bytes, "beside": dict(others)}
            build_field(source, first, field, analyzer, **how)
        if finish is not None:
            finish(ColumnarIndex.open(first, verify=False))
    return ColumnarIndex.open(path, verify=False, fingerprint=made.fingerprint)


@contextlib.contextmanager
def _new_folders(analyzers: Mapping[Path, Analyzer]) -> Iterator[dict[Path, Analyzer]]:
    """Give new folders, which stand at the paths at the end."""
    with contextlib.ExitStack() as made:
        folders = [made.enter_context(atomic_directory(path, manifest.INDEX_KIND)) for path in analyzers]
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
    """Index one field of the documents beside the index that they have; see `ColumnarIndex.field`.

    It is an index of its own, in the other's folder: documents have the same numbers, and terms
    their frequencies, documents their lengths in this field. Parameters are as for `build_index`.

    Raises
    ------
    InputError
        As `build_index`, and for a field that no document has.
    """
    view, whole = field_of(source, field), {Path(index): analyzer, **(beside or {})}
    places = {Path(own, manifest.FIELDS_FOLDER, field): analyzer for own, analyzer in whole.items()}
    path = next(iter(places))
    with _new_folders(places) as folders:
        made, *_ = write_indexes(view, folders, How(workers, memory_bytes, progress))
        if not made.total_terms:
            raise no_field(source, field)
    return ColumnarIndex.open(path, verify=False, fingerprint=made.fingerprint)


def no_field(source: DocumentSource, field: str) -> InputError:
    """Return what to raise for a field that no document has."""
    return InputError(
        "no document has this field, or a word in it",
        file=source.name,
        value=field,
        accepted="a key of JSON lines, an element of TREC documents",
    )


def write_indexes(
    source: DocumentSource, analyzers: Mapping[Path, Analyzer], how: How
) -> list[manifest.Manifest]:
    """Write an index under each analysis into an empty folder."""
    if how.workers is not None:
        check_least("bad number of workers", how.workers, 1)
    with unchanged(source):
        digest = source.digest()
        try:
            written = _index_text(source, analyzers, how)
        except DuplicateDocnoError as error:
            raise duplicate(source, str(error)) from None
    return [_keep(source, digest, folder, own, *written[folder]) for folder, own in analyzers.items()]


def _keep(
    source: DocumentSource, digest: str, folder: Path, analyzer: Analyzer, columns: _Columns, postings: int
) -> manifest.Manifest:
    """Write the manifest of columns that stand in a folder."""
    made = manifest.Manifest(
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
    manifest.write_manifest(folder, made)
    return made


def _index_text(
    source: DocumentSource, analyzers: Mapping[Path, Analyzer], how: How
) -> dict[Path, tuple[_Columns, int]]:
    """Write the columns; return them and the number of postings, by folder."""
    scratch = {folder / "runs": analyzer for folder, analyzer in analyzers.items()}
    for folder in scratch:
        folder.mkdir()
    found = {}
    for folder, runs in zip(scratch, _invert(source, scratch, how), strict=True):
        if not runs:
            raise InputError("no documents", file=source.name, accepted="at least one document")
        columns = merge_docs(runs, folder.parent)
        merged, postings = merge_postings(runs, folder.parent, how.memory_bytes)
        shutil.rmtree(folder)
        found[folder.parent] = columns | merged, postings
    return found


def _invert(source: DocumentSource, analyzers: Mapping[Path, Analyzer], how: How) -> list[list[SortedRun]]:
    """Return each analyzer's runs."""
    given = _given(how.workers)
    done, size, workers = 0, source.size, width(given)

    def report(finished: int) -> None:
        nonlocal done
        done += finished
        if how.progress is not None:
            how.progress(done, size)

    batches = source.batches()
    first = list(_take(batches, _WORTH_WORKERS))
    every = itertools.chain(first, batches)
    if workers == 1 or sum(batch.size for batch in first) < _WORTH_WORKERS:
        inverter = Inverter("run", analyzers, how.memory_bytes, how.positions)
        for batch in every:
            inverter.add(batch.read())
            report(batch.size)
        return inverter.finish()
    most = max(how.memory_bytes // (workers * _MEMORY_PER_INPUT), 1)
    share = min(max(size // (workers * _SHARES_PER_WORKER) or most, _LEAST_SHARE), most)
    memory = how.memory_bytes // workers
    make = partial(Inverter, analyzers=analyzers, memory_bytes=memory, positions=how.positions)
    sizes: list[int] = []

    def tasks() -> Iterator[Task]:
        while part := list(_take(every, share)):
            sizes.append(sum(batch.size for batch in part))
            yield invert, {"make": make, "batches": part}

    # What merging will need is there by the time that the workers are done.
    threading.Thread(target=load_kernels).start()
    runs: dict[int, list[list[SortedRun]]] = {}
    for place, written in run_all(tasks(), given):
        runs[place] = written
        report(sizes[place])
    parts = [runs[place] for place in sorted(runs)]
    return [[run for part in parts for run in part[number]] for number in range(len(analyzers))]


def _given(workers: int | None) -> int | None:
    return workers if workers is not None or width() else cores()


def workers_for(workers: int | None, size: int) -> int | None:
    """Return what to ask `lmtune.parallel.run_all` for: 0 where too little input is known of."""
    given = _given(workers)
    return 0 if width(given) == 1 or 0 < size < _WORTH_WORKERS else given


def _take(batches: Iterator[DocumentBatch], size: int) -> Iterator[DocumentBatch]:
    """Yield batches until they come to ``size`` bytes."""
    while size > 0 and (batch := next(batches, None)) is not None:
        yield batch
        size -= batch.size


def duplicate(source: DocumentSource, docno: str) -> InputError:
    """Return what to raise for a docno that comes twice."""
    places = source.locate(docno)
    file, line = places[1] if len(places) > 1 else (source.name, None)
    first = f", as at {places[0][0]}:{places[0][1]}" if places else ""
    return InputError(
        f"a second document of the same docno{first}",
        file=file,
        line=line,
        value=docno,
        accepted="every docno once",
    )
