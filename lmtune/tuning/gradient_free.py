"""Gradient-free minimisation by SPSA and by finite differences (FDSA).

Sources: J. C. Spall, Multivariate stochastic approximation using a simultaneous perturbation
gradient approximation, IEEE Transactions on Automatic Control 37, 1992; J. C. Spall,
Implementation of the simultaneous perturbation algorithm for stochastic optimization, IEEE
Transactions on Aerospace and Electronic Systems 34, 1998; for ranking, Yue and Burges, 2007.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice, check_least
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import MeasureLike, parse_measure
from lmtune.models.parameter import Setting
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import EVALUATIONS, FEWEST, FitProgress, SearchRecord, Tuner

_Objective = Callable[[Doubles], Any]
_Box = tuple[ArrayLike, ArrayLike]


class CheckedObjective:
    """An objective that evaluates many points, checks and stores its values, and remembers the best point."""

    def __init__(self, objective: _Objective, together: bool) -> None:
        self.objective, self.together = objective, together
        self.values: list[Doubles] = []
        self.best, self.best_x = math.inf, np.empty(0)

    def __call__(self, points: Doubles) -> Doubles:
        """Return the values of points of shape (m, d)."""
        if self.together:
            values = np.asarray(self.objective(points), np.float64)
        else:
            values = np.array([float(self.objective(point)) for point in points])
        if values.shape != (len(points),):
            raise InputError(
                "the objective returned another number of values",
                value=values.shape,
                accepted=f"{(len(points),)}, one per point",
            )
        if not np.isfinite(values).all():
            raise InputError(
                "the objective is not finite",
                value=float(values[~np.isfinite(values)][0]),
                accepted="finite values; use a smaller box or smaller gains",
            )
        lowest = int(values.argmin())
        if values[lowest] < self.best:
            self.best, self.best_x = float(values[lowest]), points[lowest].copy()
        self.values.append(values)
        return values


def move_inside(start: ArrayLike, box: _Box | None) -> tuple[Doubles, Doubles, Doubles]:
    """Return the nearest point in the box, and the lower and upper bound of each coordinate."""
    x = np.asarray(start, np.float64)
    if x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise InputError("bad start", value=x.shape, accepted="finite numbers of shape (d,)")
    bounds = (-math.inf, math.inf) if box is None else box
    try:
        low, high = (np.broadcast_to(np.asarray(side, np.float64), x.shape) for side in bounds)
    except ValueError:
        raise InputError("the box has another shape", accepted=f"bounds of shape {x.shape}") from None
    if not (low <= high).all():
        raise InputError("the box is empty", accepted="lower bounds that do not exceed the upper ones")
    return np.clip(x, low, high), low, high


def generator(seed: int, stream: int) -> np.random.Generator:
    """Return one of a seed's independent generators."""
    check_least("bad seed", seed, 0)
    return np.random.default_rng([seed, stream])


# Finite differences evaluate this many coordinates at a time: memory for 128 points.
_COORDINATES = 64


def random_signs(rng: np.random.Generator, perturbations: int, d: int) -> Doubles:
    """Draw perturbations: each coordinate is -1 or +1 with equal probability.

    Returns
    -------
    numpy.ndarray of float64, shape (perturbations, d)
    """
    return np.where(rng.integers(0, 2, size=(perturbations, d), dtype=np.int8) > 0, 1.0, -1.0)


def spsa_differences(
    ask: CheckedObjective, x: Doubles, c: float, signs: Doubles, low: Doubles, high: Doubles
) -> Doubles:
    r"""Return SPSA's estimate of the gradient for each row of signs; 0 for fixed coordinates.

    .. math:: \hat g_i = \frac{L(x + c \Delta) - L(x - c \Delta)}{2 c\, \Delta_i}

    (Spall 1992; SPSA:F of Yue and Burges 2007, section 4.1, averages F/2 of these estimates.) The expectation
    over random signs is the gradient up to O(c^2), and exact for a quadratic L. A point outside the box is
    moved to its edge, and the difference is divided by the remaining distance.
    """
    above, below = np.clip(x + c * signs, low, high), np.clip(x - c * signs, low, high)
    values = ask(np.stack((above, below), axis=1).reshape(-1, x.size))
    apart = above - below
    change = np.broadcast_to((values[0::2] - values[1::2])[:, None], apart.shape)
    slopes: Doubles = np.divide(change, apart, out=np.zeros_like(apart), where=apart != 0.0)
    return slopes


