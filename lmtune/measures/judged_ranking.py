"""One topic's ranking against its judgements, in the few numbers that measures need."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class JudgedRanking(NamedTuple):
    """A topic's ranking and judgements.

    Gains below 0 are documents of the pool that were left unjudged; most measures take them for
    documents that were never looked at.

    Attributes
    ----------
    retrieved : int
        The number of ranked documents.
    places : list of int, ascending
        Places (from 0) of the ranked documents that the judgements list.
    gains : list of int
        Their gains.
    judged : mapping of int to int
        How many documents of the topic, ranked or not, have each gain.
    level : int
        The smallest gain that is relevant.
    relevant_places : list of int, ascending
        Those of `places` that hold a relevant document.
    relevant, nonrelevant : int
        How many documents of the topic, ranked or not, are judged so.
    documents : int
        The size of the collection, 0 where nobody said it.
    """

    retrieved: int
    places: list[int]
    gains: list[int]
    judged: Mapping[int, int]
    level: int
    relevant_places: list[int]
    relevant: int
    nonrelevant: int
    documents: int = 0

    def found(self, cutoff: int) -> int:
        """Count the relevant documents among the best `cutoff`."""
        return bisect_left(self.relevant_places, cutoff)

    def at_level(self, level: int) -> JudgedRanking:
        """Take another smallest relevant gain."""
        return _at_level(self.retrieved, self.places, self.gains, self.judged, level, self.documents)


def _at_level(
    retrieved: int, places: list[int], gains: list[int], judged: Mapping[int, int], level: int, documents: int
) -> JudgedRanking:
    return JudgedRanking(
        retrieved,
        places,
        gains,
        judged,
        level,
        relevant_places=[p for p, gain in zip(places, gains, strict=True) if gain >= level],
        relevant=sum(count for gain, count in judged.items() if gain >= level),
        nonrelevant=sum(count for gain, count in judged.items() if 0 <= gain < level),
        documents=documents,
    )


def judge(
    docnos: Sequence[bytes],
    judgements: Mapping[bytes, int],
    *,
    level: int = 1,
    depth: int | None = None,
    judged_only: bool = False,
    documents: int = 0,
) -> JudgedRanking:
    """Look a topic's ranked documents up in its judgements.

    Parameters
    ----------
    docnos : sequence of bytes
        Docnos, best first.
    judgements : mapping of bytes to int
        Gains by docno.
    level : int
        The smallest gain that is relevant.
    depth : int, optional
        Drop the documents ranked below it.
    judged_only : bool
        Drop documents without a judgement (or with a negative one) and close the ranks.
    documents : int
        The size of the collection.

    Returns
    -------
    JudgedRanking
    """
    gains = list(map(judgements.get, docnos if depth is None else docnos[:depth]))
    if judged_only:
        gains = [gain for gain in gains if gain is not None and gain >= 0]
    places = [place for place, gain in enumerate(gains) if gain is not None]
    listed = [gains[place] for place in places]
    judged = Counter(judgements.values())
    return _at_level(len(gains), places, listed, judged, level, documents)  # type: ignore[arg-type]
