"""How far a measure of a topic, of runs or of their differences could go, however the unjudged were judged.

The documents without a judgment that a run ranks (of two runs: that either ranks) may have any gain from 0
to the largest one of the judgments; documents that no run ranks stay as they are. A document has one gain,
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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Integers
from lmtune.errors import InputError, as_text
from lmtune.io.columns import RunColumns
from lmtune.io.rows import QrelsLike, RunsLike
from lmtune.measures.from_files import (
    Evaluation,
    EvaluationOptions,
    Judgments,
    as_judgments,
    evaluate_run,
    for_judgments,
    parse_families,
    read_runs,
    run_names,
)
from lmtune.measures.judged_ranking import trec_eval_order
from lmtune.measures.kinds import EXPONENTIAL
from lmtune.measures.measure import Measure, MeasuresLike, parse_measures
from lmtune.measures.trec_measures import LARGEST_POWER
from lmtune.measures.trec_names import VERSIONS
from lmtune.measures.value_kernels import precisions_by_count, preferences_by_count
from lmtune.options import check
from lmtune.showing import Shown

if TYPE_CHECKING:
    import pandas as pd


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
    """A topic's judgments, and one or two runs' rankings.

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
        cls, judgments: Mapping[bytes, int], one: Sequence[bytes], other: Sequence[bytes], largest: int
    ) -> OpenTopic:
        """Look two rankings up in a topic's judgments."""
        every = dict.fromkeys(chain(judgments, one, other))
        number = dict(zip(every, range(len(every)), strict=True))
        judged, *ranked = (
            np.fromiter(map(number.__getitem__, docnos), np.int64, len(docnos))
            for docnos in (judgments, one, other)
        )
        gains = np.fromiter(judgments.values(), np.int64, len(judgments))
        return cls.of_numbers((judged, gains), ranked, largest)

    @classmethod
    def of_numbers(
        cls,
        judgments: tuple[NDArray[np.integer], NDArray[np.integer]],
        ranked: Sequence[NDArray[np.integer]],
        largest: int,
    ) -> OpenTopic:
        """Take one or two rankings of documents by any numbers, and the judged with their gains.

        Gains below 0 are none.
        """
        gains = judgments[1].astype(np.int64)
        judged, gains = judgments[0][gains >= 0], gains[gains >= 0]
        every, codes = np.unique(np.concatenate((judged, *ranked)), return_inverse=True)
        known, *sides = np.split(codes, np.cumsum((judged.size, *map(len, ranked)))[:-1])
        places = np.full((2, every.size), NOWHERE)
        for own, docs in zip(places, sides, strict=False):
            own[docs] = np.arange(docs.size)
        is_open = places.min(axis=0, initial=NOWHERE) < NOWHERE
        is_open[known] = False

        def side(own: Integers) -> Places:
            order = np.argsort(own[known])
            order = order[own[known][order] < NOWHERE]
            return Places(own[is_open], own[known][order], gains[order])

        return cls(side(places[0]), side(places[1]), gains, largest)

    def judged_share(self, depth: int) -> float:
        """Return the part of the first run's best documents, or of as many as it ranks, that is judged."""
        ranked = self.one.judged.size + int((self.one.unjudged < NOWHERE).sum())
        return int((self.one.judged < depth).sum()) / max(min(depth, ranked), 1)

    def exchanged(self) -> OpenTopic:
        """Let the runs change sides."""
        return self._replace(one=self.other, other=self.one)

    def alone(self) -> OpenTopic:
        """Leave the first run alone."""
        unjudged, nothing = self.one.unjudged[self.one.unjudged < NOWHERE], np.empty(0, np.int64)
        return self._replace(
            one=self.one._replace(unjudged=unjudged),
            other=Places(np.full(unjudged.size, NOWHERE), nothing, nothing),
        )