def coordinate_differences(
    ask: CheckedObjective, x: Doubles, c: float, low: Doubles, high: Doubles
) -> Doubles:
    """Return FDSA's estimate of the gradient: central differences, and 0 for fixed coordinates."""
    slope = np.empty(x.size)
    for first in range(0, x.size, _COORDINATES):
        axes = np.arange(first, min(first + _COORDINATES, x.size))
        points = np.repeat(x[None], 2 * axes.size, axis=0)
        rows = 2 * np.arange(axes.size)
        points[rows, axes] = np.minimum(x[axes] + c, high[axes])
        points[rows + 1, axes] = np.maximum(x[axes] - c, low[axes])
        values = ask(points)
        apart = points[rows, axes] - points[rows + 1, axes]
        change = values[0::2] - values[1::2]
        slope[axes] = np.divide(change, apart, out=np.zeros(axes.size), where=apart != 0.0)
    return slope


def _check_even(evaluations: int) -> int:
    """Return a number of evaluations; raise `InputError` unless it is even and positive."""
    if evaluations < 2 or evaluations % 2:
        raise InputError("bad number of evaluations per step", value=evaluations, accepted="2, 4, 6 ...")
    return evaluations


def checked_width(c: float) -> float:
    """Return a width; raise `InputError` unless it is positive and finite."""
    if not (math.isfinite(c) and c > 0.0):
        raise InputError("bad width c", value=c, accepted="a positive number")
    return c


_ALPHA = 0.602


