"""Stochastic descent along estimated gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError, check_choice
from lmtune.gradient_free.estimates import (
    Box,
    Counted,
    Gains,
    Objective,
    Vector,
    check_even,
    differences,
    generator,
    inside,
    one_by_one,
    random_signs,
)

METHODS = ("spsa", "fdsa")
Observer = Callable[[int, int, Vector], None]


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

    x: Vector
    value: float
    best_x: Vector
    best_value: float
    steps: int
    evaluations: int
    values: Vector
    spent: NDArray[np.int64]


def minimise(
    objective: Objective,
    start: ArrayLike,
    *,
    method: str = "spsa",
    evaluations_per_step: int | None = None,
    budget: int,
    gains: Gains,
    seed: int = 0,
    box: Box | None = None,
    longest_step: float | None = None,
    together: bool = False,
    gradient: Callable[[Vector], ArrayLike] | None = None,
    observe: Observer | None = None,
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
    check_choice("unknown method", method, METHODS)
    if method == "fdsa":
        if given not in (None, 2 * d):
            raise InputError(
                "FDSA's evaluations a step are not to choose", value=given, accepted=f"2 d = {2 * d}"
            )
        return 2 * d
    return check_even(2 if given is None else given)
