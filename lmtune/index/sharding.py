"""Making one index of shards: of the parts of a collection, or of indexes that are there."""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lmtune.errors import InputError, PathLike, name_of
from lmtune.index.builder import How, duplicate, no_field, workers_for, write_indexes
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
    """Index a collection in shards, parts of consecutive documents of about equal size.

    Parameters
    ----------
    source, path, analyzer, fields, positions, workers, memory_bytes, progress, finish
        As for `lmtune.index.builder.build_index`.
    shards : int
        How many.

    Returns
    -------
    ShardedIndex
        With the fingerprint, numbers and order of documents that one index of the collection has.

    Raises
    ------
    InputError
        As `lmtune.index.builder.build_index`, and where the documents cannot be cut into so many.
    """
    workers = workers_for(workers, source.size)
    how = How(1, memory_bytes // max(width(workers), 1), positions=positions)
    with unchanged(source), atomic_directory(path, SHARDED_KIND) as folder:
        digest = source.digest()
        parts = cut_documents(source, shards, digest)
        places = [folder / f"shard-{number:0{len(str(shards - 1))}}" for number in range(shards)]
        tasks: list[Task] = [
            (_write_shard, {"part": part, "place": place, "analyzer": analyzer, "fields": fields, "how": how})
            for part, place in zip(parts, places, strict=True)
        ]
        done = 0
        for number, _ in run_all(tasks, workers):
            done += parts[number].size
            if progress is not None:
                progress(done, source.size)
        opened = [ColumnarIndex.open(place, verify=False) for place in places]
        fingerprints = {"": make_fingerprint(digest, analyzer.fingerprint)}
        for field in fields:
            if not any(shard.field(field).total_terms for shard in opened):
                raise no_field(source, field)
            of_field = field_of(source, field).digest()
            fingerprints[field] = make_fingerprint(of_field, analyzer.fingerprint)
        try:
            ranks = _write_ranks(folder, opened)
        except DuplicateDocnoError as error:
            raise duplicate(source, str(error)) from None
        stored = [StoredShard(one.path.name, one.fingerprint, one.num_docs) for one in opened]
        write_shards(folder, ShardsManifest(source.name, False, fingerprints, stored, ranks))
        if finish is not None:
            finish(ShardedIndex.open(folder))
    return ShardedIndex.open(path, fingerprint=fingerprints[""])


def join_indexes(paths: Sequence[PathLike], path: PathLike, *, name: str | None = None) -> ShardedIndex:
    """Make one index of several that are there and stay where they are.

    Parameters
    ----------
    paths : sequence of path-like
        Their folders, in the order of their documents: of lmtune's own, also sharded ones, which give
        their shards, and of Lucene's with ``lucene:`` before them.
    path : path-like
        The folder for what is known of all of them.
    name : str, optional
        The collection's name; by default the folder's.

    Returns
    -------
    ShardedIndex

    Raises
    ------
    InputError
        For fewer than one, one that cannot be opened, others' analysis, or a docno that two hold.
    """
    shards = [shard for own in paths for shard in _shards_at(os.fspath(own))]
    if not shards:
        raise InputError("no indexes to join", accepted="one or more")
    check_directory(path, SHARDED_KIND, reads=[own.path for own in shards])
    _check_analysis(shards)
    home = Path(os.path.realpath(path))
    stored = [
        StoredShard(
            (LUCENE_PREFIX if isinstance(own, LuceneIndex) else "")
            + os.path.relpath(os.path.realpath(own.path), home),
            own.fingerprint,
            own.num_docs,
        )
        for own in shards
    ]
    with atomic_directory(path, SHARDED_KIND) as folder:
        try:
            ranks = _write_ranks(folder, shards)
        except DuplicateDocnoError as error:
            raise _twice(shards, str(error)) from None
        fingerprints = {"": _digest(own.fingerprint for own in shards)}
        for field in _common_fields(shards):
            fingerprints[field] = _digest(own.field(field).fingerprint for own in shards)  # type: ignore[union-attr]
        write_shards(folder, ShardsManifest(name or name_of(home), True, fingerprints, stored, ranks))
    return ShardedIndex.open(path, fingerprint=fingerprints[""])


def _write_shard(
    part: DocumentSource, place: Path, analyzer: Analyzer, fields: Sequence[str], how: How
) -> None:
    place.mkdir()
    write_indexes(part, {place: analyzer}, how)
    for field in fields:
        below = place / FIELDS_FOLDER / field
        below.mkdir(parents=True)
        write_indexes(field_of(part, field), {below: analyzer}, how._replace(positions=False))


def _write_ranks(folder: Path, shards: Sequence[AnyShard]) -> StoredColumn:
    """Write each document's place among the docnos of all shards.

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
    """Yield docnos, ascending, and their documents' numbers."""
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


def _twice(shards: Sequence[AnyShard], docno: str) -> InputError:
    holders = [own.path for own in shards if own.doc_numbers([docno])[0] >= 0]
    return InputError(
        f"a second document of the same docno, as in {holders[0]}",
        file=holders[-1],
        value=docno,
        accepted="every docno once",
    )


def _common_fields(shards: Sequence[AnyShard]) -> list[str]:
    """Return the fields that all shards have."""
    names = [{own.name for own in Path(shard.path, FIELDS_FOLDER).glob("*")} for shard in shards]
    return sorted(set.intersection(*names)) if all(isinstance(own, ColumnarIndex) for own in shards) else []


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join([SHARDED_FORMAT, *parts]).encode()).hexdigest()