@dataclass(frozen=True)
class Gains:
    r"""Spall's gain sequences, for the steps k = 0, 1, ...

    .. math:: a_k = \frac{a}{(A + k + 1)^\alpha}, \qquad c_k = \frac{c}{(k + 1)^\gamma}

    where a_k is the rate of step k, and c_k is half the distance between the two points of a difference.

    Attributes
    ----------
    a, c : float
        Positive numbers.
    stability : float
        A, 0 or more. About a tenth of the number of steps keeps the first steps stable if the rate is large.
    alpha, gamma : float
        Exponents, 0 or more. Spall's 0.602 and 0.101 are about the smallest that theory allows; 1 and 1/6 are
        asymptotically optimal. 0 makes a gain constant.

    Raises
    ------
    InputError
        If a number is outside its domain.
    """

    a: float
    c: float
    stability: float = 0.0
    alpha: float = _ALPHA
    gamma: float = 0.101

    def __post_init__(self) -> None:
        for name in ("a", "c"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise InputError(f"bad gain {name}", value=value, accepted="a positive number")
        for name in ("stability", "alpha", "gamma"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise InputError(f"bad {name} of the gains", value=value, accepted="0 or more")

    def rate(self, k: int) -> float:
        """Return a_k."""
        return float(self.a / (self.stability + k + 1.0) ** self.alpha)

    def width(self, k: int) -> float:
        """Return c_k."""
        return float(self.c / (k + 1.0) ** self.gamma)

    @classmethod
    def practical(
        cls,
        objective: _Objective,
        start: ArrayLike,
        *,
        steps: int,
        first_step: float,
        c: float,
        evaluations: int = 20,
        seed: int = 0,
        box: _Box | None = None,
        together: bool = False,
    ) -> Gains:
        r"""Choose the gains by Spall's practical guideline (1998).

        A is a tenth of the number of steps. c is an argument. a is chosen so that the first step changes a
        coordinate by about `first_step`:

        .. math:: a = \mathrm{first\ step} \cdot (A + 1)^\alpha / \mathrm{mean}\,|\hat g_i(x_0)|

        with the mean over coordinates and over estimates at the start.

        Parameters
        ----------
        objective, start, seed, box, together
            See `minimise`.
        steps : int
            The number of steps of the search; 1 or more.
        first_step : float
            The desired change of a coordinate in the first steps; above 0.
        c : float
            The first width; above 0. It should be about the standard deviation of the objective's noise, or
            small without noise. For a measure, it should be wider than the plateaus.
        evaluations : int
            Evaluations at the start; even, 2 or more. `Minimisation.evaluations` does not include them.

        Returns
        -------
        Gains
            The gains. If the objective is constant at the start, its slope is taken to be 1.

        Raises
        ------
        InputError
            If a number is outside its domain, or the objective is not finite.
        """
        check_least("bad number of steps", steps, 1)
        if not (math.isfinite(first_step) and first_step > 0.0):
            raise InputError("bad first step", value=first_step, accepted="a positive number")
        _check_even(evaluations)
        x, low, high = move_inside(start, box)
        signs = random_signs(generator(seed, 1), evaluations // 2, x.size)
        slopes = spsa_differences(
            CheckedObjective(objective, together), x, checked_width(c), signs, low, high
        )
        stability = 0.1 * steps
        slope = float(np.abs(slopes).mean()) or 1.0
        return cls(first_step * (stability + 1.0) ** _ALPHA / slope, c, stability)


_METHODS = ("spsa", "fdsa")
_Observer = Callable[[int, int, Doubles], None]


@dataclass(frozen=True)
class Minimisation:
    """Result of `minimise`.

    Attributes
    ----------
    x : numpy.ndarray of float64, shape (d,)
        The last iterate.
    value : float
        The objective at the last iterate.
    best_x, best_value
        The evaluated point with the lowest value, and that value; the first of equal ones.
    steps, evaluations : int
        The number of steps and evaluations. A step with `gradient` counts as 2 d evaluations.
    values : numpy.ndarray of float64
        The value of each evaluation in order: the start, the pairs of every step, the last iterate.
    spent : numpy.ndarray of int64, shape (steps + 1,)
        The number of evaluations made before each iterate.
    """

    x: Doubles
    value: float
    best_x: Doubles
    best_value: float
    steps: int
    evaluations: int
    values: Doubles
    spent: Integers


def minimise(
    objective: _Objective,
    start: ArrayLike,
    *,
    method: str = "spsa",
    evaluations_per_step: int | None = None,
    budget: int,
    gains: Gains,
    seed: int = 0,
    box: _Box | None = None,
    longest_step: float | None = None,
    together: bool = False,
    gradient: Callable[[Doubles], ArrayLike] | None = None,
    observe: _Observer | None = None,
) -> Minimisation:
    r"""Minimise by the steps :math:`x_{k+1} = x_k - a_k \hat g_k(x_k)`, inside a box.

    The first evaluation is at the start and the last one at the last iterate. The rest of the budget is spent
    on as many steps as possible. The last step of SPSA uses fewer perturbations if the rest does not suffice
    for a whole step, so that an even budget is spent completely.

    Parameters
    ----------
    objective : callable
        Takes an array of shape (d,) and returns a finite number; lower is better.
    start : array_like of float, shape (d,)
        The initial point; moved into the box.
    method : {"spsa", "fdsa"}
        The estimate of the gradient.
    evaluations_per_step : int, optional
        F of SPSA:F: even, 2 or more (2 by default). FDSA always uses 2 d.
    budget : int
        The maximum number of evaluations: at least those of one step, plus 2.
    gains : Gains
        Rates and widths.
    seed : int
        Seed of the perturbations; 0 or more. Equal arguments give identical results, bit for bit.
    box : tuple of array_like, optional
        Lower and upper bounds, each of shape (d,) or a number; may be infinite. No point outside is
        evaluated. Coordinates with equal bounds are fixed, but count in d.
    longest_step : float, optional
        The maximum change of a coordinate in a step.
    together : bool
        Whether the objective takes points of shape (m, d) and returns m values.
    gradient : callable, optional
        Only with FDSA: a gradient that replaces the differences. A call counts as 2 d evaluations.
    observe : callable, optional
        Called with (steps done, evaluations made, iterate) at the start and after each step.

    Returns
    -------
    Minimisation

    Raises
    ------
    InputError
        If a number is outside its domain, shapes do not match, or the objective or the gradient is not
        finite.
    """
    x, low, high = move_inside(start, box)
    per_step = _per_step(method, evaluations_per_step, x.size)
    if gradient is not None and method != "fdsa":
        raise InputError("gradient is only for FDSA", value=method, accepted="method='fdsa'")
    least = per_step if method == "fdsa" else 2
    if budget < least + 2:
        raise InputError("too few evaluations", value=budget, accepted=f"{least + 2} or more")
    if longest_step is not None and not longest_step > 0.0:
        raise InputError("bad longest step", value=longest_step, accepted="a positive number")
    rng = generator(seed, 0)
    ask = CheckedObjective(objective, together)
    spent = [1]
    ask(x[None])
    for k, evaluations in enumerate(_steps(budget - 2, per_step, least)):
        if observe is not None:
            observe(k, spent[-1], x)
        if method == "spsa":
            signs = random_signs(rng, evaluations // 2, x.size)
            slope = spsa_differences(ask, x, gains.width(k), signs, low, high).mean(axis=0)
        elif gradient is None:
            slope = coordinate_differences(ask, x, gains.width(k), low, high)
        else:
            slope = np.asarray(gradient(x), np.float64)
            if slope.shape != x.shape:
                raise InputError("the gradient has another shape", value=slope.shape, accepted=f"{x.shape}")
        with np.errstate(over="ignore"):
            change = gains.rate(k) * slope
        if longest_step is not None:
            change = np.clip(change, -longest_step, longest_step)
        x = np.clip(x - change, low, high)
        if not np.isfinite(x).all():
            raise InputError("the iterate is no longer finite", value=k + 1, accepted="a smaller gain a")
        spent.append(spent[-1] + evaluations)
    steps = len(spent) - 1
    if observe is not None:
        observe(steps, spent[-1], x)
    value = float(ask(x[None])[0])
    values, evaluations = np.concatenate(ask.values), spent[-1] + 1
    return Minimisation(x, value, ask.best_x, ask.best, steps, evaluations, values, np.array(spent))


def _steps(evaluations: int, per_step: int, least: int) -> Iterator[int]:
    """Yield the number of evaluations of each step."""
    while evaluations >= least:
        taken = min(per_step, evaluations - evaluations % 2)
        yield taken
        evaluations -= taken


def _per_step(method: str, evaluations: int | None, d: int) -> int:
    check_choice("unknown method", method, _METHODS)
    if method == "fdsa":
        if evaluations not in (None, 2 * d):
            raise InputError(
                "FDSA's evaluations per step are fixed", value=evaluations, accepted=f"2 d = {2 * d}"
            )
        return 2 * d
    return _check_even(2 if evaluations is None else evaluations)


# In unbounded coordinates. The width exceeds a measure's plateaus; steps are too short to jump over a
# maximum.
_WIDTH, _FIRST_STEP, _LONGEST_STEP = 0.4, 0.8, 1.0
_MOST_FOR_GAINS = 20


@dataclass(eq=False, repr=False)
class _GradientFreeTuner(Tuner):
    """Base class of SPSA and FDSA.

    The search runs in the coordinates of `ParameterSpace.unbounded_box`, without those that the space fixes.
    """

    method: ClassVar[str]

    gains_: Gains | None = field(init=False)

    measure: MeasureLike = "AP"
    _: KW_ONLY
    space: ParameterSpace | None = None
    start: Setting | None = None
    evaluations: int = EVALUATIONS
    gains: Gains | None = None
    seed: int = 0
    depth: int = DEPTH

    @property
    def _per_step(self) -> int | None:
        return None

    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Search on topics of a pool (all judged ones by default).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to search on.
        progress : callable or bool, optional
            Called with (evaluations made, evaluations in all); True draws a bar.

        Raises
        ------
        InputError
            If a topic is unknown, or a constructor argument is outside its domain.
        """
        if self.evaluations < FEWEST:
            raise InputError("too few evaluations", value=self.evaluations, accepted=f"{FEWEST} or more")
        check_least("bad seed", self.seed, 0)
        report = self._report(progress)
        record = SearchRecord(
            pool, parse_measure(self.measure), space=self.space, topics=topics, depth=self.depth, repeats=True
        )
        space = record.space
        box = np.array(space.unbounded_box)
        free = np.flatnonzero(box[:, 0] < box[:, 1])
        initial = space.to_unbounded(space.start if self.start is None else space.vector(self.start))

        def objective(points: Doubles) -> Doubles:
            """Return the negative of the measure's mean at each point."""
            whole = np.repeat(initial[None], len(points), axis=0)
            whole[:, free] = points
            means = record.evaluate(np.array([space.from_unbounded(x) for x in whole]))
            report(len(record.values), self.evaluations)
            return -np.array(means)

        record.steps = self._descend(objective, initial[free], box[free])
        record.close(self)
        return self

    def _descend(self, objective: Callable[[Doubles], Doubles], start: Doubles, box: Doubles) -> list[int]:
        """Run the search; return the step number of each evaluation, 0 before the first step."""
        self.gains_ = self.gains
        if not start.size:  # The space is a single setting.
            objective(start[None])
            return [0]
        per_step = self._per_step or 2 * start.size
        bounds = box[:, 0], box[:, 1]
        spent = 0
        if self.gains_ is None:
            spent = max(2, min(_MOST_FOR_GAINS, self.evaluations // 20 * 2))
            self.gains_ = Gains.practical(
                objective,
                start,
                steps=-(-(self.evaluations - spent - 2) // per_step),
                first_step=_FIRST_STEP,
                c=_WIDTH,
                evaluations=spent,
                seed=self.seed,
                box=bounds,
                together=True,
            )
        result = minimise(
            objective,
            start,
            method=self.method,
            evaluations_per_step=per_step,
            budget=self.evaluations - spent,
            gains=self.gains_,
            seed=self.seed,
            box=bounds,
            longest_step=_LONGEST_STEP,
            together=True,
        )
        numbers = np.searchsorted(result.spent, np.arange(1, result.evaluations + 1))
        return [0] * spent + [min(int(number), result.steps) for number in numbers]


@dataclass(eq=False, repr=False)
class SPSA(_GradientFreeTuner):
    """Maximise a measure with gradients estimated by simultaneous perturbation (SPSA).

    The measure itself is the objective: `lmtune.tuning.gradient_free.minimise` minimises its negative in
    unbounded coordinates. The result is the best setting that was measured.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        The measure to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of each parameter; the model's own ranges by default.
    start : mapping of str to float, optional
        The initial point, moved into the ranges; by default the space's `ParameterSpace.start`.
    evaluations : int
        The number of settings to measure, 8 or more. An even number is spent completely.
    gains : lmtune.tuning.gradient_free.Gains, optional
        By default `Gains.practical`, which spends up to 20 evaluations of the budget.
    seed : int
        Seed of the perturbations.
    depth : int
        Run depth.
    evaluations_per_step : int
        F of SPSA:F, even: the average of F/2 perturbations.

    Attributes
    ----------
    gains_ : Gains or None
        The gains that were used; None if the space is a single setting, which is measured once.

    Examples
    --------
    >>> tuner = SPSA("AP", evaluations=100, seed=0).fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    method = "spsa"

    evaluations_per_step: int = field(default=2, kw_only=True)

    @property
    def _per_step(self) -> int:
        return _check_even(self.evaluations_per_step)


class FDSA(_GradientFreeTuner):
    """Maximise a measure with gradients estimated by finite differences along each coordinate (FDSA).

    A step costs two evaluations per free parameter. A rest of the budget that does not suffice for a step is
    not spent. Parameters and attributes are those of `SPSA`, without `evaluations_per_step`; the seed affects
    only the choice of gains.
    """

    method = "fdsa"


SEARCHES: dict[str, type[SPSA | FDSA]] = {"spsa": SPSA, "fdsa": FDSA}
"""The tuners by their names on the command line."""
