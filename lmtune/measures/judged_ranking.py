"""One topic's ranking against its judgements, in the few numbers that measures need."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class JudgedRanking:
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
    """

    retrieved: int
    places: list[int]
    gains: list[int]
    judged: Mapping[int, int]
    level: int = 1
    relevant_places: list[int] = field(init=False)
    relevant: int = field(init=False)
    nonrelevant: int = field(init=False)

    def __post_init__(self) -> None:
        level = self.level
        found = [p for p, gain in zip(self.places, self.gains, strict=True) if gain >= level]
        relevant = sum(count for gain, count in self.judged.items() if gain >= level)
        nonrelevant = sum(count for gain, count in self.judged.items() if 0 <= gain < level)
        object.__setattr__(self, "relevant_places", found)
        object.__setattr__(self, "relevant", relevant)
        object.__setattr__(self, "nonrelevant", nonrelevant)

    def found(self, cutoff: int) -> int:
        """Count the relevant documents among the best `cutoff`."""
        return bisect_left(self.relevant_places, cutoff)


def ranked(docnos: Sequence[bytes], scores: Sequence[float]) -> list[bytes]:
    """Order a topic's documents as trec_eval does.

    Up to 9.0.8 it keeps scores as 32-bit floats and breaks ties by docno, descending in bytes;
    10.0 keeps 64 bits.
    """
    # Scores beyond float32's range become infinite here, as in C.
    return [
        docno for _, docno in sorted(zip(array("f", scores), docnos, strict=True), reverse=True)
    ]


def judge(
    docnos: Sequence[bytes],
    judgements: Mapping[bytes, int],
    *,
    level: int = 1,
    depth: int | None = None,
    judged_only: bool = False,
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

    Returns
    -------
    JudgedRanking
    """
    gains = list(map(judgements.get, docnos if depth is None else docnos[:depth]))
    if judged_only:
        gains = [gain for gain in gains if gain is not None and gain >= 0]
    return JudgedRanking(
        retrieved=len(gains),
        places=[place for place, gain in enumerate(gains) if gain is not None],
        gains=[gain for gain in gains if gain is not None],
        judged=Counter(judgements.values()),
        level=level,
    )
