"""The pairs' cross-entropy without its gradient: products of factors, and few logarithms."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

# A factor is below e**_WIDEST = 1e260, so that a product stays below the largest double, 1e308.
_WIDEST, _LARGEST = 600.0, 1e40


@compiled()
def pair_costs(
    scores: NDArray[np.float64], starts: NDArray[np.int64], below: NDArray[np.int64], out: NDArray[np.float64]
) -> None:
    """Fill out[p] with the sum over pairs of ln(1 + e^(s_j - s_i)), i labelled above j.

    The logarithm is taken of products of factors 1 + e^(s_j - s_i), one for as many as stay finite.

    Parameters
    ----------
    scores : float64 array of shape (points, rows)
    starts : int64 array of shape (queries + 1,)
        Where each query's rows begin; they stand by falling label.
    below : int64 array of shape (rows,)
        The first row of the query, or its end, with a lower label.
    out : float64 array of shape (points,)
    """
    for p in range(scores.shape[0]):
        total = 0.0
        for q in range(starts.size - 1):
            first, last = starts[q], starts[q + 1]
            s = scores[p, first:last]
            low, high = s.min(), s.max()
            if not high - low < _WIDEST:
                total += _directly(s, below[first:last], first)
                continue
            odds = np.exp(s - 0.5 * (low + high))
            for i in range(s.size):
                product, inverse = 1.0, 1.0 / odds[i]
                for j in range(below[first + i] - first, s.size):
                    product *= 1.0 + odds[j] * inverse
                    if product > _LARGEST:
                        total += math.log(product)
                        product = 1.0
                total += math.log(product)
        out[p] = total


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
