"""Residual bounds: the lowest and highest value of a measure over all judgments of the unjudged documents.

An unjudged document that one of the runs ranks may have any gain from 0 to the largest gain of the judgments.
It has the same gain in both runs. Unranked documents are unchanged. The functions compute the largest
difference of a measure between two rankings, or the largest value of one ranking. The smallest difference
follows by exchanging the two rankings.

**P, R, nDCG, RBP** are ratios N / D. N is a sum over documents of gain times discount. D is the sum of the
ideal ranking (k for P, 1 for RBP, the number of relevant documents for R). The difference of two rankings is
such a ratio, too; a document's weight is then the difference of its discounts.

Levels g are the topic's judged gains and the largest gain; rise_g is the step from the level below to g. Let
s_g be the number of unjudged documents at level g or above. Then N is largest if these are the documents with
the largest weights. Let C(s) be the sum of the s largest weights, R_g the number of documents judged g or
more, and E(n) the sum of the first n discounts of the ideal ranking. Then

    N - t D = constant + sum over g of rise_g (C(s_g) - t E(R_g + s_g)).

The largest value of this is 0 at the largest ratio t. Dinkelbach's algorithm (Management Science 13, 1967)
increases t to it in few steps.

For t >= 0, each s_g can be optimised separately. E is concave, so an additional document costs less at a
larger R_g. R_g decreases with g, so the optimal s_g decrease with g, as they must. For t < 0, N - t D is
convex in the gains. Its maximum is at a corner: all gains are 0 or the largest, and all s_g are equal.
Between two levels, N - t D is linear in a gain, so other gains need not be considered.

**AP, Bpref**: for a given number s of relevant unjudged documents, the value depends only on the ranks of the
relevant documents. Moving one up never lowers the value: AP adds count / rank, and Bpref decreases with the
rank - count non-relevant documents above. So the first s unjudged documents are the best set, and the last s
the worst. Trying every s is exact for one ranking. For a difference, the best set of one ranking and the
worst of the other are combined for each s. These may be different sets, so the bound may not be reached.

AP has a second bound that uses the same set in both rankings. AP of a ranking is the sum over pairs of
relevant documents, and over single ones, of 1 / rank of the lower document, divided by their number. So the
difference of two rankings is

    (K + sum over d of x_d c_d + sum over pairs of x_d x_e w_de) / (R + s),   w_de = 1 / low_1 - 1 / low_2,

where x_d is 1 for relevant unjudged documents. K is the known part, and low_1 is the lower rank of d and e in
the first ranking. c_d is the sum of 1 / rank_1 - 1 / rank_2 and the w_de of all known relevant documents e.

Each pair counts half for either document. Then x_d adds at most c_d and half the sum of the s - 1 largest
w_de, and the s largest such values bound the sum. They are 0 for identical rankings. The smaller bound counts
for each s.

Bpref's bounds treat every ranked document as judged. Its evaluated value, which ignores unjudged documents,
may be outside.

**RR, Success** depend only on the first relevant document. At most one additional relevant document is needed
for the largest difference, and all are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

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
from lmtune.showing import Shown, data_frame

if TYPE_CHECKING:
    import pandas as pd


NOWHERE = 1 << 40
"""The position of an unranked document."""
_RATIOS, _FIRSTS, _ORDERED = ("P", "R", "nDCG", "RBP"), ("RR", "Success"), ("AP", "Bpref")
_MOST_PAIRED = 3000  # for some hundred megabytes
_ACCEPTED = ", ".join((*_ORDERED, *_RATIOS, *_FIRSTS)) + ", also with cutoffs"


class Places(NamedTuple):
    """A run's positions (from 0) of a topic's documents.

    Attributes
    ----------
    unjudged : numpy.ndarray of int64, shape (unjudged documents,)
        Positions of the unjudged documents of either run, in the same order for both runs; `NOWHERE` for
        documents that this run does not rank.
    judged, gains : numpy.ndarray of int64, shape (ranked judged documents,)
        Positions and gains of the judged documents.
    """

    unjudged: Integers
    judged: Integers
    gains: Integers


class OpenTopic(NamedTuple):
    """A topic's judgments, and the rankings of one or two runs.

    Attributes
    ----------
    one, other : Places
        The rankings; `other` is empty if there is one run.
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
        """Look up two rankings in a topic's judgments."""
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
        """Create a topic from document numbers: judged documents with their gains, and one or two rankings.

        Documents with gains below 0 are unjudged.
        """
        gains = judgments[1].astype(np.int64)
        judged, gains = judgments[0][gains >= 0], gains[gains >= 0]
        every, codes = np.unique(np.concatenate((judged, *ranked)), return_inverse=True)
        known, *sides = np.split(codes, np.cumsum((judged.size, *map(len, ranked)))[:-1])
        places = np.full((2, every.size), NOWHERE)
        for position, docs in zip(places, sides, strict=False):
            position[docs] = np.arange(docs.size)
        is_open = places.min(axis=0, initial=NOWHERE) < NOWHERE
        is_open[known] = False

        def side(position: Integers) -> Places:
            order = np.argsort(position[known])
            order = order[position[known][order] < NOWHERE]
            return Places(position[is_open], position[known][order], gains[order])

        return cls(side(places[0]), side(places[1]), gains, largest)

    def judged_share(self, depth: int) -> float:
        """Return judged@depth of the first run."""
        ranked = self.one.judged.size + int((self.one.unjudged < NOWHERE).sum())
        return int((self.one.judged < depth).sum()) / max(min(depth, ranked), 1)

    def exchanged(self) -> OpenTopic:
        """Return the topic with the two runs exchanged."""
        return self._replace(one=self.other, other=self.one)

    def first_run_only(self) -> OpenTopic:
        """Return the topic with the first run only."""
        unjudged, nothing = self.one.unjudged[self.one.unjudged < NOWHERE], np.empty(0, np.int64)
        return self._replace(
            one=self.one._replace(unjudged=unjudged),
            other=Places(np.full(unjudged.size, NOWHERE), nothing, nothing),
        )


