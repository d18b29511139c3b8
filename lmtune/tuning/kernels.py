"""Kernels: RankNet's cost over all pairs without exp or log per pair; standardised scores and gradients."""

from __future__ import annotations

import math

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.compiled import compiled

# A product of eight factors 1 + e**80 stays below e**709, the largest double. If the largest ratio is below
# e**-12, the rounding of 1 + ratio would change the cost's twelfth digit.
_BLOCK = 8
_SMALLEST_LOG_RATIO, _LARGEST_LOG_RATIO = -12.0, 80.0
# If a topic's scores are equal, rounding makes them differ from their mean by less than this.
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
    """Fill out[i] = (cost, derivative in each parameter) for every topic i.

    A topic has ``sizes[i]`` documents; the first ``relevant[i]`` are relevant, the others are not. There is
    at least one of each. ``likelihood``, ``gradient`` and ``product`` are those of
    `lmtune.models.formula.Formula.likelihoods`.
    """
    first = np.int64(0)
    for i in range(sizes.size):
        split, docs = relevant[i], sizes[i]
        values = likelihood[first : first + docs]
        begin = first
        first += docs
        out[i] = 0.0
        if product[i]:
            spread = math.log(values[split:].max()) - math.log(values[:split].min())
            if _SMALLEST_LOG_RATIO < spread < _LARGEST_LOG_RATIO:
                _pairs_by_products(values, gradient, begin, split, out[i])
                continue
            for j in range(docs):
                values[j] = math.log(values[j])
        _pairs_by_logarithms(values, gradient, begin, split, out[i])


@compiled()
def _pairs_by_products(likelihood: Doubles, gradient: Doubles, begin: int, split: int, out: Doubles) -> None:
    """Sum log(1 + P_n / P_r) over pairs, with one logarithm for up to eight multiplied factors.

    The topic's columns of ``gradient`` begin at ``begin``. Derivatives are summed per document, so that the
    inner loops vectorise without reordering sums. Otherwise, results would depend on compiler options.
    """
    other = likelihood[split:]
    others, end = begin + split, begin + likelihood.size
    factors = np.ones(other.size)
    share = np.empty(other.size)
    sums = np.zeros((gradient.shape[0], other.size))
    cost = 0.0
    for r in range(split):
        inverse = 1.0 / likelihood[r]
        # The first parameter's sum is computed in the same loop, which saves a pass.
        slope, relevant_slope, total = gradient[0, others:end], gradient[0, begin + r], sums[0]
        for n in range(other.size):
            odds = other[n] * inverse
            factor = 1.0 + odds
            share[n] = odds / factor
            factors[n] *= factor
            total[n] += share[n] * (slope[n] - relevant_slope)
        for k in range(1, gradient.shape[0]):
            slope, relevant_slope, total = gradient[k, others:end], gradient[k, begin + r], sums[k]
            for n in range(other.size):
                total[n] += share[n] * (slope[n] - relevant_slope)
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
    """Sum softplus(g_n - g_r) over pairs, without overflow for any difference of scores."""
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
    """Standardise scores: fill out[i, :sizes[i]] with (s - mean(s)) / z, for the scores s of topic i.

    z = spread[i] is the standard deviation of s; it is infinite if all scores are equal up to rounding.
    ``likelihood`` and ``product`` are those of `lmtune.models.formula.Formula.likelihoods`.
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

    ``standard`` and ``spread`` are the results of `standardise`. ``slopes`` are the cost's derivatives in the
    standardised scores u = (s - mean(s)) / z, and ``gradient`` the scores' derivatives in each parameter.
    With g the slopes, the derivative in s_j is (g_j - mean(g) - u_j mean(g u)) / z. The cost depends on alpha
    u, so the derivative in log alpha is sum(g u).
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
            slope, total = gradient[k, first : first + docs], 0.0
            for j in range(docs):
                total += (g[j] - mean - u[j] * (along / docs)) * slope[j]
            out[i, 1 + k] = total / spread[i]
        out[i, 1 + gradient.shape[0]] = along
        first += docs
