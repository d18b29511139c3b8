"""ApproxNDCG and its gradient, a row of sigmoids at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.surrogates.exponential_kernels import decay
from lmtune.surrogates.packing_kernels import ByLabel, Floats, ideal_dcg, spoiled
from lmtune.surrogates.pair_kernels import ACROSS, DOWN, flush
from lmtune.surrogates.sum_kernels import add_scaled, lane_sum


@compiled()
def _sigmoids(s_i: Any, s: Floats, alpha: Any, slopes: Floats, values: Floats) -> tuple[Any, Any]:
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
def approx_ndcg_queries(
    first: int,
    last: int,
    lists: ByLabel,
    gains: Floats,
    discounts: NDArray[np.float64],
    alpha: Any,
    k: int,
    alpha_k: float,
    losses: Floats,
    gradients: Floats,
) -> None:
    """Fill the losses and gradients of queries ``first`` to ``last`` (not included).

    Parameters
    ----------
    first, last, lists, losses, gradients
        As of `lmtune.surrogates.pair_kernels.ranknet_queries`.
    gains, discounts
        As of `lmtune.surrogates.pair_kernels.Swaps`.
    alpha : number of the scores' type
    k : int
        0 without truncation.
    alpha_k : float
    """
    for q in range(first, last):
        order = lists.order[q, : lists.real[q]]
        s = lists.scores[q][order]
        n = s.size
        if spoiled(s, order, q, losses, gradients):
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
            add_scaled(s.dtype.type(slope), slopes, sums)
            if (i + 1) % DOWN == 0:
                flush(sums, gradient)
        flush(sums, gradient)
        losses[q] = -total
        for i in range(n):
            gradients[q, order[i]] = gradient[i] * alpha
