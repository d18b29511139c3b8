"""Sums whose order is in the text, so that it is the same whoever compiles it, yet quick.

Eight partial sums fill vector registers without leave to reorder. With that leave, the last bit
depended on the addresses of arrays, and training twice from one seed gave two networks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

Floats = NDArray[np.floating[Any]]


@compiled()
def lane_sum(x: Floats) -> Any:
    """Return the sum of an array, in its own type."""
    zero = x.dtype.type(0.0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    whole = x.size - x.size % 8
    for j in range(0, whole, 8):
        a += x[j]
        b += x[j + 1]
        c += x[j + 2]
        d += x[j + 3]
        e += x[j + 4]
        f += x[j + 5]
        g += x[j + 6]
        h += x[j + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for j in range(whole, x.size):
        total += x[j]
    return total


@compiled()
def lane_dot(x: Floats, y: Floats) -> Any:
    """Return the inner product of two arrays."""
    zero = x.dtype.type(0.0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    whole = x.size - x.size % 8
    for j in range(0, whole, 8):
        a += x[j] * y[j]
        b += x[j + 1] * y[j + 1]
        c += x[j + 2] * y[j + 2]
        d += x[j + 3] * y[j + 3]
        e += x[j + 4] * y[j + 4]
        f += x[j + 5] * y[j + 5]
        g += x[j + 6] * y[j + 6]
        h += x[j + 7] * y[j + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for j in range(whole, x.size):
        total += x[j] * y[j]
    return total


@compiled()
def lane_max(x: Floats) -> Any:
    """Return the greatest number of an array, minus infinity of none."""
    a = x.dtype.type(-np.inf)
    b, c, d = a, a, a
    whole = x.size - x.size % 4
    for j in range(0, whole, 4):
        a = x[j] if x[j] > a else a
        b = x[j + 1] if x[j + 1] > b else b
        c = x[j + 2] if x[j + 2] > c else c
        d = x[j + 3] if x[j + 3] > d else d
    for j in range(whole, x.size):
        a = x[j] if x[j] > a else a
    return max(max(a, b), max(c, d))


@compiled()
def add_scaled(factor: Any, x: Floats, sums: Floats) -> None:
    """Add a multiple of an array to another."""
    for j in range(sums.size):
        sums[j] += factor * x[j]
