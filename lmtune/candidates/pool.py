"""Per-topic columns: all that scoring and measuring need, extracted from an index once.

A pool is built once per (index, topics, judgments); thousands of parameter settings are then
scored and measured on it without touching the index.
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
from lmtune.progress import Count, counted
from lmtune.showing import Shown

_TOPICS_AT_A_TIME = 16
_MOST_DRAWN, _MOVED = 32, 0.01


@dataclass(frozen=True, repr=False)
class CandidatePool(Shown, by="summaries.pool"):
    """The candidate and judged documents of every topic, with their term statistics.

    Attributes
    ----------
    name : str
        The collection's name, for tables.
    index : Index
        Where the columns came from; only asked for docnos afterwards.
    topics : tuple of str
        Topic identifiers.
    terms : tuple of tuple of str
        Each topic's distinct query terms that the collection holds; or what else the formula looks up
        of a query, its columns.
    term_start : numpy.ndarray of int64, shape (topics + 1,)
        Where each topic's terms begin in `value`, `count` and `group`.
    value : numpy.ndarray of float64
        What the formula's `term_value` says of each topic's terms.
    count : numpy.ndarray of int64 or float64
        How often each term occurs in its query; of weighted queries its weight there, or a column each
        of what `lmtune.models.weighted` makes a weight of.
    group : numpy.ndarray of int8
        Which of the formula's kinds of columns each is.
    candidates : Columns
        The documents that hold a query term, in tie order: length (as the model takes it)
        ascending, summed term frequency descending, docno descending. Documents of equal score
        rank in this order.
    judged : Columns
        Judged documents (gain 0 or more) that the collection holds, whether or not they match.
    judgment_start : numpy.ndarray of int64, shape (topics + 1,)
        Where each topic's judgments begin in `judgments`.
    judgments : numpy.ndarray of int32
        All gains of 0 or more, also those of documents that the collection lacks: what trec_eval
        counts relevant and nonrelevant documents from.
    unknown_terms : dict of str to int
        Query terms that the collection lacks, with the number of topics that hold each.
    unknown_documents : int
        Judgments whose document the collection lacks.
    pruning : Pruning, optional
        Where `candidates` lack documents that cannot be retrieved; None where they are whole.
    formula : Formula
        What ranks the candidates, and what `value` and all lengths are for.
    redraw : callable, optional
        Builds the pool anew for another ``model``, where its formula searches for feedback documents first.
    given_extent : Extent, optional
        That of the collection, where the index is but a shard of it, or takes long to count.
    topic_weights : numpy.ndarray of float64, shape (topics,), optional
        What each topic counts in a fit; all alike by default.
    exclude_self : bool
        Whether the document whose docno is the topic's identifier is left out of the topic.
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
    given_extent: Extent | None = None
    redraw: Callable[..., CandidatePool] | None = None
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
            Query text by topic identifier; or a frame, rows, a file, as `lmtune.io.frames` has it.
        qrels : mapping of str to mapping of str to int, or others, optional
            Judgments, likewise; a topic without an entry has no judged documents.
        name : str, optional
            The collection's name; the index's by default.
        model : str, Model or Formula
            What will rank the candidates: a name in `lmtune.models.model.MODELS`, or one's own.
        exclude_self : bool
            Leave out of each topic the document whose docno is the topic's identifier, of feedback too;
            `Dataset.exclude_self` says where that is usual.
        progress : callable or bool, optional
            Called with (topics done, topics in all); True draws a bar.

        Returns
        -------
        CandidatePool

        Raises
        ------
        InputError
            Where there are no topics, or for an unknown model.
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
            progress=counted(progress, "reading postings"),
        )
        anew: dict[str, Any] = {"qrels": gains, "name": name, "exclude_self": exclude_self}
        return pool.redrawn_by(partial(cls.build, index, queries, **anew))

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
        """Extract pools of `size` topics each, one after the other; see `build`."""
        if not topics:
            raise InputError("no topics", accepted="at least one topic")
        formula = find_model(model).formula
        topics = weighed(index, topics, formula, exclude_self=exclude_self)
        builder = PoolBuilder(index, formula, exclude_self=exclude_self)
        for done, (topic, text) in enumerate(topics.items(), 1):
            builder.add(topic, text)
            if progress is not None:
                progress(done, len(topics))
            if done % size == 0 or done == len(topics):
                yield builder.finish(index.name if name is None else name, qrels or {})

    def with_judgments(self, qrels: QrelsLike) -> CandidatePool:
        """Return this pool with other judgments, given as to `build`, looked up in its index."""
        gains = as_qrels(qrels)
        known = self.index, self.formula, self.topics, self.columns, self.candidates
        gain, judged = look_up_judgments(*known, gains, exclude_self=self.exclude_self)
        pool = replace(self, candidates=replace(self.candidates, gain=gain), **judged._asdict())
        return pool if self.redraw is None else replace(pool, redraw=partial(self.redraw, qrels=gains))

    def weighing(self, weights: Mapping[str, float]) -> CandidatePool:
        """Return this pool with topics that count as much, in fits, as weights say: a topic of 2 as two of 1.

        Raises
        ------
        InputError
            For a topic of the pool without a weight, or one that is not above 0.
        """
        return replace(self, topic_weights=np.array(weights_of(self.topics, weights), np.float64))

    def weights(self, places: Integers) -> Doubles:
        """Return what topics count, by their places."""
        return np.ones(places.size) if self.topic_weights is None else self.topic_weights[places]

    def mean(self, values: Doubles, places: Integers) -> Doubles:
        """Return the mean of topics' values, shape (topics, ...), as they count."""
        return weighted_mean(values, None if self.topic_weights is None else self.topic_weights[places])

    def redrawn_by(self, redraw: Callable[..., CandidatePool]) -> CandidatePool:
        """Return this pool with what builds it anew, if its formula searches first."""
        first = isinstance(self.formula, Weighted) and self.formula.searches_first
        return replace(self, redraw=redraw) if first else self

    def drawn_at(self, setting: Setting) -> CandidatePool:
        """Return this pool with feedback documents of a first search at a setting's own parameters."""
        formula = self.formula.with_first_search(as_settings(self.formula.parameters, setting)[0])
        if self.redraw is None or not isinstance(formula, Weighted) or formula is self.formula:
            return self
        key = formula.first.tobytes()
        if key not in self._drawn:
            # A pool each fold and method, not more.
            if len(self._drawn) == _MOST_DRAWN:
                self._drawn.clear()
            self._drawn[key] = replace(self.redraw(model=formula), topic_weights=self.topic_weights)
        return self._drawn[key]

    def moved(self, other: CandidatePool, topics: Integers) -> bool:
        """Say whether another draw changes what weights are made of by over a hundredth, topics' mean."""
        if other is self or not topics.size:
            return False
        return float(np.mean([_movement(self, other, t) for t in topics.tolist()])) > _MOVED

    @property
    def columns(self) -> list[list[QueryColumn]]:
        """What the formula looks up of each topic's query."""
        return query_columns(self.terms, self.group, self.count)

    def term_rows(self, t: int) -> slice:
        """Return topic t's slice of `value`, `count` and `group`."""
        return slice(int(self.term_start[t]), int(self.term_start[t + 1]))

    def counts(self, topics: Integers) -> NDArray[Any]:
        """Return `count` of some topics, places in this pool, shape (..., columns)."""
        return np.concatenate([self.count[..., self.term_rows(t)] for t in topics.tolist()], axis=-1)

    @cached_property
    def negative(self) -> list[str]:
        """The topics with a negative term weight, for which no pruning and no certificate is proved."""
        weights = np.atleast_2d(self.count)[0]
        return [own for t, own in enumerate(self.topics) if (weights[self.term_rows(t)] < 0).any()]

    def tf_block(self, columns: Columns, t: int) -> Integers32:
        """Return topic t's term frequencies in `columns`, shape (terms, documents)."""
        block = columns.tf[columns.tf_start[t] : columns.tf_start[t + 1]]
        return block.reshape(len(self.terms[t]), int(columns.start[t + 1] - columns.start[t]))

    def topic_documents(self, t: int, places: Integers, columns: Any = slice(None)) -> TopicDocuments:
        """Return some of topic t's candidates, by some columns of its query alone where these are given."""
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
        """Return the positions, within topic t's candidates, of its best `hits`, best first."""
        settings = setting[None]
        self.require(settings, hits)
        scores = np.empty(int(self.candidates.start[t + 1] - self.candidates.start[t]))
        self.formula.rank_scores(self._documents.of(slice(t, t + 1)), settings, scores)
        # Positions are the tie order, so that a stable sort breaks ties as measuring does.
        return np.argsort(-scores, kind="stable")[:hits]

    def positions(self, topics: Sequence[str] | None = None) -> Integers:
        """Return the places of topics in this pool; all of them by default.

        Raises
        ------
        InputError
            Naming the first topic that the pool lacks, or where there are none.
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
        """Return the places of topics; by default of those with judgments, as trec_eval takes means over.

        Raises
        ------
        InputError
            As `positions`; where no topic is judged.
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
        """Return this pool's `candidates`, `judged` or other columns of its topics as scoring takes them."""

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
        """Raise unless settings are in the formula's domain and the candidates hold their best `depth`.

        Parameters
        ----------
        settings : numpy.ndarray of float64, shape (settings, parameters)
            Parameter settings.
        depth : int
            Run depth.

        Raises
        ------
        InputError
            Naming what is outside, or what a pruned pool was not made for.
        """
        self.formula.check(settings)
        if self.pruning is not None:
            self.pruning.check(settings, depth, self.longest)

    @cached_property
    def judged_candidates(self) -> Integers:
        """The places of judged documents in `candidates`, ascending."""
        return np.flatnonzero(self.candidates.gain >= 0)

    @cached_property
    def extent(self) -> Extent:
        """The collection's longest document, and documents' mean length."""
        if self.given_extent is not None:
            return self.given_extent
        shards = shards_of(self.index)
        longest = max(int(np.max(self.formula.lengths(shard), initial=1)) for shard in shards)

        def mean(part: Callable[[Index], Index]) -> float:
            sizes = (self.formula.size(part(shard)) for shard in shards)
            return reduce(CollectionSize.plus, sizes).mean_length

        fields = range(len(self.formula.fields))
        means = [mean(partial(self.formula.part, group=group)) for group in fields]
        return Extent(longest, mean(lambda shard: shard), tuple(means))

    @property
    def longest(self) -> int:
        """The length of the collection's longest document, in tokens, as the model takes it."""
        return self.extent.longest

    @property
    def mean_length(self) -> float:
        """The mean length of the collection's documents, in tokens."""
        return self.extent.mean_length

    @cached_property
    def field_mean(self) -> Doubles:
        """The mean length of each of the formula's fields, in tokens; 1 of one that no document has."""
        return np.array([own or 1.0 for own in self.extent.field_means], np.float64)

    @cached_property
    def targets(self) -> dict[object, Any]:
        """What measures take of the judgments, once it was worked out."""
        return {}

    @cached_property
    def _documents(self) -> Documents:
        return self.documents(self.candidates)

    @cached_property
    def _drawn(self) -> dict[bytes, CandidatePool]:
        return {}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {topic: place for place, topic in enumerate(self.topics)}

    def judged_counts(self, min_gain: int = 1) -> tuple[Integers, Integers]:
        """Count relevant and nonrelevant judged documents.

        Parameters
        ----------
        min_gain : int
            The smallest gain that is relevant; gains from 0 to below it are nonrelevant.

        Returns
        -------
        relevant, nonrelevant : numpy.ndarray of int64, shape (topics,)
        """
        relevant = np.concatenate(([0], np.cumsum(self.judgments >= min_gain)))
        relevant = np.diff(relevant[self.judgment_start])
        return relevant, np.diff(self.judgment_start) - relevant


