"""Rank a pool's documents at one parameter setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.formats.runs import Ranking
from lmtune.models import kernels
from lmtune.models.two_stage import Arguments, as_columns, check_parameters, differentiate


def top_positions(pool: CandidatePool, t: int, lambda_: float, mu: float, hits: int) -> NDArray[np.int64]:
    """Return the positions, within topic t's candidates, of its best `hits`, best first."""
    check_parameters(lambda_, mu)
    pool.require(lambda_, mu, hits)
    rows, terms = pool.candidates.rows(t), pool.term_rows(t)
    if rows.stop == rows.start:
        return np.empty(0, np.int64)
    scores = kernels.topic_rank_scores(
        pool.tf_block(pool.candidates, t),
        pool.candidates.length[rows],
        pool.p[terms],
        pool.count[terms],
        pool.longest,
        lambda_,
        mu,
        pool.formula.floored,
    )
    # Positions are the tie order, so that a stable sort breaks ties as measuring does.
    return np.argsort(-scores, kind="stable")[:hits]


def rank(
    pool: CandidatePool, *, lambda_: float, mu: float, hits: int = 1000, topics: Sequence[str] | None = None
) -> Iterator[Ranking]:
    """Rank each topic's candidates by the pool's model.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    lambda_, mu : float
        Smoothing parameters; see `lmtune.models.two_stage.check_parameters`. lucene-dirichlet
        has no lambda: 0.
    hits : int
        Documents per topic at most; documents that match no query term are not ranked.
    topics : sequence of str, optional
        Topic identifiers; all by default.

    Yields
    ------
    Ranking
        Topic, docnos best first, and their log likelihoods, or Lucene's scores for the model
        lucene-dirichlet. Equal scores rank by length (as the model takes it) ascending, summed
        term frequency descending, docno descending; Lucene's own ties go by document number.

    Raises
    ------
    InputError
        For parameters outside their domain, unknown topics, or too few hits.
    """
    if hits < 1:
        raise InputError("bad number of hits", value=hits, accepted="1 or more")
    lambda_, mu = float(lambda_), float(mu)
    for t in pool.positions(topics):
        top = top_positions(pool, int(t), lambda_, mu, hits)
        rows, terms = pool.candidates.rows(t), pool.term_rows(t)
        scores = _scores(
            pool,
            as_columns(
                pool.tf_block(pool.candidates, t)[:, top],
                pool.candidates.length[rows][top],
                pool.p[terms],
                pool.count[terms],
            ),
            lambda_,
            mu,
        )
        yield Ranking(pool.topics[t], pool.index.docnos(pool.candidates.doc[rows][top]), scores)


def _scores(pool: CandidatePool, columns: Arguments, lambda_: float, mu: float) -> NDArray[np.float64]:
    """Score documents; an index may round lengths down to below their term frequencies."""
    if not pool.formula.floored:
        return differentiate(columns, lambda_, mu).score
    scores, slopes = np.empty((2, columns[1].size))
    kernels.floored_log_likelihood(*columns, mu, scores, slopes)
    return scores