def is_bounded(measure: Measure) -> bool:
    """Return whether bounds of a measure can be computed."""
    return measure.custom is None and measure.kind in (*_RATIOS, *_FIRSTS, *_ORDERED)


def check_bounded(measures: Sequence[Measure]) -> None:
    """Raise InputError if bounds of a measure cannot be computed."""
    for measure in measures:
        if not is_bounded(measure):
            raise InputError("no residual bounds for this measure", value=str(measure), accepted=_ACCEPTED)


def is_exact(measure: Measure, *, difference: bool) -> bool:
    """Return whether the bounds are exact: reached by some judgments of the unjudged documents."""
    return not difference or measure.kind not in _ORDERED


def bounds(measure: Measure, topic: OpenTopic) -> tuple[float, float]:
    """Return the smallest and the largest difference of a measure between two runs.

    Parameters
    ----------
    measure : Measure
        A measure that `check_bounded` accepts.
    topic : OpenTopic
        The rankings and the judgments.

    Returns
    -------
    tuple of float
        Bounds, exact if `is_exact` returns True.
    """
    return -_highest(measure, topic.exchanged()), _highest(measure, topic)


def _highest(measure: Measure, topic: OpenTopic) -> float:
    if all(map(np.array_equal, topic.one, topic.other)):
        return 0.0
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
    gained = np.append(0.0, np.cumsum(np.sort(weight)[::-1]))  # C(s)
    known = 0.0
    for places, sign in ((topic.one, 1.0), (topic.other, -1.0)):
        rise = (places.gains[:, np.newaxis] >= levels) @ rises
        known += sign * float(rise @ _discounts(measure, places.judged))
    judged = (topic.gains[:, np.newaxis] >= levels).sum(axis=0)  # R_g
    ideal = _ideal(measure, int(judged[0]) + weight.size)
    cost = ideal[judged[:, np.newaxis] + np.arange(gained.size)]  # E(R_g + s)

    if levels[-1] > topic.largest:  # no unjudged document can be relevant
        gained, cost = gained[:1], cost[:, :1]
    every = np.arange(levels.size)
    chosen = np.zeros(levels.size, np.int64)
    ratio = -np.inf
    while True:
        divisor = float(rises @ cost[every, chosen])
        next_ratio = (known + float(rises @ gained[chosen])) / divisor if divisor else 0.0
        if next_ratio <= ratio:
            return ratio
        ratio = next_ratio
        worth = gained - ratio * cost
        chosen = worth.argmax(axis=1) if ratio >= 0.0 else np.full(levels.size, (rises @ worth).argmax())


