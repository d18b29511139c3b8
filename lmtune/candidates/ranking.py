"""Rank a pool's documents at one parameter setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import check_least
from lmtune.io.frames import run_frame
from lmtune.io.runs import Ranking
from lmtune.models.parameter import Setting, as_settings
from lmtune.progress import quantity

if TYPE_CHECKING:
    import pandas as pd


class Rankings(Sequence[Ranking]):
    """Topics' rankings at one setting, made when they are looked at, as often as they are.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : numpy.ndarray of float64, shape (parameters,)
        The formula's parameters.
    hits : int
        Documents per topic at most.
    topics : sequence of int
        Places of topics in the pool.
    """

    def __init__(self, pool: CandidatePool, setting: Doubles, hits: int, topics: Sequence[int]) -> None:
        self._pool, self._setting, self._hits, self._topics = pool, setting, hits, topics

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self._topics)

    @overload
    def __getitem__(self, place: int) -> Ranking: ...

    @overload
    def __getitem__(self, place: slice) -> Rankings: ...

    def __getitem__(self, place: int | slice) -> Ranking | Rankings:
        """Rank one topic, or take some of them."""
        if isinstance(place, slice):
            return Rankings(self._pool, self._setting, self._hits, self._topics[place])
        pool, t = self._pool, self._topics[place]
        top = pool.top(t, self._setting, self._hits)
        scores, _ = pool.formula.differentiate(pool.topic_documents(t, top), self._setting)
        docnos = pool.index.docnos(pool.candidates.doc[pool.candidates.rows(t)][top])
        return Ranking(pool.topics[t], docnos, scores)

    def __repr__(self) -> str:
        """Name the collection and the setting."""
        formula = self._pool.formula
        values = zip(formula.parameters, self._setting.tolist(), strict=True)
        setting = ", ".join(f"{own.name} = {value:.4g}" for own, value in values)
        return (
            f"Rankings({quantity(len(self), 'topic')} of {self._pool.name}, up to "
            f"{quantity(self._hits, 'document')} each, {formula.name} with {setting})"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a frame as `lmtune.run_frame` makes it."""
        return run_frame(self)


def rank(
    pool: CandidatePool, setting: Setting, *, hits: int = 1000, topics: Sequence[str] | None = None
) -> Rankings:
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

    Returns
    -------
    Rankings
        A sequence of `Ranking`, made anew whenever it is gone through: topic, docnos best first,
        and their log likelihoods, or what else the formula's scores are. Equal scores rank by
        length (as the formula takes it) ascending, summed term frequency descending, docno
        descending; Lucene's own ties go by document number.

    Raises
    ------
    InputError
        For parameters outside their domain, unknown topics, too few hits, or more than a pruned pool was
        made for.
    """
    check_least("bad number of hits", hits, 1)
    [vector] = as_settings(pool.formula.parameters, setting)
    pool.require(vector[None], hits)
    return Rankings(pool, vector, hits, pool.positions(topics).tolist())
