"""Exact line search of run weights, and the other methods that fit weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np

from lmtune.arrays import Doubles, Integers, Integers32
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.fusion import kernels
from lmtune.fusion.runs import prune_for_measure, skyband_mask
from lmtune.measures.evaluate import DEPTH, divisors, measure_settings, worths
from lmtune.measures.kinds import Code
from lmtune.measures.measure import Measure, MeasureLike, parse_measure
from lmtune.measures.value_kernels import MeasureScale
from lmtune.models.parameter import Setting
from lmtune.progress import Count, no_count
from lmtune.threads import map_range
from lmtune.tuning.ridge import RIDGES, RidgeTuner
from lmtune.tuning.surrogate import SurrogateTuner, smooth_form
from lmtune.tuning.tuner import FitProgress, SearchRecord, Tuner

# Pairs of documents per piece of a line; bounds the memory of their crossings.
_PAIRS = 1 << 23
_SECONDS = 2e-8  # time for a pair of documents, or for one document's column
# Below this cutoff, and with more documents than `_FEW`, documents that never reach the cutoff are removed.
_SHALLOW, _FEW = 200, 100
# Means that differ by less than this are equal up to rounding.
EQUAL = 1e-12
_LARGEST_WEIGHT = 1 << 26


class Steps(NamedTuple):
    """A piecewise constant function of t from 0 to 1.

    Attributes
    ----------
    at : numpy.ndarray of float64, shape (steps,)
        Where each step begins. A step is a single point if the next one begins at the same t.
    value : numpy.ndarray of float64, shape (steps,) or (steps, columns)
        The value of each step.
    end : float
        Where the last step ends.
    """

    at: Doubles
    value: Doubles
    end: float

    @property
    def width(self) -> Doubles:
        """The length of each step; 0 for a point."""
        return np.diff(self.at, append=self.end)


class TopicLine(NamedTuple):
    """A topic's relevant documents, measure scale, columns of shape (runs, documents), and their units."""

    standing: kernels.Standing
    goal: MeasureScale
    tf: Integers32 | Doubles
    units: Doubles


def check_measure(measure: Measure) -> None:
    """Raise `InputError` unless a measure is a sum over the ranks of relevant documents."""
    if measure.is_slow:
        accepted = "AP, nDCG@k, P@k, RR, R@k, Bpref, Success@k"
        raise InputError("no exact line search for the measure", value=str(measure), accepted=accepted)