def _levels(measure: Measure, topic: OpenTopic) -> tuple[Integers, Doubles]:
    """Return the levels of gains, ascending, and their rises; see the module's docstring."""
    if measure.kind != "nDCG":
        return np.array([measure.rel]), np.ones(1)
    gains = topic.gains[topic.gains > 0]
    if topic.one.unjudged.size or topic.other.unjudged.size:
        if measure.dcg == EXPONENTIAL and gains.size and topic.largest - gains.max() > LARGEST_POWER:
            raise InputError(
                f"gains are too far apart for bounds of {measure}",
                value=[int(gains.max()), topic.largest],
                accepted=f"largest gains of topics that differ by at most {LARGEST_POWER:g}",
            )
        gains = np.append(gains, topic.largest)
    levels = np.unique(gains)
    if not levels.size:
        return levels, np.empty(0)
    # Exponential gains are divided by the largest power of 2 to prevent overflow; it cancels in the ratio.
    value = 2.0 ** (levels - levels[-1]) - 2.0 ** -levels[-1] if measure.dcg == EXPONENTIAL else levels * 1.0
    return levels, np.diff(value, prepend=0.0)


def _discounts(measure: Measure, places: Integers) -> Doubles:
    """Return the discounts of positions; 0 below the cutoff."""
    weight = (places < (measure.cutoff or NOWHERE)).astype(np.float64)
    if measure.kind == "nDCG":
        weight /= np.log2(places + 2.0)
    elif measure.kind == "RBP":
        weight *= (1.0 - measure.p) * measure.p ** places.astype(np.float64)
    elif measure.kind == "RR":
        weight /= places + 1.0
    return weight


def _ideal(measure: Measure, most: int) -> Doubles:
    """Return the divisors D if 0 to `most` documents are relevant, shape (most + 1,)."""
    if measure.kind == "nDCG":
        return np.append(0.0, np.cumsum(_discounts(measure, np.arange(most))))
    if measure.kind == "R":
        return np.arange(most + 1.0)
    return np.full(most + 1, 1.0 if measure.kind == "RBP" else float(measure.cutoff or 1))


def _highest_of_first(measure: Measure, topic: OpenTopic) -> float:
    can_be_relevant = topic.largest >= measure.rel
    values = []
    for places in (topic.one, topic.other):
        known = _discounts(measure, places.judged[places.gains >= measure.rel]).max(initial=0.0)
        candidates = places.unjudged[: None if can_be_relevant else 0]
        values.append(np.maximum(known, np.append(0.0, _discounts(measure, candidates))))
    return float((values[0] - values[1]).max())


def _highest_by_count(measure: Measure, topic: OpenTopic) -> float:
    relevant = int((topic.gains >= measure.rel).sum())
    can_be_relevant = topic.largest >= measure.rel
    values = []
    for places, is_best in ((topic.one, True), (topic.other, False)):
        known = places.judged[places.gains >= measure.rel]
        unjudged = np.sort(places.unjudged, kind="stable")  # fast, as it is almost sorted
        arguments = is_best, measure.cutoff or NOWHERE, known, unjudged, relevant
        if measure.kind == "AP":
            by_count = precisions_by_count(*arguments)
        else:
            by_count = preferences_by_count(*arguments, topic.gains.size - relevant)
        values.append(by_count if can_be_relevant else by_count[:1])
    highest = values[0] - values[1]
    is_difference = topic.other.judged.size or (topic.other.unjudged < NOWHERE).any()
    if measure.kind == "AP" and is_difference and 1 < highest.size <= _MOST_PAIRED:
        highest = np.minimum(highest, _highest_by_pairs(measure, topic, relevant))
    return float(highest.max())


