"""Minimisers of a smooth cost, the base class of the gradient-based tuners, and RankNet's tuner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice, check_least
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.models.formula import Ridge
from lmtune.tuning.pairs import STAND_INS, Pairs
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.tuner import FitProgress, SearchRecord, Tuner, choose

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


_Objective = Callable[[Doubles], tuple[float, Doubles]]
_Box = tuple[tuple[float, float], ...]

_FIRST_STEP, _LONGEST_STEP = 0.5, 4.0
_MOST_ROUNDS, _MOST_STEPS = 200, 40
# A cost of order 1 cannot tell points apart whose gradients are smaller.
_FLAT = 1e-8
_ENOUGH = 0.5
_CLOSE = 0.05
# Secants keep this share of the bracket away from its ends, and go so much further outside it.
_MARGIN, _GROWTH = 0.05, 2.0


class Iterate(NamedTuple):
    """An iterate: where, the cost there, and its gradient."""

    x: Doubles
    cost: float
    gradient: Doubles


class Descent(NamedTuple):
    """A minimisation: its iterates from the start on, and whether it reached a minimum."""

    points: list[Iterate]
    converged: bool


class _Line(NamedTuple):
    """The way gone along a line, shape (coordinates,), and how the gradient turned on it."""

    way: Doubles
    turn: Doubles


def coordinate_descent(
    objective: _Objective, x: Doubles, box: _Box, known: Sequence[Iterate] = (), *, flat: float = _FLAT
) -> Descent:
    """Minimise along one coordinate after another, each taking the ones before it along.

    A coordinate's line is made conjugate to the last lines of the coordinates before it, by the
    turn of the gradient seen on them: those coordinates follow so as to keep their derivatives, and
    rounds do not creep along a valley in which one coordinate makes up for another. These are the
    conjugate directions that elimination makes of the axes (Hestenes and Stiefel, Journal of
    Research of the National Bureau of Standards 49, 1952): the columns of the inverse of L' where
    the Hessian is L D L', so that the second round ends at the bottom of a quadratic bowl.

    Along a line the derivative's sign change is looked for downhill by secants, kept inside the
    bracket once there is one; the first guess is the step to which the line's last curvature points.
    A line is left when its derivative has halved: its exact minimum is soon left again.

    Parameters
    ----------
    objective : callable
        Returns the cost and its gradient.
    x : numpy.ndarray of float64
        The start, inside the box.
    box : tuple of (low, high)
        Bounds, a pair a coordinate; a coordinate with equal bounds stays.
    known : sequence of Iterate
        Minima found before: a descent that comes close to one ends there.
    flat : float
        No component of the gradient is larger at a minimum, but for those that point out of the box.

    Returns
    -------
    Descent
        The start, then every move, costs descending.
    """
    points = [Iterate(x, *objective(x))]
    lines: dict[int, _Line] = {}
    curvatures = np.zeros(x.size)
    for _ in range(_MOST_ROUNDS):
        begin = points[-1]
        if _is_minimum(begin, box, flat) or any(np.abs(begin.x - p.x).max() < _CLOSE for p in known):
            return Descent(points, converged=True)
        held = _held(begin, box, flat)
        lines = {axis: line for axis, line in lines.items() if not line.way[held].any()}
        for axis in np.flatnonzero(~held).tolist():
            direction = np.eye(x.size)[axis]
            for way, turn in (lines[before] for before in range(axis) if before in lines):
                direction -= (turn @ direction) / (turn @ way) * way
            step = _FIRST_STEP
            if curvatures[axis] > 0.0:
                step = min(abs(points[-1].gradient @ direction) / curvatures[axis], _LONGEST_STEP)
            line = _move(objective, points, direction, step, box)
            if line.turn @ line.way > 0.0 and line.way[axis]:
                lines[axis] = line
                curvatures[axis] = line.turn @ line.way / line.way[axis] ** 2
        if points[-1].cost >= begin.cost:
            # Lines that lead nowhere are forgotten, for the bare axes may still lead down.
            if not lines:
                break
            lines.clear()
    return Descent(points, converged=_is_minimum(points[-1], box, flat))


def l_bfgs(
    objective: _Objective,
    x: Doubles,
    box: _Box,
    known: Sequence[Iterate] = (),  # noqa: ARG001 - it is quick enough without
    *,
    flat: float = _FLAT,
) -> Descent:
    """Minimise all coordinates jointly by L-BFGS-B; parameters and result as above."""
    from scipy.optimize import minimize

    points = [Iterate(x, *objective(x))]

    def record(intermediate_result: object) -> None:
        found = np.array(intermediate_result.x)  # type: ignore[attr-defined]
        points.append(Iterate(found, *objective(found)))

    # On a few numbers, BLAS's threads wait for each other far longer than they work.
    with _pools().limit(limits=1, user_api="blas"):
        minimize(
            objective,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            callback=record,
            options={"ftol": 1e-15, "gtol": flat / 10},
        )
    return Descent(points, converged=_is_minimum(points[-1], box, flat))


@cache
def _pools() -> ThreadpoolController:
    """Look for BLAS's threads once, which takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _is_minimum(point: Iterate, box: _Box, flat: float = _FLAT) -> bool:
    """Say whether the gradient vanishes but for components that point out of the box."""
    return bool((_held(point, box, flat) | (np.abs(point.gradient) <= flat)).all())


