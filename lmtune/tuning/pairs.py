"""The preference pairs that RankNet learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.columns import UNJUDGED, ColumnLists, Columns
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.models.ranking import top_positions
from lmtune.models.two_stage import check_parameters
from lmtune.threads import over_slices
from lmtune.tuning import kernels

DEFAULT_RUN = (0.0, 1000.0)
"""The (lambda, mu) whose run supplies nonrelevant documents where none are judged."""

_SMALLEST_MU = 1e-200


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
    rel : int
        The smallest gain that is relevant.
    depth : int
        How deep in the default run unjudged documents may stand in.
    rule : str
        Where the nonrelevant documents come from, for the reader of a result.
    """

    pool: CandidatePool
    columns: Columns
    relevant: NDArray[np.int64]
    rel: int
    depth: int
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
        columns, relevant = _relevant_first(pool, columns, rel)
        pairs = cls(pool, columns, relevant, rel, depth, rule)
        if not pairs.per_topic.any():
            raise InputError(
                "RankNet has no pair to learn from",
                value=pool.name,
                accepted="a topic with a relevant and a nonrelevant document",
            )
        return pairs

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
            Its derivative in lambda is 0 where the pool's model has no lambda.

        Raises
        ------
        InputError
            For parameters outside the model's domain.
        """
        check_parameters(lambda_, mu)
        self.pool.require_lambda(lambda_)
        # Where mu is 0, the probabilities of an empty document are their limit, P(w|C).
        lambda_, mu = float(lambda_), max(float(mu), _SMALLEST_MU)
        topics = self.pool.positions() if topics is None else topics
        out = np.zeros((topics.size, 3))
        pool, columns = self.pool, self.columns

        def work(chunk: slice) -> None:
            kernels.ranknet_topics(
                topics[chunk],
                columns.start,
                columns.tf_start,
                columns.length,
                columns.tf,
                self.relevant,
                pool.term_start,
                pool.p,
                pool.count,
                lambda_,
                mu,
                pool.formula.floored,
                out[chunk],
            )

        over_slices(work, topics.size, threads=threads)
        value, dlambda, dmu = (float(x) for x in out.sum(axis=0))
        return Cost(value, dlambda if pool.formula.has_lambda else 0.0, dmu)


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


def _with_unjudged(pool: CandidatePool, depth: int) -> Columns:
    """Add the unjudged documents at the top of the default run to the judged ones."""
    collected = ColumnLists()
    for t in range(len(pool.topics)):
        rows = pool.candidates.rows(t)
        block = pool.tf_block(pool.candidates, t)
        top = top_positions(pool, t, *DEFAULT_RUN, depth)
        top = top[pool.candidates.gain[rows][top] == UNJUDGED]
        judged = pool.judged.rows(t)
        collected.append(
            doc=np.concatenate((pool.judged.doc[judged], pool.candidates.doc[rows][top])),
            length=np.concatenate((pool.judged.length[judged], pool.candidates.length[rows][top])),
            gain=np.concatenate((pool.judged.gain[judged], np.zeros(top.size, np.int32))),
            tf=np.concatenate((pool.tf_block(pool.judged, t), block[:, top]), axis=1),
        )
    return collected.join()