def is_bounded(measure: Measure) -> bool:
    """Say whether a measure's bounds are known."""
    return measure.custom is None and measure.kind in (*_RATIOS, *_FIRSTS, *_ORDERED)


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
        The rankings and the judgments.

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
    gains = topic.gains[topic.gains > 0]
    if topic.one.unjudged.size or topic.other.unjudged.size:
        if measure.dcg == EXPONENTIAL and gains.size and topic.largest - gains.max() > LARGEST_POWER:
            raise InputError(
                f"gains are too far apart for bounds of {measure}",
                value=[int(gains.max()), topic.largest],
                accepted=f"largest gains of topics that differ by {LARGEST_POWER:g} at most",
            )
        gains = np.append(gains, topic.largest)
    levels = np.unique(gains)
    if not levels.size:
        return levels, np.empty(0)
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


JUDGED = "Judged@10"
"""The measure that says how much of what readers look at was judged."""
MEASURES = ("AP", "P@10", "nDCG@10")
"""What is bounded where nobody says what."""

FIGURES = ("value", "lowest", "highest", JUDGED.lower())
"""What `residual_records` have of each run and measure."""

_Rankings = Mapping[bytes, Sequence[bytes]]


@dataclass(frozen=True, repr=False)
class Residuals(Shown, by="judge_tables.bounds"):
    """What one run's measures are, and could be.

    Attributes
    ----------
    evaluation : Evaluation
        The values as judged, and last Judged@10.
    measures : tuple of str
        What was bounded.
    lowest, highest : numpy.ndarray of float64, shape (topics, measures)
        The bounds of each topic's value, over all ways to judge what the run ranks without a judgment.
    """

    evaluation: Evaluation
    measures: tuple[str, ...]
    lowest: Doubles
    highest: Doubles


def residuals(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike = MEASURES,
    *,
    settings: EvaluationOptions | None = None,
) -> pd.DataFrame:
    """Bound runs' measures over all ways in which unjudged documents could be judged.

    A document that a run ranks without a judgment may have any gain from 0 to the largest of the
    judgments (1 at least); documents that the run does not rank stay as they are. Bpref takes all of
    them for judged, so that its value, which passes them over, may lie outside its bounds.

    Parameters
    ----------
    qrels, runs, settings
        As for `lmtune.measures.from_files.evaluations`.
    measures : str, Measure, an object of ir_measures, or an iterable of these
        AP, Bpref, P, R, nDCG, RBP, RR, Success, with cutoffs.

    Returns
    -------
    pandas.DataFrame
        A row for each run and measure: ``value``, ``lowest``, ``highest`` (means over topics, exact) and
        ``judged@10``, the part of its best ten documents that has a judgment.

    Raises
    ------
    InputError
        As `evaluations`; for other measures, and settings that drop documents or have levels.

    Examples
    --------
    >>> print(residuals({"1": {"a": 1}}, {"mine": {"1": {"a": 2.0, "b": 1.0}}}, "P@2"))
                  value  lowest  highest  judged@10
    run  measure
    mine P@2        0.5     0.5      1.0        0.5
    """
    import pandas as pd

    found = list(run_residuals(qrels, runs, measures, settings=settings))
    return pd.DataFrame(residual_records(found)).drop(columns="file").set_index(["run", "measure"])


def run_residuals(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike = MEASURES,
    *,
    settings: EvaluationOptions | None = None,
) -> Iterator[Residuals]:
    """Bound runs' measures one run after another: `residuals` in full, topic by topic."""
    settings = for_judgments(settings, qrels)
    parsed = _checked(measures, settings)
    labels = tuple(map(str, parsed))
    judgments = as_judgments(qrels, settings.topics)
    for file, run in read_runs(runs, judgments, settings):
        found = evaluate_run(judgments, run, parse_families([*labels, JUDGED]), settings, file=file)
        topics = [topic.encode() for topic in found.topics]
        spread = _topic_bounds(parsed, open_topics(judgments, topics, rankings(run, settings), {}))
        yield Residuals(found, labels, spread[..., 0], spread[..., 1])


