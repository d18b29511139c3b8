"""ApproxNDCG and its gradient, a row of sigmoids at a time."""

from __future__ import annotations

import math

import numpy as np

from lmtune.compiled import compiled
from lmtune.reranking.losses.exponential_kernels import decay
from lmtune.reranking.losses.packing_kernels import ideal_dcg
from lmtune.reranking.losses.pair_kernels import ACROSS, DOWN, flush
from lmtune.reranking.losses.sum_kernels import lane_sum


@compiled()
def _sigmoids(s_i, s, alpha, slopes, values):  # type: ignore[no-untyped-def]
    """Sum sigmoid(alpha (s_j - s_i)) over j and its slopes, which are kept; `values` is room."""
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    for j in range(s.size):
        x = alpha * (s[j] - s_i)
        t = decay(abs(x))
        r = one / (one + t)
        values[j] = (one if x >= zero else t) * r
        slopes[j] = t * r * r
    return lane_sum(values[: s.size]), lane_sum(slopes)


@compiled()
def _add(factor, slopes, sums):  # type: ignore[no-untyped-def]
    for j in range(sums.size):
        sums[j] += factor * slopes[j]


@compiled()
def approx_ndcg_queries(  # type: ignore[no-untyped-def]
    first, last, scores, gains, by_label, real, discounts, alpha, k, alpha_k, losses, gradients
):
    """Fill the losses and gradients of queries ``first`` to ``last`` (not included).

    Parameters
    ----------
    first, last, scores, by_label, real, losses, gradients
        As of `lmtune.reranking.losses.pair_kernels.ranknet_queries`.
    gains, discounts
        As of `lmtune.reranking.losses.pair_kernels.weighted_queries`.
    alpha : number of the scores' type
    k : int
        0 without truncation.
    alpha_k : float
    """
    for q in range(first, last):
        order = by_label[q, : real[q]]
        s = scores[q][order]
        n = s.size
        if not np.isfinite(s).all():
            losses[q] = np.nan
            gradients[q][order] = np.nan
            continue
        gain = gains[q][order]
        ideal = ideal_dcg(gain, discounts)
        if ideal == 0.0:
            losses[q] = 0.0
            continue
        total = 0.0
        gradient = np.zeros(n)
        sums = np.zeros(n, s.dtype)
        slopes = np.empty(n, s.dtype)
        values = np.empty(ACROSS, s.dtype)
        for i in range(n):
            if gain[i] == 0:
                break
            # An item does not beat itself, but is counted with sigmoid(0) and its slope.
            rank, steep = 0.5, -0.25
            for a in range(0, n, ACROSS):
                b = min(a + ACROSS, n)
                part, part_steep = _sigmoids(s[i], s[a:b], alpha, slopes[a:b], values)
                rank += part
                steep += part_steep
            slopes[i] = 0
            depth = math.log2(1.0 + rank)
            value = gain[i] / (depth * ideal)
            slope = value / (depth * (1.0 + rank) * math.log(2.0))
            if k > 0:
                x = alpha_k * (k + 0.5 - rank)
                t = math.exp(-abs(x))
                inside = (1.0 if x >= 0 else t) / (1.0 + t)
                slope = slope * inside + value * alpha_k * t / ((1.0 + t) * (1.0 + t))
                value *= inside
            total += value
            gradient[i] -= slope * steep
            _add(s.dtype.type(slope), slopes, sums)
            if (i + 1) % DOWN == 0:
                flush(sums, gradient)
        flush(sums, gradient)
        losses[q] = -total
        for i in range(n):
            gradients[q, order[i]] = gradient[i] * alpha
