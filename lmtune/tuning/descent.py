"""Minimisers of a smooth cost in a few unbounded coordinates, inside a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
Box = tuple[tuple[float, float], ...]

_FIRST_STEP = 0.5
_MOST_ROUNDS = 100
# A cost of order 1 cannot tell points apart whose gradients are smaller.
_FLAT = 1e-8
_TOLERANCE = 1e-9


class Point(NamedTuple):
    """An iterate: where, the cost there, and its gradient."""

    x: NDArray[np.float64]
    cost: float
    gradient: NDArray[np.float64]


class Descent(NamedTuple):
    """A minimisation: its iterates from the start on, and whether it reached a minimum."""

    points: list[Point]
    converged: bool


def coordinate_descent(objective: Objective, x: NDArray[np.float64], box: Box) -> Descent:
    """Minimise along one coordinate after another, then along the way that a round has gone.

    Along a line the derivative's sign change is bracketed downhill by doubling steps, then found
    by Brent's method; an end that is not lower than the beginning is not taken. The step along
    the round's way (Hooke and Jeeves' pattern move) keeps rounds from creeping along a valley in
    which one coordinate makes up for the other.

    Parameters
    ----------
    objective : callable
        Returns the cost and its gradient.
    x : numpy.ndarray of float64
        The start, inside the box.
    box : tuple of (low, high)
        Bounds, a pair a coordinate; a coordinate with equal bounds stays.

    Returns
    -------
    Descent
        The start, then every move, costs descending.
    """
    points = [Point(x, *objective(x))]
    axes = [axis for axis in np.eye(x.size) if axis @ np.ptp(box, axis=1) > 0]
    for _ in range(_MOST_ROUNDS):
        begin = points[-1]
        if is_minimum(begin, box):
            return Descent(points, converged=True)
        for axis in axes:
            _move(objective, points, axis, box)
        _move(objective, points, points[-1].x - begin.x, box)
        if points[-1].cost >= begin.cost:
            break
    return Descent(points, converged=is_minimum(points[-1], box))


def l_bfgs(objective: Objective, x: NDArray[np.float64], box: Box) -> Descent:
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
        options={"ftol": 1e-15, "gtol": _FLAT / 10},
    )
    return Descent(points, converged=is_minimum(points[-1], box))


def is_minimum(point: Point, box: Box) -> bool:
    """Say whether the gradient vanishes but for components that point out of the box."""
    low, high = np.array(box).T
    outward = ((point.x <= low) & (point.gradient > 0)) | ((point.x >= high) & (point.gradient < 0))
    return bool((outward | (np.abs(point.gradient) <= _FLAT)).all())


def _move(
    objective: Objective, points: list[Point], direction: NDArray[np.float64], box: Box
) -> None:
    """Append the lowest point found along a line, if it is lower than the last one."""
    from scipy.optimize import brentq

    here = points[-1]
    reach = float(np.abs(direction).max())
    if reach == 0.0:
        return
    seen = {0.0: here}

    def slope(t: float) -> float:
        if t not in seen:
            x = np.clip(here.x + t * direction, *np.array(box).T)
            seen[t] = Point(x, *objective(x))
        return float(seen[t].gradient @ direction)

    downhill = -float(np.sign(slope(0.0)))
    bound = _way_out(here.x, downhill * direction, box)
    near, step = 0.0, _FIRST_STEP / reach
    while downhill != 0.0 and near < bound:
        end = min(near + step, bound)
        if slope(downhill * end) * downhill >= 0.0:
            brentq(slope, downhill * near, downhill * end, xtol=_TOLERANCE / reach)
            break
        near = end
        step *= 2.0
    lowest = min(seen.values(), key=lambda point: point.cost)
    if lowest.cost < here.cost:
        points.append(lowest)


def _way_out(x: NDArray[np.float64], direction: NDArray[np.float64], box: Box) -> float:
    """Return how many times `direction` leads from x to the edge of the box."""
    low, high = np.array(box).T
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = np.where(direction > 0, (high - x) / direction, (low - x) / direction)
    return float(np.min(ways[direction != 0], initial=np.inf))
