"""Whether an engine ranks as a tuned setting does: its run against ours, each first difference explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.ranking import Searched
from lmtune.errors import InputError
from lmtune.io.csv_files import csv_text
from lmtune.io.runs import Ranking
from lmtune.measures.judged_ranking import trec_eval_order

_TIE, _NEAR, _EQUAL, _LACKED, _ABSENT, _OTHER = "tie", "float32", "equal", "document", "topic", "scores"
_REASONS = {
    _TIE: "but for equal scores",
    _NEAR: "but for scores within float32",
    _EQUAL: "by equal scores in the run, which trec_eval orders by docno: write its scores with all digits",
    _LACKED: "but for documents that one side lacks",
    _ABSENT: "that the run lacks",
    _OTHER: "by other scores: another analysis, lengths or formula",
}
"""Why two rankings of a topic differ, each with what a reader is told."""
DEEPER = 10_000
"""How far below the ranks that are compared documents of the run are looked for."""

_UNIT = 2.0**-24  # float32's rounding of 1
_SAME = 2.0**-48  # float64's rounding of sums in another order, relative to the sum
_MORE = 8  # roundings of a term's own idf, length and quotient
_PRINTED = 1e-4  # what runs with few digits are held to, relative to a score

Run = Mapping[str, Mapping[str, float]]


class Difference(NamedTuple):
    """Where a topic's two rankings part first, but for what is nearer where that does not explain all.

    Attributes
    ----------
    topic : str
        The topic.
    reason : str
        One of `_REASONS`.
    rank : int
        Counted from 1.
    here, there : str or None
        The documents of that rank, None below a ranking's end.
    here_score, there_score : float or None
        Our scores of the two.
    run_here, run_there : float or None
        The run's scores of the two.
    """

    topic: str
    reason: str
    rank: int
    here: str | None
    there: str | None
    here_score: float | None
    there_score: float | None
    run_here: float | None
    run_there: float | None

    def __str__(self) -> str:
        sides = [
            "nothing" if docno is None else docno if score is None else f"{docno} {score:.6g}"
            for docno, score in ((self.here, self.here_score), (self.there, self.there_score))
        ]
        return f"topic {self.topic}, rank {self.rank}: {sides[0]} here, {sides[1]} there"


@dataclass(frozen=True)
class Check:
    """A run held against the tuned setting.

    Attributes
    ----------
    topics : int
        How many were compared.
    depth : int
        To what rank.
    differences : tuple of Difference
        Of the topics that are not alike, in the topics' order.
    scores : str
        How the run's scores are made of ours.
    """

    topics: int
    depth: int
    differences: tuple[Difference, ...]
    scores: str

    @property
    def alike(self) -> bool:
        """Whether ties, to float32's rounding, explain all differences."""
        return all(own.reason in (_TIE, _NEAR) for own in self.differences)

    def __str__(self) -> str:
        counted = Counter(own.reason for own in self.differences)
        parts = [f"{counted[reason]} {text}" for reason, text in _REASONS.items() if counted[reason]]
        if self.alike:
            but = "".join(f", {part}" for part in parts)
            alike = "same documents in the same order"
            return f"{self.topics} of {self.topics} topics: {alike} to rank {self.depth}{but}"
        last = [*filter(counted.get, _REASONS)][-1]
        first = next(own for own in self.differences if own.reason == last)
        same = self.topics - len(self.differences)
        return (
            f"{same} of {self.topics} topics alike to rank {self.depth}; "
            f"the {len(self.differences)} others: {', '.join(parts)} ({first})"
        )

    def csv(self) -> str:
        """Return each first difference as a line."""
        return csv_text(Difference._fields, self.differences)


class Ours(NamedTuple):
    """Our side of a comparison.

    Attributes
    ----------
    rankings : sequence of Ranking
        One a topic, `DEEPER` ranks deeper than is compared.
    summed : sequence of int
        Of how many parts each topic's scores are sums: terms, or runs.
    docnos : set of str
        Those of the run that we know.
    needed : container of str, optional
        The topics that the run must have; by default all.
    """

    rankings: Sequence[Ranking]
    summed: Sequence[int]
    docnos: Container[str]
    needed: Container[str] | None = None

    def compared(self, run: Run) -> list[tuple[Ranking, int]]:
        """Return the topics that a run has or must have, each with how many parts its scores have."""
        return [
            (ranking, parts)
            for ranking, parts in zip(self.rankings, self.summed, strict=True)
            if self.needed is None
            or ranking.topic in self.needed
            or ranking.topic in run
            or not ranking.docnos
        ]


def check_run(run: Run, searched: Searched, depth: int = 100, needed: Container[str] | None = None) -> Check:
    """Hold a run against our rankings of a collection's topics, as `check_rankings` does."""
    docnos = sorted({docno for ranked in run.values() for docno in ranked})
    numbers = searched.index.doc_numbers(docnos)
    known = {docno for docno, number in zip(docnos, numbers.tolist(), strict=True) if number >= 0}
    ours = Ours(searched.rankings, [*map(len, searched.pool.terms)], known, needed)
    return check_rankings(run, ours, depth)


def without_self(run: Run) -> Run:
    """Return a run without each topic's own document, whose docno is the topic's identifier."""
    return {
        topic: {docno: score for docno, score in found.items() if docno != topic}
        for topic, found in run.items()
    }


