"""Line integrals of lambdas: along straight lines, split where documents tie, and around loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.laboratory.lambdas.quadrature import integrate
from lmtune.reranking.losses.lambda_functions import CheckedFunction

Array = NDArray[np.float64]

WANTED = 1e-9
"""The error of integrals to come down to, as a share of what they could be at most."""


@dataclass(frozen=True)
class Work:
    """What the lambdas do along a path.

    Attributes
    ----------
    value : float
        The integral of lambda . ds.
    error : float
        An estimate of how wrong it may be.
    scale : float
        The largest lambda met, times the length: no work can be greater than about that.
    """

    value: float
    error: float
    scale: float

    def __add__(self, other: Work) -> Work:
        return Work(self.value + other.value, self.error + other.error, self.scale + other.scale)

    def __sub__(self, other: Work) -> Work:
        return Work(self.value - other.value, self.error + other.error, self.scale + other.scale)


def ties_between(start: Array, end: Array) -> Array:
    """Return where on the way from start (0) to end (1) two scores cross, increasing."""
    upper = np.triu_indices(start.size, 1)
    before = (start[:, None] - start[None, :])[upper]
    after = (end[:, None] - end[None, :])[upper]
    crossing = before * after < 0.0
    at: Array = np.unique(before[crossing] / (before[crossing] - after[crossing]))
    return at[(at > 0.0) & (at < 1.0)]


def work(function: CheckedFunction, labels: Array, start: Array, end: Array, wanted: float = WANTED) -> Work:
    """Integrate lambda . ds along a straight line, piece by piece between ties.

    By `lmtune.laboratory.lambdas.quadrature.integrate`, which jumps and kinks elsewhere do not
    mislead.

    Parameters
    ----------
    function : CheckedFunction
        The lambda-function.
    labels : numpy.ndarray, shape (documents,)
        Labels.
    start, end : numpy.ndarray, shape (documents,)
        The line's ends.
    wanted : float
        The error to come down to, as a share of the largest lambda times the length; more than
        the lambdas' own rounding.
    """
    way = end - start
    length = float(np.sqrt(way @ way))
    if length == 0.0:
        return Work(0.0, 0.0, 0.0)
    largest = 0.0

    def along(t: float) -> float:
        nonlocal largest
        lambdas = function(start + t * way, labels)
        largest = max(largest, float(np.sqrt(lambdas @ lambdas)))
        return float(lambdas @ way)

    value, error = integrate(along, [0.0, *ties_between(start, end), 1.0], lambda: wanted * largest * length)
    rounding = 10.0 * np.finfo(np.float64).eps * largest * length
    return Work(value, error + rounding, largest * length)


def circulation(
    function: CheckedFunction, labels: Array, corners: Sequence[Array], wanted: float = WANTED
) -> Work:
    """Integrate lambda . ds around a closed polygon; 0 where the lambdas have a cost.

    Parameters
    ----------
    function, labels, wanted
        As for `work`.
    corners : sequence of numpy.ndarray, shape (documents,)
        In order; the last is joined to the first.
    """
    total = Work(0.0, 0.0, 0.0)
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        total = total + work(function, labels, start, end, wanted)
    return total


def loop_across(scores: Array, i: int, j: int, side: Array, radius: float) -> list[Array]:
    """Return a square that crosses the tie s_i = s_j twice.

    Parameters
    ----------
    scores : numpy.ndarray, shape (documents,)
        The centre, with s_i = s_j.
    i, j : int
        The tied documents.
    side : numpy.ndarray, shape (documents,)
        A unit vector orthogonal to e_i - e_j: the direction along the tie.
    radius : float
        Half the square's side.
    """
    across = np.zeros(scores.size)
    across[i], across[j] = np.sqrt(0.5), -np.sqrt(0.5)
    return [scores + radius * (a * across + b * side) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]


def loop_around(scores: Array, trio: Sequence[int], radii: Sequence[float], turn: float) -> list[Array]:
    """Return a hexagon around s_i = s_j = s_k, which passes through all six orders of the three.

    Parameters
    ----------
    scores : numpy.ndarray, shape (documents,)
        The centre, where the three tie.
    trio : sequence of int
        The three documents.
    radii : sequence of float
        From the centre to each of the six corners. In a regular hexagon much would cancel.
    turn : float
        Angle of the first corner, in radians.
    """
    first, second = trio_plane(scores.size, trio)
    angles = turn + np.arange(6) * np.pi / 3.0
    return [
        scores + radius * (np.cos(angle) * first + np.sin(angle) * second)
        for radius, angle in zip(radii, angles, strict=True)
    ]


def trio_plane(size: int, trio: Sequence[int]) -> tuple[Array, Array]:
    """Return two unit vectors that span the plane in which three scores move, their sum fixed."""
    i, j, k = trio
    first, second = np.zeros((2, size))
    first[i], first[j] = np.sqrt(0.5), -np.sqrt(0.5)
    second[[i, j, k]] = np.array([1.0, 1.0, -2.0]) / np.sqrt(6.0)
    return first, second
