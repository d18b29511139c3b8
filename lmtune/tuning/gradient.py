"""Minimisers of a smooth cost, the base class of the gradient-based tuners, and RankNet's tuner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers, stack
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice, check_least
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.models.formula import Ridge
from lmtune.tuning.pairs import SAMPLED_NEGATIVES, Pairs
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.tuner import FitProgress, SearchRecord, Tuner, set_best_setting

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


_Objective = Callable[[Doubles], tuple[float, Doubles]]
_Box = tuple[tuple[float, float], ...]

_FIRST_STEP, _LONGEST_STEP = 0.5, 4.0
_MOST_ROUNDS, _MOST_STEPS = 200, 40
# Convergence tolerance. In double precision, a cost of order 1 does not change measurably below this
# gradient.
_TOLERANCE = 1e-8
_ENOUGH = 0.5
_CLOSE = 0.05
# Secant steps stay this share of the bracket away from its ends; without a bracket, steps grow by this
# factor.
_MARGIN, _GROWTH = 0.05, 2.0


class Iterate(NamedTuple):
    """A point of a descent, with the cost and its gradient."""

    x: Doubles
    cost: float
    gradient: Doubles


class Descent(NamedTuple):
    """The iterates of a minimisation, from the initial point on, and whether it converged."""

    points: list[Iterate]
    converged: bool


class _Line(NamedTuple):
    """The step along a line and the gradient's change over it, shape (coordinates,)."""

    step: Doubles
    change: Doubles


def coordinate_descent(
    objective: _Objective,
    x: Doubles,
    box: _Box,
    known: Sequence[Iterate] = (),
    *,
    tolerance: float = _TOLERANCE,
) -> Descent:
    """Minimise by line searches along conjugate directions, one per coordinate.

    Each coordinate's direction is made conjugate to the last lines of the earlier coordinates, from the
    change of the gradient along those lines. The earlier coordinates move along and keep their derivatives,
    so rounds do not creep along narrow valleys. These are the conjugate directions that elimination
    constructs from the axes (Hestenes and Stiefel, Journal of Research of the National Bureau of Standards
    49, 1952). If the Hessian is L D L', they are the columns of the inverse of L', and the second round ends
    at the minimum of a quadratic.

    A line search looks downhill for a sign change of the derivative, by secant steps that stay inside the
    bracket once there is one. The first step follows from the line's last curvature. The line search ends
    when the derivative has halved, because the next line moves away from an exact minimum anyway.

    Parameters
    ----------
    objective : callable
        Returns the cost and its gradient.
    x : numpy.ndarray of float64
        The initial point, inside the box.
    box : tuple of (low, high)
        Bounds, one pair per coordinate; a coordinate with equal bounds is fixed.
    known : sequence of Iterate
        Minima of earlier descents: a descent that comes close to one ends there.
    tolerance : float
        Convergence tolerance: the largest absolute component of the gradient at a minimum. Components that
        point out of the box are ignored.

    Returns
    -------
    Descent
        The initial point, then every move, with falling costs.
    """
    points = [Iterate(x, *objective(x))]
    lines: dict[int, _Line] = {}
    curvatures = np.zeros(x.size)
    for _ in range(_MOST_ROUNDS):
        begin = points[-1]
        if _is_minimum(begin, box, tolerance) or any(np.abs(begin.x - p.x).max() < _CLOSE for p in known):
            return Descent(points, converged=True)
        at_bounds = _at_active_bounds(begin, box, tolerance)
        lines = {axis: line for axis, line in lines.items() if not line.step[at_bounds].any()}
        for axis in np.flatnonzero(~at_bounds).tolist():
            direction = np.eye(x.size)[axis]
            for along, change in (lines[before] for before in range(axis) if before in lines):
                direction -= (change @ direction) / (change @ along) * along
            step = _FIRST_STEP
            if curvatures[axis] > 0.0:
                step = min(abs(points[-1].gradient @ direction) / curvatures[axis], _LONGEST_STEP)
            line = _line_search(objective, points, direction, step, box)
            if line.change @ line.step > 0.0 and line.step[axis]:
                lines[axis] = line
                curvatures[axis] = line.change @ line.step / line.step[axis] ** 2
        if points[-1].cost >= begin.cost:
            # No line improved the cost. Try the axes themselves before giving up.
            if not lines:
                break
            lines.clear()
    return Descent(points, converged=_is_minimum(points[-1], box, tolerance))


