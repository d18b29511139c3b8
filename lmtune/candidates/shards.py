"""Extraction of candidates from the shards of an index; the result equals that from a single index.

A first pass counts the occurrences of the queries' terms in each shard. Their sums are the collection
statistics for scoring. A second pass extracts each shard's candidates and prunes them. The remaining
candidates are merged and pruned again.

The result is exact. The best of all documents are among the best of their shards. The K-skyband of a union is
contained in the union of the shards' K-skybands, because dominance (`lmtune.candidates.dominance`) is
transitive: if a document has K dominators or more, the first K of them in tie order have fewer than K
dominators themselves, so that no shard removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lmtune.arrays import Booleans, Integers
from lmtune.candidates.columns import UNJUDGED, Columns, topic_columns
from lmtune.candidates.pool import CandidatePool, PoolBuilder, add_term_weights, count_unknown
from lmtune.candidates.skyband import Keep, pruned
from lmtune.errors import InputError
from lmtune.index.protocol import CollectionSize, Extent, Index, Postings, TermCounts
from lmtune.index.sharded import ShardedIndex, over_shards
from lmtune.models.formula import Formula, QueryColumn
from lmtune.progress import Count

Queries: TypeAlias = Mapping[str, Sequence[QueryColumn]]

_NO_POSTINGS = Postings(np.empty(0, np.int32), np.empty(0, np.int32))


class ColumnCounts(NamedTuple):
    """Statistics of one topic's columns in a collection.

    Attributes
    ----------
    occurs : numpy.ndarray of bool, shape (columns,)
        Whether the column has postings.
    cf, df, most : numpy.ndarray of int64, shape (columns,)
        Collection frequency, document frequency, and greatest frequency in a document.
    """

    occurs: Booleans
    cf: Integers
    df: Integers
    most: Integers

    def plus(self, other: ColumnCounts) -> ColumnCounts:
        """Return the statistics of the union of two collections."""
        most = np.maximum(self.most, other.most)
        return ColumnCounts(self.occurs | other.occurs, self.cf + other.cf, self.df + other.df, most)


class Counts(NamedTuple):
    """Statistics of a collection for scoring.

    Attributes
    ----------
    topics : dict of str to ColumnCounts
        Statistics of the columns, by topic.
    sizes : dict of int to CollectionSize
        Size of the collection for each group of columns; key -1 is the whole text.
    longest : int
        Length of the longest document.
    """

    topics: dict[str, ColumnCounts]
    sizes: dict[int, CollectionSize]
    longest: int

    def plus(self, other: Counts) -> Counts:
        """Return the statistics of the union of two collections."""
        return Counts(
            {topic: counts.plus(other.topics[topic]) for topic, counts in self.topics.items()},
            {group: size.plus(other.sizes[group]) for group, size in self.sizes.items()},
            max(self.longest, other.longest),
        )


class ShardCandidates(NamedTuple):
    """The pruned candidates of a shard by topic, and the numbers of candidates before pruning."""

    columns: list[Columns]
    docs: Integers


class Extracted(NamedTuple):
    """The candidates of all shards, without judgments.

    Attributes
    ----------
    pools : list of CandidatePool
        A pool per topic, with the pruned candidates of all shards.
    counts : list of ColumnCounts
        Statistics of the columns of each pool.
    docs : numpy.ndarray of int64, shape (topics,)
        Numbers of candidates before pruning.
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
        The formula that ranks the candidates.
    make_keep : callable
        Returns the function that selects candidates, from pools without candidates and the counts of their
        columns. A selection from the union of the shards' selections must equal a selection from all
        candidates.

    Raises
    ------
    InputError
        If there are no topics.
    """
    if not topics:
        raise InputError("no topics", accepted="at least one topic")
    topics = add_term_weights(index, topics, formula, exclude_self=exclude_self)
    analyzed = {topic: formula.analyze_query(index, text) for topic, text in topics.items()}
    terms = {topic: query for topic, (query, _) in analyzed.items()}
    queries = {topic: columns for topic, (_, columns) in analyzed.items()}
    done = 0

    def report() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done * len(topics) // (2 * len(index.shards)), len(topics))

    counts: Counts | None = None
    for _, shard_counts in over_shards(index, count_columns, formula=formula, queries=queries):
        counts = shard_counts if counts is None else counts.plus(shard_counts)
        report()
    assert counts is not None
    outlines, known = _outlines(index, name, formula, terms, queries, counts)
    keep = make_keep(outlines, known)
    merging = [_Merging(index, outline, keep) for outline in outlines]
    arguments: dict[str, Any] = {"formula": formula, "extent": outlines[0].extent, "keep": keep}
    arguments["exclude_self"] = exclude_self
    arguments["topics"] = {
        outline.topics[0]: list(zip(outline.columns[0], outline.value.tolist(), strict=True))
        for outline in outlines
    }
    docs = np.zeros(len(topics), np.int64)
    for base, part in over_shards(index, extract_part, **arguments):
        for topic, columns in zip(merging, part.columns, strict=True):
            topic.add(replace(columns, doc=columns.doc + np.int32(base)))
        docs += part.docs
        report()
    pools = [replace(topic.finish(), exclude_self=exclude_self) for topic in merging]
    return Extracted(pools, known, docs)


def count_columns(shard: Index, formula: Formula, queries: Queries) -> Counts:
    """Return a shard's statistics of the queries' columns."""
    counted = {}
    for topic, columns in queries.items():
        postings = formula.look_up(shard, columns)
        tfs = [_NO_POSTINGS.tfs if each is None else each.tfs for each in postings]
        counted[topic] = ColumnCounts(
            np.array([each is not None for each in postings], np.bool_),
            np.array([tf.sum(dtype=np.int64) for tf in tfs], np.int64),
            np.array([tf.size for tf in tfs], np.int64),
            np.array([tf.max(initial=0) for tf in tfs], np.int64),
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
    """Extract and prune the candidates of a shard.

    Parameters
    ----------
    shard : Index
        The shard.
    formula, keep, exclude_self
        As for `extract_from_shards`.
    extent : Extent
        Extent of the whole collection.
    topics : mapping of str to sequence of (QueryColumn, float)
        The columns and their term values, by topic.
    """
    builder = PoolBuilder(shard, formula, extent, exclude_self=exclude_self)
    kept, docs = [], []
    for topic, pairs in topics.items():
        columns, values = [column for column, _ in pairs], [value for _, value in pairs]
        postings = formula.look_up(shard, columns)
        builder.put(topic, columns, values, [each or _NO_POSTINGS for each in postings])
        pool = builder.finish("", {})
        kept.append(pruned(pool, keep).candidates)
        docs.append(pool.candidates.doc.size)
    return ShardCandidates(kept, np.array(docs, np.int64))


class _Merging:
    """The candidates of one topic from the shards so far, pruned whenever their number has doubled."""

    def __init__(self, index: ShardedIndex, outline: CandidatePool, keep: Keep) -> None:
        self.index = index
        self.pool = outline
        self.keep = keep
        self.waiting: list[Columns] = []

    def add(self, columns: Columns) -> None:
        if columns.doc.size:
            self.waiting.append(columns)
        if sum(each.doc.size for each in self.waiting) > self.pool.candidates.doc.size:
            self.finish()

    def finish(self) -> CandidatePool:
        if self.waiting:
            parts = [each for each in (self.pool.candidates, *self.waiting) if each.doc.size]
            self.pool = pruned(replace(self.pool, candidates=_merge(self.index, parts)), self.keep)
            self.waiting.clear()
        return self.pool


def _outlines(
    index: Index,
    name: str | None,
    formula: Formula,
    terms: Mapping[str, Sequence[str]],
    queries: Queries,
    counts: Counts,
) -> tuple[list[CandidatePool], list[ColumnCounts]]:
    """Return a pool without candidates per topic, with the columns that occur, and their counts."""
    means = [counts.sizes[group].mean_length for group in range(len(formula.fields))]
    extent = Extent(counts.longest, counts.sizes[-1].mean_length, tuple(means))
    builder, outlines, known = PoolBuilder(index, formula, extent), [], []
    for topic, query in terms.items():
        count = counts.topics[topic]
        occurring = np.flatnonzero(count.occurs)
        count = ColumnCounts(
            count.occurs[occurring], count.cf[occurring], count.df[occurring], count.most[occurring]
        )
        columns = [queries[topic][at] for at in occurring.tolist()]
        values = [
            formula.term_value(TermCounts(int(cf), int(df), counts.sizes[column.group]))
            for column, cf, df in zip(columns, count.cf, count.df, strict=True)
        ]
        count_unknown(builder.unknown_terms, query, columns)
        builder.put(topic, columns, values, [_NO_POSTINGS] * len(columns))
        outlines.append(builder.finish(index.name if name is None else name, {}))
        known.append(count)
    return outlines, known


def _merge(index: ShardedIndex, parts: Sequence[Columns]) -> Columns:
    """Merge non-empty parts of one topic's documents in tie order."""
    docs = np.concatenate([part.doc for part in parts])
    lengths = np.concatenate([part.length for part in parts])
    tf = np.concatenate([part.block(0) for part in parts], axis=1)
    order = np.lexsort((-index.ranks_of(docs), -tf.sum(axis=0, dtype=np.int32), lengths))
    return topic_columns(docs[order], lengths[order], np.full(docs.size, UNJUDGED, np.int32), tf[:, order])
