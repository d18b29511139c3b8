"""Pairwise cross-entropy without its gradient: products of factors with few logarithms."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

# A factor is below e**_WIDEST = 1e260, so a product stays below the largest double, 1e308.
_WIDEST, _LARGEST = 600.0, 1e40


@compiled()
def pair_costs(
    scores: NDArray[np.float64], starts: NDArray[np.int64], below: NDArray[np.int64], out: NDArray[np.float64]
) -> None:
    """Fill out[p] with the sum over pairs of ln(1 + e^(s_j - s_i)), i labelled above j.

    Factors 1 + e^(s_j - s_i) are multiplied as long as the product stays finite; then its logarithm is added.

    Parameters
    ----------
    scores : float64 array of shape (points, rows)
    starts : int64 array of shape (queries + 1,)
        Start of each query's rows, which are sorted by falling label.
    below : int64 array of shape (rows,)
        The first row of the query with a lower label, or the end of the query.
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
    """Fill out[i] with the derivative of the pairwise cost by the score of row i.

    Parameters
    ----------
    scores : float64 array of shape (rows,)
    starts, below : int64 arrays
        As for `pair_costs`.
    out : float64 array of shape (rows,)
    """
    out[:] = 0.0
    for q in range(starts.size - 1):
        last = starts[q + 1]
        for i in range(starts[q], last):
            for j in range(below[i], last):
                # 1 / (1 + e^(s_i - s_j)), with an exponent that cannot overflow
                x = scores[j] - scores[i]
                small = math.exp(-abs(x))
                share = (1.0 if x >= 0.0 else small) / (1.0 + small)
                out[j] += share
                out[i] -= share
