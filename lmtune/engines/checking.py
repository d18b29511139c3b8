"""Check that an engine's run matches the rankings of a tuned setting, and explain the differences."""

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

_TIE, _NEAR, _INSIDE, _EQUAL = "tie", "float32", "run tie", "equal"
_LACKED, _ABSENT, _OTHER = "document", "topic", "scores"
_REASONS = {
    _TIE: "only up to ties",
    _NEAR: "only up to scores that are equal in float32",
    _INSIDE: "only up to ties inside the fused runs",
    _EQUAL: "in ties of the run, which trec_eval orders by docno: write its scores with all digits",
    _LACKED: "only in documents that one side lacks",
    _ABSENT: "missing from the run",
    _OTHER: "in scores: another analysis, lengths or formula",
}
"""Reasons for a difference between two rankings of a topic, with the text of the report."""
DEEPER = 10_000
"""Number of ranks, below the compared ones, in which the run's documents are still looked up."""

_UNIT = 2.0**-24  # unit roundoff of float32
_SAME = 2.0**-48  # relative difference of float64 sums in another order
_MORE = 8  # roundings in computing one term's score: idf, length, quotient
_PRINTED = 1e-4  # tolerance for scores that are written with few digits, relative to the score

Run = Mapping[str, Mapping[str, float]]


class Difference(NamedTuple):
    """The first rank at which a topic's two rankings differ, and the reason.

    Differences within ties are skipped if the rankings also differ in scores.

    Attributes
    ----------
    topic : str
        The topic.
    reason : str
        ``"tie"``, ``"float32"``, ``"run tie"``, ``"equal"``, ``"document"``, ``"topic"`` or ``"scores"``.
    rank : int
        The rank, from 1.
    here, there : str or None
        The documents at that rank in lmtune's ranking and in the run; None below the end of a ranking.
    here_score, there_score : float or None
        lmtune's scores of the two documents.
    run_here, run_there : float or None
        The run's scores of the two documents.
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
    """Result of comparing a run with lmtune's rankings of the tuned setting.

    Attributes
    ----------
    topics : int
        Number of compared topics.
    depth : int
        Number of compared ranks.
    differences : tuple of Difference
        One for each topic with different rankings, in topic order.
    scores : str
        The relation between the run's scores and lmtune's, as a sentence.
    """

    topics: int
    depth: int
    differences: tuple[Difference, ...]
    scores: str

    @property
    def is_match(self) -> bool:
        """Whether all differences are ties, within float32 rounding."""
        return all(difference.reason in (_TIE, _NEAR, _INSIDE) for difference in self.differences)

    def __str__(self) -> str:
        counts = Counter(difference.reason for difference in self.differences)
        parts = [f"{counts[reason]} {text}" for reason, text in _REASONS.items() if counts[reason]]
        if self.is_match:
            ties = f"; {', '.join(parts)}" if parts else ""
            same = "same documents in the same order"
            return f"{self.topics} of {self.topics} topics: {same} to rank {self.depth}{ties}"
        worst = [*filter(counts.get, _REASONS)][-1]
        example = next(difference for difference in self.differences if difference.reason == worst)
        matching = self.topics - len(self.differences)
        return (
            f"{matching} of {self.topics} topics match to rank {self.depth}; "
            f"{len(self.differences)} differ: {', '.join(parts)} ({example})"
        )

    def csv(self) -> str:
        """Return the differences as CSV, one line for each topic."""
        return csv_text(Difference._fields, self.differences)


class Reference(NamedTuple):
    """lmtune's rankings, which a run is compared with.

    Attributes
    ----------
    rankings : sequence of Ranking
        One for each topic, with `DEEPER` more ranks than are compared.
    summands : sequence of int
        For each topic, the number of terms or runs whose scores are summed.
    docnos : set of str
        The docnos of the run that the collection has.
    needed : container of str, optional
        The topics that the run must have; by default all.
    spans : mapping of str to mapping of str to float
        By topic and docno, how far a score depends on the order of ties inside fused runs.
    """

    rankings: Sequence[Ranking]
    summands: Sequence[int]
    docnos: Container[str]
    needed: Container[str] | None = None
    spans: Mapping[str, Mapping[str, float]] = {}

    def compared(self, run: Run) -> list[tuple[Ranking, int]]:
        """Return the rankings to compare, each with its number of summands.

        These are the topics that the run has or must have, and those without any document.
        """
        return [
            (ranking, summands)
            for ranking, summands in zip(self.rankings, self.summands, strict=True)
            if self.needed is None
            or ranking.topic in self.needed
            or ranking.topic in run
            or not ranking.docnos
        ]


def check_run(run: Run, searched: Searched, depth: int = 100, needed: Container[str] | None = None) -> Check:
    """Compare a run with lmtune's search results, by `check_rankings`."""
    docnos = sorted({docno for ranked in run.values() for docno in ranked})
    numbers = searched.index.doc_numbers(docnos)
    known = {docno for docno, number in zip(docnos, numbers.tolist(), strict=True) if number >= 0}
    reference = Reference(searched.rankings, [*map(len, searched.pool.terms)], known, needed)
    return check_rankings(run, reference, depth)


