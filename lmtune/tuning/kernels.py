"""The RankNet cost over all pairs and its gradient, without an exp or a log for each pair."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

# Eight factors of 1 + e**80 stay below e**709, the largest double; where the largest ratio is
# under e**-12, what 1 + ratio rounds away would show in the cost's twelfth digit.
_BLOCK = 8
_SMALLEST_LOG_RATIO, _LARGEST_LOG_RATIO = -12.0, 80.0


@compiled()
def sum_pairs(
    sizes: NDArray[np.int64],
    relevant: NDArray[np.int64],
    likelihood: NDArray[np.float64],
    gradient: NDArray[np.float64],
    product: NDArray[np.bool_],
    out: NDArray[np.float64],
) -> None:
    """Fill out[i] = (cost, its derivative in each parameter) for every topic i.

    Its ``sizes[i]`` documents begin with ``relevant[i]`` relevant ones, the rest are not; both have
    one at least. ``likelihood``, ``gradient`` and ``product`` are those of
    `lmtune.models.formula.Formula.likelihoods`.
    """
    first = 0
    for i in range(sizes.size):
        split, docs = relevant[i], sizes[i]
        own = likelihood[first : first + docs]
        begin = first
        first += docs
        out[i] = 0.0
        if product[i]:
            spread = math.log(own[split:].max()) - math.log(own[:split].min())
            if _SMALLEST_LOG_RATIO < spread < _LARGEST_LOG_RATIO:
                _pairs_by_products(own, gradient, begin, split, out[i])
                continue
            for j in range(docs):
                own[j] = math.log(own[j])
        _pairs_by_logarithms(own, gradient, begin, split, out[i])


@compiled()
def _pairs_by_products(
    likelihood: NDArray[np.float64],
    gradient: NDArray[np.float64],
    begin: int,
    split: int,
    out: NDArray[np.float64],
) -> None:
    """Sum log(1 + P_n / P_r) over pairs: multiply up to eight factors, then take one logarithm.

    The topic's columns of ``gradient`` begin at ``begin``. Derivatives are summed document by
    document, so that the inner loops vectorise in the order of the text: sums in any other order
    would depend on how the compiler was called.
    """
    other = likelihood[split:]
    others, end = begin + split, begin + likelihood.size
    factors = np.ones(other.size)
    share = np.empty(other.size)
    sums = np.zeros((gradient.shape[0], other.size))
    cost = 0.0
    for r in range(split):
        inverse = 1.0 / likelihood[r]
        # The first parameter's sum goes along: a loop less.
        slope, own, total = gradient[0, others:end], gradient[0, begin + r], sums[0]
        for n in range(other.size):
            odds = other[n] * inverse
            factor = 1.0 + odds
            share[n] = odds / factor
            factors[n] *= factor
            total[n] += share[n] * (slope[n] - own)
        for k in range(1, gradient.shape[0]):
            slope, own, total = gradient[k, others:end], gradient[k, begin + r], sums[k]
            for n in range(other.size):
                total[n] += share[n] * (slope[n] - own)
        if (r + 1) % _BLOCK == 0 or r + 1 == split:
            for n in range(other.size):
                cost += math.log(factors[n])
                factors[n] = 1.0
    out[0] = cost
    for k in range(gradient.shape[0]):
        for n in range(other.size):
            out[1 + k] += sums[k, n]


@compiled()
def _pairs_by_logarithms(
    score: NDArray[np.float64],
    gradient: NDArray[np.float64],
    begin: int,
    split: int,
    out: NDArray[np.float64],
) -> None:
    """Sum softplus(g_n - g_r) over pairs, safe for any difference of scores."""
    for r in range(split):
        for n in range(split, score.size):
            difference = score[n] - score[r]
            small = math.exp(-abs(difference))
            out[0] += max(difference, 0.0) + math.log1p(small)
            share = (1.0 if difference >= 0.0 else small) / (1.0 + small)
            for k in range(gradient.shape[0]):
                out[1 + k] += share * (gradient[k, begin + n] - gradient[k, begin + r])
