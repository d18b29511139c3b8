"""Kernels of pairwise losses: RankNet, LambdaRank, NDCG-Loss2++.

A query's items are sorted by falling label, so the less relevant items of each item are a slice.
Single-precision sums have few terms and are added up in double precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Floats, Integers
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import decay, lane_sum, log1p
from lmtune.losses.packing_kernels import ByLabel, doubled_ranks, first_below, mark_nonfinite

# Largest numbers of terms of a single-precision sum: along a row, and down a column.
ACROSS, DOWN = 256, 32


class Swaps(NamedTuple):
    """Input for the weights of pairs, the change of a measure when two items swap ranks.

    Attributes
    ----------
    gains : array of shape (queries, items)
    ideal : float64 array of shape (queries,)
        Normaliser; the loss is 0 for queries with 0.
    at : array of shape (queries, items)
        The scores that determine ranks: those of the call, or earlier scores.
    by_score : int64 array of shape (queries, items)
        Indices of each query's items by falling `at`, padding last.
    precision : bool
        Whether the measure is average precision instead of DCG. Then gains are 1 or 0, and the following
        attributes are not used.
    discounts : float64 array of shape (2 items + 1,)
        ``discounts[2 r]`` is the discount of rank or half rank r; 0 beyond k.
    tightness : array of shape (2 items + 1,), or empty
        ``tightness[2 d]`` is the second term of NDCG-Loss2++'s weights for a rank distance d.
    deepest : int
        Twice the largest rank at which the second term applies; one item of the pair must be at or above it.
    """

    gains: Floats
    ideal: NDArray[np.float64]
    at: Floats
    by_score: Integers
    precision: bool
    discounts: NDArray[np.float64]
    tightness: Floats
    deepest: int


class _Weights(NamedTuple):
    """One query's part of `Swaps`, with items by falling label.

    For average precision, ``gain`` and ``discount`` are the arrays that `_precision_ends` returns.
    """

    precision: bool
    gain: Floats
    discount: Floats
    rank: NDArray[np.int32]
    tightness: Floats
    deepest: int


class _Terms(NamedTuple):
    """Work arrays for one row of pairs: costs, derivatives, weights."""

    costs: Floats
    shares: Floats
    weights: Floats


@compiled()
def _sum_row(s_i: Any, s: Floats, sigma: Any, gradient: Floats, terms: _Terms) -> tuple[Any, Any]:
    """Sum w_j softplus(sigma (s_j - s_i)) and its derivative over j; add each derivative to `gradient`."""
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    costs, shares, weight = terms.costs[: s.size], terms.shares[: s.size], terms.weights[: s.size]
    for j in range(s.size):
        x = sigma * (s[j] - s_i)
        t = decay(abs(x))
        share = weight[j] * (one if x >= zero else t) / (one + t)
        costs[j] = weight[j] * (max(x, zero) + log1p(t))
        shares[j] = share
        gradient[j] += share
    return lane_sum(costs), lane_sum(shares)


@compiled()
def _weigh_swaps(i: int, first: int, weights: _Weights, weight: Floats) -> None:
    """Fill the change of DCG when item i swaps with each later item."""
    gain_i, discount_i = weights.gain[i], weights.discount[i]
    gain, discount = weights.gain[first:], weights.discount[first:]
    for j in range(weight.size):
        weight[j] = (gain_i - gain[j]) * abs(discount_i - discount[j])


@compiled()
def _weigh_precision(i: int, first: int, weights: _Weights, weight: Floats) -> None:
    """Fill the change of average precision when item i swaps with each later item."""
    ahead_i, behind_i, rank_i = weights.gain[i], weights.discount[i], weights.rank[i]
    ahead, behind, rank = weights.gain[first:], weights.discount[first:], weights.rank[first:]
    for j in range(weight.size):
        weight[j] = ahead_i - behind[j] if rank_i < rank[j] else ahead[j] - behind_i


@compiled()
def _weigh_tightly(i: int, first: int, weights: _Weights, weight: Floats) -> None:
    """Fill NDCG-Loss2++'s weights of item i with each later item."""
    gain_i, discount_i, rank_i = weights.gain[i], weights.discount[i], weights.rank[i]
    gain, discount, rank = weights.gain[first:], weights.discount[first:], weights.rank[first:]
    tightness, deepest = weights.tightness, weights.deepest
    for j in range(weight.size):
        swap = abs(discount_i - discount[j])
        if min(rank_i, rank[j]) <= deepest:
            swap += tightness[np.uintp(abs(rank_i - rank[j]))]
        weight[j] = (gain_i - gain[j]) * swap