def residual_records(found: Sequence[Residuals], *, per_topic: bool = False) -> list[dict[str, object]]:
    """Return a record for each run and measure: means over topics; or for each topic."""
    records: list[dict[str, object]] = []
    for name, one in zip(run_names([one.evaluation for one in found]), found, strict=True):
        judged = one.evaluation.column(JUDGED)
        for m, measure in enumerate(one.measures):
            column = one.evaluation.column(measure)
            shared = {"run": name, "file": as_text(one.evaluation.file), "measure": measure}
            rows = [(column.mean, one.lowest[:, m].mean(), one.highest[:, m].mean(), judged.mean)]
            keys: list[dict[str, str]] = [{}]
            if per_topic:
                rows = list(
                    zip(column.values, one.lowest[:, m], one.highest[:, m], judged.values, strict=True)
                )
                keys = [{"topic": topic} for topic in one.evaluation.topics]
            for key, row in zip(keys, rows, strict=True):
                records.append(shared | key | dict(zip(FIGURES, map(float, row), strict=True)))
    return records


def difference_bounds(
    qrels: QrelsLike,
    runs: RunsLike,
    pairs: Sequence[tuple[str, str]],
    measures: MeasuresLike,
    settings: EvaluationOptions,
) -> dict[tuple[str, str], Doubles]:
    """Bound mean differences of runs over all ways to judge what either ranks without a judgment.

    Parameters
    ----------
    qrels, runs, settings
        As for `residuals`; runs in a mapping of their names.
    pairs : sequence of tuple of str
        Two runs' names: the differences are the first's mean less the second's.
    measures : str, Measure, an object of ir_measures, or an iterable of these
        As for `residuals`.

    Returns
    -------
    dict of tuple of str to numpy.ndarray of float64, shape (measures, 2)
        By pair the lowest and the highest mean difference over all judged topics; see
        `lmtune.measures.residual_bounds.is_exact`.

    Raises
    ------
    InputError
        As `residuals`.
    """
    parsed = _checked(measures, settings)
    judgments = as_judgments(qrels, settings.topics)
    ranked = dict(read_rankings(runs, judgments, settings))
    topics = sorted(judgments)
    return {
        pair: _topic_bounds(parsed, open_topics(judgments, topics, *(ranked[run] for run in pair))).mean(
            axis=0
        )
        for pair in pairs
    }


def rankings(run: RunColumns, settings: EvaluationOptions) -> _Rankings:
    """Order a run's documents as trec_eval does, down to the depth."""
    double = settings.version == VERSIONS[1]
    return {
        topic: trec_eval_order(*ranked, double=double)[: settings.depth]
        for topic, ranked in run.topics.items()
    }


def read_rankings(
    runs: RunsLike, judgments: Judgments, settings: EvaluationOptions
) -> list[tuple[str, _Rankings]]:
    """Read runs; return their tags and rankings."""
    return [(run.tag, rankings(run, settings)) for _, run in read_runs(runs, judgments, settings)]


def _checked(measures: MeasuresLike, settings: EvaluationOptions) -> list[Measure]:
    check(settings)
    if settings.judged_only:
        raise InputError("bounds over unjudged documents, which judged-only drops", accepted="one of the two")
    if settings.level != 1:
        accepted = "measures that say their level themselves, such as AP(rel=2)"
        raise InputError("bounds at another level", value=settings.level, accepted=accepted)
    parsed = parse_measures(measures)
    check_bounded(parsed)
    return parsed


def open_topics(
    judgments: Judgments, topics: Sequence[bytes], one: _Rankings, other: _Rankings
) -> Iterator[OpenTopic]:
    """Look topics' rankings up in judgments; `other` ranks nothing where one run is bounded alone."""
    largest = max(1, *(gain for judged in judgments.values() for gain in judged.values()))
    for topic in topics:
        yield OpenTopic.of(judgments[topic], one.get(topic, ()), other.get(topic, ()), largest)


def _topic_bounds(measures: Sequence[Measure], topics: Iterable[OpenTopic]) -> Doubles:
    """Return lowest and highest values, shape (topics, measures, 2); measures as for `bounds`."""
    return np.array([[bounds(measure, topic) for measure in measures] for topic in topics]) + 0.0  # no -0
