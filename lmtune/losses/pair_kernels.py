"""Sums over pairs of items with different labels: RankNet, LambdaRank, NDCG-Loss2++.

A query's items stand by falling label, so that an item's pairs with less relevant ones are a slice.
Single-precision sums are kept short, and added up in double precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Floats, Integers
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import decay, lane_sum, log1p
from lmtune.losses.packing_kernels import ByLabel, below, doubled_ranks, spoiled

# Terms of a single-precision sum: along a row, and down a column.
ACROSS, DOWN = 256, 32


class Swaps(NamedTuple):
    """What swapping items is worth, of all queries.

    Attributes
    ----------
    gains : array of shape (queries, items)
    ideal : float64 array of shape (queries,)
        What sums are divided by; a query with 0 has no loss.
    at : array of shape (queries, items)
        The scores that items are ranked by: those of the call, or earlier ones.
    by_score : int64 array of shape (queries, items)
        Each query's items by falling `at`, padding last.
    precision : bool
        Whether average precision changes and not DCG: gains are 1 or 0, and the rest is not used.
    discounts : float64 array of shape (2 items + 1,)
        ``discounts[2 r]`` is the discount of rank r, which may be a half; 0 beyond k.
    tightness : array of shape (2 items + 1,), or empty
        The second part of NDCG-Loss2++'s weights by twice the distance of ranks.
    deepest : int
        Twice the last rank with which a pair counts in the second part.
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
    """What one query's pairs are weighted by: of its items by falling label, and as in `Swaps`.

    Where average precision changes, ``gain`` and ``discount`` are what `_precision_ends` returns.
    """

    precision: bool
    gain: Floats
    discount: Floats
    rank: NDArray[np.int32]
    tightness: Floats
    deepest: int


class _Terms(NamedTuple):
    """Room for a row's terms: costs, shares of the force, weights."""

    costs: Floats
    shares: Floats
    weights: Floats


@compiled()
def _sum_row(s_i: Any, s: Floats, sigma: Any, gradient: Floats, terms: _Terms) -> tuple[Any, Any]:
    """Sum w_j softplus(sigma (s_j - s_i)) over j, and its derivative; add each j's to `gradient`."""
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
    """Fill what swapping item i with each later one does to DCG."""
    gain_i, discount_i = weights.gain[i], weights.discount[i]
    gain, discount = weights.gain[first:], weights.discount[first:]
    for j in range(weight.size):
        weight[j] = (gain_i - gain[j]) * abs(discount_i - discount[j])


@compiled()
def _weigh_precision(i: int, first: int, weights: _Weights, weight: Floats) -> None:
    """Fill what swapping item i with each later one does to average precision."""
    ahead_i, behind_i, rank_i = weights.gain[i], weights.discount[i], weights.rank[i]
    ahead, behind, rank = weights.gain[first:], weights.discount[first:], weights.rank[first:]
    for j in range(weight.size):
        weight[j] = ahead_i - behind[j] if rank_i < rank[j] else ahead[j] - behind_i


@compiled()
def _weigh_tightly(i: int, first: int, weights: _Weights, weight: Floats) -> None:
    """Fill NDCG-Loss2++'s weights."""
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
    """Return a and b with |change of R AP| = a_i - b_j, if i ranks ahead of j and they are swapped.

    With c the number of relevant items down to an item, r its rank, and H the sum of 1 / r over
    those items: a = c / r - H for a relevant item, (c + 1) / r - H for another; b = (c + 1) / r - H
    for a relevant item, c / r - H for another. ``by_rank`` has the items by rank.
    """
    ahead, behind = np.empty(gain.size, gain.dtype), np.empty(gain.size, gain.dtype)
    found, harmonic = 0, 0.0
    for i in by_rank:
        r = 0.5 * rank[i]
        relevant = gain[i] > 0
        if relevant:
            found += 1
            harmonic += 1.0 / r
        ahead[i] = (found + (0.0 if relevant else 1.0)) / r - harmonic
        behind[i] = (found + (1.0 if relevant else 0.0)) / r - harmonic
    return ahead, behind


@compiled()
def flush(sums: Floats, gradient: NDArray[np.float64]) -> None:
    """Move short sums into the long ones."""
    for j in range(sums.size):
        gradient[j] += sums[j]
        sums[j] = 0


@compiled()
def _sum_pairs(
    s: Floats, after: Integers, weights: _Weights, sigma: Any, gradient: NDArray[np.float64]
) -> float:
    """Sum up a query's pairs, and their gradient; without gains, all weights are 1."""
    n = s.size
    sums = np.zeros(n, s.dtype)
    # Weights are filled apart from the sums: looking some of them up keeps a loop from being vectorised.
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
            cost, force = _sum_row(s[i], s[a:b], sigma, sums[a:b], terms)
            total += cost
            gradient[i] -= force
        if (i + 1) % DOWN == 0 or i + 1 == n:
            flush(sums, gradient)
    return total


@compiled()
def ranknet_queries(
    first: int, last: int, lists: ByLabel, sigma: Any, mean: bool, losses: Floats, gradients: Floats
) -> None:
    """Fill the losses and gradients of queries ``first`` to ``last`` (not included).

    Parameters
    ----------
    first, last : int
    lists : ByLabel
    sigma : number of the scores' type
    mean : bool
        Whether to divide by the number of pairs.
    losses : float array of shape (queries,)
    gradients : float array of shape (queries, items)
        0 on padding already.
    """
    for q in range(first, last):
        order = lists.order[q, : lists.real[q]]
        s = lists.scores[q][order]
        if spoiled(s, order, q, losses, gradients):
            continue
        after = below(lists.labels[q][order])
        gradient = np.zeros(s.size)
        even = _Weights(False, s[:0], s[:0], np.empty(0, np.int32), s[:0], 0)
        total = _sum_pairs(s, after, even, sigma, gradient)
        pairs = (s.size - after).sum()
        share = 1.0 / max(pairs, 1) if mean else 1.0
        losses[q] = total * share
        for i in range(s.size):
            gradients[q, order[i]] = gradient[i] * share * sigma


@compiled()
def weighted_queries(
    first: int, last: int, lists: ByLabel, swaps: Swaps, sigma: Any, losses: Floats, gradients: Floats
) -> None:
    """Fill the losses and gradients of LambdaRank, or of NDCG-Loss2++; as `ranknet_queries`."""
    place = np.empty(lists.scores.shape[1], np.int64)
    for q in range(first, last):
        order = lists.order[q, : lists.real[q]]
        s = lists.scores[q][order]
        n = s.size
        if spoiled(s, order, q, losses, gradients):
            continue
        ideal = swaps.ideal[q]
        if ideal == 0.0:
            losses[q] = 0.0
            continue
        for i in range(n):
            place[order[i]] = i
        label, gain = lists.labels[q][order], swaps.gains[q][order]
        rank = doubled_ranks(swaps.at[q][order], label, place[swaps.by_score[q, :n]])
        discount = np.empty(n, s.dtype)
        if swaps.precision:
            gain, discount = _precision_ends(gain, rank, np.argsort(rank))
        else:
            for i in range(n):
                discount[i] = swaps.discounts[rank[i]]
        gradient = np.zeros(n)
        weights = _Weights(swaps.precision, gain, discount, rank, swaps.tightness, swaps.deepest)
        total = _sum_pairs(s, below(label), weights, sigma, gradient)
        losses[q] = total / ideal
        for i in range(n):
            gradients[q, order[i]] = gradient[i] * sigma / ideal
