"""The RankNet cost over all pairs without an exp or a log for each; scores over their spread, and back."""

from __future__ import annotations

import math

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.compiled import compiled

# Eight factors of 1 + e**80 stay below e**709, the largest double; where the largest ratio is
# under e**-12, what 1 + ratio rounds away would show in the cost's twelfth digit.
_BLOCK = 8
_SMALLEST_LOG_RATIO, _LARGEST_LOG_RATIO = -12.0, 80.0
# Equal scores of a topic differ from their mean by less.
_ROUNDING = 1e-13


@compiled()
def sum_pairs(
    sizes: Integers,
    relevant: Integers,
    likelihood: Doubles,
    gradient: Doubles,
    product: Booleans,
    out: Doubles,
) -> None:
    """Fill out[i] = (cost, its derivative in each parameter) for every topic i.

    Its ``sizes[i]`` documents begin with ``relevant[i]`` relevant ones, the rest are not; both have
    one at least. ``likelihood``, ``gradient`` and ``product`` are those of
    `lmtune.models.formula.Formula.likelihoods`.
    """
    first = np.int64(0)
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
def _pairs_by_products(likelihood: Doubles, gradient: Doubles, begin: int, split: int, out: Doubles) -> None:
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
def _pairs_by_logarithms(score: Doubles, gradient: Doubles, begin: int, split: int, out: Doubles) -> None:
    """Sum softplus(g_n - g_r) over pairs, safe for any difference of scores."""
    for r in range(split):
        for n in range(split, score.size):
            difference = score[n] - score[r]
            small = math.exp(-abs(difference))
            out[0] += max(difference, 0.0) + math.log1p(small)
            share = (1.0 if difference >= 0.0 else small) / (1.0 + small)
            for k in range(gradient.shape[0]):
                out[1 + k] += share * (gradient[k, begin + n] - gradient[k, begin + r])


@compiled()
def standardise(
    sizes: Integers, product: Booleans, likelihood: Doubles, out: Doubles, spread: Doubles
) -> None:
    """Fill out[i, :sizes[i]] with (s - mean of s) / z, where z = spread[i] is the deviation of topic i's s.

    ``likelihood`` and ``product`` are those of `lmtune.models.formula.Formula.likelihoods`. Where all
    scores are equal, but for rounding, z is infinite.
    """
    first = 0
    for i in range(sizes.size):
        score = likelihood[first : first + sizes[i]]
        first += sizes[i]
        if product[i]:
            for j in range(score.size):
                score[j] = math.log(score[j])
        mean, square = score.mean(), 0.0
        for j in range(score.size):
            square += (score[j] - mean) ** 2
        spread[i] = math.sqrt(square / score.size)
        if spread[i] <= _ROUNDING * (1.0 + abs(mean)):
            spread[i] = np.inf
        for j in range(score.size):
            out[i, j] = (score[j] - mean) / spread[i]


@compiled()
def chain_topics(
    sizes: Integers, standard: Doubles, slopes: Doubles, spread: Doubles, gradient: Doubles, out: Doubles
) -> None:
    """Fill out[i, 1:] with the derivatives of topic i's cost in each parameter, and in log alpha.

    ``standard`` and ``spread`` are those of `standardise`, ``slopes`` the derivatives in the former,
    ``gradient`` those of scores in each parameter. With u = (s - mean) / z and g the slopes, the
    derivative in s_j is (g_j - mean(g) - u_j mean(g u)) / z; as the cost is one of alpha u, that in
    log alpha is sum(g u).
    """
    first = 0
    for i in range(sizes.size):
        docs = sizes[i]
        u, g = standard[i, :docs], slopes[i, :docs]
        along = 0.0
        for j in range(docs):
            along += g[j] * u[j]
        mean = g.mean()
        for k in range(gradient.shape[0]):
            own, total = gradient[k, first : first + docs], 0.0
            for j in range(docs):
                total += (g[j] - mean - u[j] * (along / docs)) * own[j]
            out[i, 1 + k] = total / spread[i]
        out[i, 1 + gradient.shape[0]] = along
        first += docs
