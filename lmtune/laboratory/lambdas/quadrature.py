"""Adaptive quadrature whose error estimate holds at jumps, too."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    """What a heap sorts: minus the error, a number that breaks ties, the piece."""

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
    small enough. Values just inside a piece's ends are held against what its nodes foretell, so
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