def _movement(old: CandidatePool, new: CandidatePool, t: int) -> float:
    """Return the largest change of a row of topic t's `count`, over the row's size."""
    terms = {term: at for at, term in enumerate(dict.fromkeys((*old.terms[t], *new.terms[t])))}
    rows = np.zeros((2, *old.count.shape[:-1], len(terms)))
    for own, pool in zip(rows, (old, new), strict=True):
        own[..., [terms[term] for term in pool.terms[t]]] = pool.count[..., pool.term_rows(t)]
    sizes = np.abs(rows[0]).sum(axis=-1)
    changes = np.abs(rows[1] - rows[0]).sum(axis=-1)
    return float(np.max(changes / np.where(sizes > 0.0, sizes, 1.0), initial=0.0))


class PoolBuilder:
    """Collects topics' columns in lists, then joins them.

    Parameters
    ----------
    index : Index
        Where the candidates are.
    formula : Formula
        What will rank them.
    extent : Extent, optional
        As `CandidatePool.given_extent`.
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
        """All documents' lengths."""
        return self.formula.lengths(self.index)

    @cached_property
    def order(self) -> Integers32:
        """All documents by length ascending, docno descending."""
        return np.lexsort((-np.asarray(self.index.docno_rank), self.lengths)).astype(np.int32)

    @cached_property
    def rank(self) -> Integers32:
        """Each document's place in `order`."""
        rank = np.empty_like(self.order)
        rank[self.order] = np.arange(self.order.size, dtype=np.int32)
        return rank

    @cached_property
    def place(self) -> Integers32:
        """Scratch by document number."""
        return np.empty(self.index.num_docs, np.int32)

    def clear(self) -> None:
        """Forget all topics."""
        self.topics: list[str] = []
        self.columns: list[list[QueryColumn]] = []
        self.value: list[float] = []
        self.candidates: list[Columns] = []
        self.unknown_terms: dict[str, int] = {}

    def add(self, topic: str, text: str) -> None:
        """Add a topic by its text."""
        query, columns = self.formula.analyze_query(self.index, text)
        found = zip(columns, self.formula.look_up(self.index, columns), strict=True)
        held = [(column, postings) for column, postings in found if postings is not None]
        columns = [column for column, _ in held]
        count_unknown(self.unknown_terms, query, columns)
        values = []
        for column, own in held:
            cf = int(own.tfs.sum(dtype=np.int64))
            counts = TermCounts(cf, own.docs.size, self.size(column.group))
            values.append(self.formula.term_value(counts))
        self.put(topic, columns, values, [own for _, own in held])

    def put(
        self, topic: str, columns: list[QueryColumn], values: Sequence[float], postings: Sequence[Postings]
    ) -> None:
        """Add a topic by its columns, what scoring takes of them, and their documents."""
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
        """Return the documents that hold a term, in tie order, and their term frequencies."""
        from lmtune.candidates.skyband_kernels import order_within_lengths

        if not any(found.docs.size for found in postings):
            return np.empty(0, np.int32), np.empty((len(postings), 0), np.int32)
        ranks = np.sort(np.concatenate([self.rank[found.docs] for found in postings]))
        docs = self.order[ranks[np.append(True, ranks[1:] != ranks[:-1])]]
        tf = np.zeros((len(postings), docs.size), np.int32)
        self.place[docs] = np.arange(docs.size, dtype=np.int32)
        for row, found in zip(tf, postings, strict=True):
            row[self.place[found.docs]] = found.tfs
        summed = tf.sum(axis=0, dtype=np.int32)
        most = int(summed.max())
        order = order_within_lengths(self.lengths[docs], most - summed, most)
        return docs[order], tf[:, order]

    def finish(self, name: str, qrels: Mapping[str, Mapping[str, int]]) -> CandidatePool:
        """Return the pool of the topics that were added, and forget them."""
        candidates = join_columns(self.candidates)
        known = self.index, self.formula, self.topics, self.columns, candidates
        gain, judged = look_up_judgments(*known, qrels, exclude_self=self.exclude_self)
        columns = [column for own in self.columns for column in own]
        pool = CandidatePool(
            name=name,
            index=self.index,
            topics=tuple(self.topics),
            terms=tuple(tuple(column.term for column in own) for own in self.columns),
            term_start=starts(self.columns),
            value=np.array(self.value, np.float64),
            count=_times(columns, self.formula.weight_rows),
            group=np.array([column.group for column in columns], np.int8),
            candidates=replace(candidates, gain=gain),
            unknown_terms=self.unknown_terms,
            formula=self.formula,
            given_extent=self.extent,
            exclude_self=self.exclude_self,
            **judged._asdict(),
        )
        self.clear()
        return pool


