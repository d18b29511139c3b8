"""Minimising an objective by its values alone: SPSA, and finite differences (FDSA) beside it.

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


class Counted:
    """An objective that takes many points, checks its values and remembers the best."""

    def __init__(self, objective: _Objective, together: bool) -> None:
        self.objective, self.together = objective, together
        self.values: list[Doubles] = []
        self.best, self.best_x = math.inf, np.empty(0)

    def __call__(self, points: Doubles) -> Doubles:
        """Return the values of points of shape (m, d)."""
        if self.together:
            found = np.asarray(self.objective(points), np.float64)
        else:
            found = np.array([float(self.objective(point)) for point in points])
        if found.shape != (len(points),):
            raise InputError(
                "the objective gives another number of values",
                value=found.shape,
                accepted=f"{(len(points),)}, one a point",
            )
        if not np.isfinite(found).all():
            raise InputError(
                "the objective is not finite",
                value=float(found[~np.isfinite(found)][0]),
                accepted="finite values, a box that leaves the others out, or smaller gains",
            )
        place = int(found.argmin())
        if found[place] < self.best:
            self.best, self.best_x = float(found[place]), points[place].copy()
        self.values.append(found)
        return found


def inside(start: ArrayLike, box: _Box | None) -> tuple[Doubles, Doubles, Doubles]:
    """Return a point moved into the box, and the box's bounds in full."""
    x = np.asarray(start, np.float64)
    if x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise InputError("bad start", value=x.shape, accepted="finite numbers, of shape (d,)")
    bounds = (-math.inf, math.inf) if box is None else box
    try:
        low, high = (np.broadcast_to(np.asarray(side, np.float64), x.shape) for side in bounds)
    except ValueError:
        raise InputError("the box has another shape", accepted=f"bounds of shape {x.shape}") from None
    if not (low <= high).all():
        raise InputError("the box is empty", accepted="lower bounds no higher than upper ones")
    return np.clip(x, low, high), low, high


def generator(seed: int, stream: int) -> np.random.Generator:
    """Return one of a seed's independent generators."""
    check_least("bad seed", seed, 0)
    return np.random.default_rng([seed, stream])


# Finite differences ask for this many coordinates at once: memory for 128 points at a time.
_COORDINATES = 64


def random_signs(rng: np.random.Generator, perturbations: int, d: int) -> Doubles:
    """Draw perturbations: each coordinate -1 or +1, with equal chances.

    Returns
    -------
    numpy.ndarray of float64, shape (perturbations, d)
    """
    return np.where(rng.integers(0, 2, size=(perturbations, d), dtype=np.int8) > 0, 1.0, -1.0)


def differences(ask: Counted, x: Doubles, c: float, signs: Doubles, low: Doubles, high: Doubles) -> Doubles:
    r"""Return SPSA's estimate of the gradient for each row of signs; 0 along coordinates that cannot move.

    .. math:: \hat g_i = \frac{L(x + c \Delta) - L(x - c \Delta)}{2 c\, \Delta_i}

    (Spall 1992; Yue and Burges 2007, section 4.1, average F/2 of them in SPSA:F.) Over random signs the
    mean is the gradient up to O(c^2), and exactly for a quadratic L. A point outside the box is moved to
    its edge, and the difference divided by the distance that is left.
    """
    above, below = np.clip(x + c * signs, low, high), np.clip(x - c * signs, low, high)
    values = ask(np.stack((above, below), axis=1).reshape(-1, x.size))
    apart = above - below
    change = np.broadcast_to((values[0::2] - values[1::2])[:, None], apart.shape)
    slopes: Doubles = np.divide(change, apart, out=np.zeros_like(apart), where=apart != 0.0)
    return slopes


def one_by_one(ask: Counted, x: Doubles, c: float, low: Doubles, high: Doubles) -> Doubles:
    """Return FDSA's estimate, central differences by coordinate; 0 along coordinates that cannot move."""
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
    """Return a number of evaluations that makes pairs."""
    if evaluations < 2 or evaluations % 2:
        raise InputError("bad number of evaluations a step", value=evaluations, accepted="2, 4, 6 ...")
    return evaluations


def checked_width(c: float) -> float:
    """Return a width that can be divided by."""
    if not (math.isfinite(c) and c > 0.0):
        raise InputError("bad width c", value=c, accepted="a positive number")
    return c


_ALPHA = 0.602