def _held(point: Iterate, box: _Box, flat: float) -> Booleans:
    """Mark the coordinates at a bound that no descent leads away from it."""
    low, high = np.array(box).T
    held: Booleans = (point.x <= low) & (point.gradient >= -flat)
    held |= (point.x >= high) & (point.gradient <= flat)
    return held


def _move(objective: _Objective, points: list[Iterate], direction: Doubles, step: float, box: _Box) -> _Line:
    """Append the lowest point found along a line, if it is lower than the last one.

    Returns the line to the last point tried.
    """
    here = points[-1]
    first = float(here.gradient @ direction)
    direction = direction if first < 0.0 else -direction
    bound = _way_out(here.x, direction, box)
    edges = np.array(box).T
    seen = [here]
    low, low_slope = 0.0, -abs(first)
    high = np.inf
    at = min(step, bound) if first else 0.0
    for _ in range(_MOST_STEPS):
        if not low < at < high or low_slope * (low - at) <= np.spacing(abs(here.cost)):
            break
        x = np.clip(here.x + at * direction, *edges)
        seen.append(Iterate(x, *objective(x)))
        slope = float(seen[-1].gradient @ direction)
        if abs(slope) <= _ENOUGH * abs(first):
            break
        if slope >= 0.0:
            high, other, other_slope = at, at, slope
        else:
            if high == np.inf:
                other, other_slope = low, low_slope
            low, low_slope = at, slope
        width = abs(other - low)
        rise = (other_slope - low_slope) / (other - low)
        secant = low - low_slope / rise if rise > 0.0 else np.inf
        most = low + _GROWTH * width if high == np.inf else high - _MARGIN * width
        at = min(max(secant, low + _MARGIN * width), most, bound)
    lowest = min(seen, key=lambda point: point.cost)
    if lowest.cost < here.cost:
        points.append(lowest)
    return _Line(seen[-1].x - here.x, seen[-1].gradient - here.gradient)


def _way_out(x: Doubles, direction: Doubles, box: _Box) -> float:
    """Return how many times `direction` leads from x to the edge of the box."""
    low, high = np.array(box).T
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ways = np.where(direction > 0, (high - x) / direction, (low - x) / direction)
    return float(np.min(ways[direction != 0], initial=np.inf))


OPTIMIZERS = {"coordinate-descent": coordinate_descent, "l-bfgs": l_bfgs}

LOOSE = 1e-3
"""A gradient that is flat enough on the way, or for comparison."""


class Evaluations:
    """Counts and times a cost's evaluations, and answers again where it has been asked before.

    Parameters
    ----------
    cost : callable
        Returns the cost at a point and its gradient.
    begin : float
        When the search began, on `time.monotonic`'s clock.
    """

    def __init__(self, cost: _Objective, begin: float) -> None:
        self._cost, self._begin = cost, begin
        self._known: dict[bytes, tuple[tuple[float, Doubles], float]] = {}

    def __call__(self, x: Doubles) -> tuple[float, Doubles]:
        """Return the cost at a point and its gradient."""
        key = x.tobytes()
        if key not in self._known:
            self._known[key] = self._cost(x), time.monotonic() - self._begin
        return self._known[key][0]

    def __len__(self) -> int:
        """Return how many points it has been evaluated at."""
        return len(self._known)

    def record(
        self, record: SearchRecord, start: int, points: Sequence[Iterate], *, scale: float = 1.0
    ) -> None:
        """Add a descent's iterates to a record, their costs times `scale`."""
        parameters = len(record.space.names)
        settings = np.array([record.space.from_unbounded(point.x[:parameters]) for point in points])
        step = record.starts.count(start)
        record.add(settings, [point.cost * scale for point in points], starts=[start] * len(points))
        record.steps[-len(points) :] = range(step, step + len(points))
        record.seconds[-len(points) :] = [self._known[point.x.tobytes()][1] for point in points]