def _highest_by_pairs(measure: Measure, topic: OpenTopic, relevant: int) -> Doubles:
    """Return a bound of AP's difference by the number of relevant unjudged documents; see the module."""
    single: Doubles = np.zeros(topic.one.unjudged.size)
    pairs: Doubles = np.zeros((single.size, single.size))
    known = 0.0
    for places, sign in ((topic.one, 1.0), (topic.other, -1.0)):
        ranked = places.judged[places.gains >= measure.rel]
        inverse = _inverse_ranks(measure, ranked)
        known += sign * float(inverse @ np.arange(1.0, ranked.size + 1.0))
        own = _inverse_ranks(measure, places.unjudged)
        single += sign * (own + np.minimum(own[:, np.newaxis], inverse).sum(axis=1))
        pairs += sign * np.minimum(own[:, np.newaxis], own)
    np.fill_diagonal(pairs, -np.inf)
    pairs.sort(axis=1)
    partners = np.cumsum(pairs[:, :0:-1], axis=1)  # by s - 1, from 1
    worth = single[:, np.newaxis] + np.pad(partners, ((0, 0), (1, 0))) / 2.0
    worth.sort(axis=0)
    total = np.append(0.0, [column[-count:].sum() for count, column in enumerate(worth.T, 1)])
    number = relevant + np.arange(total.size)
    return (known + total) / np.maximum(number, 1)


def _inverse_ranks(measure: Measure, places: Integers) -> Doubles:
    return np.where(places < (measure.cutoff or NOWHERE), 1.0 / (places + 1.0), 0.0)


JUDGED = "Judged@10"
"""The measure of judgment coverage that is reported with bounds."""
MEASURES = ("AP", "P@10", "nDCG@10")
"""The default measures."""

FIGURES = ("value", "lowest", "highest", JUDGED.lower())
"""The numeric fields of `residual_records`."""

_Rankings = Mapping[bytes, Sequence[bytes]]