def without_self(run: Run) -> Run:
    """Return a run without the document whose docno is the topic's identifier."""
    return {
        topic: {docno: score for docno, score in scores.items() if docno != topic}
        for topic, scores in run.items()
    }


def check_rankings(run: Run, reference: Reference, depth: int = 100) -> Check:
    """Compare a run with lmtune's rankings of the same topics.

    Parameters
    ----------
    run : mapping of str to mapping of str to float
        Scores by topic and docno, in the engine's order. trec_eval orders equal scores by docno. If that
        order differs from lmtune's and the engine's order does not, the run's scores have too few digits.
    reference : Reference
        lmtune's rankings.
    depth : int
        Largest number of ranks to compare; at most the length of the run's longest ranking.

    Raises
    ------
    InputError
        If the run has none of the topics.
    """
    if not any(ranking.topic in run for ranking in reference.rankings):
        accepted = ", ".join(ranking.topic for ranking in reference.rankings[:3]) + " ..."
        raise InputError("the run has none of the topics", value=[*run][:3], accepted=accepted)
    depth = min(depth, max(map(len, run.values())))
    docnos = {docno for scores in run.values() for docno in scores}
    comparison = _Comparison(docnos, reference.docnos, depth)
    differences, pairs, compared = [], [], reference.compared(run)
    for ranking, summands in compared:
        run_scores = run.get(ranking.topic, {})
        spans = reference.spans.get(ranking.topic)
        differences += comparison.differences(ranking, run_scores, rounding_bound(summands), spans)
        common = [(score, run_scores[docno]) for docno, score in _scored(ranking) if docno in run_scores]
        pairs.append(np.array(common, np.float64).reshape(-1, 2)[:depth])
    return Check(len(compared), depth, tuple(differences), _describe_scores(pairs))


def rounding_bound(terms: int) -> float:
    """Return the relative difference below which single precision can rank two scores in either order.

    The bound is ``2 (n + 8) u`` with n terms and u = 2**-24, relative to the larger score. It is the
    first-order bound on the error of n - 1 additions of numbers of the same sign (Higham, Accuracy and
    Stability of Numerical Algorithms, 2002, section 4.2), for both scores. Each summand has at most 8
    roundings.
    """
    return 2.0 * (terms + _MORE) * _UNIT


def cut(rankings: Iterable[Ranking], hits: int) -> dict[str, dict[str, float]]:
    """Return rankings as a run of at most `hits` documents a topic; trec_eval keeps their order."""
    return {
        ranking.topic: {docno: score for _, docno, score in islice(ranking.printed_rows(), hits)}
        for ranking in rankings
    }