@compiled()
def _precision_ends(gain: Floats, rank: NDArray[np.int32], by_rank: Integers) -> tuple[Floats, Floats]:
    """Return a and b such that |change of R AP| = a_i - b_j if i ranks above j and they swap.

    For an item with rank r, let c be the number of relevant items down to r, and H the sum of 1 / r over
    these. For relevant items, a = c / r - H and b = (c + 1) / r - H. For other items, a = (c + 1) / r - H
    and b = c / r - H. ``by_rank`` has the indices of the items by rank.
    """
    ahead, behind = np.empty(gain.size, gain.dtype), np.empty(gain.size, gain.dtype)
    count, harmonic = 0, 0.0
    for i in by_rank:
        r = 0.5 * rank[i]
        relevant = gain[i] > 0
        if relevant:
            count += 1
            harmonic += 1.0 / r
        ahead[i] = (count + (0.0 if relevant else 1.0)) / r - harmonic
        behind[i] = (count + (1.0 if relevant else 0.0)) / r - harmonic
    return ahead, behind


@compiled()
def flush(sums: Floats, gradient: NDArray[np.float64]) -> None:
    """Add `sums` to the double-precision gradient and reset them to 0."""
    for j in range(sums.size):
        gradient[j] += sums[j]
        sums[j] = 0


@compiled()
def _sum_pairs(
    s: Floats, after: Integers, weights: _Weights, sigma: Any, gradient: NDArray[np.float64]
) -> float:
    """Return the sum of a query's pair costs and add its gradient; without gains, all weights are 1."""
    n = s.size
    sums = np.zeros(n, s.dtype)
    # Weights have a loop of their own: their table look-ups would prevent vectorisation of the sums.
    terms = _Terms(np.empty(ACROSS, s.dtype), np.empty(ACROSS, s.dtype), np.ones(ACROSS, s.dtype))
    total = 0.0
    for i in range(n):
        for a in range(after[i], n, ACROSS):
            b = min(a + ACROSS, n)
            weight = terms.weights[: b - a]
            if weights.precision:
                _weigh_precision(i, a, weights, weight)
            elif weights.tightness.size > 0:
                _weigh_tightly(i, a, weights, weight)
            elif weights.gain.size > 0:
                _weigh_swaps(i, a, weights, weight)
            cost, derivative = _sum_row(s[i], s[a:b], sigma, sums[a:b], terms)
            total += cost
            gradient[i] -= derivative
        if (i + 1) % DOWN == 0 or i + 1 == n:
            flush(sums, gradient)
    return total


@compiled()
def ranknet_queries(
    first: int, last: int, lists: ByLabel, sigma: Any, mean: bool, losses: Floats, gradients: Floats
) -> None:
    """Fill RankNet's losses and gradients of queries ``first`` to ``last - 1``.

    Parameters
    ----------
    first, last : int
    lists : ByLabel
    sigma : number of the scores' type
    mean : bool
        Whether to divide by the number of pairs.
    losses : float array of shape (queries,)
    gradients : float array of shape (queries, items)
        Must be 0 on padding.
    """
    for q in range(first, last):
        order = lists.order[q, : lists.real[q]]
        s = lists.scores[q][order]
        if mark_nonfinite(s, order, q, losses, gradients):
            continue
        after = first_below(lists.labels[q][order])
        gradient = np.zeros(s.size)
        equal = _Weights(False, s[:0], s[:0], np.empty(0, np.int32), s[:0], 0)
        total = _sum_pairs(s, after, equal, sigma, gradient)
        pairs = (s.size - after).sum()
        share = 1.0 / max(pairs, 1) if mean else 1.0
        losses[q] = total * share
        for i in range(s.size):
            gradients[q, order[i]] = gradient[i] * share * sigma


@compiled()
def weighted_queries(
    first: int, last: int, lists: ByLabel, swaps: Swaps, sigma: Any, losses: Floats, gradients: Floats
) -> None:
    """Fill the losses and gradients of LambdaRank or NDCG-Loss2++; parameters as in `ranknet_queries`."""
    position = np.empty(lists.scores.shape[1], np.int64)
    for q in range(first, last):
        order = lists.order[q, : lists.real[q]]
        s = lists.scores[q][order]
        n = s.size
        if mark_nonfinite(s, order, q, losses, gradients):
            continue
        ideal = swaps.ideal[q]
        if ideal == 0.0:
            losses[q] = 0.0
            continue
        for i in range(n):
            position[order[i]] = i
        label, gain = lists.labels[q][order], swaps.gains[q][order]
        rank = doubled_ranks(swaps.at[q][order], label, position[swaps.by_score[q, :n]])
        discount = np.empty(n, s.dtype)
        if swaps.precision:
            gain, discount = _precision_ends(gain, rank, np.argsort(rank))
        else:
            for i in range(n):
                discount[i] = swaps.discounts[rank[i]]
        gradient = np.zeros(n)
        weights = _Weights(swaps.precision, gain, discount, rank, swaps.tightness, swaps.deepest)
        total = _sum_pairs(s, first_below(label), weights, sigma, gradient)
        losses[q] = total / ideal
        for i in range(n):
            gradients[q, order[i]] = gradient[i] * sigma / ideal
