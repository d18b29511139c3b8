"""Build a sharded index from a collection, or by joining existing indexes."""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmtune.errors import InputError, PathLike, name_of
from lmtune.index.builder import BuildOptions, duplicate, no_field, workers_for, write_indexes
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.columns import DuplicateDocnoError, StoredColumn, write_column
from lmtune.index.lucene.index import LUCENE_PREFIX, LuceneIndex
from lmtune.index.manifest import FIELDS_FOLDER, make_fingerprint
from lmtune.index.sharded import (
    RANKS,
    SHARDED_FORMAT,
    SHARDED_KIND,
    SHARDS_FILE,
    AnyShard,
    ShardedIndex,
    ShardsManifest,
    StoredShard,
    write_shards,
)
from lmtune.io.documents import DocumentSource, cut_documents, field_of, unchanged
from lmtune.io.folders import atomic_directory, check_directory
from lmtune.parallel import Task, run_all, width
from lmtune.progress import Count

if TYPE_CHECKING:
    from lmtune.index.analysis import Analyzer
    from lmtune.index.protocol import StoredIndex

_DOCNOS_AT_A_TIME = 4096
_ANALYSIS = ("stemmer", "stopwords")


def build_sharded_index(
    source: DocumentSource,
    path: PathLike,
    analyzer: Analyzer,
    shards: int,
    *,
    fields: Sequence[str] = (),
    positions: bool = False,
    workers: int | None = None,
    memory_bytes: int = 1 << 30,
    progress: Count | None = None,
    finish: Callable[[StoredIndex], None] | None = None,
) -> ShardedIndex:
    """Index a collection in shards: consecutive documents, of about equal size.

    Parameters
    ----------
    source, path, analyzer, fields, positions, workers, memory_bytes, progress, finish
        As in `lmtune.index.builder.build_index`.
    shards : int
        Number of shards.

    Returns
    -------
    ShardedIndex
        The fingerprint, the document numbers and their order are those of an unsharded index.

    Raises
    ------
    InputError
        As `lmtune.index.builder.build_index`, and if the documents cannot be split into this many shards.
    """
    workers = workers_for(workers, source.size)
    options = BuildOptions(1, memory_bytes // max(width(workers), 1), positions=positions)
    with unchanged(source), atomic_directory(path, SHARDED_KIND) as folder:
        digest = source.digest()
        parts = cut_documents(source, shards, digest)
        folders = [folder / f"shard-{number:0{len(str(shards - 1))}}" for number in range(shards)]
        same: dict[str, Any] = {"analyzer": analyzer, "fields": fields, "options": options}
        tasks: list[Task] = [
            (_write_shard, {"part": part, "folder": shard_folder, **same})
            for part, shard_folder in zip(parts, folders, strict=True)
        ]
        done = 0
        for number, _ in run_all(tasks, workers):
            done += parts[number].size
            if progress is not None:
                progress(done, source.size)
        opened = [ColumnarIndex.open(shard_folder, verify=False) for shard_folder in folders]
        fingerprints = {"": make_fingerprint(digest, analyzer.fingerprint)}
        for field in fields:
            if not any(shard.field(field).total_terms for shard in opened):
                raise no_field(source, field)
            field_digest = field_of(source, field).digest()
            fingerprints[field] = make_fingerprint(field_digest, analyzer.fingerprint)
        try:
            ranks = _write_ranks(folder, opened)
        except DuplicateDocnoError as error:
            raise duplicate(source, str(error)) from None
        stored = [StoredShard(shard.path.name, shard.fingerprint, shard.num_docs) for shard in opened]
        write_shards(folder, ShardsManifest(source.name, False, fingerprints, stored, ranks))
        if finish is not None:
            finish(ShardedIndex.open(folder))
    return ShardedIndex.open(path, fingerprint=fingerprints[""])


def join_indexes(paths: Sequence[PathLike], path: PathLike, *, name: str | None = None) -> ShardedIndex:
    """Join existing indexes into one sharded index; they stay in their folders.

    Parameters
    ----------
    paths : sequence of path-like
        Folders of the indexes, in the order of their documents: lmtune's indexes, sharded ones (all their
        shards are joined), and Lucene indexes with the prefix ``lucene:``.
    path : path-like
        The folder of the new index, which has only the shared data.
    name : str, optional
        The name of the collection; by default the folder's name.

    Returns
    -------
    ShardedIndex

    Raises
    ------
    InputError
        If there is no index, one cannot be opened, the analyses differ, or two documents share a docno.
    """
    shards = [shard for index in paths for shard in _shards_at(os.fspath(index))]
    if not shards:
        raise InputError("no indexes to join", accepted="one or more")
    check_directory(path, SHARDED_KIND, reads=[shard.path for shard in shards])
    _check_analysis(shards)
    home = Path(os.path.realpath(path))
    stored = [
        StoredShard(
            (LUCENE_PREFIX if isinstance(shard, LuceneIndex) else "")
            + os.path.relpath(os.path.realpath(shard.path), home),
            shard.fingerprint,
            shard.num_docs,
        )
        for shard in shards
    ]
    with atomic_directory(path, SHARDED_KIND) as folder:
        try:
            ranks = _write_ranks(folder, shards)
        except DuplicateDocnoError as error:
            raise _duplicate_docno(shards, str(error)) from None
        fingerprints = {"": _digest(shard.fingerprint for shard in shards)}
        for field in _common_fields(shards):
            fingerprints[field] = _digest(shard.field(field).fingerprint for shard in shards)  # type: ignore[union-attr]
        write_shards(folder, ShardsManifest(name or name_of(home), True, fingerprints, stored, ranks))
    return ShardedIndex.open(path, fingerprint=fingerprints[""])


def _write_shard(
    part: DocumentSource, folder: Path, analyzer: Analyzer, fields: Sequence[str], options: BuildOptions
) -> None:
    folder.mkdir()
    write_indexes(part, {folder: analyzer}, options)
    for field in fields:
        field_folder = folder / FIELDS_FOLDER / field
        field_folder.mkdir(parents=True)
        write_indexes(field_of(part, field), {field_folder: analyzer}, options._replace(positions=False))


def _write_ranks(folder: Path, shards: Sequence[AnyShard]) -> StoredColumn:
    """Write each document's rank among the docnos of all shards.

    Raises
    ------
    DuplicateDocnoError
        If two documents share a docno.
    """
    bases = np.cumsum([0, *(shard.num_docs for shard in shards)]).tolist()
    ranks = np.empty(bases[-1], np.int32)
    last = None
    merged = heapq.merge(*map(_sorted_docnos, shards, bases[:-1]))
    for rank, (docno, number) in enumerate(merged):
        if docno == last:
            raise DuplicateDocnoError(docno)
        ranks[number], last = rank, docno
    return write_column(folder / RANKS, "<i4", ranks)


def _sorted_docnos(shard: AnyShard, base: int) -> Iterator[tuple[str, int]]:
    """Yield the docnos in ascending order, each with its document number."""
    order = np.empty(shard.num_docs, np.int32)
    order[shard.docno_rank] = np.arange(shard.num_docs, dtype=np.int32)
    for begin in range(0, order.size, _DOCNOS_AT_A_TIME):
        docs = order[begin : begin + _DOCNOS_AT_A_TIME]
        yield from zip(shard.docnos(docs), (docs + np.int64(base)).tolist(), strict=True)


def _shards_at(name: str) -> list[AnyShard]:
    if name.startswith(LUCENE_PREFIX):
        return [LuceneIndex.open(name.removeprefix(LUCENE_PREFIX))]
    if Path(name, SHARDS_FILE).is_file():
        return list(ShardedIndex.open(name).shards)
    return [ColumnarIndex.open(name)]


def _check_analysis(shards: Sequence[AnyShard]) -> None:
    first = shards[0]
    for other in shards[1:]:
        same = [first.analysis.get(key) == other.analysis.get(key) for key in _ANALYSIS]
        if isinstance(first, ColumnarIndex) and isinstance(other, ColumnarIndex):
            same.append(first.manifest.analyzer_fingerprint == other.manifest.analyzer_fingerprint)
        if not all(same):
            raise InputError(
                f"the index has another analysis than {first.path}",
                file=other.path,
                value=" and ".join(str(other.analysis.get(key)) for key in _ANALYSIS),
                accepted=" and ".join(str(first.analysis.get(key)) for key in _ANALYSIS),
            )


def _duplicate_docno(shards: Sequence[AnyShard], docno: str) -> InputError:
    holders = [shard.path for shard in shards if shard.doc_numbers([docno])[0] >= 0]
    return InputError(
        f"a second document of the same docno, as in {holders[0]}",
        file=holders[-1],
        value=docno,
        accepted="every docno once",
    )


def _common_fields(shards: Sequence[AnyShard]) -> list[str]:
    """Return the fields that all shards have."""
    if not all(isinstance(shard, ColumnarIndex) for shard in shards):
        return []
    names = [{folder.name for folder in Path(shard.path, FIELDS_FOLDER).glob("*")} for shard in shards]
    return sorted(set.intersection(*names))


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join([SHARDED_FORMAT, *parts]).encode()).hexdigest()
