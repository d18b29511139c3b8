"""Candidate pools: per-topic arrays for scoring and measuring, extracted from an index once.

A pool is built once per index, topics and judgments. Thousands of parameter settings can then be scored and
measured without access to the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Integers, Integers32
from lmtune.candidates.columns import (
    UNJUDGED,
    Columns,
    join_columns,
    look_up_judgments,
    starts,
    topic_columns,
)
from lmtune.candidates.dominance import Pruning as Pruning
from lmtune.candidates.queries import weigh
from lmtune.errors import InputError
from lmtune.index.protocol import CollectionSize, Extent, Index, Postings, TermCounts
from lmtune.index.sharded import shards_of
from lmtune.io.frames import as_qrels, as_topics
from lmtune.io.rows import QrelsLike, TopicsLike
from lmtune.io.term_values import weights_of
from lmtune.models.formula import Formula, QueryColumn, query_columns
from lmtune.models.kernels import Documents, TopicDocuments
from lmtune.models.model import Model, find_model
from lmtune.models.parameter import Setting, as_settings
from lmtune.models.two_stage import TWO_STAGE
from lmtune.models.weighted import Weighted
from lmtune.progress import Count, count_callback
from lmtune.showing import Shown

_TOPICS_AT_A_TIME = 16
_MOST_REBUILT, _FEEDBACK_TOLERANCE = 32, 0.01


@dataclass(frozen=True, repr=False)
class CandidatePool(Shown, by="summaries.pool"):
    """The candidates and judged documents of every topic, with their term statistics.

    Attributes
    ----------
    name : str
        Name of the collection, for tables.
    index : Index
        The index that the pool was extracted from; later only used for docnos and field lengths.
    topics : tuple of str
        Topic identifiers.
    terms : tuple of tuple of str
        Each topic's distinct query terms that occur in the collection, or other columns of the formula.
    term_start : numpy.ndarray of int64, shape (topics + 1,)
        Offset of each topic's terms in `value`, `count` and `group`.
    value : numpy.ndarray of float64
        The formula's `term_value` of each topic's terms.
    count : numpy.ndarray of int64 or float64
        Occurrences of each term in its query, or its weight in a weighted query. For the formulas of
        `lmtune.models.weighted`, a row for each input of the weights.
    group : numpy.ndarray of int8
        Kind of each column; see `lmtune.models.formula.QueryColumn`.
    candidates : Columns
        The documents with a query term, in tie order: by increasing length (as the model counts it),
        decreasing sum of term frequencies, and decreasing docno. Documents of equal score rank in this order.
    judged : Columns
        Judged documents (gain 0 or more) in the collection, with or without a query term.
    judgment_start : numpy.ndarray of int64, shape (topics + 1,)
        Offset of each topic's judgments in `judgments`.
    judgments : numpy.ndarray of int32
        All gains of 0 or more, including those of documents outside the collection. The numbers of relevant
        and non-relevant documents are counted from these, as in trec_eval.
    unknown_terms : dict of str to int
        Query terms that do not occur in the collection, with their numbers of topics.
    unknown_documents : int
        Number of judgments of documents outside the collection.
    pruning : Pruning, optional
        The settings for which `candidates` are sufficient; None if they are not pruned.
    formula : Formula
        The formula that ranks the candidates and defines `value` and all lengths.
    rebuild : callable, optional
        Builds the pool for another ``model``, if the formula makes a first search for feedback.
    collection_extent : Extent, optional
        The extent of the collection, if the index is a shard, or to avoid counting it.
    topic_weights : numpy.ndarray of float64, shape (topics,), optional
        Weights of the topics in a fit; by default equal.
    exclude_self : bool
        Whether each topic excludes the document whose docno is the topic's identifier.
    """

    name: str
    index: Index
    topics: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]
    term_start: Integers
    value: Doubles
    count: NDArray[Any]
    group: NDArray[np.int8]
    candidates: Columns
    judged: Columns
    judgment_start: Integers
    judgments: Integers32
    unknown_terms: dict[str, int]
    unknown_documents: int
    pruning: Pruning | None = None
    formula: Formula = TWO_STAGE
    collection_extent: Extent | None = None
    rebuild: Callable[..., CandidatePool] | None = None
    topic_weights: Doubles | None = None
    exclude_self: bool = False

    @classmethod
    def build(
        cls,
        index: Index,
        topics: TopicsLike,
        qrels: QrelsLike | None = None,
        *,
        name: str | None = None,
        model: str | Model | Formula = TWO_STAGE,
        exclude_self: bool = False,
        progress: Count | bool | None = None,
    ) -> CandidatePool:
        """Extract a pool from an index.

        Parameters
        ----------
        index : Index
            Any index; it also analyses the query text.
        topics : mapping of str to str, or others
            Query text by topic identifier, or a frame, rows or a file; see `lmtune.io.frames`.
        qrels : mapping of str to mapping of str to int, or others, optional
            Judgments, in the same formats; a topic without an entry has no judged documents.
        name : str, optional
            Name of the collection; by default that of the index.
        model : str, Model or Formula
            The ranking model: a name of `lmtune.models.model.MODELS`, or a custom model or formula.
        exclude_self : bool
            Exclude the document whose docno is the topic's identifier, also from feedback. See
            `Dataset.exclude_self` for the collections where this is usual.
        progress : callable or bool, optional
            Called with (topics done, number of topics); True draws a progress bar.

        Returns
        -------
        CandidatePool

        Raises
        ------
        InputError
            If there are no topics or the model is unknown.
        """
        queries, gains = as_topics(topics), {} if qrels is None else as_qrels(qrels)
        [pool] = cls.build_in_parts(
            index,
            queries,
            len(queries),
            gains,
            name=name,
            model=model,
            exclude_self=exclude_self,
            progress=count_callback(progress, "reading postings"),
        )
        options: dict[str, Any] = {"qrels": gains, "name": name, "exclude_self": exclude_self}
        return pool.with_rebuild(partial(cls.build, index, queries, **options))

    @classmethod
    def build_in_parts(
        cls,
        index: Index,
        topics: Mapping[str, str],
        size: int,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        *,
        name: str | None = None,
        model: str | Model | Formula = TWO_STAGE,
        exclude_self: bool = False,
        progress: Count | None = None,
    ) -> Iterator[CandidatePool]:
        """Yield pools of `size` topics each; see `build`."""
        if not topics:
            raise InputError("no topics", accepted="at least one topic")
        formula = find_model(model).formula
        topics = add_term_weights(index, topics, formula, exclude_self=exclude_self)
        builder = PoolBuilder(index, formula, exclude_self=exclude_self)
        for done, (topic, text) in enumerate(topics.items(), 1):
            builder.add(topic, text)
            if progress is not None:
                progress(done, len(topics))
            if done % size == 0 or done == len(topics):
                yield builder.finish(index.name if name is None else name, qrels or {})

    def with_judgments(self, qrels: QrelsLike) -> CandidatePool:
        """Return this pool with other judgments, in the formats of `build`."""
        gains = as_qrels(qrels)
        known = self.index, self.formula, self.topics, self.columns, self.candidates
        gain, judged = look_up_judgments(*known, gains, exclude_self=self.exclude_self)
        pool = replace(self, candidates=replace(self.candidates, gain=gain), **judged._asdict())
        return pool if self.rebuild is None else replace(pool, rebuild=partial(self.rebuild, qrels=gains))

    def with_topic_weights(self, weights: Mapping[str, float]) -> CandidatePool:
        """Return this pool with weights of topics for fits: a topic of weight 2 counts as two topics.

        Raises
        ------
        InputError
            If a topic of the pool has no weight, or one that is not positive.
        """
        return replace(self, topic_weights=np.array(weights_of(self.topics, weights), np.float64))

    def weights(self, places: Integers) -> Doubles:
        """Return the weights of topics, by their positions in the pool."""
        return np.ones(places.size) if self.topic_weights is None else self.topic_weights[places]

    def mean(self, values: Doubles, places: Integers) -> Doubles:
        """Return the weighted mean of topics' values, shape (topics, ...), by their positions in the pool."""
        return weighted_mean(values, None if self.topic_weights is None else self.topic_weights[places])

    def with_rebuild(self, rebuild: Callable[..., CandidatePool]) -> CandidatePool:
        """Return this pool with a function that rebuilds it, if its formula makes a first search."""
        first = isinstance(self.formula, Weighted) and self.formula.searches_first
        return replace(self, rebuild=rebuild) if first else self

    def drawn_at(self, setting: Setting) -> CandidatePool:
        """Return this pool with the feedback documents of a first search at a setting."""
        formula = self.formula.with_first_search(as_settings(self.formula.parameters, setting)[0])
        if self.rebuild is None or not isinstance(formula, Weighted) or formula is self.formula:
            return self
        key = formula.first.tobytes()
        if key not in self._rebuilt:
            # The limit is enough for a pool per fold and method.
            if len(self._rebuilt) == _MOST_REBUILT:
                self._rebuilt.clear()
            self._rebuilt[key] = replace(self.rebuild(model=formula), topic_weights=self.topic_weights)
        return self._rebuilt[key]

    def has_other_feedback(self, other: CandidatePool, topics: Integers) -> bool:
        """Return whether another pool's feedback changes the inputs of weights by over 1% in the mean."""
        if other is self or not topics.size:
            return False
        changes = [_relative_change(self, other, t) for t in topics.tolist()]
        return float(np.mean(changes)) > _FEEDBACK_TOLERANCE

    @property
    def columns(self) -> list[list[QueryColumn]]:
        """The columns of each topic's query."""
        return query_columns(self.terms, self.group, self.count)

    def term_rows(self, t: int) -> slice:
        """Return topic t's slice of `value`, `count` and `group`."""
        return slice(int(self.term_start[t]), int(self.term_start[t + 1]))

    def counts(self, topics: Integers) -> NDArray[Any]:
        """Return `count` of some topics, by their positions in the pool, shape (..., columns)."""
        return np.concatenate([self.count[..., self.term_rows(t)] for t in topics.tolist()], axis=-1)

    @cached_property
    def negative(self) -> list[str]:
        """The topics with a negative term weight, for which pruning and certificates are not valid."""
        weights = np.atleast_2d(self.count)[0]
        return [topic for t, topic in enumerate(self.topics) if (weights[self.term_rows(t)] < 0).any()]

    def tf_block(self, columns: Columns, t: int) -> Integers32:
        """Return topic t's term frequencies in `columns`, shape (terms, documents)."""
        block = columns.tf[columns.tf_start[t] : columns.tf_start[t + 1]]
        return block.reshape(len(self.terms[t]), int(columns.start[t + 1] - columns.start[t]))

    def topic_documents(self, t: int, places: Integers, columns: Any = slice(None)) -> TopicDocuments:
        """Return some of topic t's candidates, optionally with only some columns of its query."""
        rows, terms = self.candidates.rows(t), self.term_rows(t)
        return TopicDocuments(
            np.ascontiguousarray(self.tf_block(self.candidates, t)[columns][:, places], np.int64),
            self.candidates.length[rows][places].astype(np.int64),
            self.value[terms][columns],
            self.count[..., terms][..., columns],
            self.group[terms][columns],
            self.mean_length,
            self.formula.field_lengths(self.index, self.candidates.doc[rows][places]),
            self.field_mean,
        )

    def top(self, t: int, setting: Doubles, hits: int) -> Integers:
        """Return the positions of the best `hits` of topic t's candidates, best first."""
        settings = setting[None]
        self.require(settings, hits)
        scores = np.empty(int(self.candidates.start[t + 1] - self.candidates.start[t]))
        self.formula.rank_scores(self._documents.of(slice(t, t + 1)), settings, scores)
        # Candidates are in tie order, so that a stable sort breaks ties as the measures do.
        return np.argsort(-scores, kind="stable")[:hits]

    def positions(self, topics: Sequence[str] | None = None) -> Integers:
        """Return the positions of topics in this pool; by default all.

        Raises
        ------
        InputError
            If a topic is not in the pool, or there are no topics.
        """
        if topics is None:
            return np.arange(len(self.topics), dtype=np.int64)
        if not len(topics):
            raise InputError("no topics", accepted=f"one or more of {self.name}")
        for topic in topics:
            if topic not in self._places:
                raise InputError(f"topic is not among the {len(self.topics)} of {self.name}", value=topic)
        return np.array([self._places[topic] for topic in topics], dtype=np.int64)

    def judged_positions(self, topics: Sequence[str] | None = None) -> Integers:
        """Return the positions of topics; by default of topics with judgments, as in trec_eval's means.

        Raises
        ------
        InputError
            As `positions`, and if no topic has judgments.
        """
        if topics is not None:
            return self.positions(topics)
        places = np.flatnonzero(np.diff(self.judgment_start))
        if not places.size:
            raise InputError(
                "no topic is judged", value=self.name, accepted="a pool with judgments of its topics"
            )
        return places

    def documents(self, columns: Columns) -> Documents:
        """Return `candidates`, `judged` or other columns of this pool's topics in the form for scoring."""

        def bounds(start: Integers) -> Integers:
            return np.stack((start[:-1], start[1:]), axis=1)

        return Documents(
            bounds(columns.start),
            bounds(columns.tf_start),
            bounds(self.term_start),
            columns.length,
            columns.tf,
            self.value,
            self.count,
            self.group,
            self.longest,
            self.mean_length,
            self.formula.field_lengths(self.index, columns.doc),
            self.field_mean,
        )

    def require(self, settings: Doubles, depth: int) -> None:
        """Raise `InputError` unless the pool is sufficient for settings and a run depth.

        Parameters
        ----------
        settings : numpy.ndarray of float64, shape (settings, parameters)
            Parameter settings.
        depth : int
            Run depth.

        Raises
        ------
        InputError
            If a setting is outside the formula's domain, or the pool was pruned for other settings or a
            smaller depth.
        """
        self.formula.check(settings)
        if self.pruning is not None:
            self.pruning.check(settings, depth, self.longest)

    @cached_property
    def judged_candidates(self) -> Integers:
        """The positions of judged documents in `candidates`, ascending."""
        return np.flatnonzero(self.candidates.gain >= 0)

    @cached_property
    def extent(self) -> Extent:
        """The lengths of the collection: its longest document and the mean lengths."""
        if self.collection_extent is not None:
            return self.collection_extent
        shards = shards_of(self.index)
        longest = max(int(np.max(self.formula.lengths(shard), initial=1)) for shard in shards)

        def mean(counted_index: Callable[[Index], Index]) -> float:
            sizes = (self.formula.size(counted_index(shard)) for shard in shards)
            return reduce(CollectionSize.plus, sizes).mean_length

        fields = range(len(self.formula.fields))
        means = [mean(partial(self.formula.group_index, group=group)) for group in fields]
        return Extent(longest, mean(lambda shard: shard), tuple(means))

    @property
    def longest(self) -> int:
        """The length of the collection's longest document, in tokens, as the model counts it."""
        return self.extent.longest

    @property
    def mean_length(self) -> float:
        """The mean length of the collection's documents, in tokens."""
        return self.extent.mean_length

    @cached_property
    def field_mean(self) -> Doubles:
        """The mean length of each of the formula's fields, in tokens; 1 if no document has the field."""
        return np.array([mean or 1.0 for mean in self.extent.field_means], np.float64)

    @cached_property
    def targets(self) -> dict[object, Any]:
        """Cache of values that measures compute from the judgments."""
        return {}

    @cached_property
    def _documents(self) -> Documents:
        return self.documents(self.candidates)

    @cached_property
    def _rebuilt(self) -> dict[bytes, CandidatePool]:
        return {}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {topic: place for place, topic in enumerate(self.topics)}

    def judged_counts(self, min_gain: int = 1) -> tuple[Integers, Integers]:
        """Count relevant and non-relevant judged documents.

        Parameters
        ----------
        min_gain : int
            The smallest gain that is relevant; smaller gains of 0 or more are non-relevant.

        Returns
        -------
        relevant, nonrelevant : numpy.ndarray of int64, shape (topics,)
        """
        relevant = np.concatenate(([0], np.cumsum(self.judgments >= min_gain)))
        relevant = np.diff(relevant[self.judgment_start])
        return relevant, np.diff(self.judgment_start) - relevant