class GradientTuner(Tuner):
    """A tuner that minimises a smooth cost in unbounded coordinates, from several starts.

    Subclasses have the parameters and attributes named here besides their own.

    Parameters
    ----------
    optimizer : {"coordinate-descent", "l-bfgs"}
        One coordinate at a time by its derivative, as Metzler (SIGIR 2007) does, or all jointly; see
        `lmtune.tuning.gradient`.
    space : ParameterSpace
        The range of each parameter, the model's own by default; a fit that ends on its edge says so
        in `at_edge_`.
    starts : int
        Descents; the first begins at the space's `ParameterSpace.start`, the others at draws from it.
    seed : int
        For the starts.
    ridge : float
        Strength, 0 or more, of the formula's ridge: see `lmtune.models.formula.Formula.ridge`. Powers of
        terms' features are pulled to 0, weights of runs to equal ones.
    measures : sequence of str
        Measured at every iterate, for the trace; they do not influence the fit.
    depth : int
        Run depth of the measures.

    Attributes
    ----------
    flat : float
        Where the gradient of the cost ends a descent.
    converged_ : bool
        Whether the start that won ended where the gradient vanishes, up to the space's edges.

    Notes
    -----
    `best_value_` is the cost at the fitted setting. `results_` has a row an iterate, with ``cost`` and
    then the measures' means on the fitting topics; `stop_on` adds a column. `n_evaluations_` counts
    evaluations of the cost with its gradient; the time of the measures is not in `seconds_`.
    """

    converged_: bool
    flat: float = _FLAT

    optimizer: str
    space: ParameterSpace | None
    starts: int
    seed: int
    ridge: float
    measures: Sequence[str | Measure]
    depth: int = DEPTH

    def _check(self) -> list[Measure]:
        """Check the constructor's arguments, and return the measures."""
        check_choice("unknown optimizer", self.optimizer, OPTIMIZERS)
        check_least("a descent needs a start", self.starts, 1)
        check_least("bad seed", self.seed, 0)
        if not 0.0 <= self.ridge < np.inf:
            raise InputError("bad ridge", value=self.ridge, accepted="0 or more")
        return parse_measures(self.measures)

    def ready(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:
        """Return what `fit` builds of a pool and a space, as its arguments, for several fits."""
        raise NotImplementedError

    @property
    def judge(self) -> Measure:
        """What topics that are held out judge fits by."""
        raise NotImplementedError

    def again(self) -> dict[str, Any]:
        """Return what is another constructor's argument for a fit that begins where one like it ended."""
        return {}

    def _penalty(self, pool: CandidatePool, places: Integers) -> Ridge:
        """Return the formula's ridge in its strength."""
        centre, scale = pool.formula.ridge(pool.counts(places))
        return Ridge(centre, scale * self.ridge**0.5)

    def _close(self, record: SearchRecord, measures: Sequence[Measure]) -> None:
        """Keep what the record knows, and the measures at every iterate."""
        # A start may come to a setting that an earlier one has been to.
        record.seconds = np.maximum.accumulate(record.seconds).tolist()
        record.close(self)
        if measures:
            self.results_[[str(measure) for measure in measures]] = self._means(
                record.pool, measures, record.places
            )

    def stop_on(self, pool: CandidatePool, measure: str | Measure, *, topics: Sequence[str]) -> Self:
        """Take the iterate whose measure is best on validation topics, not the lowest cost.

        Metzler (SIGIR 2007) names this as the likely cure where the cost and the measure disagree.

        Parameters
        ----------
        pool : CandidatePool
            The collection that was fitted.
        measure : str or Measure
            What to maximise.
        topics : sequence of str
            Topics that were not fitted on.

        Returns
        -------
        This tuner, with the parameters of that iterate and a column ``validation MEASURE`` in
        `results_`; measured iterates count in `n_evaluations_`.
        """
        measure = parse_measure(measure)
        column = f"validation {measure}"
        if column not in self.results_:
            self.n_evaluations_ += len(self.results_)
        self.results_[column] = self._means(pool, [measure], pool.positions(topics))
        self._choose(space_for(self.space, pool), int(self.results_[column].argmax()))
        return self

    def _choose(self, space: ParameterSpace, row: int) -> None:
        """Take the iterate of a row of `results_`."""
        best = self.results_.iloc[row]
        self.best_value_ = float(best["cost"])
        choose(self, space, [float(best[name]) for name in space.names])

    def _means(self, pool: CandidatePool, measures: Sequence[Measure], places: Integers) -> Doubles:
        settings = self.results_[space_for(self.space, pool).names].to_numpy()
        values = measure_settings(pool, settings, measures, topics=places, depth=self.depth)
        return pool.mean(values, places)


@dataclass(eq=False, repr=False)
class RankNetTuner(GradientTuner):
    """Fit a formula's parameters to preference pairs (Metzler, SIGIR 2007).

    The cost is minimised in unbounded coordinates from several starts; the lowest end wins.

    Parameters
    ----------
    optimizer, space, starts, seed, ridge, measures, depth
        As of `lmtune.tuning.gradient.GradientTuner`.
    rel : int
        The smallest gain that is relevant.
    stand_ins : int
        Where no document is judged nonrelevant: how many unjudged ones of each topic stand in.

    Attributes
    ----------
    n_pairs_ : int
        Pairs in the cost.
    pairs_rule_ : str
        Where the nonrelevant documents came from.

    Notes
    -----
    Costs are sums over pairs; the lowest end of all starts wins.

    Examples
    --------
    >>> tuner = RankNetTuner(seed=0).fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    n_pairs_: int = field(init=False)
    pairs_rule_: str = field(init=False)

    _: KW_ONLY
    optimizer: str = "coordinate-descent"
    space: ParameterSpace | None = None
    starts: int = 4
    seed: int = 0
    ridge: float = 0.0
    rel: int = 1
    stand_ins: int = STAND_INS
    measures: Sequence[str | Measure] = ()
    depth: int = DEPTH

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        pairs: Pairs | None = None,
        progress: FitProgress = None,
    ) -> Self:
        """Fit on topics of a pool (all judged ones by default).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to fit on.
        pairs : Pairs, optional
            Pairs of this pool, built before with this tuner's `rel` and `stand_ins`.
        progress : callable or bool, optional
            Called with (starts done, starts in all); True draws a bar.

        Raises
        ------
        InputError
            For unknown topics, topics without a pair, pairs built otherwise, or a constructor
            argument outside its domain.
        """
        measures = self._check()
        report = self._report(progress)
        record = SearchRecord(pool, None, space=self.space, topics=topics, repeats=True)
        places, space = record.places, record.space
        pairs = pairs or self.ready(pool, space)["pairs"]
        if (pairs.rel, pairs.stand_ins) != (self.rel, self.stand_ins) or pairs.pool is not pool:
            raise InputError(
                "the pairs were built otherwise",
                value={"rel": pairs.rel, "stand_ins": pairs.stand_ins},
                accepted=f"this pool's, with rel={self.rel} and stand_ins={self.stand_ins}",
            )
        n_pairs = int(pairs.per_topic[places].sum())
        if n_pairs == 0:
            raise InputError(
                "RankNet has no pair to fit on",
                value=[pool.topics[place] for place in places[:3]],
                accepted="a topic with a relevant and a nonrelevant document",
            )

        penalty = self._penalty(pool, places)

        def objective(x: Doubles) -> tuple[float, Doubles]:
            setting = space.from_unbounded(x)
            cost, (pull, pulled) = pairs.cost(setting, topics=places), penalty.at(setting)
            return cost.value / n_pairs + pull, space.chain(cost.gradient / n_pairs + pulled, setting)

        evaluations = Evaluations(objective, record.begin)
        converged = []
        minima: list[Iterate] = []
        for start, x in enumerate(self._starts(space)):
            box = space.unbounded_box
            found = OPTIMIZERS[self.optimizer](evaluations, x, box, minima, flat=self.flat)
            minima += found.points[-1:] if found.converged else []
            evaluations.record(record, start, found.points, scale=n_pairs)
            converged.append(found.converged)
            report(start + 1, self.starts)
        self._close(record, measures)
        self.converged_ = converged[record.starts[record.best]]
        self.n_pairs_ = n_pairs
        self.n_evaluations_ = len(evaluations)
        self.pairs_rule_ = pairs.rule
        return self

    def ready(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:  # noqa: ARG002
        """Return the pairs."""
        return {"pairs": Pairs.build(pool, rel=self.rel, stand_ins=self.stand_ins)}

    @property
    def judge(self) -> Measure:
        """AP, for the pairs know no measure."""
        return Measure("AP", rel=self.rel)

    def _starts(self, space: ParameterSpace) -> list[Doubles]:
        rng = np.random.default_rng(self.seed)
        settings = [space.start, *(space.random(rng) for _ in range(self.starts - 1))]
        return [space.to_unbounded(setting) for setting in settings]
