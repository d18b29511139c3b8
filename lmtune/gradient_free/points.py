"""Where an objective is asked: points inside a box, counted and remembered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError, check_least

Vector = NDArray[np.float64]
Objective = Callable[[Vector], Any]
Box = tuple[ArrayLike, ArrayLike]


class Counted:
    """An objective that takes many points, checks its values and remembers the best."""

    def __init__(self, objective: Objective, together: bool) -> None:
        self.objective, self.together = objective, together
        self.values: list[Vector] = []
        self.best, self.best_x = math.inf, np.empty(0)

    def __call__(self, points: Vector) -> Vector:
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


def inside(start: ArrayLike, box: Box | None) -> tuple[Vector, Vector, Vector]:
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