def l_bfgs(
    objective: _Objective,
    x: Doubles,
    box: _Box,
    known: Sequence[Iterate] = (),  # noqa: ARG001 - the signature of `coordinate_descent`
    *,
    tolerance: float = _TOLERANCE,
) -> Descent:
    """Minimise all coordinates jointly by L-BFGS-B; see `coordinate_descent` for parameters and result."""
    from scipy.optimize import minimize

    points = [Iterate(x, *objective(x))]

    def record(intermediate_result: object) -> None:
        point = np.array(intermediate_result.x)  # type: ignore[attr-defined]
        points.append(Iterate(point, *objective(point)))

    # With so few numbers, BLAS threads wait for each other far longer than they work.
    with _pools().limit(limits=1, user_api="blas"):
        minimize(
            objective,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            callback=record,
            options={"ftol": 1e-15, "gtol": tolerance / 10},
        )
    return Descent(points, converged=_is_minimum(points[-1], box, tolerance))


@cache
def _pools() -> ThreadpoolController:
    """Return the controller of BLAS's threads, created once because that takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _is_minimum(point: Iterate, box: _Box, tolerance: float = _TOLERANCE) -> bool:
    """Return whether the gradient is below the tolerance, except components that point out of the box."""
    return bool((_at_active_bounds(point, box, tolerance) | (np.abs(point.gradient) <= tolerance)).all())


def _at_active_bounds(point: Iterate, box: _Box, tolerance: float) -> Booleans:
    """Return a mask of the coordinates at a bound where the negative gradient does not point inside."""
    low, high = np.array(box).T
    at_bounds: Booleans = (point.x <= low) & (point.gradient >= -tolerance)
    at_bounds |= (point.x >= high) & (point.gradient <= tolerance)
    return at_bounds


def _line_search(
    objective: _Objective, points: list[Iterate], direction: Doubles, step: float, box: _Box
) -> _Line:
    """Search along a direction; append the lowest point if it is lower than the last one.

    Returns the line to the last point that was evaluated.
    """
    here = points[-1]
    first = float(here.gradient @ direction)
    direction = direction if first < 0.0 else -direction
    bound = _longest_step(here.x, direction, box)
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


def _longest_step(x: Doubles, direction: Doubles, box: _Box) -> float:
    """Return the largest step along `direction` from x that stays in the box."""
    low, high = np.array(box).T
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ways = np.where(direction > 0, (high - x) / direction, (low - x) / direction)
    return float(np.min(ways[direction != 0], initial=np.inf))


OPTIMIZERS = {"coordinate-descent": coordinate_descent, "l-bfgs": l_bfgs}

LOOSE_TOLERANCE = 1e-3
"""Convergence tolerance of intermediate fits, and of fits that are only compared."""


class Evaluations:
    """A cost function that caches, counts and times its evaluations.

    Parameters
    ----------
    cost : callable
        Returns the cost at a point and its gradient.
    begin : float
        Start time of the search, from `time.monotonic`.
    """

    def __init__(self, cost: _Objective, begin: float) -> None:
        self._cost, self._begin = cost, begin
        self._known: dict[bytes, tuple[tuple[float, Doubles], float]] = {}

    def __call__(self, x: Doubles) -> tuple[float, Doubles]:
        """Return the cost at a point and its gradient, from the cache if possible."""
        key = x.tobytes()
        if key not in self._known:
            self._known[key] = self._cost(x), time.monotonic() - self._begin
        return self._known[key][0]

    def __len__(self) -> int:
        """Return the number of different points evaluated."""
        return len(self._known)

    def record(
        self, record: SearchRecord, start: int, points: Sequence[Iterate], *, scale: float = 1.0
    ) -> None:
        """Add a descent's iterates to a record, with costs multiplied by `scale`."""
        parameters = len(record.space.names)
        settings = np.array([record.space.from_unbounded(point.x[:parameters]) for point in points])
        step = record.starts.count(start)
        record.add(settings, [point.cost * scale for point in points], starts=[start] * len(points))
        record.steps[-len(points) :] = range(step, step + len(points))
        record.seconds[-len(points) :] = [self._known[point.x.tobytes()][1] for point in points]


