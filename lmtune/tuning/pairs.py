"""The preference pairs that RankNet learns from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import UNJUDGED, CandidatePool, Columns
from lmtune.errors import InputError
from lmtune.measures.kernels import top_documents
from lmtune.models.two_stage import check_parameters
from lmtune.threads import over_slices
from lmtune.tuning import kernels

DEFAULT_RUN = (0.0, 1000.0)
"""The (lambda, mu) whose run supplies nonrelevant documents where none are judged."""


class Cost(NamedTuple):
    """A RankNet cost and its partial derivatives."""

    value: float
    dlambda: float
    dmu: float


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
    rule : str
        Where the nonrelevant documents come from, for the reader of a result.
    """

    pool: CandidatePool
    columns: Columns
    relevant: NDArray[np.int64]
    rule: str

    @classmethod
    def build(cls, pool: CandidatePool, *, rel: int = 1, depth: int = 100) -> Pairs:
        """Pair all judged relevant with all judged nonrelevant documents.

        Where the collection has no judged nonrelevant document at all, the unjudged documents
        among the first `depth` of a default run (Dirichlet smoothing, mu = 1000) stand in.

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        rel : int
            The smallest gain that is relevant.
        depth : int
            Depth of the default run.

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
            columns = _with_unjudged(pool, depth)
            rule = (
                f"no document is judged nonrelevant: the unjudged among the first {depth} of a "
                f"run with lambda = {DEFAULT_RUN[0]:g}, mu = {DEFAULT_RUN[1]:g} stand in"
            )
        columns, relevant = _relevant_first(columns, rel)
        pairs = cls(pool, columns, relevant, rule)
        if not pairs.per_topic.any():
            raise InputError(
                "RankNet has no pair to learn from",
                value=pool.name,
                accepted="a topic with a relevant and a nonrelevant document",
            )
        return pairs

    @property
    def per_topic(self) -> NDArray[np.int64]:
        """The number of pairs of each topic, shape (topics,)."""
        return self.relevant * (np.diff(self.columns.start) - self.relevant)

    def cost(
        self,
        lambda_: float,
        mu: float,
        *,
        topics: NDArray[np.int64] | None = None,
        threads: int | None = None,
    ) -> Cost:
        r"""Sum the RankNet cost over the pairs of topics, with its gradient.

        .. math:: C = \sum_Q \sum_{(d_1, d_2)} \log(1 + \exp(g(Q; d_2) - g(Q; d_1)))

        as in Metzler (SIGIR 2007), section 2.2, d_1 relevant and d_2 not.

        Parameters
        ----------
        lambda_, mu : float
            Smoothing parameters; see `lmtune.models.two_stage.check_parameters`.
        topics : numpy.ndarray of int64, optional
            Places of topics in the pool; all by default.
        threads : int, optional
            Threads over topics; the sum does not depend on them.

        Returns
        -------
        Cost
        """
        check_parameters(lambda_, mu)
        topics = self.pool.positions() if topics is None else topics
        out = np.zeros((topics.size, 3))
        pool, columns = self.pool, self.columns

        def work(chunk: slice) -> None:
            kernels.ranknet_topics(
                topics[chunk], columns.start, columns.tf_start, columns.length, columns.tf,
                self.relevant, pool.term_start, pool.p, pool.count, lambda_, mu, out[chunk],
            )  # fmt: skip

        over_slices(work, topics.size, threads=threads)
        return Cost(*(float(x) for x in out.sum(axis=0)))


def _relevant_first(columns: Columns, rel: int) -> tuple[Columns, NDArray[np.int64]]:
    """Reorder each topic's documents so that the relevant ones come first."""
    topics = columns.start.size - 1
    order = np.lexsort((columns.gain < rel, np.repeat(np.arange(topics), np.diff(columns.start))))
    tf = np.empty_like(columns.tf)
    for t in range(topics):
        rows, block = columns.topic(t)
        inside = order[rows] - rows.start
        tf[columns.tf_start[t] : columns.tf_start[t + 1]] = block[:, inside].ravel()
    relevant = np.concatenate(([0], np.cumsum(columns.gain >= rel)))
    return (
        replace(
            columns,
            doc=columns.doc[order],
            length=columns.length[order],
            gain=columns.gain[order],
            tf=tf,
        ),
        np.diff(relevant[columns.start]).astype(np.int64),
    )


def _with_unjudged(pool: CandidatePool, depth: int) -> Columns:
    """Add the unjudged documents at the top of the default run to the judged ones."""
    parts: list[tuple[NDArray[np.int32], ...]] = []
    for t in range(len(pool.topics)):
        rows, block = pool.candidates.topic(t)
        terms = slice(pool.term_start[t], pool.term_start[t + 1])
        length, gain = pool.candidates.length[rows], pool.candidates.gain[rows]
        top = np.empty(0, np.int64)
        if length.size:
            top = top_documents(
                length, pool.count[terms], pool.p[terms], block, *DEFAULT_RUN, depth
            )
            top = top[gain[top] == UNJUDGED]
        judged_rows, judged = pool.judged.topic(t)
        block = block.reshape(pool.term_start[t + 1] - pool.term_start[t], -1)
        judged = judged.reshape(block.shape[0], -1)
        parts.append(
            (
                np.concatenate((pool.judged.doc[judged_rows], pool.candidates.doc[rows][top])),
                np.concatenate((pool.judged.length[judged_rows], length[top])),
                np.concatenate((pool.judged.gain[judged_rows], np.zeros(top.size, np.int32))),
                np.concatenate((judged, block[:, top]), axis=1).ravel(),
            )
        )
    doc, length, gain, tf = (list(column) for column in zip(*parts, strict=True))
    return Columns(
        start=np.concatenate(([0], np.cumsum([len(x) for x in doc]))).astype(np.int64),
        tf_start=np.concatenate(([0], np.cumsum([len(x) for x in tf]))).astype(np.int64),
        doc=np.concatenate(doc),
        length=np.concatenate(length),
        gain=np.concatenate(gain),
        tf=np.concatenate(tf),
    )