class _Comparison(NamedTuple):
    """Data shared by the comparisons of all topics.

    Attributes
    ----------
    run : set of str
        The docnos of the run.
    known : set of str
        Those of them that the collection has.
    depth : int
        Number of ranks to compare.
    """

    run: Container[str]
    known: Container[str]
    depth: int

    def differences(
        self,
        ranking: Ranking,
        run: Mapping[str, float],
        bound: float,
        spans: Mapping[str, float] | None = None,
    ) -> list[Difference]:
        """Return the first difference of a topic's rankings and its reason, or an empty list."""
        here, scores = ranking.docnos[: self.depth], dict(_scored(ranking))
        there = trec_eval_order([*run], [*run.values()])[: self.depth]
        if here == there:
            return []
        at = _first_difference(here, there, scores, bound)
        if at is not None:
            engine_order = sorted(run, key=lambda docno: -run[docno])
            at_in_engine_order = _first_difference(here, engine_order[: self.depth], scores, bound)
            if at_in_engine_order is None:
                reason = _EQUAL
            else:
                at, there = at_in_engine_order, engine_order[: self.depth]
                reason = _INSIDE
                if not spans or _first_difference(here, there, scores, bound, spans) is not None:
                    reason = self._reason(ranking, engine_order, scores, bound)
        elif (at := _first_difference(here, there, scores, _SAME)) is not None:
            reason = _NEAR
        else:
            reason, at = _TIE, int(np.argmax(np.array(here) != np.array(there)))
        one, other = (docnos[at] if at < len(docnos) else None for docnos in (here, there))
        four_scores = [known.get(docno or "") for known in (scores, run) for docno in (one, other)]
        return [Difference(ranking.topic, reason, at + 1, one, other, *four_scores)]

    def _reason(
        self, ranking: Ranking, engine_order: Sequence[str], scores: Mapping[str, float], bound: float
    ) -> str:
        """Return the reason: a missing topic, documents that one side lacks in all topics, or scores."""
        if not engine_order:
            return _ABSENT
        there = [docno for docno in engine_order if docno in self.known]
        depth = max(self.depth - (len(engine_order) - len(there)), 0)
        here = [docno for docno in ranking.docnos if docno in self.run]
        at = _first_difference(here[:depth], there[:depth], scores, bound)
        return _OTHER if at is not None else _LACKED


def _scored(ranking: Ranking) -> zip[tuple[str, float]]:
    return zip(ranking.docnos, ranking.scores.tolist(), strict=True)


def _first_difference(
    here: Sequence[str],
    there: Sequence[str],
    scores: Mapping[str, float],
    bound: float,
    spans: Mapping[str, float] | None = None,
) -> int | None:
    """Return the first position where scores differ by more than a relative bound and both spans."""
    spans = spans or {}
    for position, (one, other) in enumerate(zip_longest(here, there)):
        if one == other:
            continue
        if one not in scores or other not in scores:
            return position
        allowed = bound * max(abs(scores[one]), abs(scores[other])) + spans.get(one, 0) + spans.get(other, 0)
        if abs(scores[one] - scores[other]) > allowed:
            return position
    return None


def _describe_scores(pairs: Sequence[NDArray[np.float64]]) -> str:
    """Describe the run's scores in terms of lmtune's: a factor, an offset for each topic, or neither."""
    expected, actual = np.concatenate(pairs).T
    tolerance = _PRINTED * np.abs(actual).max(initial=0.0)
    if not expected.any():
        return "The run shares no document with lmtune's rankings."
    factor = float(np.median(actual[expected != 0.0] / expected[expected != 0.0]))
    errors = np.abs(actual - factor * expected)
    if errors.max() <= tolerance:
        times = "" if abs(factor - 1.0) <= _PRINTED else f" times {factor:.6g}"
        return f"The run's scores are lmtune's{times}."
    offset_ranges = [np.ptp(pair[:, 1] - pair[:, 0]) for pair in pairs if pair.size]
    if max(offset_ranges) <= tolerance:
        return "The run's scores are lmtune's plus a constant for each topic."
    relative = errors / np.maximum(np.abs(actual), tolerance)
    return (
        f"The run's scores differ from lmtune's by neither a constant factor nor a constant offset: from "
        f"{factor:.4g} times lmtune's by {np.median(relative):.2%} (median), {relative.max():.2%} (maximum)."
    )