def _relative_change(old: CandidatePool, new: CandidatePool, t: int) -> float:
    """Return the largest relative change, in the 1-norm, of a row of topic t's `count`."""
    terms = {term: at for at, term in enumerate(dict.fromkeys((*old.terms[t], *new.terms[t])))}
    rows = np.zeros((2, *old.count.shape[:-1], len(terms)))
    for row, pool in zip(rows, (old, new), strict=True):
        row[..., [terms[term] for term in pool.terms[t]]] = pool.count[..., pool.term_rows(t)]
    sizes = np.abs(rows[0]).sum(axis=-1)
    changes = np.abs(rows[1] - rows[0]).sum(axis=-1)
    return float(np.max(changes / np.where(sizes > 0.0, sizes, 1.0), initial=0.0))


class PoolBuilder:
    """Builds a pool from topics that are added one by one.

    Parameters
    ----------
    index : Index
        The index of the candidates.
    formula : Formula
        The formula that ranks them.
    extent : Extent, optional
        As `CandidatePool.collection_extent`.
    exclude_self : bool
        As for `CandidatePool.build`.
    """

    def __init__(
        self, index: Index, formula: Formula, extent: Extent | None = None, *, exclude_self: bool = False
    ) -> None:
        self.index = index
        self.formula = formula
        self.extent = extent
        self.exclude_self = exclude_self
        self.size = cache(lambda group: formula.size(formula.group_index(index, group)))
        self.clear()

    @cached_property
    def lengths(self) -> Integers32:
        """Lengths of all documents, as the formula counts them."""
        return self.formula.lengths(self.index)

    @cached_property
    def order(self) -> Integers32:
        """All documents by increasing length, then by decreasing docno."""
        return np.lexsort((-np.asarray(self.index.docno_rank), self.lengths)).astype(np.int32)

    @cached_property
    def rank(self) -> Integers32:
        """The position of each document in `order`."""
        rank = np.empty_like(self.order)
        rank[self.order] = np.arange(self.order.size, dtype=np.int32)
        return rank

    @cached_property
    def scratch(self) -> Integers32:
        """Scratch memory, indexed by document number."""
        return np.empty(self.index.num_docs, np.int32)

    def clear(self) -> None:
        """Remove all topics."""
        self.topics: list[str] = []
        self.columns: list[list[QueryColumn]] = []
        self.value: list[float] = []
        self.candidates: list[Columns] = []
        self.unknown_terms: dict[str, int] = {}

    def add(self, topic: str, text: str) -> None:
        """Add a topic by its query text."""
        query, columns = self.formula.analyze_query(self.index, text)
        looked_up = zip(columns, self.formula.look_up(self.index, columns), strict=True)
        matched = [(column, postings) for column, postings in looked_up if postings is not None]
        columns = [column for column, _ in matched]
        count_unknown(self.unknown_terms, query, columns)
        values = []
        for column, postings in matched:
            cf = int(postings.tfs.sum(dtype=np.int64))
            counts = TermCounts(cf, postings.docs.size, self.size(column.group))
            values.append(self.formula.term_value(counts))
        self.put(topic, columns, values, [postings for _, postings in matched])

    def put(
        self, topic: str, columns: list[QueryColumn], values: Sequence[float], postings: Sequence[Postings]
    ) -> None:
        """Add a topic by its columns, their term values, and their postings."""
        docs, tf = self._matching(postings)
        if self.exclude_self and docs.size:
            others = docs != self.index.doc_numbers([topic])[0]
            docs, tf = docs[others], np.ascontiguousarray(tf[:, others])
        lengths = self.lengths[docs] if docs.size else docs
        self.value += values
        self.candidates.append(topic_columns(docs, lengths, np.full(docs.size, UNJUDGED, np.int32), tf))
        self.topics.append(topic)
        self.columns.append(columns)

    def _matching(self, postings: Sequence[Postings]) -> tuple[Integers32, Integers32]:
        """Return the documents with a term, in tie order, and their term frequencies."""
        from lmtune.candidates.skyband_kernels import order_within_lengths

        if not any(each.docs.size for each in postings):
            return np.empty(0, np.int32), np.empty((len(postings), 0), np.int32)
        ranks = np.sort(np.concatenate([self.rank[each.docs] for each in postings]))
        docs = self.order[ranks[np.append(True, ranks[1:] != ranks[:-1])]]
        tf = np.zeros((len(postings), docs.size), np.int32)
        self.scratch[docs] = np.arange(docs.size, dtype=np.int32)
        for row, each in zip(tf, postings, strict=True):
            row[self.scratch[each.docs]] = each.tfs
        summed = tf.sum(axis=0, dtype=np.int32)
        most = int(summed.max())
        order = order_within_lengths(self.lengths[docs], most - summed, most)
        return docs[order], tf[:, order]

    def finish(self, name: str, qrels: Mapping[str, Mapping[str, int]]) -> CandidatePool:
        """Return the pool of the added topics, and remove them from the builder."""
        candidates = join_columns(self.candidates)
        known = self.index, self.formula, self.topics, self.columns, candidates
        gain, judged = look_up_judgments(*known, qrels, exclude_self=self.exclude_self)
        columns = [column for each in self.columns for column in each]
        pool = CandidatePool(
            name=name,
            index=self.index,
            topics=tuple(self.topics),
            terms=tuple(tuple(column.term for column in each) for each in self.columns),
            term_start=starts(self.columns),
            value=np.array(self.value, np.float64),
            count=_times(columns, self.formula.weight_rows),
            group=np.array([column.group for column in columns], np.int8),
            candidates=replace(candidates, gain=gain),
            unknown_terms=self.unknown_terms,
            formula=self.formula,
            collection_extent=self.extent,
            exclude_self=self.exclude_self,
            **judged._asdict(),
        )
        self.clear()
        return pool


