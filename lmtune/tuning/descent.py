"""Minimisers of a smooth cost in a few unbounded coordinates, inside a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
Box = tuple[tuple[float, float], ...]

_FIRST_STEP, _LONGEST_STEP = 0.5, 4.0
_MOST_ROUNDS, _MOST_STEPS = 200, 40
# A cost of order 1 cannot tell points apart whose gradients are smaller.
FLAT = 1e-8
_ENOUGH = 0.1
_CLOSE = 0.05
# Secants keep this share of the bracket away from its ends.
_MARGIN = 0.05


class Point(NamedTuple):
    """An iterate: where, the cost there, and its gradient."""

    x: NDArray[np.float64]
    cost: float
    gradient: NDArray[np.float64]


class Descent(NamedTuple):
    """A minimisation: its iterates from the start on, and whether it reached a minimum."""

    points: list[Point]
    converged: bool


def coordinate_descent(
    objective: Objective, x: NDArray[np.float64], box: Box, known: Sequence[Point] = (), *, flat: float = FLAT
) -> Descent:
    """Minimise along one coordinate after another, then along the way that a round has gone.

    Along a line the derivative's sign change is bracketed downhill, then closed in on by secants
    kept inside the bracket; the first guess is the step to which the line's last curvature points.
    A line is left when its derivative has fallen to a tenth: its exact minimum is soon left
    again. The step along the round's way (Hooke and Jeeves' pattern move) keeps rounds from
    creeping along a valley in which one coordinate makes up for the other.

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
    axes = np.flatnonzero(np.ptp(box, axis=1) > 0)
    curvatures = np.zeros(x.size)
    for _ in range(_MOST_ROUNDS):
        begin = points[-1]
        if is_minimum(begin, box, flat) or any(np.abs(begin.x - p.x).max() < _CLOSE for p in known):
            return Descent(points, converged=True)
        for axis in axes:
            direction = np.eye(x.size)[axis]
            step = _FIRST_STEP
            if curvatures[axis] > 0.0:
                step = min(abs(points[-1].gradient[axis]) / curvatures[axis], _LONGEST_STEP)
            curvatures[axis] = _move(objective, points, direction, step, box)
        _move(objective, points, points[-1].x - begin.x, 1.0, box)
        if points[-1].cost >= begin.cost:
            break
    return Descent(points, converged=is_minimum(points[-1], box, flat))


def l_bfgs(
    objective: Objective,
    x: NDArray[np.float64],
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


def is_minimum(point: Point, box: Box, flat: float = FLAT) -> bool:
    """Say whether the gradient vanishes but for components that point out of the box."""
    low, high = np.array(box).T
    outward = ((point.x <= low) & (point.gradient > 0)) | ((point.x >= high) & (point.gradient < 0))
    return bool((outward | (np.abs(point.gradient) <= flat)).all())


def _move(
    objective: Objective, points: list[Point], direction: NDArray[np.float64], step: float, box: Box
) -> float:
    """Append the lowest point found along a line, if it is lower than the last one.

    Returns the mean curvature from there to the beginning, 0 where none was seen.
    """
    here = points[-1]
    first = float(here.gradient @ direction)
    if first == 0.0:
        return 0.0
    direction = direction if first < 0.0 else -direction
    bound = _way_out(here.x, direction, box)
    edges = np.array(box).T
    seen = [here]
    low, low_slope = 0.0, -abs(first)
    high, high_slope = np.inf, np.inf
    at = min(step, bound)
    for _ in range(_MOST_STEPS):
        if not low < at < high:
            break
        x = np.clip(here.x + at * direction, *edges)
        seen.append(Point(x, *objective(x)))
        slope = float(seen[-1].gradient @ direction)
        if abs(slope) <= _ENOUGH * abs(first):
            break
        if slope < 0.0:
            low, low_slope = at, slope
        else:
            high, high_slope = at, slope
        if high == np.inf:
            at = min(2.0 * low, bound)
        else:
            secant = low - low_slope * (high - low) / (high_slope - low_slope)
            margin = _MARGIN * (high - low)
            at = min(max(secant, low + margin), high - margin)
    lowest = min(seen, key=lambda point: point.cost)
    if lowest.cost < here.cost:
        points.append(lowest)
    last = seen[-1]
    distance = float((last.x - here.x) @ direction)
    rise = float(last.gradient @ direction) + abs(first)
    return max(rise / distance, 0.0) if distance > 0.0 else 0.0


def _way_out(x: NDArray[np.float64], direction: NDArray[np.float64], box: Box) -> float:
    """Return how many times `direction` leads from x to the edge of the box."""
    low, high = np.array(box).T
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = np.where(direction > 0, (high - x) / direction, (low - x) / direction)
    return float(np.min(ways[direction != 0], initial=np.inf))
