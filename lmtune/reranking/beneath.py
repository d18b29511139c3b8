"""What becomes of the documents of a run that were not reranked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from lmtune.formats.runs import Ranking
from lmtune.reranking.evidence import in_order


def with_rest(rankings: Iterable[Ranking], run: Mapping[str, Mapping[str, float]]) -> Iterator[Ranking]:
    """Put the documents that rankings leave out beneath them, in the run's order.

    Parameters
    ----------
    rankings : iterable of Ranking
        Reranked topics; each has a document at least.
    run : mapping of str to mapping of str to float
        The run that they come from, scores by topic and docno.

    Yields
    ------
    Ranking
        The documents added score 1, 2, ... less than the lowest of the ranking.
    """
    for topic, docnos, scores in rankings:
        ranked = set(docnos)
        rest = [docno for docno in in_order(run[topic])[0] if docno not in ranked]
        values = np.asarray(scores, np.float64)
        lower = values.min() - np.arange(1, len(rest) + 1)
        yield Ranking(topic, [*docnos, *rest], np.concatenate((values, lower)))
