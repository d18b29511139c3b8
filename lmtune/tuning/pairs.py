"""Training data of the gradient-based tuners: RankNet's preference pairs, and document lists."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.candidates.columns import UNJUDGED, Columns, frequencies, join_columns, topic_columns
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import check_least
from lmtune.models.parameter import Setting, as_settings
from lmtune.progress import quantity
from lmtune.threads import map_range, over_slices
from lmtune.tuning import kernels
from lmtune.tuning.space import ParameterSpace

SAMPLED_NEGATIVES = 200
"""Sampled negatives per topic, chosen on half the topics of four collections; see experiments/metzler."""

# Likelihoods of this many documents fit a core's cache.
_DOCUMENTS = 1 << 14


class Cost(NamedTuple):
    """A RankNet cost and its partial derivatives, shape (parameters,)."""

    value: float
    gradient: Doubles


@dataclass(frozen=True)
class Pairs:
    """All pairs of a relevant and a non-relevant document of every topic.

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    columns : Columns
        The documents of the pairs, each topic's relevant ones first.
    relevant : numpy.ndarray of int64, shape (topics,)
        Number of relevant documents per topic.
    rel : int
        The lowest gain that counts as relevant.
    sampled_negatives : int
        Number of sampled negatives of a topic without judged non-relevant documents.
    rule : str
        The source of the non-relevant documents, as text for results.
    has_sampled_negatives : bool
        Whether unjudged documents were sampled as negatives.
    """

    pool: CandidatePool
    columns: Columns
    relevant: Integers
    rel: int
    sampled_negatives: int
    rule: str
    has_sampled_negatives: bool

    @classmethod
    def build(cls, pool: CandidatePool, *, rel: int = 1, sampled_negatives: int = SAMPLED_NEGATIVES) -> Pairs:
        """Pair all judged relevant documents with all judged non-relevant ones.

        For topics without a judged non-relevant document, unjudged documents with a query term are sampled as
        negatives. The sample is random, because unjudged documents at the top of a run are too often relevant
        (experiments/metzler/README.md).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        rel : int
            The lowest gain that counts as relevant.
        sampled_negatives : int
            Sampled negatives per topic; all unjudged documents with a query term if there are fewer.
        """
        relevant, nonrelevant = pool.judged_counts(rel)
        sampled = int(((relevant > 0) & (nonrelevant == 0)).sum())
        columns, rule = pool.judged, "all (relevant, nonrelevant) judged pairs"
        if sampled:
            columns = _with_negatives(pool, sampled_negatives, nonrelevant == 0)
            rule = (
                f"{quantity(sampled, 'topic')} without judged non-relevant documents: {sampled_negatives} "
                "unjudged documents were sampled for each as negatives"
            )
        columns, counts = _relevant_first(pool, columns, rel)
        return cls(pool, columns, counts, rel, sampled_negatives, rule, sampled > 0)

    @property
    def per_topic(self) -> Integers:
        """The number of pairs of each topic, shape (topics,).

        It is 0 for a topic without an indexed term, because its documents have equal scores at all settings.
        """
        others = np.diff(self.columns.start) - self.relevant
        scored = np.diff(self.pool.term_start) > 0
        return (self.relevant * others * scored).astype(np.int64)

    def cost(
        self, setting: Setting | Doubles, *, topics: Integers | None = None, threads: int | None = None
    ) -> Cost:
        r"""Compute the RankNet cost, summed over the pairs of topics, and its gradient.

        .. math:: C = \sum_Q \sum_{(d_1, d_2)} \log(1 + \exp(g(Q; d_2) - g(Q; d_1)))

        as in Metzler (SIGIR 2007), section 2.2, where d_1 is relevant and d_2 is not.

        Parameters
        ----------
        setting : mapping of str to float, or numpy.ndarray, shape (parameters,)
            Parameters of the pool's formula, by name or in its order.
        topics : numpy.ndarray of int64, optional
            Positions of topics in the pool; all by default.
        threads : int, optional
            Threads over topics; the result does not depend on them.

        Returns
        -------
        Cost

        Raises
        ------
        InputError
            If a parameter is outside the formula's domain.
        """
        formula = self.pool.formula
        settings = as_settings(formula.parameters, setting)
        formula.check(settings)
        topics = self.pool.positions() if topics is None else topics
        out = np.zeros((topics.size, 1 + settings.shape[1]))
        paired = np.flatnonzero(self.per_topic[topics])
        documents = self.pool.documents(self.columns).of(topics[paired])
        relevant = self.relevant[topics[paired]]
        ends = np.cumsum(np.diff(documents.docs)[:, 0])

        def work(chunk: slice) -> None:
            first = chunk.start
            while first < chunk.stop:
                before = ends[first - 1] if first else 0
                end = int(np.searchsorted(ends, before + _DOCUMENTS, "right"))
                end = min(max(end, first + 1), chunk.stop)
                some = documents.of(slice(first, end))
                likelihood = np.empty(int(ends[end - 1] - before))
                gradient = np.empty((settings.shape[1], likelihood.size))
                product = np.empty(end - first, np.bool_)
                formula.likelihoods(some, settings[0], likelihood, gradient, product)
                sums = np.empty((end - first, out.shape[1]))
                sizes = some.docs[:, 1] - some.docs[:, 0]
                kernels.sum_pairs(sizes, relevant[first:end], likelihood, gradient, product, sums)
                out[paired[first:end]] = sums
                first = end

        over_slices(work, paired.size, threads=threads)
        out *= self.pool.weights(topics)[:, None]
        value, *gradient = out.sum(axis=0)
        return Cost(float(value), np.array(gradient))


def _relevant_first(pool: CandidatePool, columns: Columns, rel: int) -> tuple[Columns, Integers]:
    """Reorder each topic's documents so that the relevant ones come first."""
    topics = len(pool.topics)
    order = np.lexsort((columns.gain < rel, np.repeat(np.arange(topics), np.diff(columns.start))))
    tf = np.empty_like(columns.tf)
    for t in range(topics):
        rows = columns.rows(t)
        block = pool.tf_block(columns, t)[:, order[rows] - rows.start]
        tf[columns.tf_start[t] : columns.tf_start[t + 1]] = block.ravel()
    doc, length, gain = columns.doc[order], columns.length[order], columns.gain[order]
    ordered = replace(columns, doc=doc, length=length, gain=gain, tf=tf)
    relevant = np.concatenate(([0], np.cumsum(columns.gain >= rel)))
    return ordered, np.diff(relevant[columns.start])


