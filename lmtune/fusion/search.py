"""A measure's mean along a line of weights, exactly, and weights found by searches along lines."""

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
from lmtune.fusion.runs import in_band, pruned_for
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

# Pairs of documents looked at together: their crossings fit in memory.
_PAIRS = 1 << 23
_SECONDS = 2e-8  # a pair, or a document's column
# Up to this cutoff, with more documents than that, those that never come so high are worth a look.
_SHALLOW, _FEW = 200, 100
# Means that differ by less are equal but for rounding.
EQUAL = 1e-12
_LARGEST_WEIGHT = 1 << 26


class Steps(NamedTuple):
    """A piecewise constant function of t from 0 to 1.

    Attributes
    ----------
    at : numpy.ndarray of float64, shape (steps,)
        Where each step begins. Where the next begins at the same t, it is that point alone.
    value : numpy.ndarray of float64, shape (steps,) or (steps, columns)
        The value from there on.
    end : float
        Where the last step ends.
    """

    at: Doubles
    value: Doubles
    end: float

    @property
    def width(self) -> Doubles:
        """How long each step is; 0 for a point."""
        return np.diff(self.at, append=self.end)


class TopicLine(NamedTuple):
    """A topic's relevant documents, what they add up to, all columns, shape (runs, documents), and units."""

    standing: kernels.Standing
    goal: MeasureScale
    tf: Integers32
    units: Doubles


def check_measure(measure: Measure) -> None:
    """Refuse a measure that is no sum over ranks of relevant documents."""
    if measure.is_slow:
        accepted = "AP, nDCG@k, P@k, RR, R@k, Bpref, Success@k"
        raise InputError("no exact line search for the measure", value=str(measure), accepted=accepted)


