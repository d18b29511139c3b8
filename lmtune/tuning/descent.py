"""Minimisers of a smooth cost in two unbounded coordinates, inside a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
Box = tuple[tuple[float, float], ...]

_FIRST_STEP = 0.5
# Of logit lambda and log mu: lambda to 5 decimals, mu to 5 digits.
_TOLERANCE = 1e-5
_MOST_ROUNDS = 100


class Point(NamedTuple):
    """An iterate: where, and the cost there."""

    x: NDArray[np.float64]
    cost: float


def coordinate_descent(objective: Objective, x: NDArray[np.float64], box: Box) -> list[Point]:
    """Minimise along one coordinate after another until neither moves.

    Along a coordinate the derivative's sign change is bracketed downhill by doubling steps, then
    found by Brent's method; an end that is not lower than the beginning is not taken.

    Parameters
    ----------
    objective : callable
        Returns the cost and its gradient.
    x : numpy.ndarray of float64
        The start, inside the box.
    box : tuple of (low, high)
        Bounds, a pair a coordinate.

    Returns
    -------
    list of Point
        The start, then every move, costs descending.
    """
    points = [Point(x, objective(x)[0])]
    for _ in range(_MOST_ROUNDS):
        before = points[-1].x
        for axis in range(x.size):
            point = _minimise_along(objective, points[-1], axis, box[axis])
            if point.cost < points[-1].cost:
                points.append(point)
        if np.abs(points[-1].x - before).max() < _TOLERANCE:
            break
    return points


def _minimise_along(
    objective: Objective, here: Point, axis: int, bounds: tuple[float, float]
) -> Point:
    from scipy.optimize import brentq

    seen: dict[float, tuple[float, float]] = {}

    def slope(value: float) -> float:
        if value not in seen:
            cost, gradient = objective(_moved(here.x, axis, value))
            seen[value] = cost, float(gradient[axis])
        return seen[value][1]

    near = float(here.x[axis])
    downhill = -np.sign(slope(near))
    bound = bounds[0] if downhill < 0 else bounds[1]
    step = _FIRST_STEP
    end = near
    while downhill != 0 and near != bound:
        end = float(np.clip(near + downhill * step, *bounds))
        if slope(end) * downhill >= 0:
            end = float(brentq(slope, near, end, xtol=_TOLERANCE / 100))
            slope(end)
            break
        near = end
        step *= 2
    slope(end)
    lowest = min(seen, key=lambda value: seen[value][0])
    return Point(_moved(here.x, axis, lowest), seen[lowest][0])


def _moved(x: NDArray[np.float64], axis: int, value: float) -> NDArray[np.float64]:
    moved = x.copy()
    moved[axis] = value
    return moved


def l_bfgs(objective: Objective, x: NDArray[np.float64], box: Box) -> list[Point]:
    """Minimise both coordinates jointly by L-BFGS-B; parameters and result as above."""
    from scipy.optimize import minimize

    points = [Point(x, objective(x)[0])]

    def record(intermediate_result: object) -> None:
        found = np.array(intermediate_result.x)  # type: ignore[attr-defined]
        points.append(Point(found, float(intermediate_result.fun)))  # type: ignore[attr-defined]

    minimize(
        objective,
        x,
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        callback=record,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    return points