class Line:
    """Exact mean of a measure over topics, as a function of the weights on a line.

    Parameters
    ----------
    pool : CandidatePool
        A pool whose formula is a `lmtune.fusion.runs.WeightedSum`.
    measure : Measure
        AP, nDCG, P@k, RR, R@k, Bpref or Success@k.
    topics : numpy.ndarray of int64
        Positions of the topics in the pool.
    depth : int
        Run depth.
    columns : sequence of numpy.ndarray of float64, shape (runs, documents), optional
        The columns of each topic, in place of the pool's.

    Attributes
    ----------
    topics : int
        Number of topics.
    shares : numpy.ndarray of float64, shape (topics,)
        Weights of the topics in the mean; their sum is 1.
    topic_lines : list of TopicLine
        Topics with relevant documents.
    rows : list of int
        The index of each of them among the topics.

    Raises
    ------
    InputError
        For a measure without an exact line search.
    """

    def __init__(
        self,
        pool: CandidatePool,
        measure: Measure,
        topics: Integers,
        depth: int = DEPTH,
        columns: Sequence[Doubles] | None = None,
    ) -> None:
        check_measure(measure)
        pool.require(np.zeros((1, len(pool.formula.parameters))), depth)
        self.topics = topics.size
        self.shares = pool.weights(topics) / pool.weights(topics).sum()
        assert measure.declared.kernel is not None
        kind = int(measure.declared.kernel)
        relevant_of, others_of = pool.judged_counts(measure.rel)
        divisor = divisors(pool, measure)
        self._cutoff = min(measure.cutoff or depth, depth)
        self.topic_lines: list[TopicLine] = []
        self.rows: list[int] = []
        for row, t in enumerate(topics.tolist()):
            gain = pool.candidates.gain[pool.candidates.rows(t)]
            relevant = gain >= measure.rel
            if not relevant.any():
                continue
            position = np.flatnonzero(relevant)
            relevant_index = np.full(gain.size, -1)
            relevant_index[position] = np.arange(position.size)
            is_special = relevant if kind == Code.AP else (gain >= 0) & ~relevant & (kind == Code.BPREF)
            zeros = np.zeros(position.size, np.int64)
            worth = worths(measure, gain[position])
            standing = kernels.Standing(position, worth, relevant_index, is_special, zeros, zeros.copy())
            sizes = int(relevant_of[t]), int(others_of[t])
            goal = MeasureScale(kind, self._cutoff, *sizes, float(divisor[t]))
            units = pool.value[pool.term_rows(t)]
            tf: Integers32 | Doubles = pool.tf_block(pool.candidates, t)
            if columns is not None:
                tf, units = np.ascontiguousarray(columns[row]), np.ones_like(units)
            self.topic_lines.append(TopicLine(standing, goal, tf, units))
            self.rows.append(row)

    def steps(self, begin: Doubles, end: Doubles, shares: Doubles | None = None) -> Iterator[Steps]:
        """Yield the mean's steps from weights `begin` to weights `end`, piece by piece.

        Parameters
        ----------
        begin, end : numpy.ndarray of float64, shape (runs,)
            The weights at t = 0 and at t = 1.
        shares : numpy.ndarray of float64, shape (topics,) or (topics, columns), optional
            Weights of the topics in the mean, or in several means; by default `Line.shares`.
        """
        if shares is None:
            shares = self.shares
        by_column = np.atleast_2d(shares[self.rows].T)
        ends = np.stack((begin, end))
        value = np.zeros(len(by_column))

        def prepare(i: int) -> tuple[Doubles, kernels.Standing]:
            scores, standing = _scores(self.topic_lines[i], ends, self._cutoff)
            kernels.count_above(scores[0], standing)
            return scores, standing

        seconds = _SECONDS * sum(topic.tf.size for topic in self.topic_lines)
        lines = map_range(prepare, len(self.topic_lines), seconds=seconds)
        for share, (_, standing), topic in zip(by_column.T, lines, self.topic_lines, strict=True):
            value = value + share * kernels.measure_value(standing, topic.goal)
        pairs = sum(standing.position.size * ab.shape[1] for ab, standing in lines)
        pieces = 1 + pairs // _PAIRS
        edges = np.linspace(0.0, 1.0, pieces + 1)
        for low, high in zip(edges[:-1].tolist(), [*edges[1:-1].tolist(), np.inf], strict=True):
            keys, changes, topics = self._crossings(lines, low, high)
            last = np.append(keys[1:] != keys[:-1], True)[: keys.size]
            at = np.concatenate(([low], (keys[last] >> 1).view(np.float64)))
            steps = np.empty((len(by_column), at.size))
            for own, first, share in zip(steps, value.copy(), by_column, strict=True):
                total = first + np.cumsum(changes * share[topics])
                own[0], own[1:] = first, total[last]
            value = steps[:, -1]
            yield Steps(at, steps[0] if shares.ndim == 1 else steps.T, min(high, 1.0))

    def _crossings(
        self, lines: list[tuple[Doubles, kernels.Standing]], low: float, high: float
    ) -> tuple[Integers, Doubles, Integers]:
        """Return sorted keys (t and the half), the changes of a topic's measure, and the topics."""

        def work(i: int) -> tuple[Integers, Doubles]:
            (a, b), standing = lines[i]
            room = a.size * standing.position.size
            at, crossings = np.empty(room), np.empty(room, np.int64)
            size = kernels.find_crossings(a, b, standing, low, high, at, crossings)
            # The bit patterns of non-negative floats sort as the floats do.
            keys = (at[:size].view(np.int64) << 1) | (crossings[:size] & 1)
            order = np.argsort(keys)
            keys, changes = keys[order], at
            goal = self.topic_lines[i].goal
            size = kernels.apply_crossings(keys, order, crossings, standing, goal, changes)
            return keys[:size].copy(), changes[:size].copy()

        pairs = sum(standing.position.size * ab.shape[1] for ab, standing in lines)
        by_topic = map_range(work, len(lines), seconds=_SECONDS * pairs)
        keys = np.concatenate([np.empty(0, np.int64), *(topic_keys for topic_keys, _ in by_topic)])
        order = np.argsort(keys)
        changes = np.concatenate([np.empty(0), *(change for _, change in by_topic)])[order]
        topics = np.repeat(np.arange(len(by_topic)), [change.size for _, change in by_topic])[order]
        return keys[order], changes, topics


