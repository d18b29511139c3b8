"""Line integrals of lambdas: between ties, and around loops, by quadrature that jumps do not mislead."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.reranking.losses.lambda_functions import CheckedFunction

Array = NDArray[np.float64]

_NODES = 15
_PIECES = 200
_INSET = 1e-9
_PATIENCE, _JUMP = 2, 1e-3
_BISECTIONS = 46


class _Rule(NamedTuple):
    """On [0, 1]: nodes, weights of three rules, and what extrapolates to both ends."""

    nodes: Array
    fine: Array
    coarse: Array
    ends: Array


class _Piece(NamedTuple):
    """An entry of a heap: minus the error, a number that breaks ties, the piece."""

    order: float
    number: int
    left: float
    right: float
    value: float
    error: float
    depth: int


def integrate(
    function: Callable[[float], float], breaks: Sequence[float], allowed: Callable[[], float]
) -> tuple[float, float]:
    """Integrate a function of one variable, piecewise smooth with jumps anywhere.

    Gauss-Legendre rules of 15 nodes against the polynomials through every second node, through the
    even and through the odd ones; the piece with the largest difference is halved until the sum is
    small enough. Values just inside a piece's ends are compared with the extrapolation from its nodes, so
    that no jump hides there. Pieces that have been halved twice are cut at a jump or a kink, looked
    for by bisection, instead. (QUADPACK's extrapolated estimates claim far too much at jumps that
    it is not told of.)

    Parameters
    ----------
    function : callable
        Never called at a break itself.
    breaks : sequence of float
        The interval's ends, and known jumps between them; increasing.
    allowed : callable
        Returns the error to come down to; asked again and again, it may grow.

    Returns
    -------
    value, error : float
        The integral, and an estimate of how wrong it may be.
    """
    numbers = iter(range(10**9))

    def piece(left: float, right: float, depth: int) -> _Piece:
        value, error = _on_piece(function, left, right)
        return _Piece(-error, next(numbers), left, right, value, error, depth)

    heap = [piece(left, right, 0) for left, right in pairwise(breaks) if right > left]
    heapq.heapify(heap)
    total = sum(one.error for one in heap)
    while total > allowed() and len(heap) < _PIECES:
        worst = heapq.heappop(heap)
        left, right, depth = worst.left, worst.right, worst.depth + 1
        cut = 0.5 * (left + right)
        if depth > _PATIENCE:
            cut, depth = _close_in(function, left, right), 0
        halves = [piece(left, cut, depth), piece(cut, right, depth)]
        for half in halves:
            heapq.heappush(heap, half)
        total = sum(one.error for one in heap)
    # From left to right, so that the sum is the same whatever the heap's order.
    heap.sort(key=lambda one: one.left)
    return float(sum(one.value for one in heap)), float(sum(one.error for one in heap))


def _on_piece(function: Callable[[float], float], left: float, right: float) -> tuple[float, float]:
    rule, width = _rule(), right - left
    values = np.array([function(left + width * node) for node in rule.nodes])
    ends = np.array([function(left + width * _INSET), function(right - width * _INSET)])
    fine = float(rule.fine @ values) * width
    error = float(np.abs(fine - rule.coarse @ values * width).max())
    hidden = float(np.abs(rule.ends @ values - ends).max()) * float(rule.nodes[0]) * width
    return fine, error + hidden


def _close_in(function: Callable[[float], float], left: float, right: float) -> float:
    """Bisect towards a jump, or where there is none towards a kink."""
    inset = _INSET * (right - left)
    ends = left + inset, right - inset
    low, high = ends
    before, after = function(low), function(high)
    whole = abs(after - before)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        between = function(middle)
        if abs(between - before) > abs(after - between):
            high, after = middle, between
        else:
            low, before = middle, between
    if abs(after - before) > _JUMP * whole:
        return 0.5 * (low + high)
    low, high = ends
    values = [function(low), function(0.5 * (low + high)), function(high)]
    for _ in range(_BISECTIONS // 2):
        quarter = 0.25 * (high - low)
        first, second = function(low + quarter), function(high - quarter)
        before, between, after = values
        # A kink shows in the second differences around one quarter, or around the middle.
        at_quarter = abs(before - 2.0 * first + between), abs(between - 2.0 * second + after)
        if abs(first - 2.0 * between + second) > max(at_quarter):
            low, high, values = low + quarter, high - quarter, [first, between, second]
        elif at_quarter[0] > at_quarter[1]:
            high, values = low + 2.0 * quarter, [before, first, between]
        else:
            low, values = low + 2.0 * quarter, [between, second, after]
    return 0.5 * (low + high)


@lru_cache(maxsize=1)
def _rule() -> _Rule:
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    nodes, fine = (points + 1.0) / 2.0, weights / 2.0
    coarse = np.zeros((2, _NODES))
    for first in (0, 1):
        through = np.polynomial.legendre.legvander(points[first::2], points[first::2].size - 1)
        # Of the Legendre polynomials only the first has an integral other than 0.
        coarse[first, first::2] = np.linalg.solve(through.T, np.eye(len(through))[0])
    all_ = np.polynomial.legendre.legvander(points, _NODES - 1)
    at_ends = np.polynomial.legendre.legvander(np.array([-1.0, 1.0]), _NODES - 1)
    ends: Array = np.asarray(np.linalg.solve(all_.T, at_ends.T).T, np.float64)
    return _Rule(nodes, fine, coarse, ends)


WANTED = 1e-9
"""The error of integrals to come down to, as a share of what they could be at most."""


@dataclass(frozen=True)
class Work:
    """The work of lambdas along a path.

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

    By `lmtune.laboratory.lambdas.integrals.integrate`, which jumps and kinks elsewhere do not
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