@dataclass(frozen=True)
class Gains:
    r"""Spall's gain sequences, for the steps k = 0, 1, ...

    .. math:: a_k = \frac{a}{(A + k + 1)^\alpha}, \qquad c_k = \frac{c}{(k + 1)^\gamma}

    with a_k the rate of step k and c_k half the distance between the points that are compared.

    Attributes
    ----------
    a, c : float
        Above 0.
    stability : float
        A, 0 or more: about a tenth of the steps keeps a large rate from being unstable at first.
    alpha, gamma : float
        Spall's 0.602 and 0.101 are about the smallest that theory allows; 1 and 1/6 are the best
        in the limit. 0 keeps a gain as it is.

    Raises
    ------
    InputError
        For a number outside its domain.
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

        A is a tenth of the steps; c is given, and should be about the standard deviation of the
        objective's noise (where there is none, small; for a measure, wide enough to see across its
        steps); and a is such that the first step changes a coordinate by about `first_step`:

        .. math:: a = \mathrm{first\ step} \cdot (A + 1)^\alpha / \mathrm{mean}\,|\hat g_i(x_0)|

        with the mean over coordinates and over estimates at the start.

        Parameters
        ----------
        objective, start, seed, box, together
            As of `minimise`.
        steps : int
            How many steps there will be; 1 or more.
        first_step : float
            The wanted change of a coordinate in the first steps; above 0.
        c : float
            Above 0.
        evaluations : int
            How many to spend at the start; even, 2 or more. They are the caller's to count.

        Returns
        -------
        Gains
            Where the objective is flat at the start, as though its slope were 1.

        Raises
        ------
        InputError
            For numbers outside their domain, or an objective that is not finite.
        """
        check_least("bad number of steps", steps, 1)
        if not (math.isfinite(first_step) and first_step > 0.0):
            raise InputError("bad first step", value=first_step, accepted="a positive number")
        _check_even(evaluations)
        x, low, high = inside(start, box)
        signs = random_signs(generator(seed, 1), evaluations // 2, x.size)
        slopes = differences(Counted(objective, together), x, checked_width(c), signs, low, high)
        stability = 0.1 * steps
        slope = float(np.abs(slopes).mean()) or 1.0
        return cls(first_step * (stability + 1.0) ** _ALPHA / slope, c, stability)


_METHODS = ("spsa", "fdsa")
_Observer = Callable[[int, int, Doubles], None]


@dataclass(frozen=True)
class Minimisation:
    """What `minimise` did.

    Attributes
    ----------
    x : numpy.ndarray of float64, shape (d,)
        The last iterate.
    value : float
        The objective there.
    best_x, best_value
        The lowest of all points that were evaluated, the first of equals.
    steps, evaluations : int
        How many; the evaluations of a step that `gradient` stood in for count as well.
    values : numpy.ndarray of float64
        Each evaluation's value in order: the start, then every step's pairs, then the last
        iterate.
    spent : numpy.ndarray of int64, shape (steps + 1,)
        Evaluations made when each iterate was reached.
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
    r"""Descend by :math:`x_{k+1} = x_k - a_k \hat g_k(x_k)`, kept inside a box.

    The first and the last evaluation of the budget are the start's and the last iterate's; between
    them go as many steps as fit. The last step of SPSA takes fewer perturbations where a whole
    step no longer fits, so that an even budget is spent to the last evaluation.

    Parameters
    ----------
    objective : callable
        Takes an array of shape (d,) and returns a finite number; lower is better.
    start : array_like of float, shape (d,)
        Moved into the box.
    method : {"spsa", "fdsa"}
        Which estimate of the gradient.
    evaluations_per_step : int, optional
        F of SPSA:F, even, 2 or more (2 by default); FDSA takes 2 d.
    budget : int
        The most evaluations: at least a step and the two ends.
    gains : Gains
        Rates and widths.
    seed : int
        Of the perturbations; 0 or more. Equal arguments give equal results, bit for bit.
    box : tuple of array_like, optional
        Lower and upper bounds, each of shape (d,) or a number; infinite ones are none. No point
        outside is evaluated. Coordinates with equal bounds stay, and still count in d.
    longest_step : float, optional
        The most that a step changes a coordinate by.
    together : bool
        Whether the objective takes points of shape (m, d) and returns m values.
    gradient : callable, optional
        With FDSA: what stands in for the differences, counted as the 2 d evaluations that they
        would be.
    observe : callable, optional
        Called with (steps done, evaluations made, iterate) at the start and after each step.

    Returns
    -------
    Minimisation

    Raises
    ------
    InputError
        For numbers outside their domain, shapes that do not fit, or an objective or gradient that
        is not finite.
    """
    x, low, high = inside(start, box)
    per_step = _per_step(method, evaluations_per_step, x.size)
    if gradient is not None and method != "fdsa":
        raise InputError("a gradient without FDSA", value=method, accepted="method='fdsa'")
    least = per_step if method == "fdsa" else 2
    if budget < least + 2:
        raise InputError("too few evaluations", value=budget, accepted=f"{least + 2} or more")
    if longest_step is not None and not longest_step > 0.0:
        raise InputError("bad longest step", value=longest_step, accepted="a positive number")
    rng = generator(seed, 0)
    ask = Counted(objective, together)
    spent = [1]
    ask(x[None])
    for k, evaluations in enumerate(_steps(budget - 2, per_step, least)):
        if observe is not None:
            observe(k, spent[-1], x)
        if method == "spsa":
            signs = random_signs(rng, evaluations // 2, x.size)
            slope = differences(ask, x, gains.width(k), signs, low, high).mean(axis=0)
        elif gradient is None:
            slope = one_by_one(ask, x, gains.width(k), low, high)
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
    """Yield how many evaluations each step takes."""
    while evaluations >= least:
        taken = min(per_step, evaluations - evaluations % 2)
        yield taken
        evaluations -= taken


def _per_step(method: str, given: int | None, d: int) -> int:
    check_choice("unknown method", method, _METHODS)
    if method == "fdsa":
        if given not in (None, 2 * d):
            raise InputError(
                "FDSA's evaluations a step are not to choose", value=given, accepted=f"2 d = {2 * d}"
            )
        return 2 * d
    return _check_even(2 if given is None else given)


# In unbounded coordinates: wide enough to see across a measure's steps, and no step leaps over
# a hill.
_WIDTH, _FIRST_STEP, _LONGEST_STEP = 0.4, 0.8, 1.0
_MOST_FOR_GAINS = 20


@dataclass(eq=False, repr=False)
class _GradientFreeTuner(Tuner):
    """What SPSA and FDSA share.

    They descend in the coordinates of `ParameterSpace.unbounded_box`, of which those that the space
    fixes are left out.
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
            For unknown topics, or a constructor argument outside its domain.
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
        at = space.to_unbounded(space.start if self.start is None else space.vector(self.start))

        def objective(points: Doubles) -> Doubles:
            """Return the measure's mean at each point, below 0: lower is better."""
            whole = np.repeat(at[None], len(points), axis=0)
            whole[:, free] = points
            found = record.measure(np.array([space.from_unbounded(x) for x in whole]))
            report(len(record.values), self.evaluations)
            return -np.array(found)

        record.steps = self._descend(objective, at[free], box[free])
        record.close(self)
        return self

    def _descend(self, objective: Callable[[Doubles], Doubles], start: Doubles, box: Doubles) -> list[int]:
        """Spend the budget; return the step that each evaluation was for, 0 before the first."""
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
        found = minimise(
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
        numbers = np.searchsorted(found.spent, np.arange(1, found.evaluations + 1))
        return [0] * spent + [min(int(number), found.steps) for number in numbers]


@dataclass(eq=False, repr=False)
class SPSA(_GradientFreeTuner):
    """Climb a measure along gradients estimated by simultaneous perturbations.

    The measure is the objective itself; `lmtune.tuning.gradient_free.minimise` descends its negative in
    unbounded coordinates. What is returned is the best setting that was measured.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        What to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of each parameter; the model's own by default.
    start : mapping of str to float, optional
        Moved into the range; by default the space's `ParameterSpace.start`.
    evaluations : int
        Settings to measure in all, 8 or more; an even number is spent to the last.
    gains : lmtune.tuning.gradient_free.Gains, optional
        By default `Gains.practical`, which spends up to 20 evaluations of the budget.
    seed : int
        For the perturbations.
    depth : int
        Run depth.
    evaluations_per_step : int
        F of SPSA:F, even: F/2 perturbations are averaged.

    Attributes
    ----------
    gains_ : Gains or None
        Those that were used; None where the space is a single setting, which is measured once.

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
    """Climb a measure along gradients estimated one coordinate at a time.

    As `SPSA`, with two evaluations for each parameter that the space leaves free in a step, and
    the budget spent but for what no longer makes a step. Parameters and attributes are those of
    `SPSA`, without `evaluations_per_step`; the seed is the gains' alone.
    """

    method = "fdsa"


SEARCHES: dict[str, type[SPSA | FDSA]] = {"spsa": SPSA, "fdsa": FDSA}
"""By the names of the command line."""
