"""Gradients estimated from values: by simultaneous perturbations, and by coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles
from lmtune.tuning.gradient_free import (
    CheckedObjective,
    checked_width,
    coordinate_differences,
    move_inside,
    spsa_differences,
)


def spsa_gradient(
    objective: Callable[[Doubles], Any],
    x: ArrayLike,
    c: float,
    signs: ArrayLike,
    *,
    box: tuple[ArrayLike, ArrayLike] | None = None,
) -> Doubles:
    """Estimate a gradient by simultaneous perturbations; `signs` has shape (perturbations, d) or (d,)."""
    at, low, high = move_inside(x, box)
    rows = np.atleast_2d(np.asarray(signs, np.float64))
    mean: Doubles = spsa_differences(
        CheckedObjective(objective, False), at, checked_width(c), rows, low, high
    ).mean(axis=0)
    return mean


def fdsa_gradient(
    objective: Callable[[Doubles], Any], x: ArrayLike, c: float, *, together: bool = False
) -> Doubles:
    """Estimate a gradient one coordinate at a time, with 2 d evaluations."""
    at, low, high = move_inside(x, None)
    return coordinate_differences(CheckedObjective(objective, together), at, checked_width(c), low, high)