@dataclass(frozen=True, repr=False)
class Residuals(Shown, by="judge_tables.bounds"):
    """The measures of one run with their residual bounds.

    Attributes
    ----------
    evaluation : Evaluation
        The values with the present judgments; the last column is Judged@10.
    measures : tuple of str
        The bounded measures.
    lowest, highest : numpy.ndarray of float64, shape (topics, measures)
        The bounds of each topic's value over all judgments of the run's unjudged documents.
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
    """Compute the lowest and highest value of measures over all judgments of unjudged documents.

    An unjudged document that a run ranks may have any gain from 0 to the largest gain of the judgments
    (at least 1). Unranked documents are unchanged. The bounds of Bpref treat all ranked documents as judged.
    Its value ignores unjudged documents and may be outside its bounds.

    Parameters
    ----------
    qrels, runs, settings
        As for `lmtune.measures.from_files.evaluations`.
    measures : str, Measure, an object of ir_measures, or an iterable of these
        AP, Bpref, P, R, nDCG, RBP, RR, Success, with cutoffs.

    Returns
    -------
    pandas.DataFrame
        One row per run and measure: ``value``, ``lowest``, ``highest`` (exact means over topics) and
        ``judged@10``, the fraction of the top ten documents that are judged.

    Raises
    ------
    InputError
        As for `evaluations`; or if a measure has no bounds, or the settings have ``judged_only`` or another
        ``level`` than 1.

    Examples
    --------
    >>> print(residuals({"1": {"a": 1}}, {"mine": {"1": {"a": 2.0, "b": 1.0}}}, "P@2"))
                  value  lowest  highest  judged@10
    run  measure
    mine P@2        0.5     0.5      1.0        0.5
    """
    bounded = list(run_residuals(qrels, runs, measures, settings=settings))
    return data_frame(residual_records(bounded)).drop(columns="file").set_index(["run", "measure"])


def run_residuals(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike = MEASURES,
    *,
    settings: EvaluationOptions | None = None,
) -> Iterator[Residuals]:
    """Yield the bounds of each run topic by topic; arguments as for `residuals`."""
    settings = for_judgments(settings, qrels)
    parsed = _checked(measures, settings)
    labels = tuple(map(str, parsed))
    judgments = as_judgments(qrels, settings.topics)
    for file, run in read_runs(runs, judgments, settings):
        evaluation = evaluate_run(judgments, run, parse_families([*labels, JUDGED]), settings, file=file)
        topics = [topic.encode() for topic in evaluation.topics]
        limits = _topic_bounds(parsed, open_topics(judgments, topics, rankings(run, settings), {}))
        yield Residuals(evaluation, labels, limits[..., 0], limits[..., 1])


def residual_records(bounded: Sequence[Residuals], *, per_topic: bool = False) -> list[dict[str, object]]:
    """Return one record per run and measure with means over topics, or one per topic."""
    records: list[dict[str, object]] = []
    for name, one in zip(run_names([one.evaluation for one in bounded]), bounded, strict=True):
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
    """Bound the mean differences of pairs of runs over all judgments of unjudged documents.

    Parameters
    ----------
    qrels, runs, settings
        As for `residuals`, except that runs are a mapping of names to runs.
    pairs : sequence of tuple of str
        Names of two runs; differences are the first run's mean minus the second's.
    measures : str, Measure, an object of ir_measures, or an iterable of these
        As for `residuals`.

    Returns
    -------
    dict of tuple of str to numpy.ndarray of float64, shape (measures, 2)
        The lowest and the highest mean difference over all judged topics, by pair. They are exact if
        `lmtune.measures.residual_bounds.is_exact` returns True.

    Raises
    ------
    InputError
        As for `residuals`.
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
    """Return each topic's docnos in trec_eval's order, down to the depth of the settings."""
    double = settings.version == VERSIONS[1]
    return {
        topic: trec_eval_order(*ranked, double=double)[: settings.depth]
        for topic, ranked in run.topics.items()
    }


def read_rankings(
    runs: RunsLike, judgments: Judgments, settings: EvaluationOptions
) -> list[tuple[str, _Rankings]]:
    """Read runs and return their tags and rankings."""
    return [(run.tag, rankings(run, settings)) for _, run in read_runs(runs, judgments, settings)]


def _checked(measures: MeasuresLike, settings: EvaluationOptions) -> list[Measure]:
    check(settings)
    if settings.judged_only:
        accepted = "residual bounds or --judged-only, not both"
        raise InputError("residual bounds need the unjudged documents", accepted=accepted)
    if settings.level != 1:
        accepted = "level 1, and measures with their own level, such as AP(rel=2)"
        raise InputError("no residual bounds at this level", value=settings.level, accepted=accepted)
    parsed = parse_measures(measures)
    check_bounded(parsed)
    return parsed


def lists_nonrelevant(judgments: Mapping[Any, Mapping[Any, int]]) -> bool:
    """Return whether a judged document is not relevant: otherwise Judged@k is P@k."""
    return any(gain == 0 for judged in judgments.values() for gain in judged.values())


def open_topics(
    judgments: Judgments, topics: Sequence[bytes], one: _Rankings, other: _Rankings
) -> Iterator[OpenTopic]:
    """Look up the topics of two runs in the judgments; for one run, `other` is empty."""
    largest = max(1, *(gain for judged in judgments.values() for gain in judged.values()))
    for topic in topics:
        yield OpenTopic.of(judgments[topic], one.get(topic, ()), other.get(topic, ()), largest)


def _topic_bounds(measures: Sequence[Measure], topics: Iterable[OpenTopic]) -> Doubles:
    """Return the lowest and highest values, shape (topics, measures, 2); see `bounds`."""
    return np.array([[bounds(measure, topic) for measure in measures] for topic in topics]) + 0.0  # no -0
