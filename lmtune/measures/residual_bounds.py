"""How far a measure of a topic could go, over all ways in which unjudged documents could be judged.

The documents without a judgement that a run ranks (of two runs: that either ranks) may have any gain from 0
to the largest one of the judgements; documents that no run ranks stay as they are. A document has one gain,
whichever run ranks it. What follows is the largest value of one ranking's measure minus another's; without
another, the largest value of the measure; the smallest is minus the largest of the two exchanged.

**P, R, nDCG, RBP** are N / D, N a sum over documents of gain times discount, D the sum of the ideal ranking
(k for P, 1 for RBP, the number of relevant documents for R), and so is the difference of two of them, where a
document's weight is the difference of its discounts. Write a gain as the sum of its rises, each at one of the
levels g (the topic's judged gains, and the largest). With s_g unjudged documents at level g or above, N is
best when they are those of the largest weights, and then, C(s) being the sum of the s largest weights, R_g
the documents judged g or more, and E(n) the first n discounts of the ideal ranking,

    N - t D = constant + sum over g of rise_g (C(s_g) - t E(R_g + s_g)),

whose largest value at the largest ratio t is 0 (Dinkelbach, Management Science 13, 1967: t grows to it in few
steps). For t >= 0 each level is free: E is concave, so that one more document costs the less the larger R_g
is, and R_g falls with g, so the best s_g fall with g, as they have to. For t < 0, N - t D is convex in the
gains: its largest value is at a corner, all gains 0 or the largest, and all s_g are equal. A gain between two
levels moves N - t D linearly, so that levels are enough.

**AP, Bpref**: with a given number of unjudged documents relevant all depends on the ranks of relevant
documents; raising one never lowers the value (AP adds count / rank; Bpref falls with the nonrelevant
documents above, whose number is rank - count). So the first s are the best, the last s the worst of all sets
of s, and trying each s is exact. For a difference the best of one and the worst of the other for each s
bound it from outside: one set of documents may not be both. For Bpref every document is judged, relevant or
not; its value as evaluated, unjudged documents passed over, may lie outside.

**RR, Success** depend on the first relevant document alone: for the largest difference one further relevant
document at most is needed, which is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.measures.kinds import EXPONENTIAL
from lmtune.measures.measure import Measure
from lmtune.measures.residual_kernels import precisions_by_count, preferences_by_count

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]

NOWHERE = 1 << 40
"""The place of a document that is not ranked."""
_RATIOS, _FIRSTS, _ORDERED = ("P", "R", "nDCG", "RBP"), ("RR", "Success"), ("AP", "Bpref")
_ACCEPTED = ", ".join((*_ORDERED, *_RATIOS, *_FIRSTS)) + ", with cutoffs as usual"


class Places(NamedTuple):
    """Where a run ranks a topic's documents, from 0; `NOWHERE` where it does not.

    Attributes
    ----------
    unjudged : numpy.ndarray of int64, shape (unjudged documents,)
        In the same order of documents for both runs.
    judged, gains : numpy.ndarray of int64, shape (judged documents that it ranks,)
        Places of the judged, and their gains.
    """

    unjudged: Integers
    judged: Integers
    gains: Integers


class OpenTopic(NamedTuple):
    """A topic's judgements, and one or two runs' rankings.

    Attributes
    ----------
    one, other : Places
        The rankings; `other` ranks nothing where there is none.
    gains : numpy.ndarray of int64, shape (judged documents,)
        The gains of all judged documents, ranked or not.
    largest : int
        The largest gain that an unjudged document can have.
    """

    one: Places
    other: Places
    gains: Integers
    largest: int

    @classmethod
    def of(
        cls, judgements: Mapping[bytes, int], one: Sequence[bytes], other: Sequence[bytes], largest: int
    ) -> OpenTopic:
        """Look two rankings up in a topic's judgements; gains below 0 are none."""
        gain_of = {docno: gain for docno, gain in judgements.items() if gain >= 0}
        unjudged = [docno for docno in dict.fromkeys(chain(one, other)) if docno not in gain_of]
        places = []
        for docnos in (one, other):
            at = dict(zip(docnos, range(len(docnos)), strict=True))
            judged = sorted((at[docno], gain) for docno, gain in gain_of.items() if docno in at)
            ranked = np.array(judged, np.int64).reshape(-1, 2)
            open_places = np.fromiter(map(at.get, unjudged, repeat(NOWHERE)), np.int64, len(unjudged))
            places.append(Places(open_places, ranked[:, 0], ranked[:, 1]))
        gains = np.fromiter(gain_of.values(), np.int64, len(gain_of))
        return cls(places[0], places[1], gains, largest)

    def exchanged(self) -> OpenTopic:
        """Let the runs change sides."""
        return self._replace(one=self.other, other=self.one)


def is_bounded(measure: Measure) -> bool:
    """Say whether a measure's bounds are known."""
    return measure.own is None and measure.kind in (*_RATIOS, *_FIRSTS, *_ORDERED)


def check_bounded(measures: Sequence[Measure]) -> None:
    """Raise InputError for a measure whose bounds are not known."""
    for measure in measures:
        if not is_bounded(measure):
            raise InputError(
                "no bounds over unjudged documents are known", value=str(measure), accepted=_ACCEPTED
            )