class GradientTuner(Tuner):
    """Base class of tuners that minimise a smooth cost in unbounded coordinates, from several starts.

    Subclasses have these parameters and attributes, and their own.

    Parameters
    ----------
    optimizer : {"coordinate-descent", "l-bfgs"}
        One coordinate at a time, as in Metzler (SIGIR 2007), or all jointly; see `coordinate_descent` and
        `l_bfgs`.
    space : ParameterSpace
        The range of each parameter; the model's own ranges by default. `at_edge_` lists the bounds that the
        best setting lies on.
    starts : int
        Number of descents; the first begins at the space's `ParameterSpace.start`, the others at random
        settings.
    seed : int
        Seed of the random starts.
    ridge : float
        Regularisation strength, 0 or more: see `lmtune.models.formula.Formula.ridge`. The penalty shrinks
        term weights towards 0 and run weights towards equal ones.
    measures : sequence of str
        Measures to compute at every iterate, for the trace; they do not influence the fit.
    depth : int
        Run depth of the measures.

    Attributes
    ----------
    tolerance : float
        Convergence tolerance: a descent ends if the gradient of the cost is below it.
    converged_ : bool
        Whether the best descent converged: its gradient vanishes, except components that point out of the
        space.

    Notes
    -----
    `best_value_` is the cost at the fitted setting. `results_` has a row per iterate, with ``cost`` and
    then the measures' means on the training topics; `stop_on` adds a column. `n_evaluations_` counts
    evaluations of the cost with its gradient; the time of the measures is not in `seconds_`.
    """

    converged_: bool
    tolerance: float = _TOLERANCE

    optimizer: str
    space: ParameterSpace | None
    starts: int
    seed: int
    ridge: float
    measures: Sequence[str | Measure]
    depth: int = DEPTH

    def _check(self) -> list[Measure]:
        """Check the constructor's arguments and parse the measures."""
        check_choice("unknown optimizer", self.optimizer, OPTIMIZERS)
        check_least("bad number of starts", self.starts, 1)
        check_least("bad seed", self.seed, 0)
        if not 0.0 <= self.ridge < np.inf:
            raise InputError("bad ridge", value=self.ridge, accepted="0 or more")
        return parse_measures(self.measures)

    def build_data(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:
        """Build a pool's training data once, as keyword arguments for several calls of `fit`."""
        raise NotImplementedError

    @property
    def selection_measure(self) -> Measure:
        """The measure that selects among fits on validation topics."""
        raise NotImplementedError

    def warm_start_params(self) -> dict[str, Any]:
        """Return the constructor arguments that a warm start changes."""
        return {}

    def _penalty(self, pool: CandidatePool, positions: Integers) -> Ridge:
        """Return the formula's ridge penalty, scaled by `ridge`."""
        centre, scale = pool.formula.ridge(pool.counts(positions))
        return Ridge(centre, scale * self.ridge**0.5)

    def _close(self, record: SearchRecord, measures: Sequence[Measure], **columns: Sequence[float]) -> None:
        """Store the trace, further columns, and the measures at every iterate."""
        # A start that reaches a known setting has that setting's earlier time; make times ascend.
        record.seconds = np.maximum.accumulate(record.seconds).tolist()
        record.close(self)
        self.columns_ |= {name: np.array(column) for name, column in columns.items()}
        if measures:
            means = self._means(record.pool, measures, record.positions)
            self.columns_ |= dict(zip(map(str, measures), means.T, strict=True))

    def stop_on(self, pool: CandidatePool, measure: str | Measure, *, topics: Sequence[str]) -> Self:
        """Stop early: select the iterate with the best measure on validation topics, not the lowest cost.

        Metzler (SIGIR 2007) suggests this for cases where the cost and the measure disagree.

        Parameters
        ----------
        pool : CandidatePool
            The collection that was fitted.
        measure : str or Measure
            The measure to maximise.
        topics : sequence of str
            Validation topics: topics that were not used for the fit.

        Returns
        -------
        This tuner, with the parameters of that iterate and a column ``validation MEASURE`` in
        `results_`; measured iterates count in `n_evaluations_`.
        """
        measure = parse_measure(measure)
        column = f"validation {measure}"
        values = self._means(pool, [measure], pool.positions(topics))[:, 0]
        if column not in self.columns_:
            self.n_evaluations_ += len(values)
        self.columns_[column] = values
        self._choose(space_for(self.space, pool), int(values.argmax()))
        return self

    def _choose(self, space: ParameterSpace, row: int) -> None:
        """Select the iterate in a row of `results_`."""
        self.best_value_ = float(self.columns_["cost"][row])
        set_best_setting(self, space, [float(self.columns_[name][row]) for name in space.names])

    def _means(self, pool: CandidatePool, measures: Sequence[Measure], positions: Integers) -> Doubles:
        settings = stack(self.columns_, space_for(self.space, pool).names)
        values = measure_settings(pool, settings, measures, topics=positions, depth=self.depth)
        return pool.mean(values, positions)


@dataclass(eq=False, repr=False)
class RankNetTuner(GradientTuner):
    """Fit a formula's parameters to preference pairs (Metzler, SIGIR 2007).

    The cost is minimised in unbounded coordinates from several starts; the lowest end wins.

    Parameters
    ----------
    optimizer, space, starts, seed, ridge, measures, depth
        See `lmtune.tuning.gradient.GradientTuner`.
    rel : int
        The lowest gain that counts as relevant.
    sampled_negatives : int
        Sampled negatives per topic, for topics without judged non-relevant documents.

    Attributes
    ----------
    n_pairs_ : int
        Number of pairs in the cost.
    pairs_rule_ : str
        The source of the non-relevant documents.

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
    sampled_negatives: int = SAMPLED_NEGATIVES
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
            Pairs of this pool, built with this tuner's `rel` and `sampled_negatives`.
        progress : callable or bool, optional
            Called with (starts done, starts in all); True draws a bar.

        Raises
        ------
        InputError
            If a topic is unknown, no topic has a pair, the pairs were built with other arguments, or a
            constructor argument is outside its domain.
        """
        measures = self._check()
        report = self._report(progress)
        record = SearchRecord(pool, None, space=self.space, topics=topics, repeats=True)
        positions, space = record.positions, record.space
        pairs = pairs or self.build_data(pool, space)["pairs"]
        if (pairs.rel, pairs.sampled_negatives) != (
            self.rel,
            self.sampled_negatives,
        ) or pairs.pool is not pool:
            raise InputError(
                "the pairs were built with other arguments or for another pool",
                value={"rel": pairs.rel, "sampled_negatives": pairs.sampled_negatives},
                accepted=f"this pool's, with rel={self.rel} and sampled_negatives={self.sampled_negatives}",
            )
        n_pairs = int(pairs.per_topic[positions].sum())
        if n_pairs == 0:
            raise InputError(
                "RankNet has no pair to fit on",
                value=[pool.topics[position] for position in positions[:3]],
                accepted="a topic with a relevant and a non-relevant document",
            )

        penalty = self._penalty(pool, positions)

        def objective(x: Doubles) -> tuple[float, Doubles]:
            setting = space.from_unbounded(x)
            cost, (pull, pulled) = pairs.cost(setting, topics=positions), penalty.at(setting)
            return cost.value / n_pairs + pull, space.chain(cost.gradient / n_pairs + pulled, setting)

        evaluations = Evaluations(objective, record.begin)
        converged = []
        minima: list[Iterate] = []
        for start, x in enumerate(self._starts(space)):
            box = space.unbounded_box
            descent = OPTIMIZERS[self.optimizer](evaluations, x, box, minima, tolerance=self.tolerance)
            minima += descent.points[-1:] if descent.converged else []
            evaluations.record(record, start, descent.points, scale=n_pairs)
            converged.append(descent.converged)
            report(start + 1, self.starts)
        self._close(record, measures)
        self.converged_ = converged[record.starts[record.best]]
        self.n_pairs_ = n_pairs
        self.n_evaluations_ = len(evaluations)
        self.pairs_rule_ = pairs.rule
        return self

    def build_data(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:  # noqa: ARG002
        """Build the pairs."""
        return {"pairs": Pairs.build(pool, rel=self.rel, sampled_negatives=self.sampled_negatives)}

    @property
    def selection_measure(self) -> Measure:
        """AP, because pairs do not depend on a measure."""
        return Measure("AP", rel=self.rel)

    def _starts(self, space: ParameterSpace) -> list[Doubles]:
        rng = np.random.default_rng(self.seed)
        settings = [space.start, *(space.random(rng) for _ in range(self.starts - 1))]
        return [space.to_unbounded(setting) for setting in settings]