def _scores(part: TopicLine, ends: Doubles, cutoff: int) -> tuple[Doubles, kernels.Standing]:
    """Return the scores at both ends and the relevant documents, without documents that never count."""
    scores = np.empty((2, part.tf.shape[1]))
    kernels.weighted_sums(ends * part.units, part.tf, scores)
    standing = part.standing
    if cutoff >= _SHALLOW or scores.shape[1] <= max(cutoff, _FEW):
        return scores, standing._replace(above=standing.above.copy(), special=standing.special.copy())
    keep = skyband_mask(scores, cutoff)
    # Bpref counts judged non-relevant documents at any rank above a relevant one.
    kept_relevant = keep[standing.position]
    position = np.cumsum(keep)[standing.position[kept_relevant]] - 1
    relevant_index = np.full(int(keep.sum()), -1)
    relevant_index[position] = np.arange(position.size)
    zeros = np.zeros(position.size, np.int64)
    return np.ascontiguousarray(scores[:, keep]), kernels.Standing(
        position, standing.gain[kept_relevant], relevant_index, standing.is_special[keep], zeros, zeros.copy()
    )


def join_steps(pieces: Iterator[Steps]) -> Steps:
    """Concatenate the pieces of a line."""
    every = list(pieces)
    at, value = (
        np.concatenate([piece.at for piece in every]),
        np.concatenate([piece.value for piece in every]),
    )
    return Steps(at, value, every[-1].end)


class Best(NamedTuple):
    """A step's value, its width, and the t of its middle."""

    value: float
    width: float
    at: float


def best_steps(pieces: Iterator[Steps], number: int = 8) -> tuple[list[Best], float]:
    """Return the best steps and the highest value; among equal values, longer steps come first."""
    kept: list[Best] = []
    highest = 0.0
    for steps in pieces:
        width = steps.width
        highest = max(highest, float(steps.value.max()))
        level = np.round(steps.value / EQUAL)
        least = np.partition(level, -min(number, level.size))[-min(number, level.size)]
        some = np.flatnonzero(level >= least)
        some = some[np.lexsort((-width[some], -level[some]))][:number]
        kept += [
            Best(float(steps.value[i]), float(width[i]), float(steps.at[i] + 0.5 * width[i])) for i in some
        ]
        kept = sorted(kept, key=lambda best: (-round(best.value / EQUAL), -best.width))[:number]
    return kept, highest


def weights_at(begin: Doubles, end: Doubles, t: float) -> Doubles:
    """Return the weights at t on a line; with two runs as integers where possible, for exact ties."""
    if begin.size == 2 and not (begin[1] or end[0]):
        share = Fraction(t).limit_denominator(_LARGEST_WEIGHT)
        if float(share) == t:
            return np.array([share.denominator - share.numerator, share.numerator], np.float64)
    return (1.0 - t) * begin + t * end


# Length of the lists that gradients use for measures with small cutoffs. With 63 runs, 25, 50, 100 and 200
# were equally good on held-out topics; short lists are faster (experiments/fusion/README.md).
_LISTED = 50
# Factor on `directions` for the final climb from the best weights.
_LAST = 8
# Number of random weights, and of the best among them from which climbs start. With few runs, the measure is
# often flat around the end point of the gradient.
_DRAWN, _CLIMBED = 1000, 8