def weighted_mean(values: Doubles, weights: Doubles | None) -> Doubles:
    """Return the mean over the first axis, of which each entry counts as much as its weight."""
    mean: Doubles = np.asarray(
        values.mean(axis=0) if weights is None else np.average(values, axis=0, weights=weights)
    )
    return mean


def weighed(
    index: Index, topics: Mapping[str, str], formula: Formula, *, exclude_self: bool = False
) -> Mapping[str, str]:
    """Return topics as a formula asks for them: with feedback weights and features where it has some."""
    done = any(getattr(text, "are_terms", False) for text in topics.values())
    if done or not isinstance(formula, Weighted):
        return topics
    first = CandidatePool.build_in_parts(
        index, topics, _TOPICS_AT_A_TIME, model=formula.base, exclude_self=exclude_self
    )
    return weigh(index, topics, formula, first)


def _times(columns: Sequence[QueryColumn], rows: int) -> NDArray[Any]:
    """Return whole counts as such, weights in double precision, and of several numbers a row each."""
    times = [column.times for column in columns]
    if not times and rows:
        return np.empty((rows, 0))
    whole = all(isinstance(own, int) for own in times)
    return np.ascontiguousarray(np.array(times, np.int64 if whole else np.float64).T)


def count_unknown(unknown: dict[str, int], query: Sequence[str], columns: Sequence[QueryColumn]) -> None:
    """Count, term by term, topics whose query has a term that no column is of."""
    known = {column.term for column in columns}
    for term in dict.fromkeys(term for term in query if term not in known):
        unknown[term] = unknown.get(term, 0) + 1