class Line:
    """A measure's mean over topics along lines of weights.

    Parameters
    ----------
    pool : CandidatePool
        Of a `lmtune.fusion.runs.WeightedSum`.
    measure : Measure
        AP, nDCG, P@k, RR, R@k, Bpref or Success@k.
    topics : numpy.ndarray of int64
        Places in the pool.
    depth : int
        Run depth.

    Attributes
    ----------
    shares : numpy.ndarray of float64, shape (topics,)
        What each topic counts in the mean; they add up to 1.

    Raises
    ------
    InputError
        For another measure.
    """

    def __init__(self, pool: CandidatePool, measure: Measure, topics: Integers, depth: int = DEPTH) -> None:
        check_measure(measure)
        pool.require(np.zeros((1, len(pool.formula.parameters))), depth)
        self.topics = topics.size
        self.shares = pool.weights(topics) / pool.weights(topics).sum()
        assert measure.declared.kernel is not None
        kind = int(measure.declared.kernel)
        relevant_of, others_of = pool.judged_counts(measure.rel)
        divisor = divisors(pool, measure)
        self._cutoff = min(measure.cutoff or depth, depth)
        self.parts: list[TopicLine] = []
        self.places: list[int] = []
        for row, t in enumerate(topics.tolist()):
            gain = pool.candidates.gain[pool.candidates.rows(t)]
            relevant = gain >= measure.rel
            if not relevant.any():
                continue
            position = np.flatnonzero(relevant)
            place = np.full(gain.size, -1)
            place[position] = np.arange(position.size)
            counts = relevant if kind == Code.AP else (gain >= 0) & ~relevant & (kind == Code.BPREF)
            zeros = np.zeros(position.size, np.int64)
            worth = worths(measure, gain[position])
            standing = kernels.Standing(position, worth, place, counts, zeros, zeros.copy())
            sizes = int(relevant_of[t]), int(others_of[t])
            goal = MeasureScale(kind, self._cutoff, *sizes, float(divisor[t]))
            units = pool.value[pool.term_rows(t)]
            self.parts.append(TopicLine(standing, goal, pool.tf_block(pool.candidates, t), units))
            self.places.append(row)

    def steps(self, begin: Doubles, end: Doubles, shares: Doubles | None = None) -> Iterator[Steps]:
        """Yield the measure's steps from weights `begin` to weights `end`, piece by piece.

        Parameters
        ----------
        begin, end : numpy.ndarray of float64, shape (runs,)
            Weights; t is from 0 at the one to 1 at the other.
        shares : numpy.ndarray of float64, shape (topics,) or (topics, columns), optional
            What each topic counts; by default `shares`.
        """
        if shares is None:
            shares = self.shares
        own = shares[self.places]
        ends = np.stack((begin, end))
        value = np.zeros(own.shape[1:])

        def prepare(i: int) -> tuple[Doubles, kernels.Standing]:
            scores, standing = _scores(self.parts[i], ends, self._cutoff)
            kernels.stand(scores[0], standing)
            return scores, standing

        seconds = _SECONDS * sum(part.tf.size for part in self.parts)
        lines = map_range(prepare, len(self.parts), seconds=seconds)
        for share, (_, standing), part in zip(own, lines, self.parts, strict=True):
            value = value + share * kernels.value(standing, part.goal)
        pairs = sum(standing.position.size * ab.shape[1] for ab, standing in lines)
        pieces = 1 + pairs // _PAIRS
        edges = np.linspace(0.0, 1.0, pieces + 1)
        for low, high in zip(edges[:-1].tolist(), [*edges[1:-1].tolist(), np.inf], strict=True):
            keys, changes = self._crossings(lines, low, high, own)
            total = np.concatenate((value[None], value + np.cumsum(changes, axis=0)))
            last = np.append(keys[1:] != keys[:-1], True)[: keys.size]
            at = np.concatenate(([low], (keys[last] >> 1).view(np.float64)))
            yield Steps(at, total[np.concatenate(([0], np.flatnonzero(last) + 1))], min(high, 1.0))
            value = total[-1]

    def _crossings(
        self, lines: list[tuple[Doubles, kernels.Standing]], low: float, high: float, shares: Doubles
    ) -> tuple[Integers, Doubles]:
        """Return where the mean changes, as sorted keys of t and half, and by how much."""

        def work(i: int) -> tuple[Integers, Doubles]:
            (a, b), standing = lines[i]
            room = a.size * standing.position.size
            at, crossings = np.empty(room), np.empty(room, np.int64)
            size = kernels.find_crossings(a, b, standing, low, high, at, crossings)
            # Numbers from 0 on sort as their bits do.
            keys = (at[:size].view(np.int64) << 1) | (crossings[:size] & 1)
            order = np.argsort(keys)
            keys, changes = keys[order], at
            size = kernels.follow(keys, order, crossings, standing, self.parts[i].goal, changes)
            return keys[:size].copy(), changes[:size].copy()

        pairs = sum(standing.position.size * ab.shape[1] for ab, standing in lines)
        found = map_range(work, len(lines), seconds=_SECONDS * pairs)
        keys = np.concatenate([np.empty(0, np.int64), *(own for own, _ in found)])
        order = np.argsort(keys)
        changes = [np.multiply.outer(own, share) for (_, own), share in zip(found, shares, strict=True)]
        return keys[order], np.concatenate([np.empty((0, *shares.shape[1:])), *changes])[order]


def _scores(part: TopicLine, ends: Doubles, cutoff: int) -> tuple[Doubles, kernels.Standing]:
    """Return documents' scores at both ends, and their standing, without those that never count."""
    scores = np.empty((2, part.tf.shape[1]))
    kernels.weighted_sums(ends * part.units, part.tf, scores)
    standing = part.standing
    if cutoff >= _SHALLOW or scores.shape[1] <= max(cutoff, _FEW):
        return scores, standing._replace(above=standing.above.copy(), special=standing.special.copy())
    keep = in_band(scores, cutoff)
    # Bpref counts judged nonrelevant documents wherever they stand above a relevant one.
    mine = keep[standing.position]
    position = np.cumsum(keep)[standing.position[mine]] - 1
    place = np.full(int(keep.sum()), -1)
    place[position] = np.arange(position.size)
    empty = np.zeros(position.size, np.int64)
    return np.ascontiguousarray(scores[:, keep]), kernels.Standing(
        position, standing.gain[mine], place, standing.counts[keep], empty, empty.copy()
    )


def joined(pieces: Iterator[Steps]) -> Steps:
    """Put a line's pieces together."""
    every = list(pieces)
    at, value = np.concatenate([own.at for own in every]), np.concatenate([own.value for own in every])
    return Steps(at, value, every[-1].end)


class Best(NamedTuple):
    """A promising step: its value, and where it is."""

    value: float
    width: float
    at: float


def best_steps(pieces: Iterator[Steps], number: int = 8) -> tuple[list[Best], float]:
    """Return the best steps, of equal ones the longest first, and the highest value of all.

    A step is named by its middle, a point by itself.
    """
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


