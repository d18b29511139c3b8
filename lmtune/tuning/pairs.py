"""The preference pairs that RankNet learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.columns import ColumnLists, Columns
from lmtune.candidates.judgements import frequencies
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.models.parameter import Setting, as_settings
from lmtune.threads import over_slices
from lmtune.tuning import kernels

STAND_INS = 200
"""Chosen on half of the topics of four collections, like the draw itself: see FINDINGS.md."""

# Documents whose likelihoods are in a core's cache at a time.
_DOCUMENTS = 1 << 14


class Cost(NamedTuple):
    """A RankNet cost and its partial derivatives, shape (parameters,)."""

    value: float
    gradient: NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """Every (relevant, nonrelevant) pair of documents of every topic.

    Attributes
    ----------
    pool : CandidatePool
        Where the documents come from.
    columns : Columns
        The documents of the pairs, each topic's relevant ones first.
    relevant : numpy.ndarray of int64, shape (topics,)
        How many of each topic's documents are relevant.
    rel : int
        The smallest gain that is relevant.
    stand_ins : int
        How many unjudged documents of a topic stand in where none is judged nonrelevant.
    rule : str
        Where the nonrelevant documents come from, for the reader of a result.
    """

    pool: CandidatePool
    columns: Columns
    relevant: NDArray[np.int64]
    rel: int
    stand_ins: int
    rule: str

    @classmethod
    def build(cls, pool: CandidatePool, *, rel: int = 1, stand_ins: int = STAND_INS) -> Pairs:
        """Pair all judged relevant with all judged nonrelevant documents.

        Where the collection has no judged nonrelevant document at all, unjudged documents that hold
        a query term stand in, drawn at random: those at the top of a run are too often relevant, and
        no parameters order them well (FINDINGS.md).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        rel : int
            The smallest gain that is relevant.
        stand_ins : int
            How many a topic, or all where there are no more.

        Raises
        ------
        InputError
            Where no topic has a pair.
        """
        _, nonrelevant = pool.judged_counts(rel)
        if nonrelevant.any():
            columns = pool.judged
            rule = "all (relevant, nonrelevant) judged pairs"
        else:
            columns = _with_stand_ins(pool, stand_ins)
            rule = (
                f"no document is judged nonrelevant: {stand_ins} unjudged ones a topic, drawn from "
                "those with a query term, stand in"
            )
        columns, relevant = _relevant_first(pool, columns, rel)
        pairs = cls(pool, columns, relevant, rel, stand_ins, rule)
        if not pairs.per_topic.any():
            raise InputError(
                "RankNet has no pair to learn from",
                value=pool.name,
                accepted="a topic with a relevant and a nonrelevant document",
            )
        return pairs

    @property
    def are_stand_ins(self) -> bool:
        """Whether unjudged documents stand in for nonrelevant ones."""
        return not self.pool.judged_counts(self.rel)[1].any()

    @property
    def per_topic(self) -> NDArray[np.int64]:
        """The number of pairs of each topic, shape (topics,); 0 for a topic without a known term.

        All documents score the same there, whatever the parameters.
        """
        others = np.diff(self.columns.start) - self.relevant
        scored = np.diff(self.pool.term_start) > 0
        return (self.relevant * others * scored).astype(np.int64)

    def cost(
        self,
        setting: Setting | NDArray[np.float64],
        *,
        topics: NDArray[np.int64] | None = None,
        threads: int | None = None,
    ) -> Cost:
        r"""Sum the RankNet cost over the pairs of topics, with its gradient.

        .. math:: C = \sum_Q \sum_{(d_1, d_2)} \log(1 + \exp(g(Q; d_2) - g(Q; d_1)))

        as in Metzler (SIGIR 2007), section 2.2, d_1 relevant and d_2 not.

        Parameters
        ----------
        setting : mapping of str to float, or numpy.ndarray, shape (parameters,)
            Parameters of the pool's formula: by name, or in its order.
        topics : numpy.ndarray of int64, optional
            Places of topics in the pool; all by default.
        threads : int, optional
            Threads over topics; the sum does not depend on them.

        Returns
        -------
        Cost

        Raises
        ------
        InputError
            For parameters outside the formula's domain.
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


def _relevant_first(pool: CandidatePool, columns: Columns, rel: int) -> tuple[Columns, NDArray[np.int64]]:
    """Reorder each topic's documents so that the relevant ones come first."""
    topics = len(pool.topics)
    order = np.lexsort((columns.gain < rel, np.repeat(np.arange(topics), np.diff(columns.start))))
    tf = np.empty_like(columns.tf)
    for t in range(topics):
        rows = columns.rows(t)
        block = pool.tf_block(columns, t)[:, order[rows] - rows.start]
        tf[columns.tf_start[t] : columns.tf_start[t + 1]] = block.ravel()
    ordered = Columns(
        start=columns.start,
        tf_start=columns.tf_start,
        doc=columns.doc[order],
        length=columns.length[order],
        gain=columns.gain[order],
        tf=tf,
    )
    relevant = np.concatenate(([0], np.cumsum(columns.gain >= rel)))
    return ordered, np.diff(relevant[columns.start])


def _with_stand_ins(pool: CandidatePool, count: int) -> Columns:
    """Add unjudged documents that hold a query term to each topic's judged ones.

    They are drawn from the index, not from the candidates, which may be pruned; in the order of
    docnos, by the topic's identifier: the same from any index of the documents, in any pool.
    """
    collected, index, lengths = ColumnLists(), pool.index, pool.formula.lengths(pool.index)
    docno_rank = np.asarray(index.docno_rank)
    for t, (topic, columns) in enumerate(zip(pool.topics, pool.columns, strict=True)):
        judged = pool.judged.rows(t)
        postings = pool.formula.look_up(index, columns)
        holding = np.concatenate([np.empty(0, np.int32), *(own.docs for own in postings if own is not None)])
        unjudged = np.setdiff1d(holding, pool.judged.doc[judged])
        unjudged = unjudged[np.argsort(docno_rank[unjudged])]
        rng = np.random.default_rng([*topic.encode()])
        drawn = unjudged[rng.choice(unjudged.size, min(count, unjudged.size), replace=False)]
        tf = frequencies(postings, drawn)
        collected.append(
            doc=np.concatenate((pool.judged.doc[judged], drawn)),
            length=np.concatenate((pool.judged.length[judged], lengths[drawn])),
            gain=np.concatenate((pool.judged.gain[judged], np.zeros(drawn.size, np.int32))),
            tf=np.concatenate((pool.tf_block(pool.judged, t), tf), axis=1),
        )
    return collected.join()