def weighted_mean(values: Doubles, weights: Doubles | None) -> Doubles:
    """Return the weighted mean over the first axis; without weights, the mean."""
    mean: Doubles = np.asarray(
        values.mean(axis=0) if weights is None else np.average(values, axis=0, weights=weights)
    )
    return mean


def add_term_weights(
    index: Index, topics: Mapping[str, str], formula: Formula, *, exclude_self: bool = False
) -> Mapping[str, str]:
    """Return topics with the feedback weights and features of a formula, if it has any."""
    done = any(getattr(text, "are_terms", False) for text in topics.values())
    if done or not isinstance(formula, Weighted):
        return topics
    first = CandidatePool.build_in_parts(
        index, topics, _TOPICS_AT_A_TIME, model=formula.base, exclude_self=exclude_self
    )
    return weigh(index, topics, formula, first)


def _times(columns: Sequence[QueryColumn], rows: int) -> NDArray[Any]:
    """Return counts as integers, weights as doubles, and the inputs of weights as rows."""
    times = [column.times for column in columns]
    if not times and rows:
        return np.empty((rows, 0))
    whole = all(isinstance(each, int) for each in times)
    return np.ascontiguousarray(np.array(times, np.int64 if whole else np.float64).T)


def count_unknown(unknown: dict[str, int], query: Sequence[str], columns: Sequence[QueryColumn]) -> None:
    """Add 1 to `unknown` for each query term without a column."""
    known = {column.term for column in columns}
    for term in dict.fromkeys(term for term in query if term not in known):
        unknown[term] = unknown.get(term, 0) + 1
