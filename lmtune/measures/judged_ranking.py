"""One topic's documents in trec_eval's order, and that ranking against the topic's judgments."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import gt
from typing import Any, NamedTuple, TypeVar

from lmtune.io.qrels import SampledJudgments

Docno = TypeVar("Docno", bytes, str, tuple[Any, ...])


def trec_eval_order(docnos: Sequence[Docno], scores: Sequence[float], *, double: bool = False) -> list[Docno]:
    """Order a topic's documents as trec_eval does.

    Up to 9.0.8 it keeps scores as 32-bit floats and breaks ties by docno, descending in bytes
    (which for text is the order of its characters); 10.0 keeps 64 bits.

    Parameters
    ----------
    docnos : sequence of bytes, of str, or of tuples that begin with one
        Documents, each once.
    scores : sequence of float
        Their scores, in the same order; not NaN.
    double : bool
        Compare 64 bits, as 10.0 does.

    Returns
    -------
    list
        The docnos, best first.

    Examples
    --------
    >>> trec_eval_order(["a", "b", "c"], [0.5 + 1e-9, 0.5, 0.6])
    ['c', 'b', 'a']
    """
    # Scores beyond the range of 32 bits become infinite here, as in C.
    kept = array("d" if double else "f", scores).tolist()
    if all(map(gt, kept, islice(kept, 1, None))):
        return list(docnos)
    return [docno for _, docno in sorted(zip(kept, docnos, strict=True), reverse=True)]


class Sample(NamedTuple):
    """How a topic's judgments were sampled.

    Attributes
    ----------
    strata : list of bytes
        The strata of a ranking's judged and pooled documents, in its order.
    pool : mapping of bytes to mapping of int to int
        By stratum, how many documents of the topic have each gain.
    """

    strata: list[bytes]
    pool: Mapping[bytes, Mapping[int, int]]


class JudgedRanking(NamedTuple):
    """A topic's ranking and judgments.

    Gains below 0 are documents of the pool that were left unjudged; most measures take them for
    documents that were never looked at.

    Attributes
    ----------
    retrieved : int
        The number of ranked documents.
    places : list of int, ascending
        Places (from 0) of the ranked documents that the judgments list.
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
    sample : Sample or None
        How the judgments were sampled; None where they do not say it.
    largest : int
        The largest gain of all topics, 0 where nobody said it.
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
    sample: Sample | None = None
    largest: int = 0

    def found(self, cutoff: int) -> int:
        """Count the relevant documents among the best `cutoff`."""
        return bisect_left(self.relevant_places, cutoff)

    def at_level(self, level: int) -> JudgedRanking:
        """Take another smallest relevant gain."""
        known = self.retrieved, self.places, self.gains, self.judged
        return JudgedRanking.of(*known, level, self.documents, self.sample, self.largest)

    @classmethod
    def of(
        cls,
        retrieved: int,
        places: list[int],
        gains: list[int],
        judged: Mapping[int, int],
        level: int,
        documents: int = 0,
        sample: Sample | None = None,
        largest: int = 0,
    ) -> JudgedRanking:
        """Take what is relevant from a level; the arguments are the attributes of their names."""
        return cls(
            retrieved,
            places,
            gains,
            judged,
            level,
            relevant_places=[p for p, gain in zip(places, gains, strict=True) if gain >= level],
            relevant=sum(count for gain, count in judged.items() if gain >= level),
            nonrelevant=sum(count for gain, count in judged.items() if 0 <= gain < level),
            documents=documents,
            sample=sample,
            largest=largest,
        )


def judge(
    docnos: Sequence[bytes],
    judgments: Mapping[bytes, int],
    *,
    level: int = 1,
    depth: int | None = None,
    judged_only: bool = False,
    documents: int = 0,
    largest: int = 0,
) -> JudgedRanking:
    """Look a topic's ranked documents up in its judgments.

    Parameters
    ----------
    docnos : sequence of bytes
        Docnos, best first.
    judgments : mapping of bytes to int
        Gains by docno; SampledJudgments also say how they were sampled.
    level : int
        The smallest gain that is relevant.
    depth : int, optional
        Drop the documents ranked below it.
    judged_only : bool
        Drop documents without a judgment (or with a negative one) and close the ranks.
    documents : int
        The size of the collection.
    largest : int
        The largest gain of all topics.

    Returns
    -------
    JudgedRanking
    """
    ranked = docnos if depth is None else docnos[:depth]
    gains = list(map(judgments.get, ranked))
    if judged_only:
        gains = [gain for gain in gains if gain is not None and gain >= 0]
    places = [place for place, gain in enumerate(gains) if gain is not None]
    listed = [gains[place] for place in places]
    judged = Counter(judgments.values())
    sample = None
    if isinstance(judgments, SampledJudgments) and not judged_only:
        sample = _sample(judgments, [ranked[place] for place in places])
    return JudgedRanking.of(len(gains), places, listed, judged, level, documents, sample, largest)  # type: ignore[arg-type]


def _sample(judgments: SampledJudgments, ranked: list[bytes]) -> Sample:
    pool: dict[bytes, Counter[int]] = {}
    for docno, gain in judgments.items():
        pool.setdefault(judgments.strata[docno], Counter())[gain] += 1
    return Sample([judgments.strata[docno] for docno in ranked], dict(sorted(pool.items())))