@dataclass(eq=False, repr=False)
class ExactLineSearch(Tuner):
    """Maximise a measure by repeated exact line searches over run weights.

    Weights are at least 0; only their proportions matter. The line of coordinate k leads from the weights of
    the other runs, in their proportions, to run k alone: the weight of run k goes from 0 to infinity. If no
    coordinate improves the measure, random lines through the point are searched up to the boundary of the
    simplex. With two runs, the first line contains all weights, and its best step is the global optimum
    (see `bound_`).

    A line search considers every point at which two documents swap, as Och (ACL 2003) does for BLEU. Ties are
    ordered as in trec_eval.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        AP, nDCG, P@k, RR, R@k, Bpref or Success@k.
    starts : sequence of mappings, optional
        Initial weights by run; equal weights by default.
    restarts : int
        Number of further starts, drawn uniformly from the simplex.
    directions : int
        A climb ends after this many consecutive random lines without improvement. The final climb, from the
        best weights, uses eight times as many.
    seed : int
        Seed of restarts and directions.
    depth : int
        Run depth.

    Attributes
    ----------
    bound_ : float
        With one or two runs, no weights >= 0 have a higher mean. Infinite otherwise.
    n_lines_ : int
        Number of lines searched.
    """

    bound_: float = field(init=False)
    n_lines_: int = field(init=False)

    measure: MeasureLike = "AP"
    _: KW_ONLY
    starts: Sequence[Setting] | None = None
    restarts: int = 0
    directions: int = 8
    seed: int = 0
    depth: int = DEPTH

    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Search on topics of a pool of runs (by default all judged topics).

        Raises
        ------
        InputError
            For unknown topics, or a measure without an exact line search.
        """
        measure = parse_measure(self.measure)
        pool, depth = prune_for_measure(pool, measure, self.depth)
        report = self._report(progress)
        record = SearchRecord(pool, measure, space=None, topics=topics, depth=depth)
        rng = np.random.default_rng(self.seed)
        line = Line(pool, measure, record.positions, depth)
        runs = len(record.space.names)
        starts = [record.space.start] if self.starts is None else [*map(record.space.vector, self.starts)]
        starts += [rng.dirichlet(np.ones(runs)) for _ in range(self.restarts)]
        self.bound_, self.n_lines_ = np.inf, 0
        for number, start in enumerate(starts[: None if runs > 2 else 1]):
            here = start / start.sum() if start.any() else record.space.start
            self._climb(line, record, here, rng, self.directions)
            report(number + 1, len(starts))
        if runs > 2:
            self._climb(line, record, np.array(record.settings[record.best]), rng, _LAST * self.directions)
        record.close(self)
        return self

    def _climb(
        self, line: Line, record: SearchRecord, here: Doubles, rng: np.random.Generator, directions: int
    ) -> None:
        [value] = record.evaluate(here[None])
        if here.size == 1:
            self.bound_ = value
            return
        failed, tried = 0, 0
        while failed < here.size + (directions if here.size > 2 else 0):
            ends = coordinate_line(here, tried % here.size) if failed < here.size else _chord(here, rng)
            tried += 1
            best = self._best(line, record, *ends)
            if here.size == 2:
                return
            if best is not None and best[1] > value + EQUAL:
                (here, value), failed = best, 0
            else:
                failed += 1

    def _best(
        self, line: Line, record: SearchRecord, begin: Doubles, end: Doubles
    ) -> tuple[Doubles, float] | None:
        """Return the best weights of a line and their value.

        Candidates are evaluated: a step can be too short to contain a representable number.
        """
        self.n_lines_ += 1
        steps, highest = best_steps(line.steps(begin, end))
        if begin.size == 2:
            self.bound_ = highest
        best: tuple[Doubles, float] | None = None
        for step in steps:
            if best is not None and best[1] > step.value - EQUAL:
                break
            weights = weights_at(begin, end, step.at)
            [value] = record.evaluate(weights[None])
            if best is None or value > best[1]:
                best = weights, value
        return best


def coordinate_line(here: Doubles, run: int) -> tuple[Doubles, Doubles]:
    """Return the ends of the line on which the weight of one run goes from 0 to infinity."""
    begin, end = here.copy(), np.eye(here.size)[run]
    begin[run] = 0.0
    if not begin.any():
        begin = (1.0 - end) / (here.size - 1)
    return begin / begin.sum(), end


def _chord(here: Doubles, rng: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Return the ends, on the boundary of the simplex, of a line through a point in a random direction."""
    forward = rng.standard_normal(here.size)
    forward -= forward.mean()
    forward[(here <= 0.0) & (forward < 0.0)] = 0.0
    forward -= here * forward.sum()  # weights still add up to 1
    ends = []
    for direction in (-forward, forward):
        falling = direction < 0.0
        far = float(np.min(here[falling] / -direction[falling], initial=np.inf))
        end = np.maximum(here + (far if np.isfinite(far) else 0.0) * direction, 0.0)
        ends.append(end / end.sum())
    return ends[0], ends[1]


@dataclass(frozen=True)
class Fitting:
    """The task of fitting weights.

    Attributes
    ----------
    pool : CandidatePool
        A pool of runs.
    measure : Measure
        The measure to maximise.
    topics : sequence of str
        Training topics.
    restarts, seed, depth
        As for `ExactLineSearch`.
    progress : callable
        Called with the amount of work done and its total.
    """

    pool: CandidatePool
    measure: Measure
    topics: Sequence[str]
    restarts: int = 0
    seed: int = 0
    depth: int = DEPTH
    progress: Count = no_count


WeightFit = Callable[[Fitting], tuple[Tuner, int]]
"""Fits weights; returns the fitted tuner and the number of evaluations."""


