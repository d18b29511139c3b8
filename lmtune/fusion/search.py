"""Weights by exact line searches: along each run's weight, then along random directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.fusion.lines import EQUAL, Line, best_steps, between
from lmtune.fusion.runs import pruned_for
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, MeasureLike, parse_measure
from lmtune.models.parameter import Setting
from lmtune.progress import Count, counted, unseen
from lmtune.tuning.objectives import smooth_form
from lmtune.tuning.ridge import RIDGES, RidgeTuner
from lmtune.tuning.surrogate import SurrogateTuner
from lmtune.tuning.tuner import Progress, SearchRecord, Tuner

# Documents of each setting that make up the lists of measures with small cutoffs: of 25, 50, 100 and 200 for
# 63 runs each was as good on topics held out, in time that falls with them (FINDINGS.md).
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
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: Progress | None = None
    ) -> Self:
        """Search on topics of a pool of runs (all judged ones by default).

        Raises
        ------
        InputError
            For unknown topics, or a measure without an exact line search.
        """
        measure = parse_measure(self.measure)
        pool, depth = pruned_for(pool, measure, self.depth)
        report = counted(progress, type(self).__name__)
        record = SearchRecord(pool, measure, space=None, topics=topics, depth=depth)
        rng = np.random.default_rng(self.seed)
        line = Line(pool, measure, record.places, depth)
        runs = len(record.space.names)
        starts = [record.space.start] if self.starts is None else [*map(record.space.vector, self.starts)]
        starts += [rng.dirichlet(np.ones(runs)) for _ in range(self.restarts)]
        self.bound_, self.n_lines_ = np.inf, 0
        for number, start in enumerate(starts[: None if runs > 2 else 1]):
            here = start / start.sum() if start.any() else record.space.start
            self._climb(line, record, here, rng, self.directions)
            if report is not None:
                report(number + 1, len(starts))
        if runs > 2:
            self._climb(line, record, np.array(record.settings[record.best]), rng, _LAST * self.directions)
        record.close(self)
        return self

    def _climb(
        self, line: Line, record: SearchRecord, here: Doubles, rng: np.random.Generator, directions: int
    ) -> None:
        [value] = record.measure(here[None])
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
            [value] = record.measure(weights[None])
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
    progress: Count = unseen


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
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: Progress | None = None
    ) -> Self:
        """Select on topics of a pool of runs (all judged ones by default)."""
        report = counted(progress, type(self).__name__)
        record = SearchRecord(pool, parse_measure(self.measure), space=None, topics=topics, depth=self.depth)
        runs = len(record.space.names)
        counts, best = np.zeros(runs), -np.inf
        for step in range(1, self.most + 1):
            tried = (counts + np.eye(runs)) / step
            means = record.measure(tried, step=step)
            if max(means) <= best + EQUAL:
                break
            added = int(np.argmax(means))
            counts[added], best = counts[added] + 1.0, means[added]
            if report is not None:
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
