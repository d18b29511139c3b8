"""Minimisers of a smooth cost in a few unbounded coordinates, inside a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lmtune.arrays import Booleans, Doubles

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Objective = Callable[[Doubles], tuple[float, Doubles]]
Box = tuple[tuple[float, float], ...]

_FIRST_STEP, _LONGEST_STEP = 0.5, 4.0
_MOST_ROUNDS, _MOST_STEPS = 200, 40
# A cost of order 1 cannot tell points apart whose gradients are smaller.
FLAT = 1e-8
_ENOUGH = 0.5
_CLOSE = 0.05
# Secants keep this share of the bracket away from its ends, and go so much further outside it.
_MARGIN, _GROWTH = 0.05, 2.0


class Point(NamedTuple):
    """An iterate: where, the cost there, and its gradient."""

    x: Doubles
    cost: float
    gradient: Doubles


class Descent(NamedTuple):
    """A minimisation: its iterates from the start on, and whether it reached a minimum."""

    points: list[Point]
    converged: bool


class _Line(NamedTuple):
    """The way gone along a line, shape (coordinates,), and how the gradient turned on it."""

    way: Doubles
    turn: Doubles


def coordinate_descent(
    objective: Objective, x: Doubles, box: Box, known: Sequence[Point] = (), *, flat: float = FLAT
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
    known : sequence of Point
        Minima found before: a descent that comes close to one ends there.
    flat : float
        No component of the gradient is larger at a minimum, but for those that point out of the box.

    Returns
    -------
    Descent
        The start, then every move, costs descending.
    """
    points = [Point(x, *objective(x))]
    lines: dict[int, _Line] = {}
    curvatures = np.zeros(x.size)
    for _ in range(_MOST_ROUNDS):
        begin = points[-1]
        if is_minimum(begin, box, flat) or any(np.abs(begin.x - p.x).max() < _CLOSE for p in known):
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
    return Descent(points, converged=is_minimum(points[-1], box, flat))


def l_bfgs(
    objective: Objective,
    x: Doubles,
    box: Box,
    known: Sequence[Point] = (),  # noqa: ARG001 - it is quick enough without
    *,
    flat: float = FLAT,
) -> Descent:
    """Minimise all coordinates jointly by L-BFGS-B; parameters and result as above."""
    from scipy.optimize import minimize

    points = [Point(x, *objective(x))]

    def record(intermediate_result: object) -> None:
        found = np.array(intermediate_result.x)  # type: ignore[attr-defined]
        points.append(Point(found, *objective(found)))

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
    return Descent(points, converged=is_minimum(points[-1], box, flat))


@cache
def _pools() -> ThreadpoolController:
    """Look for BLAS's threads once, which takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def is_minimum(point: Point, box: Box, flat: float = FLAT) -> bool:
    """Say whether the gradient vanishes but for components that point out of the box."""
    return bool((_held(point, box, flat) | (np.abs(point.gradient) <= flat)).all())


def _held(point: Point, box: Box, flat: float) -> Booleans:
    """Mark the coordinates at a bound that no descent leads away from it."""
    low, high = np.array(box).T
    held: Booleans = (point.x <= low) & (point.gradient >= -flat)
    held |= (point.x >= high) & (point.gradient <= flat)
    return held


def _move(objective: Objective, points: list[Point], direction: Doubles, step: float, box: Box) -> _Line:
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
        seen.append(Point(x, *objective(x)))
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


def _way_out(x: Doubles, direction: Doubles, box: Box) -> float:
    """Return how many times `direction` leads from x to the edge of the box."""
    low, high = np.array(box).T
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ways = np.where(direction > 0, (high - x) / direction, (low - x) / direction)
    return float(np.min(ways[direction != 0], initial=np.inf))
