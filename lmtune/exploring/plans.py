"""Which settings a picture is made of: a plane over two parameters, lines along each of several."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lmtune.exploring.view import View
from lmtune.models.parameter import Parameter, shares
from lmtune.tuning.space import ParameterSpace

POINTS = 33
"""Along each of two parameters, and along a line; half as many of many, and of a smooth form."""

_MANY = 8  # lines: more have half the points
_DIGITS = 9  # significant ones, by which two settings are told apart


def shared(space: ParameterSpace, plane: Sequence[int]) -> list[int]:
    """Return the places of all parameters that share 1 with both of a plane's: it is a triangle then."""
    return next((axes for axes in shares(space.parameters).values() if set(plane) <= {*axes} and plane), [])


def settled_apart(view: View, setting: NDArray[np.float64], plane: Sequence[int]) -> NDArray[np.float64]:
    """Return what all settings of a plane, or of a single line, have in common: one of them."""
    apart, group = setting.copy(), shared(view.space, plane) if len(plane) > 1 else []
    if group:
        rest = [axis for axis in group if axis not in plane]
        total = apart[rest].sum()
        apart[rest] = apart[rest] / total if total > 0.0 else 1.0 / len(rest)
        apart[list(plane)] = 0.0
    else:
        for axis in plane or (view.axes if len(view.axes) == 1 else ()):
            apart = view.space.replaced(apart, axis, view.space.parameters[axis].low)
    return np.array([float(f"{value:.{_DIGITS}g}") for value in apart])


def plan(
    view: View, setting: NDArray[np.float64], plane: Sequence[int], *, is_coarse: bool = False
) -> tuple[NDArray[np.float64], tuple[int, int]]:
    """Return settings to measure through a setting, shape (points, parameters), and the shape of the picture.

    Parameters
    ----------
    view : View
        Whose parameters.
    setting : numpy.ndarray of float64, shape (parameters,)
        Where the plane, or the lines, go through.
    plane : sequence of int
        Two of the view's axes; none for a line along each.
    is_coarse : bool
        Whether half the points do.

    Returns
    -------
    settings, shape
        A grid over two parameters, or lines, each from its low end to its high one, evenly on its scale. Of
        parameters that share 1 a plane is a triangle: a point has as much of the two as it is far along the
        grid, from 0 to 1, and the others what is left, in their proportions. Where the two are more than 1
        there is no setting: NaN.
    """
    space = view.space
    is_whole = len(view.axes) == len(plane) or (not plane and len(view.axes) <= _MANY)
    each = POINTS if is_whole and not is_coarse else (POINTS + 1) // 2
    if not plane:
        lines = [
            space.replaced(setting, axis, value)
            for axis in view.axes
            for value in _along(space.parameters[axis], each)
        ]
        return np.stack(lines), (len(view.axes), each)
    if group := shared(space, plane):
        return _triangle(space, setting, plane, group, each), (each, each)
    across, up = (_along(space.parameters[axis], each) for axis in plane)
    grid = [
        space.replaced(space.replaced(setting, plane[0], one), plane[1], other)
        for one in across
        for other in up
    ]
    return np.stack(grid), (each, each)


def _triangle(
    space: ParameterSpace, setting: NDArray[np.float64], plane: Sequence[int], group: list[int], each: int
) -> NDArray[np.float64]:
    rest = [axis for axis in group if axis not in plane]
    first, second = (own.ravel() for own in np.mgrid[:each, :each])
    grid = np.tile(setting, (each * each, 1))
    grid[:, plane[0]], grid[:, plane[1]] = first / (each - 1), second / (each - 1)
    grid[:, rest] = setting[rest] * ((each - 1 - first - second) / (each - 1))[:, None]
    grid[:, group] = np.maximum(grid[:, group], space.low[group])
    grid = space.settled(grid)
    grid[first + second >= each] = np.nan
    return grid


def _along(parameter: Parameter, each: int) -> list[float]:
    """Return values from a parameter's low end to its high one, evenly on its scale."""
    places = np.linspace(0.0, 1.0, each).tolist()
    return [parameter.clip(parameter.between(parameter.low, parameter.high, share)) for share in places]


def coarse_first(shape: tuple[int, int]) -> list[int]:
    """Return a grid's places, every eighth along both sides first, then those between."""
    rows, columns = shape
    return sorted(range(rows * columns), key=lambda at: -math.gcd(*divmod(at, columns), 8))