def _with_negatives(pool: CandidatePool, count: int, topics: Booleans) -> Columns:
    """Add sampled negatives to the judged documents of the topics in a mask.

    Negatives are unjudged documents with a query term. They are drawn from the index, because candidates may
    be pruned. Documents are sorted by docno and the seed is the topic's identifier, so the sample does not
    depend on the index or the pool.
    """
    collected, index, lengths = [], pool.index, pool.formula.lengths(pool.index)
    docno_rank = np.asarray(index.docno_rank)
    for t, (topic, columns) in enumerate(zip(pool.topics, pool.columns, strict=True)):
        judged = pool.judged.rows(t)
        postings = pool.formula.look_up(index, columns)
        holding = np.concatenate(
            [np.empty(0, np.int32), *(entry.docs for entry in postings if entry is not None)]
        )
        unjudged = np.setdiff1d(holding, pool.judged.doc[judged])
        unjudged = unjudged[np.argsort(docno_rank[unjudged])]
        rng = np.random.default_rng([*topic.encode()])
        size = min(count, unjudged.size) if topics[t] else 0
        drawn = unjudged[rng.choice(unjudged.size, size, replace=False)]
        tf = frequencies(postings, drawn)
        block = topic_columns(
            np.concatenate((pool.judged.doc[judged], drawn)),
            np.concatenate((pool.judged.length[judged], lengths[drawn])),
            np.concatenate((pool.judged.gain[judged], np.zeros(drawn.size, np.int32))),
            np.concatenate((pool.tf_block(pool.judged, t), tf), axis=1),
        )
        collected.append(block)
    return join_columns(collected)


_SETTINGS = 16


@dataclass(frozen=True)
class Lists:
    """Each topic's top documents at settings spread over a space.

    The lists are constant during a fit. Therefore a cost that is smooth in the scores is also smooth in the
    parameters. Exact pruning does not change the lists.

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    columns : Columns
        Each topic's documents by falling gain, then by falling score at the space's start.
    depth : int
        Number of top documents taken from each setting.
    losses : dict
        Cache of the losses of the pool's topics, shared by the `lmtune.tuning.surrogate.SurrogateCost`
        objects of these lists; NaN marks missing values.
    """

    pool: CandidatePool
    columns: Columns
    depth: int
    losses: dict[Any, Doubles] = field(default_factory=dict, repr=False)

    @classmethod
    def build(cls, pool: CandidatePool, space: ParameterSpace, *, depth: int = 200, seed: int = 0) -> Self:
        """Collect the top `depth` documents at the space's start and at 15 random settings.

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        space : ParameterSpace
            The space of the pool's formula.
        depth : int
            Number of top documents per setting; ties are broken as in rankings.
        seed : int
            Seed of the random settings.

        Raises
        ------
        InputError
            If the depth is below 1, or the candidates were pruned for a smaller depth.
        """
        check_least("bad depth of lists", depth, 1)
        rng = np.random.default_rng(seed)
        settings = np.array([space.start, *(space.random(rng) for _ in range(_SETTINGS - 1))])
        pool.require(settings, depth)
        documents = pool.documents(pool.candidates)

        def work(t: int) -> Integers:
            rows = pool.candidates.rows(t)
            scores = np.empty((_SETTINGS, rows.stop - rows.start))
            topic = documents.of(slice(t, t + 1))
            pool.formula.rank_scores(topic, settings, scores.reshape(-1))
            chosen = np.flatnonzero(_are_best(scores, depth).any(axis=0))
            gain = pool.candidates.gain[rows][chosen]
            return chosen[np.lexsort((-scores[0, chosen], -gain))]

        return cls(pool, pool.candidates.take(map_range(work, len(pool.topics))), depth)

    def with_relevant(self, topics: Integers, rel: int) -> Integers:
        """Return the topics, as positions in the pool, with a document of gain `rel` or more."""
        best = [self.columns.gain[self.columns.rows(t)].max(initial=UNJUDGED) for t in topics]
        return topics[np.array(best) >= rel]


def _are_best(scores: Doubles, depth: int) -> Booleans:
    """Return a mask of each setting's top `depth` documents, shape (settings, documents).

    Of equal scores, the documents that come first are taken.
    """
    last = scores.shape[1] - depth
    if last <= 0:
        return np.ones(scores.shape, np.bool_)
    cut = np.partition(scores, last, axis=1)[:, last, None]
    above, level = scores > cut, scores == cut
    room = depth - above.sum(axis=1, keepdims=True)
    marked: Booleans = above | (level & (level.cumsum(axis=1) <= room))
    return marked
