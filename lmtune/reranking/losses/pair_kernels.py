"""Sums over pairs of items with different labels: RankNet, LambdaRank, NDCG-Loss2++.

A query's items stand by falling label, so that an item's pairs with less relevant ones are a slice.
Single-precision sums are kept short, and added up in double precision.
"""

from __future__ import annotations

import numpy as np

from lmtune.compiled import compiled
from lmtune.reranking.losses.exponential_kernels import decay, log1p
from lmtune.reranking.losses.packing_kernels import below, doubled_ranks, ideal_dcg
from lmtune.reranking.losses.sum_kernels import lane_sum

# Terms of a single-precision sum: along a row, and down a column.
ACROSS, DOWN = 256, 32


@compiled()
def _row(s_i, s, sigma, gradient, costs, shares):  # type: ignore[no-untyped-def]
    """Sum softplus(sigma (s_j - s_i)) over j, and its derivative; add each j's to `gradient`.

    `costs` and `shares` are room for the terms.
    """
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    for j in range(s.size):
        x = sigma * (s[j] - s_i)
        t = decay(abs(x))
        share = (one if x >= zero else t) / (one + t)
        costs[j] = max(x, zero) + log1p(t)
        shares[j] = share
        gradient[j] += share
    return lane_sum(costs[: s.size]), lane_sum(shares[: s.size])


@compiled()
def _swap_row(  # type: ignore[no-untyped-def]
    s_i, gain_i, discount_i, s, gain, discount, sigma, gradient, costs, shares
):
    """Do the same with each pair weighted by what swapping it does to DCG."""
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    for j in range(s.size):
        x = sigma * (s[j] - s_i)
        t = decay(abs(x))
        weight = (gain_i - gain[j]) * abs(discount_i - discount[j])
        share = weight * (one if x >= zero else t) / (one + t)
        costs[j] = weight * (max(x, zero) + log1p(t))
        shares[j] = share
        gradient[j] += share
    return lane_sum(costs[: s.size]), lane_sum(shares[: s.size])


@compiled()
def _weighted_row(s_i, s, weight, sigma, gradient, costs, shares):  # type: ignore[no-untyped-def]
    """Do the same with weights that are given."""
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    for j in range(s.size):
        x = sigma * (s[j] - s_i)
        t = decay(abs(x))
        share = weight[j] * (one if x >= zero else t) / (one + t)
        costs[j] = weight[j] * (max(x, zero) + log1p(t))
        shares[j] = share
        gradient[j] += share
    return lane_sum(costs[: s.size]), lane_sum(shares[: s.size])


@compiled()
def _bounds(  # type: ignore[no-untyped-def]
    gain_i, discount_i, rank_i, gain, discount, rank, deepest, tightness, weight
):
    """Fill NDCG-Loss2++'s weights; apart, as looking them up keeps a loop from being vectorised."""
    for j in range(weight.size):
        swap = abs(discount_i - discount[j])
        if min(rank_i, rank[j]) <= deepest:
            swap += tightness[np.uintp(abs(rank_i - rank[j]))]
        weight[j] = (gain_i - gain[j]) * swap


@compiled()
def flush(sums, gradient):  # type: ignore[no-untyped-def]
    """Move short sums into the long ones."""
    for j in range(sums.size):
        gradient[j] += sums[j]
        sums[j] = 0


