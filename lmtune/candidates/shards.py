"""Candidates extracted shard by shard, near the documents, and merged: the same as from one index.

A first pass counts each shard's occurrences of the queries' terms; added up, they are what scores of
documents depend on beside the documents. A second pass extracts each shard's candidates and keeps
those that can matter. Merged, and chosen from once more, they are exactly those of one index: the
best of all documents are among the best of their shard, and the K-skyband of a union lies within the
union of the shards' K-skybands, because dominance (`lmtune.candidates.dominance`) is transitive: of
the dominators of a document that has K or more, the first K in the order of ties have fewer than K
themselves, so no shard drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.columns import UNJUDGED, ColumnLists, Columns, join_columns
from lmtune.candidates.pool import CandidatePool, PoolBuilder, count_unknown
from lmtune.candidates.skyband import Keep, pruned
from lmtune.indexing.index import CollectionSize, Extent, Index, Postings, TermCounts
from lmtune.indexing.sharded import ShardedIndex, over_shards
from lmtune.models.formula import Formula, QueryColumn
from lmtune.parallel import width

Queries: TypeAlias = Mapping[str, Sequence[QueryColumn]]

# Documents times topics whose candidates a worker holds whole at a time.
_AT_A_TIME, _MOST_TOPICS = 1 << 21, 16
_NONE = Postings(np.empty(0, np.int32), np.empty(0, np.int32))


class ColumnCounts(NamedTuple):
    """What documents say of one topic's columns.

    Attributes
    ----------
    held : numpy.ndarray of bool, shape (columns,)
        Whether the collection holds it.
    cf, df, most : numpy.ndarray of int64, shape (columns,)
        Its occurrences, the documents that hold it, and its greatest frequency in one.
    """

    held: NDArray[np.bool_]
    cf: NDArray[np.int64]
    df: NDArray[np.int64]
    most: NDArray[np.int64]

    def plus(self, other: ColumnCounts) -> ColumnCounts:
        """Return what two collections say together."""
        most = np.maximum(self.most, other.most)
        return ColumnCounts(self.held | other.held, self.cf + other.cf, self.df + other.df, most)


class Counts(NamedTuple):
    """What a shard, or several, say of all that scores depend on.

    Attributes
    ----------
    topics : dict of str to ColumnCounts
        By topic.
    sizes : dict of int to CollectionSize
        How large the collection is where columns of each group are counted; under -1 the whole text.
    longest : int
        The longest document.
    """

    topics: dict[str, ColumnCounts]
    sizes: dict[int, CollectionSize]
    longest: int

    def plus(self, other: Counts) -> Counts:
        """Return what two collections say together."""
        return Counts(
            {topic: own.plus(other.topics[topic]) for topic, own in self.topics.items()},
            {group: own.plus(other.sizes[group]) for group, own in self.sizes.items()},
            max(self.longest, other.longest),
        )


class Part(NamedTuple):
    """A shard's candidates that were kept, and how many of each topic there were."""

    columns: Columns
    docs: NDArray[np.int64]


class Extracted(NamedTuple):
    """A pool of all shards, before judgements.

    Attributes
    ----------
    pool : CandidatePool
        Its candidates are those that are kept of all.
    counts : dict of str to ColumnCounts
        By topic, of the pool's columns.
    docs : numpy.ndarray of int64, shape (topics,)
        How many candidates there were.
    """

    pool: CandidatePool
    counts: list[ColumnCounts]
    docs: NDArray[np.int64]


def extract_from_shards(
    index: ShardedIndex,
    topics: Mapping[str, str],
    formula: Formula,
    name: str | None,
    make_keep: Callable[[CandidatePool, list[ColumnCounts]], Keep],
    progress: Callable[[int, int], None] | None = None,
) -> Extracted:
    """Extract candidates shard by shard.

    Parameters
    ----------
    index, topics, name, progress
        As for `CandidatePool.build`.
    formula : Formula
        What will rank the candidates.
    make_keep : callable
        Makes, of a pool without candidates and the counts of its columns, what chooses them; that of
        a union must choose the same from all as from what it chooses of the parts.
    """
    texts = {topic: index.analyze(text) for topic, text in topics.items()}
    asked = {topic: formula.columns(text) for topic, text in texts.items()}
    done = 0

    def report() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done * len(topics) // (2 * len(index.shards)), len(topics))

    counts: Counts | None = None
    for _, found in over_shards(index, count_columns, formula=formula, queries=asked):
        counts = found if counts is None else counts.plus(found)
        report()
    assert counts is not None
    outline, known = _outline(index, formula, texts, asked, counts)
    outline = replace(outline, name=index.name if name is None else name)
    keep = make_keep(outline, known)
    merged, docs = outline, np.zeros(len(topics), np.int64)
    values = [outline.value[outline.term_rows(t)].tolist() for t in range(len(topics))]
    parts = [list(zip(*own, strict=True)) for own in zip(outline.columns, values, strict=True)]
    given: dict[str, Any] = {
        "formula": formula,
        "extent": outline.extent,
        "topics": dict(zip(topics, parts, strict=True)),
    }
    # Worker processes share the cores.
    given["threads"] = 1 if width() else None
    for base, part in over_shards(index, extract_part, keep=keep, **given):
        own = replace(part.columns, doc=part.columns.doc + np.int32(base))
        merged = pruned(replace(merged, candidates=_merge(index, merged.candidates, own)), keep)
        docs += part.docs
        report()
    return Extracted(merged, known, docs)


