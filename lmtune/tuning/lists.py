"""The documents that smooth measures are taken over: those that some setting ranks high."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.columns import UNJUDGED, Columns
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import check_least
from lmtune.threads import over_slices
from lmtune.tuning.space import ParameterSpace

_SETTINGS = 16


@dataclass(frozen=True)
class Lists:
    """The documents that settings all over a space rank among a topic's best.

    They stay the same throughout a fit: no document enters or leaves as the parameters move, so what
    is smooth in the scores is smooth in the parameters. Exact pruning does not change them.

    Attributes
    ----------
    pool : CandidatePool
        Where the documents come from.
    columns : Columns
        Each topic's documents by falling gain, then by falling score at the space's start.
    depth : int
        How deep they are taken.
    losses : dict
        What `lmtune.tuning.objectives.SurrogateCost` keeps for other costs over these lists: losses of the
        pool's topics, NaN where they are not known.
    """

    pool: CandidatePool
    columns: Columns
    depth: int
    losses: dict[Any, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @classmethod
    def build(cls, pool: CandidatePool, space: ParameterSpace, *, depth: int = 200, seed: int = 0) -> Self:
        """Collect the best `depth` documents of the space's start and of 15 settings drawn from it.

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        space : ParameterSpace
            Of the pool's formula.
        depth : int
            How deep; ties are broken as in rankings.
        seed : int
            Of the draw.

        Raises
        ------
        InputError
            For a depth below 1, or one that the candidates were not made for.
        """
        check_least("bad depth of lists", depth, 1)
        rng = np.random.default_rng(seed)
        settings = np.array([space.start, *(space.random(rng) for _ in range(_SETTINGS - 1))])
        pool.require(settings, depth)
        documents = pool.documents(pool.candidates)
        kept: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(pool.topics)

        def work(chunk: slice) -> None:
            for t in range(chunk.start, chunk.stop):
                rows = pool.candidates.rows(t)
                scores = np.empty((_SETTINGS, rows.stop - rows.start))
                topic = documents.of(slice(t, t + 1))
                pool.formula.rank_scores(topic, settings, scores.reshape(-1))
                chosen = np.flatnonzero(_are_best(scores, depth).any(axis=0))
                gain = pool.candidates.gain[rows][chosen]
                kept[t] = chosen[np.lexsort((-scores[0, chosen], -gain))]

        over_slices(work, len(kept))
        return cls(pool, pool.candidates.take(kept), depth)

    def with_relevant(self, topics: NDArray[np.int64], rel: int) -> NDArray[np.int64]:
        """Return those of topics, places in the pool, with a document of gain `rel` or more."""
        best = [self.columns.gain[self.columns.rows(t)].max(initial=UNJUDGED) for t in topics]
        return topics[np.array(best) >= rel]


def _are_best(scores: NDArray[np.float64], depth: int) -> NDArray[np.bool_]:
    """Mark each setting's best documents, which stand in tie order; both of shape (settings, documents)."""
    last = scores.shape[1] - depth
    if last <= 0:
        return np.ones(scores.shape, np.bool_)
    cut = np.partition(scores, last, axis=1)[:, last, None]
    above, level = scores > cut, scores == cut
    room = depth - above.sum(axis=1, keepdims=True)
    marked: NDArray[np.bool_] = above | (level & (level.cumsum(axis=1) <= room))
    return marked