@compiled()
def ranknet_queries(  # type: ignore[no-untyped-def]
    first, last, scores, labels, by_label, real, sigma, mean, losses, gradients
):
    """Fill the losses and gradients of queries ``first`` to ``last`` (not included).

    Parameters
    ----------
    first, last : int
    scores, labels : arrays of shape (queries, items)
        Both of one floating-point type.
    by_label : int64 array of shape (queries, items)
        Each query's items by falling label, padding last.
    real : int64 array of shape (queries,)
        Items that are not padding.
    sigma : number of the scores' type
    mean : bool
        Whether to divide by the number of pairs.
    losses : float array of shape (queries,)
    gradients : float array of shape (queries, items)
        0 on padding already.
    """
    for q in range(first, last):
        order = by_label[q, : real[q]]
        s = scores[q][order]
        n = s.size
        if not np.isfinite(s).all():
            losses[q] = np.nan
            gradients[q][order] = np.nan
            continue
        after = below(labels[q][order])
        total, pairs = 0.0, 0
        gradient = np.zeros(n)
        sums = np.zeros(n, s.dtype)
        costs, shares = np.empty(ACROSS, s.dtype), np.empty(ACROSS, s.dtype)
        for i in range(n):
            pairs += n - after[i]
            for a in range(after[i], n, ACROSS):
                b = min(a + ACROSS, n)
                cost, force = _row(s[i], s[a:b], sigma, sums[a:b], costs, shares)
                total += cost
                gradient[i] -= force
            if (i + 1) % DOWN == 0 or i + 1 == n:
                flush(sums, gradient)
        share = 1.0 / max(pairs, 1) if mean else 1.0
        losses[q] = total * share
        for i in range(n):
            gradients[q, order[i]] = gradient[i] * share * sigma


@compiled()
def weighted_queries(  # type: ignore[no-untyped-def]
    first,
    last,
    scores,
    labels,
    gains,
    by_label,
    by_score,
    real,
    discounts,
    tightness,
    deepest,
    sigma,
    losses,
    gradients,
):
    """Fill the losses and gradients of LambdaRank, or of NDCG-Loss2++.

    Parameters
    ----------
    first, last, scores, labels, by_label, real, sigma, losses, gradients
        As of `ranknet_queries`.
    gains : array of shape (queries, items)
    by_score : int64 array of shape (queries, items)
        Each query's items by falling score, padding last.
    discounts : float64 array of shape (2 items + 1,)
        ``discounts[2 r]`` is the discount of rank r, which may be a half; 0 beyond k.
    tightness : array of shape (2 items + 1,), or empty
        The second part of NDCG-Loss2++'s weights by twice the distance of ranks.
    deepest : int
        Twice the last rank with which a pair counts in the second part.
    """
    place = np.empty(scores.shape[1], np.int64)
    for q in range(first, last):
        order = by_label[q, : real[q]]
        s = scores[q][order]
        n = s.size
        if not np.isfinite(s).all():
            losses[q] = np.nan
            gradients[q][order] = np.nan
            continue
        label = labels[q][order]
        after = below(label)
        gain = gains[q][order]
        ideal = ideal_dcg(gain, discounts)
        if ideal == 0.0:
            losses[q] = 0.0
            continue
        for i in range(n):
            place[order[i]] = i
        rank = doubled_ranks(s, label, place[by_score[q, :n]])
        discount = np.empty(n, s.dtype)
        for i in range(n):
            discount[i] = discounts[rank[i]]
        weight = np.empty(ACROSS, s.dtype)
        total = 0.0
        gradient = np.zeros(n)
        sums = np.zeros(n, s.dtype)
        costs, shares = np.empty(ACROSS, s.dtype), np.empty(ACROSS, s.dtype)
        for i in range(n):
            for a in range(after[i], n, ACROSS):
                b = min(a + ACROSS, n)
                if tightness.size == 0:
                    cost, force = _swap_row(
                        s[i],
                        gain[i],
                        discount[i],
                        s[a:b],
                        gain[a:b],
                        discount[a:b],
                        sigma,
                        sums[a:b],
                        costs,
                        shares,
                    )
                else:
                    _bounds(
                        gain[i],
                        discount[i],
                        rank[i],
                        gain[a:b],
                        discount[a:b],
                        rank[a:b],
                        deepest,
                        tightness,
                        weight[: b - a],
                    )
                    cost, force = _weighted_row(s[i], s[a:b], weight, sigma, sums[a:b], costs, shares)
                total += cost
                gradient[i] -= force
            if (i + 1) % DOWN == 0 or i + 1 == n:
                flush(sums, gradient)
        losses[q] = total / ideal
        for i in range(n):
            gradients[q, order[i]] = gradient[i] * sigma / ideal
