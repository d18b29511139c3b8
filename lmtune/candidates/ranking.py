"""Rank a pool's documents at one parameter setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import check_least
from lmtune.formats.runs import Ranking
from lmtune.models.parameter import Setting, as_settings


def rank(
    pool: CandidatePool, setting: Setting, *, hits: int = 1000, topics: Sequence[str] | None = None
) -> Iterator[Ranking]:
    """Rank each topic's candidates by the pool's formula.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : mapping of str to float
        Parameters by name, such as ``{"lambda": 0.4, "mu": 2500}``; defaults for those not named.
    hits : int
        Documents per topic at most; documents that match no query term are not ranked.
    topics : sequence of str, optional
        Topic identifiers; all by default.

    Yields
    ------
    Ranking
        Topic, docnos best first, and their log likelihoods, or what else the formula's scores
        are. Equal scores rank by length (as the formula takes it) ascending, summed term
        frequency descending, docno descending; Lucene's own ties go by document number.

    Raises
    ------
    InputError
        For parameters outside their domain, unknown topics, or too few hits.
    """
    check_least("bad number of hits", hits, 1)
    [vector] = as_settings(pool.formula.parameters, setting)
    for t in pool.positions(topics).tolist():
        top = pool.top(t, vector, hits)
        scores, _ = pool.formula.differentiate(pool.topic_documents(t, top), vector)
        docnos = pool.index.docnos(pool.candidates.doc[pool.candidates.rows(t)][top])
        yield Ranking(pool.topics[t], docnos, scores)