def between(begin: Doubles, end: Doubles, t: float) -> Doubles:
    """Return the weights at a place of a line: whole numbers where two runs' scores may be equal there."""
    if begin.size == 2 and not (begin[1] or end[0]):
        share = Fraction(t).limit_denominator(_LARGEST_WEIGHT)
        if float(share) == t:
            return np.array([share.denominator - share.numerator, share.numerator], np.float64)
    return (1.0 - t) * begin + t * end


# Documents of each setting that make up the lists of measures with small cutoffs: of 25, 50, 100 and 200 for
# 63 runs each was as good on topics held out, in time that falls with them (experiments/fusion/README.md).
_LISTED = 50
# How much longer the best climb goes on.
_LAST = 8
# Random weights, and how many of them are climbed from: few runs' means are flat where gradients end.
_DRAWN, _CLIMBED = 1000, 8


@dataclass(eq=False, repr=False)
class ExactLineSearch(Tuner):
    """Climb a measure along lines of weights, each time to the best step of the whole line.

    Weights are 0 or more, and only their proportions count. A line of coordinate k leads from the
    weights of the other runs, in their proportions, to run k alone: all its weights from 0 to
    infinity. Where no coordinate improves, random lines through the point are tried, up to both ends
    of the simplex. With two runs the first line holds all weights, and its best step is the optimum:
    `bound_` says so. Along a line every place where two documents change their order is looked at
    (Och, ACL 2003, does so for BLEU); where they are equal, the order is trec_eval's.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        AP, nDCG, P@k, RR, R@k, Bpref or Success@k.
    starts : sequence of mappings, optional
        Weights by run; equal ones by default.
    restarts : int
        Further starts, drawn evenly from the simplex.
    directions : int
        Random lines, one after the other, that must all fail before a climb ends; of the best climb,
        which goes on at last, eight times as many.
    seed : int
        For restarts and directions.
    depth : int
        Run depth.

    Attributes
    ----------
    bound_ : float
        With one or two runs: no weights from 0 on have a higher mean. Infinite otherwise.
    n_lines_ : int
        Lines searched.
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
        """Search on topics of a pool of runs (all judged ones by default).

        Raises
        ------
        InputError
            For unknown topics, or a measure without an exact line search.
        """
        measure = parse_measure(self.measure)
        pool, depth = pruned_for(pool, measure, self.depth)
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
            found = self._best(line, record, *ends)
            if here.size == 2:
                return
            if found is not None and found[1] > value + EQUAL:
                (here, value), failed = found, 0
            else:
                failed += 1

    def _best(
        self, line: Line, record: SearchRecord, begin: Doubles, end: Doubles
    ) -> tuple[Doubles, float] | None:
        """Return the best weights of a line, as they measure: a step may be too short for a number."""
        self.n_lines_ += 1
        steps, highest = best_steps(line.steps(begin, end))
        if begin.size == 2:
            self.bound_ = highest
        best: tuple[Doubles, float] | None = None
        for step in steps:
            if best is not None and best[1] > step.value - EQUAL:
                break
            weights = between(begin, end, step.at)
            [value] = record.evaluate(weights[None])
            if best is None or value > best[1]:
                best = weights, value
        return best


def coordinate_line(here: Doubles, run: int) -> tuple[Doubles, Doubles]:
    """Return the ends of the line on which one run's weight goes from 0 to infinity."""
    begin, end = here.copy(), np.eye(here.size)[run]
    begin[run] = 0.0
    if not begin.any():
        begin = (1.0 - end) / (here.size - 1)
    return begin / begin.sum(), end


