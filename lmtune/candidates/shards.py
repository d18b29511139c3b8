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
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lmtune.arrays import Booleans, Integers
from lmtune.candidates.columns import UNJUDGED, Columns, topic_columns
from lmtune.candidates.pool import CandidatePool, PoolBuilder, count_unknown, weighed
from lmtune.candidates.skyband import Keep, pruned
from lmtune.errors import InputError
from lmtune.index.protocol import CollectionSize, Extent, Index, Postings, TermCounts
from lmtune.index.sharded import ShardedIndex, over_shards
from lmtune.models.formula import Formula, QueryColumn
from lmtune.progress import Count

Queries: TypeAlias = Mapping[str, Sequence[QueryColumn]]

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

    held: Booleans
    cf: Integers
    df: Integers
    most: Integers

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


class ShardCandidates(NamedTuple):
    """A shard's candidates that were kept, topic by topic, and how many of each topic there were."""

    columns: list[Columns]
    docs: Integers


class Extracted(NamedTuple):
    """What all shards gave, before judgments.

    Attributes
    ----------
    pools : list of CandidatePool
        One a topic; its candidates are those that are kept of all.
    counts : list of ColumnCounts
        Of each one's columns.
    docs : numpy.ndarray of int64, shape (topics,)
        How many candidates there were.
    """

    pools: list[CandidatePool]
    counts: list[ColumnCounts]
    docs: Integers


def extract_from_shards(
    index: ShardedIndex,
    topics: Mapping[str, str],
    formula: Formula,
    make_keep: Callable[[list[CandidatePool], list[ColumnCounts]], Keep],
    *,
    name: str | None = None,
    exclude_self: bool = False,
    progress: Count | None = None,
) -> Extracted:
    """Extract candidates shard by shard.

    Parameters
    ----------
    index, topics, name, progress, exclude_self
        As for `CandidatePool.build`.
    formula : Formula
        What will rank the candidates.
    make_keep : callable
        Makes, of pools without candidates and the counts of their columns, what chooses candidates; of
        all it must choose the same as of those that it chooses of parts.

    Raises
    ------
    InputError
        Where there are no topics.
    """
    if not topics:
        raise InputError("no topics", accepted="at least one topic")
    topics = weighed(index, topics, formula, exclude_self=exclude_self)
    both = {topic: formula.analyze_query(index, text) for topic, text in topics.items()}
    texts = {topic: text for topic, (text, _) in both.items()}
    asked = {topic: columns for topic, (_, columns) in both.items()}
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
    outlines, known = _outlines(index, name, formula, texts, asked, counts)
    keep = make_keep(outlines, known)
    merging = [_Merging(index, outline, keep) for outline in outlines]
    given: dict[str, Any] = {"formula": formula, "extent": outlines[0].extent, "keep": keep}
    given["exclude_self"] = exclude_self
    given["topics"] = {
        outline.topics[0]: list(zip(outline.columns[0], outline.value.tolist(), strict=True))
        for outline in outlines
    }
    docs = np.zeros(len(topics), np.int64)
    for base, part in over_shards(index, extract_part, **given):
        for own, columns in zip(merging, part.columns, strict=True):
            own.add(replace(columns, doc=columns.doc + np.int32(base)))
        docs += part.docs
        report()
    pools = [replace(own.finish(), exclude_self=exclude_self) for own in merging]
    return Extracted(pools, known, docs)


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
    groups |= set(range(len(formula.fields)))
    sizes = {group: formula.size(formula.group_index(shard, group)) for group in groups}
    longest = int(np.max(formula.lengths(shard), initial=1))
    return Counts(counted, {-1: formula.size(shard), **sizes}, longest)


def extract_part(
    shard: Index,
    formula: Formula,
    extent: Extent,
    topics: Mapping[str, Sequence[tuple[QueryColumn, float]]],
    keep: Keep,
    exclude_self: bool,
) -> ShardCandidates:
    """Extract a shard's candidates, and keep those that can matter.

    Parameters
    ----------
    shard : Index
        The shard.
    formula, keep, exclude_self
        As for `extract_from_shards`.
    extent : Extent
        The whole collection's.
    topics : mapping of str to sequence of (QueryColumn, float)
        By topic, the columns and what scoring takes of them.
    """
    builder = PoolBuilder(shard, formula, extent, exclude_self=exclude_self)
    kept, docs = [], []
    for topic, given in topics.items():
        own, values = [column for column, _ in given], [value for _, value in given]
        found = formula.look_up(shard, own)
        builder.put(topic, own, values, [postings or _NONE for postings in found])
        pool = builder.finish("", {})
        kept.append(pruned(pool, keep).candidates)
        docs.append(pool.candidates.doc.size)
    return ShardCandidates(kept, np.array(docs, np.int64))


class _Merging:
    """One topic's candidates of the shards so far, chosen from whenever there are twice as many."""

    def __init__(self, index: ShardedIndex, outline: CandidatePool, keep: Keep) -> None:
        self.index = index
        self.pool = outline
        self.keep = keep
        self.waiting: list[Columns] = []

    def add(self, columns: Columns) -> None:
        if columns.doc.size:
            self.waiting.append(columns)
        if sum(own.doc.size for own in self.waiting) > self.pool.candidates.doc.size:
            self.finish()

    def finish(self) -> CandidatePool:
        if self.waiting:
            parts = [own for own in (self.pool.candidates, *self.waiting) if own.doc.size]
            self.pool = pruned(replace(self.pool, candidates=_merge(self.index, parts)), self.keep)
            self.waiting.clear()
        return self.pool


def _outlines(
    index: Index,
    name: str | None,
    formula: Formula,
    texts: Mapping[str, Sequence[str]],
    asked: Queries,
    counts: Counts,
) -> tuple[list[CandidatePool], list[ColumnCounts]]:
    """Return, for each topic, a pool of the columns that a document holds, and these columns' counts."""
    means = [counts.sizes[group].mean_length for group in range(len(formula.fields))]
    extent = Extent(counts.longest, counts.sizes[-1].mean_length, tuple(means))
    builder, outlines, known = PoolBuilder(index, formula, extent), [], []
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
        outlines.append(builder.finish(index.name if name is None else name, {}))
        known.append(own)
    return outlines, known


def _merge(index: ShardedIndex, parts: Sequence[Columns]) -> Columns:
    """Put one topic's documents of several parts, none empty, into the order of ties."""
    docs = np.concatenate([own.doc for own in parts])
    lengths = np.concatenate([own.length for own in parts])
    tf = np.concatenate([own.block(0) for own in parts], axis=1)
    order = np.lexsort((-index.ranks_of(docs), -tf.sum(axis=0, dtype=np.int32), lengths))
    return topic_columns(docs[order], lengths[order], np.full(docs.size, UNJUDGED, np.int32), tf[:, order])