def fit_linear(task: Fitting) -> tuple[Tuner, int]:
    """Fit weights by the best of several climbs from the points of `climb_starts`."""
    starts, evaluations = climb_starts(task)
    how: Any = {"restarts": task.restarts, "seed": task.seed, "depth": task.depth}
    tuner = ExactLineSearch(str(task.measure), starts=starts, **how)
    tuner.fit(task.pool, topics=task.topics, progress=task.progress)
    return tuner, evaluations + tuner.n_evaluations_


def fit_shrunk(task: Fitting) -> tuple[Tuner, int]:
    """Fit weights by the gradient of a smooth approximation, with a penalty towards equal weights.

    `RidgeTuner` selects the penalty's strength by cross-validation on the training topics; equal weights are
    one of its options. All its strengths but the weakest are tried, without warm starts. Weights are equal if
    there are fewer than five topics or there is no gradient.
    """
    tuner = RidgeTuner(_smooth(task), ridges=RIDGES[:-1], within=1.0, warm=False)
    try:
        tuner.fit(task.pool, topics=task.topics, progress=task.progress)
    except InputError:
        tuner.best_params_, tuner.n_evaluations_ = task.pool.formula.simpler[0][1], 0
    return tuner, tuner.n_evaluations_


def _smooth(task: Fitting) -> SurrogateTuner:
    """Return a tuner of the smooth approximation; for measures with small cutoffs, it uses short lists."""
    listed = _LISTED if 2 * (task.measure.cutoff or _LISTED) <= _LISTED else None
    form = str(smooth_form(task.measure))
    return SurrogateTuner(form, seed=task.seed, depth=task.depth, list_depth=listed)


@dataclass(eq=False, repr=False)
class ForwardSelection(Tuner):
    """Greedy forward selection: add the run that improves the measure most, until none improves it.

    A run can be added several times; its weight is the number of times (Caruana et al., ICML 2004).

    Parameters
    ----------
    measure : str, or an object of ir_measures
        The measure to maximise.
    most : int
        Maximum number of additions.
    depth : int
        Run depth.
    """

    measure: MeasureLike = "AP"
    _: KW_ONLY
    most: int = 100
    depth: int = DEPTH

    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Select runs on topics of a pool (by default all judged topics)."""
        report = self._report(progress)
        record = SearchRecord(pool, parse_measure(self.measure), space=None, topics=topics, depth=self.depth)
        runs = len(record.space.names)
        counts, best = np.zeros(runs), -np.inf
        for step in range(1, self.most + 1):
            tried = (counts + np.eye(runs)) / step
            means = record.evaluate(tried, step=step)
            if max(means) <= best + EQUAL:
                break
            added = int(np.argmax(means))
            counts[added], best = counts[added] + 1.0, means[added]
            report(step, self.most)
        record.close(self)
        return self


def fit_forward(task: Fitting) -> tuple[Tuner, int]:
    """Fit weights by `ForwardSelection`."""
    tuner = ForwardSelection(str(task.measure), depth=task.depth)
    tuner.fit(task.pool, topics=task.topics, progress=task.progress)
    return tuner, tuner.n_evaluations_


def climb_starts(task: Fitting) -> tuple[list[Setting], int]:
    """Return the initial weights of climbs, and the number of evaluations that finding them took.

    These are equal weights; with three runs or more also the optimum of the smooth approximation, each run
    alone, and the best of random weights.
    """
    pool, measure = task.pool, task.measure
    names = [parameter.name for parameter in pool.formula.parameters]
    starts: list[Setting] = [dict.fromkeys(names, 1.0)]
    evaluations = 0
    if len(names) < 3:
        return starts, evaluations
    tuner = SurrogateTuner(str(smooth_form(measure)), depth=task.depth, seed=task.seed)
    # Without a relevant or a non-relevant document there is no gradient.
    with suppress(InputError):
        tuner.fit(pool, topics=task.topics)
        starts.append(tuner.best_params_)
        evaluations += tuner.n_evaluations_
    starts += [{name: float(name == single) for name in names} for single in names]
    drawn = np.random.default_rng(task.seed).dirichlet(np.ones(len(names)), _DRAWN)
    positions = pool.positions(task.topics)
    measured = measure_settings(pool, drawn, [measure], topics=positions, depth=task.depth)
    best = drawn[np.argsort(-pool.mean(measured[:, :, 0], positions), kind="stable")[:_CLIMBED]]
    starts += [dict(zip(names, weights, strict=True)) for weights in best.tolist()]
    return starts, evaluations + _DRAWN