def _chord(here: Doubles, rng: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Return the ends, on the simplex, of a line in a random direction."""
    way = rng.standard_normal(here.size)
    way -= way.mean()
    way[(here <= 0.0) & (way < 0.0)] = 0.0
    way -= here * way.sum()  # keeps the sum
    ends = []
    for direction in (-way, way):
        falling = direction < 0.0
        far = float(np.min(here[falling] / -direction[falling], initial=np.inf))
        end = np.maximum(here + (far if np.isfinite(far) else 0.0) * direction, 0.0)
        ends.append(end / end.sum())
    return ends[0], ends[1]


@dataclass(frozen=True)
class Fitting:
    """What weights are chosen for.

    Attributes
    ----------
    pool : CandidatePool
        Of runs.
    measure : Measure
        What to maximise.
    topics : sequence of str
        To fit on.
    restarts, seed, depth
        As of `ExactLineSearch`.
    progress : callable
        Called with how much is done, and of how much.
    """

    pool: CandidatePool
    measure: Measure
    topics: Sequence[str]
    restarts: int = 0
    seed: int = 0
    depth: int = DEPTH
    progress: Count = no_count


WeightFit = Callable[[Fitting], tuple[Tuner, int]]
"""Chooses weights, and says how many evaluations that took."""


def fit_linear(task: Fitting) -> tuple[Tuner, int]:
    """Choose weights by the best of several climbs, which begin where `climb_starts` says."""
    starts, evaluations = climb_starts(task)
    how: Any = {"restarts": task.restarts, "seed": task.seed, "depth": task.depth}
    found = ExactLineSearch(str(task.measure), starts=starts, **how)
    found.fit(task.pool, topics=task.topics, progress=task.progress)
    return found, evaluations + found.n_evaluations_


def fit_shrunk(task: Fitting) -> tuple[Tuner, int]:
    """Choose weights by the gradient of the measure's smooth form, as far from equal as pays.

    Folds of the topics choose the strength of a ridge that pulls weights to equal ones, up to these
    themselves: see `RidgeTuner`, of whose ridges all but the weakest are tried, each from afar. Weights
    are equal too where there are fewer than five topics, or nothing to follow a gradient by.
    """
    tuner = RidgeTuner(_smooth(task), ridges=RIDGES[:-1], within=1.0, warm=False)
    try:
        tuner.fit(task.pool, topics=task.topics, progress=task.progress)
    except InputError:
        tuner.best_params_, tuner.n_evaluations_ = task.pool.formula.simpler[0][1], 0
    return tuner, tuner.n_evaluations_


def _smooth(task: Fitting) -> SurrogateTuner:
    """Return what follows the gradient of a measure's smooth form, over short lists where that is enough."""
    listed = _LISTED if 2 * (task.measure.cutoff or _LISTED) <= _LISTED else None
    form = str(smooth_form(task.measure))
    return SurrogateTuner(form, seed=task.seed, depth=task.depth, list_depth=listed)


@dataclass(eq=False, repr=False)
class ForwardSelection(Tuner):
    """Add runs one after the other, each time the one that helps most, as long as one helps.

    A run may be added again: its weight is how often it was (Caruana et al., ICML 2004).

    Parameters
    ----------
    measure : str, or an object of ir_measures
        What to maximise.
    most : int
        Additions at most.
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
        """Select on topics of a pool of runs (all judged ones by default)."""
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
    """Choose weights by `ForwardSelection`."""
    found = ForwardSelection(str(task.measure), depth=task.depth)
    found.fit(task.pool, topics=task.topics, progress=task.progress)
    return found, found.n_evaluations_


def climb_starts(task: Fitting) -> tuple[list[Setting], int]:
    """Return where climbs begin, and how many evaluations it took to find that.

    Equal weights; of three runs or more also where the gradient of the measure's smooth form ends, each run
    by itself, and the best of random weights.
    """
    pool, measure = task.pool, task.measure
    names = [parameter.name for parameter in pool.formula.parameters]
    starts: list[Setting] = [dict.fromkeys(names, 1.0)]
    evaluations = 0
    if len(names) < 3:
        return starts, evaluations
    tuner = SurrogateTuner(str(smooth_form(measure)), depth=task.depth, seed=task.seed)
    # Without a relevant or a nonrelevant document there is no gradient to follow.
    with suppress(InputError):
        tuner.fit(pool, topics=task.topics)
        starts.append(tuner.best_params_)
        evaluations += tuner.n_evaluations_
    starts += [{name: float(name == own) for name in names} for own in names]
    drawn = np.random.default_rng(task.seed).dirichlet(np.ones(len(names)), _DRAWN)
    places = pool.positions(task.topics)
    measured = measure_settings(pool, drawn, [measure], topics=places, depth=task.depth)
    best = drawn[np.argsort(-pool.mean(measured[:, :, 0], places), kind="stable")[:_CLIMBED]]
    starts += [dict(zip(names, own, strict=True)) for own in best.tolist()]
    return starts, evaluations + _DRAWN