def is_exact(measure: Measure, *, difference: bool) -> bool:
    """Say whether bounds are reached by some judging, and not only never passed."""
    return not difference or measure.kind not in _ORDERED


def bounds(measure: Measure, topic: OpenTopic) -> tuple[float, float]:
    """Return the smallest and the largest value of one run's measure minus the other's.

    Parameters
    ----------
    measure : Measure
        One that `check_bounded` lets pass.
    topic : OpenTopic
        The rankings and the judgements.

    Returns
    -------
    tuple of float
        Exact where `is_exact` says so, else never passed.
    """
    return -_highest(measure, topic.exchanged()), _highest(measure, topic)


def _highest(measure: Measure, topic: OpenTopic) -> float:
    if measure.kind in _RATIOS:
        return _highest_ratio(measure, topic)
    if measure.kind in _FIRSTS:
        return _highest_of_first(measure, topic)
    return _highest_by_count(measure, topic)


def _highest_ratio(measure: Measure, topic: OpenTopic) -> float:
    levels, rises = _levels(measure, topic)
    if not levels.size:
        return 0.0
    weight = _discounts(measure, topic.one.unjudged) - _discounts(measure, topic.other.unjudged)
    gained = np.append(0.0, np.cumsum(np.sort(weight)[::-1]))  # by the number of documents
    known = 0.0
    for places, sign in ((topic.one, 1.0), (topic.other, -1.0)):
        rise = (places.gains[:, np.newaxis] >= levels) @ rises
        known += sign * float(rise @ _discounts(measure, places.judged))
    held = (topic.gains[:, np.newaxis] >= levels).sum(axis=0)
    ideal = _ideal(measure, int(held[0]) + weight.size)
    cost = ideal[held[:, np.newaxis] + np.arange(gained.size)]  # by level and number of documents

    if levels[-1] > topic.largest:  # nothing unjudged can be relevant
        gained, cost = gained[:1], cost[:, :1]
    every = np.arange(levels.size)
    chosen = np.zeros(levels.size, np.int64)
    ratio = -np.inf
    while True:
        whole = float(rises @ cost[every, chosen])
        reached = (known + float(rises @ gained[chosen])) / whole if whole else 0.0
        if reached <= ratio:
            return ratio
        ratio = reached
        worth = gained - ratio * cost
        chosen = worth.argmax(axis=1) if ratio >= 0.0 else np.full(levels.size, (rises @ worth).argmax())


def _levels(measure: Measure, topic: OpenTopic) -> tuple[Integers, Doubles]:
    """Return the gains at which something rises, ascending, and by how much."""
    if measure.kind != "nDCG":
        return np.array([measure.rel]), np.ones(1)
    levels = np.unique(np.append(topic.gains[topic.gains > 0], topic.largest))
    # Only ratios matter: the exponential gains are divided by that of the largest, lest they overflow.
    value = 2.0 ** (levels - levels[-1]) - 2.0 ** -levels[-1] if measure.dcg == EXPONENTIAL else levels * 1.0
    return levels, np.diff(value, prepend=0.0)


def _discounts(measure: Measure, places: Integers) -> Doubles:
    """Return what relevant documents at places count."""
    weight = (places < (measure.cutoff or NOWHERE)).astype(np.float64)
    if measure.kind == "nDCG":
        weight /= np.log2(places + 2.0)
    elif measure.kind == "RBP":
        weight *= (1.0 - measure.p) * measure.p ** places.astype(np.float64)
    elif measure.kind == "RR":
        weight /= places + 1.0
    return weight


def _ideal(measure: Measure, most: int) -> Doubles:
    """Return what divides the sum when 0 to the most documents are relevant."""
    if measure.kind == "nDCG":
        return np.append(0.0, np.cumsum(_discounts(measure, np.arange(most))))
    if measure.kind == "R":
        return np.arange(most + 1.0)
    return np.full(most + 1, 1.0 if measure.kind == "RBP" else float(measure.cutoff or 1))


def _highest_of_first(measure: Measure, topic: OpenTopic) -> float:
    could = topic.largest >= measure.rel
    values = []
    for places in (topic.one, topic.other):
        known = _discounts(measure, places.judged[places.gains >= measure.rel]).max(initial=0.0)
        values.append(
            np.maximum(known, np.append(0.0, _discounts(measure, places.unjudged[: None if could else 0])))
        )
    return float((values[0] - values[1]).max())


def _highest_by_count(measure: Measure, topic: OpenTopic) -> float:
    relevant = int((topic.gains >= measure.rel).sum())
    could = topic.largest >= measure.rel
    values = []
    for places, is_best in ((topic.one, True), (topic.other, False)):
        known = places.judged[places.gains >= measure.rel]
        unjudged = np.sort(places.unjudged, kind="stable")  # nearly sorted as they come
        found = is_best, measure.cutoff or NOWHERE, known, unjudged, relevant
        if measure.kind == "AP":
            by_count = precisions_by_count(*found)
        else:
            by_count = preferences_by_count(*found, topic.gains.size - relevant)
        values.append(by_count if could else by_count[:1])
    return float((values[0] - values[1]).max())
