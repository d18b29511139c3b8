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
_JUMPLIKE = 0.3
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
    searched: bool


def integrate(
    function: Callable[[float], float], breaks: Sequence[float], allowed: Callable[[], float]
) -> tuple[float, float]:
    """Integrate a function of one variable, piecewise smooth with jumps anywhere.

    Gauss-Legendre rules of 15 nodes against the polynomials through every second node, through the
    even and through the odd ones; the piece with the largest difference is halved until the sum is
    small enough. Values just inside a piece's
    ends are held against what its nodes foretell, so that no jump hides there. Where halving does
    not help as it does with smooth functions a jump is looked for by bisection and the piece cut
    at it. (QUADPACK's extrapolated estimates claim far too much at jumps that it is not told of.)

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

    def piece(left: float, right: float, searched: bool) -> _Piece:
        value, error = _on_piece(function, left, right)
        return _Piece(-error, next(numbers), left, right, value, error, searched)

    heap = [piece(left, right, False) for left, right in pairwise(breaks) if right > left]
    heapq.heapify(heap)
    total = sum(one.error for one in heap)
    while total > allowed() and len(heap) < _PIECES:
        worst = heapq.heappop(heap)
        middle = 0.5 * (worst.left + worst.right)
        halves = [
            piece(worst.left, middle, worst.searched),
            piece(middle, worst.right, worst.searched),
        ]
        if not worst.searched and max(one.error for one in halves) > _JUMPLIKE * worst.error:
            at = max(halves, key=lambda one: one.error)
            left, right = _close_in(function, at.left, at.right)
            if at.left < left and right < at.right:
                halves.remove(at)
                halves += [piece(at.left, left, True), piece(right, at.right, True)]
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


def _close_in(function: Callable[[float], float], left: float, right: float) -> tuple[float, float]:
    """Bisect towards the largest change."""
    width = right - left
    before, after = function(left + _INSET * width), function(right - _INSET * width)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (left + right)
        if not left < middle < right:
            break
        between = function(middle)
        if abs(between - before) > abs(after - between):
            right, after = middle, between
        else:
            left, before = middle, between
    return left, right


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