def count_columns(shard: Index, formula: Formula, queries: Queries) -> Counts:
    """Count what a shard's documents say of queries' columns."""
    counted = {}
    for topic, columns in queries.items():
        found = formula.look_up(shard, columns)
        tfs = [_NONE.tfs if own is None else own.tfs for own in found]
        counted[topic] = ColumnCounts(
            np.array([own is not None for own in found], np.bool_),
            np.array([own.sum(dtype=np.int64) for own in tfs], np.int64),
            np.array([own.size for own in tfs], np.int64),
            np.array([own.max(initial=0) for own in tfs], np.int64),
        )
    groups = {column.group for columns in queries.values() for column in columns}
    sizes = {group: CollectionSize.of(formula.part(shard, group)) for group in groups}
    longest = int(np.max(formula.lengths(shard), initial=1))
    return Counts(counted, {-1: CollectionSize.of(shard), **sizes}, longest)


def extract_part(
    shard: Index,
    formula: Formula,
    extent: Extent,
    topics: Mapping[str, Sequence[tuple[QueryColumn, float]]],
    keep: Keep,
    threads: int | None = None,
) -> Part:
    """Extract a shard's candidates, and keep those that can matter.

    Parameters
    ----------
    shard : Index
        The shard.
    formula, keep
        As for `extract_from_shards`.
    extent : Extent
        The whole collection's.
    topics : mapping of str to sequence of (QueryColumn, float)
        By topic, the columns and what scoring takes of them.
    threads : int, optional
        Threads over topics; the number of cores by default.
    """
    builder = PoolBuilder(shard, formula, extent)
    columns, docs = [], []
    left = iter(topics.items())
    step = max(1, min(_MOST_TOPICS, _AT_A_TIME // max(shard.num_docs, 1)))
    while some := list(islice(left, step)):
        for topic, given in some:
            own, values = [column for column, _ in given], [value for _, value in given]
            found = formula.look_up(shard, own)
            builder.put(topic, own, values, [postings or _NONE for postings in found])
        pool = builder.finish("", {})
        columns.append(pruned(pool, keep, threads).candidates)
        docs.append(np.diff(pool.candidates.start))
    return Part(join_columns(columns), np.concatenate(docs))


def _outline(
    index: Index, formula: Formula, texts: Mapping[str, Sequence[str]], asked: Queries, counts: Counts
) -> tuple[CandidatePool, list[ColumnCounts]]:
    """Return a pool of the columns that the collection holds, without candidates, and their counts."""
    extent = Extent(counts.longest, counts.sizes[-1].mean_length)
    builder, known = PoolBuilder(index, formula, extent), []
    for topic, text in texts.items():
        own = counts.topics[topic]
        held = np.flatnonzero(own.held)
        own = ColumnCounts(own.held[held], own.cf[held], own.df[held], own.most[held])
        columns = [asked[topic][at] for at in held.tolist()]
        values = [
            formula.term_value(TermCounts(int(cf), int(df), counts.sizes[column.group]))
            for column, cf, df in zip(columns, own.cf, own.df, strict=True)
        ]
        count_unknown(builder.unknown_terms, text, columns)
        builder.put(topic, columns, values, [_NONE] * len(columns))
        known.append(own)
    return builder.finish(index.name, {}), known


def _merge(index: ShardedIndex, one: Columns, other: Columns) -> Columns:
    """Put the documents of two collections, topic by topic, into the order of ties."""
    merged = ColumnLists()
    for t in range(one.start.size - 1):
        parts = [(own, own.rows(t)) for own in (one, other) if own.start[t + 1] > own.start[t]]
        if not parts:
            nothing = np.empty(0, np.int32)
            merged.append(doc=nothing, length=nothing, gain=nothing, tf=nothing)
            continue
        docs = np.concatenate([own.doc[rows] for own, rows in parts])
        lengths = np.concatenate([own.length[rows] for own, rows in parts])
        tf = np.concatenate([own.block(t) for own, _ in parts], axis=1)
        order = np.lexsort((-index.ranks_of(docs), -tf.sum(axis=0, dtype=np.int32), lengths))
        unjudged = np.full(docs.size, UNJUDGED, np.int32)
        merged.append(doc=docs[order], length=lengths[order], gain=unjudged, tf=tf[:, order])
    return merged.join()
