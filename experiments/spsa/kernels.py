"""The pairs' cross-entropy without its gradient: products of factors, and few logarithms."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

# The largest double is above e**709: products stay below e**_ROOM, and exp is taken of no more.
_ROOM = 600.0


@compiled()
def pair_costs(
    scores: NDArray[np.float64], starts: NDArray[np.int64], below: NDArray[np.int64], out: NDArray[np.float64]
) -> None:
    """Fill out[p] with the sum over pairs of ln(1 + e^(s_j - s_i)), i labelled above j.

    A product of factors 1 + e^(s_j - s_i) is as good as the sum of their logarithms as long as it
    is finite; how many go into one follows from the list's largest difference of scores.

    Parameters
    ----------
    scores : float64 array of shape (points, rows)
    starts : int64 array of shape (queries + 1,)
        Where each query's rows begin; they stand by falling label.
    below : int64 array of shape (rows,)
        The first row of the query, or its end, with a lower label.
    out : float64 array of shape (points,)
    """
    longest = 0
    for q in range(starts.size - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    odds = np.empty(longest)
    factors = np.ones(longest)
    for p in range(scores.shape[0]):
        total = 0.0
        for q in range(starts.size - 1):
            first, last = starts[q], starts[q + 1]
            s = scores[p, first:last]
            low, high = s[0], s[0]
            for j in range(1, s.size):
                low, high = min(low, s[j]), max(high, s[j])
            most = high - low + math.log(2.0)  # of a factor's logarithm
            if not most < _ROOM:
                total += _directly(s, below[first:last], first)
                continue
            middle = 0.5 * (low + high)
            for j in range(s.size):
                odds[j] = math.exp(s[j] - middle)
            rows = int(_ROOM / most)
            taken = 0
            for i in range(s.size):
                begin = below[first + i] - first
                if begin == s.size:
                    break
                inverse = 1.0 / odds[i]
                for j in range(begin, s.size):
                    factors[j] *= 1.0 + odds[j] * inverse
                taken += 1
                if taken == rows:
                    total += _logarithm(factors[: s.size], int(_ROOM / (most * taken)))
                    taken = 0
            if taken > 0:
                total += _logarithm(factors[: s.size], int(_ROOM / (most * taken)))
        out[p] = total


@compiled()
def _logarithm(factors: NDArray[np.float64], together: int) -> float:
    """Return the logarithm of the product, with so many factors in one; leave ones behind."""
    total, product, taken = 0.0, 1.0, 0
    for j in range(factors.size):
        product *= factors[j]
        factors[j] = 1.0
        taken += 1
        if taken >= together:
            total += math.log(product)
            product, taken = 1.0, 0
    return total + math.log(product)


@compiled()
def _directly(s: NDArray[np.float64], below: NDArray[np.int64], first: int) -> float:
    """Sum ln(1 + e^x) for differences x of any size."""
    total = 0.0
    for i in range(s.size):
        for j in range(below[i] - first, s.size):
            x = s[j] - s[i]
            total += max(x, 0.0) + math.log1p(math.exp(-abs(x)))
    return total


@compiled()
def pair_slopes(
    scores: NDArray[np.float64], starts: NDArray[np.int64], below: NDArray[np.int64], out: NDArray[np.float64]
) -> None:
    """Fill out[i] with the derivative of the pairs' cost by the score of row i.

    Parameters
    ----------
    scores : float64 array of shape (rows,)
    starts, below : int64 arrays
        As of `pair_costs`.
    out : float64 array of shape (rows,)
    """
    out[:] = 0.0
    for q in range(starts.size - 1):
        last = starts[q + 1]
        for i in range(starts[q], last):
            for j in range(below[i], last):
                # 1 / (1 + e^(s_i - s_j)), from a power that cannot overflow.
                x = scores[j] - scores[i]
                small = math.exp(-abs(x))
                share = (1.0 if x >= 0.0 else small) / (1.0 + small)
                out[j] += share
                out[i] -= share