def check_rankings(run: Run, ours: Ours, depth: int = 100) -> Check:
    """Hold a run against our rankings of the same topics.

    Parameters
    ----------
    run : mapping of str to mapping of str to float
        Scores by topic and docno, in the engine's order. trec_eval orders equal scores by docno: where that
        differs from our order and the engine's does not, the run's scores have too few digits.
    ours : Ours
        What it is held against.
    depth : int
        Ranks that are compared, at most: as many as the run's longest ranking has.

    Raises
    ------
    InputError
        Where the run has none of our topics.
    """
    if not any(ranking.topic in run for ranking in ours.rankings):
        accepted = ", ".join(ranking.topic for ranking in ours.rankings[:3]) + " ..."
        raise InputError("the run has none of the topics", value=[*run][:3], accepted=accepted)
    depth = min(depth, max(map(len, run.values())))
    both = _Both({docno for ranked in run.values() for docno in ranked}, ours.docnos, depth)
    differences, pairs, compared = [], [], ours.compared(run)
    for ranking, summed in compared:
        theirs = run.get(ranking.topic, {})
        differences += both.part(ranking, theirs, rounding_bound(summed))
        common = [(score, theirs[docno]) for docno, score in _scored(ranking) if docno in theirs]
        pairs.append(np.array(common, np.float64).reshape(-1, 2)[:depth])
    return Check(len(compared), depth, tuple(differences), _made_of(pairs))


def rounding_bound(terms: int) -> float:
    """Return how far apart, of the larger, two scores may be that single precision leaves in either order.

    ``2 (n + 8) u`` with n terms and u = 2**-24: the first-order bound on n - 1 additions (Higham, Accuracy
    and Stability of Numerical Algorithms, 2002, section 4.2) of parts of one sign, each made by at most 8
    roundings, of each of the two.
    """
    return 2.0 * (terms + _MORE) * _UNIT


def cut(rankings: Iterable[Ranking], hits: int) -> dict[str, dict[str, float]]:
    """Return rankings as a run of at most so many documents a topic, which trec_eval ranks as they are."""
    return {
        ranking.topic: {docno: score for _, docno, score in islice(ranking.printed_rows(), hits)}
        for ranking in rankings
    }


class _Both(NamedTuple):
    """What either side has: docnos of the run, those of them that we know; and how deep to compare."""

    run: Container[str]
    known: Container[str]
    depth: int

    def part(self, ours: Ranking, run: Mapping[str, float], bound: float) -> list[Difference]:
        """Return where and why a topic's rankings part; nothing where they are the same."""
        here, scores = ours.docnos[: self.depth], dict(_scored(ours))
        there = trec_eval_order([*run], [*run.values()])[: self.depth]
        if here == there:
            return []
        at = _parted(here, there, scores, bound)
        if at is not None:
            theirs = sorted(run, key=lambda docno: -run[docno])
            listed = _parted(here, theirs[: self.depth], scores, bound)
            if listed is None:
                reason = _EQUAL
            else:
                at, there = listed, theirs[: self.depth]
                reason = self._reason(ours, theirs, scores, bound)
        elif (at := _parted(here, there, scores, _SAME)) is not None:
            reason = _NEAR
        else:
            reason, at = _TIE, int(np.argmax(np.array(here) != np.array(there)))
        one, other = (ranked[at] if at < len(ranked) else None for ranked in (here, there))
        found = [known.get(docno or "") for known in (scores, run) for docno in (one, other)]
        return [Difference(ours.topic, reason, at + 1, one, other, *found)]

    def _reason(self, ours: Ranking, theirs: Sequence[str], scores: Mapping[str, float], bound: float) -> str:
        """Tell whether the rankings are alike without the documents that one side lacks everywhere."""
        if not theirs:
            return _ABSENT
        there = [docno for docno in theirs if docno in self.known]
        left = max(self.depth - (len(theirs) - len(there)), 0)
        here = [docno for docno in ours.docnos if docno in self.run]
        return _OTHER if _parted(here[:left], there[:left], scores, bound) is not None else _LACKED


def _scored(ours: Ranking) -> zip[tuple[str, float]]:
    return zip(ours.docnos, ours.scores.tolist(), strict=True)


def _parted(
    here: Sequence[str], there: Sequence[str], scores: Mapping[str, float], bound: float
) -> int | None:
    """Return the first place of two documents whose scores differ by more than a bound."""
    for place, (one, other) in enumerate(zip_longest(here, there)):
        if one == other:
            continue
        if one not in scores or other not in scores:
            return place
        if abs(scores[one] - scores[other]) > bound * max(abs(scores[one]), abs(scores[other])):
            return place
    return None


def _made_of(pairs: Sequence[NDArray[np.float64]]) -> str:
    """Say how the run's scores come of ours: a factor, an offset of each topic, or neither."""
    ours, theirs = np.concatenate(pairs).T
    room = _PRINTED * np.abs(theirs).max(initial=0.0)
    if not ours.any():
        return "The run shares no document with our rankings."
    factor = float(np.median(theirs[ours != 0.0] / ours[ours != 0.0]))
    departures = np.abs(theirs - factor * ours)
    if departures.max() <= room:
        times = "" if abs(factor - 1.0) <= _PRINTED else f", times {factor:.6g}"
        return f"The run's scores are ours{times}."
    gaps = [np.ptp(pair[:, 1] - pair[:, 0]) for pair in pairs if pair.size]
    if max(gaps) <= room:
        return "The run's scores are ours, plus a constant of each topic."
    relative = departures / np.maximum(np.abs(theirs), room)
    return (
        f"The run's scores are no constant factor or offset of ours: {np.median(relative):.2%} from "
        f"{factor:.4g} times ours at the median, {relative.max():.2%} at most."
    )
