"""One topic's ranking in trec_eval's order, and its judgments."""

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

    Documents are sorted by score, then by docno, both descending. trec_eval up to 9.0.8 compares scores as
    32-bit floats, 10.0 as 64-bit floats. Docnos are compared as bytes, which for text is the order of its
    code points.

    Parameters
    ----------
    docnos : sequence of bytes, of str, or of tuples that begin with one
        Documents, each once.
    scores : sequence of float
        Scores in the same order; not NaN.
    double : bool
        Compare 64-bit floats, as trec_eval 10.0 does.

    Returns
    -------
    list
        The docnos, best first.

    Examples
    --------
    >>> trec_eval_order(["a", "b", "c"], [0.5 + 1e-9, 0.5, 0.6])
    ['c', 'b', 'a']
    """
    # Scores beyond the range of 32-bit floats become infinite, as in C.
    kept = array("d" if double else "f", scores).tolist()
    if all(map(gt, kept, islice(kept, 1, None))):
        return list(docnos)
    return [docno for _, docno in sorted(zip(kept, docnos, strict=True), reverse=True)]


class Sample(NamedTuple):
    """The strata of judgments that are a sample of a pool.

    Attributes
    ----------
    strata : list of bytes
        The stratum of each pooled document of a ranking, in rank order.
    pool : mapping of bytes to mapping of int to int
        The topic's number of pooled documents by stratum and gain; negative gains are unjudged.
    """

    strata: list[bytes]
    pool: Mapping[bytes, Mapping[int, int]]


class JudgedRanking(NamedTuple):
    """A topic's ranking and judgments.

    A gain below 0 marks an unjudged document of the pool. Most measures treat it like a document outside
    the pool.

    Attributes
    ----------
    retrieved : int
        The number of ranked documents.
    places : list of int, ascending
        Positions (from 0) of the ranked documents that are in the judgments.
    gains : list of int
        The gains of the documents at `places`.
    judged : mapping of int to int
        The topic's number of documents by gain, ranked or not.
    level : int
        The smallest relevant gain.
    relevant_places : list of int, ascending
        Positions (from 0) of the ranked relevant documents.
    relevant, nonrelevant : int
        The topic's numbers of judged relevant and judged non-relevant documents, ranked or not.
    documents : int
        The size of the collection; 0 if unknown.
    sample : Sample or None
        The strata of sampled judgments; None if the judgments have no strata.
    largest : int
        The largest gain of all topics; 0 if unknown.
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

    def count_relevant(self, cutoff: int) -> int:
        """Count the relevant documents in the top `cutoff`."""
        return bisect_left(self.relevant_places, cutoff)

    def at_level(self, level: int) -> JudgedRanking:
        """Return the same ranking with another smallest relevant gain."""
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
        """Derive the relevant documents from `level`; see the attributes of the same names."""
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
    """Look up a topic's ranked documents in its judgments.

    Parameters
    ----------
    docnos : sequence of bytes
        Docnos, best first.
    judgments : mapping of bytes to int
        Gains by docno; SampledJudgments also have strata.
    level : int
        The smallest relevant gain.
    depth : int, optional
        Ignore documents ranked below it.
    judged_only : bool
        Remove unjudged documents (no gain or a negative one) from the ranking.
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
