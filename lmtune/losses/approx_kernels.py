"""Measures of ranks that are smooth in the scores, and their gradients, a row of sums at a time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Floats
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import add_scaled, decay, lane_sum
from lmtune.losses.packing_kernels import ByLabel, spoiled
from lmtune.losses.pair_kernels import ACROSS, DOWN, flush
from lmtune.measures.kinds import Code

# Items that share a look at whether they all are far above or below another.
_BLOCK = 64
# Beyond it a sigmoid is within 2e-16 of 0 or 1, less than half a unit in a double's last place.
_SATURATED = 36.5


class Aims(NamedTuple):
    """What smooth ranks are turned into.

    Attributes
    ----------
    kind : int
        What a relevant item adds at its rank, a `lmtune.measures.kinds.MeasureKind.smooth`.
    k : int
        The rank down to which items count; 0 without truncation.
    alpha_k : float
        Steepness of the truncation.
    hinge : bool
        Whether ranks are SONG's bounds rather than sums of sigmoids.
    gains : array of shape (queries, items)
        What an item adds; 0 for items that are not relevant.
    ideal : float64 array of shape (queries,)
        What the sum over relevant items is divided by; a query with 0 has no loss.
    part : int64 array of shape (queries, 2)
        From which to which of the items by falling label `AP` and `BPREF` count an item's betters
        besides: all relevant ones, or all that are judged nonrelevant.
    bound : float64 array of shape (queries,)
        How many nonrelevant items above it take all of an item's worth in `BPREF`; 1 or more.
    """

    kind: int
    k: int
    alpha_k: float
    hinge: bool
    gains: Floats
    ideal: NDArray[np.float64]
    part: NDArray[np.int64]
    bound: NDArray[np.float64]


@compiled()
def _sigmoids(s_i: Any, s: Floats, alpha: Any, values: Floats, slopes: Floats) -> None:
    """Fill sigmoid(alpha (s_j - s_i)) for each j, and its derivative in alpha s_j."""
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    for j in range(s.size):
        x = alpha * (s[j] - s_i)
        t = decay(abs(x))
        r = one / (one + t)
        values[j] = (one if x >= zero else t) * r
        slopes[j] = t * r * r


@compiled()
def _hinges(s_i: Any, s: Floats, alpha: Any, values: Floats, slopes: Floats) -> None:
    """Fill max(0, 1 + alpha (s_j - s_i))^2 in the same way."""
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    for j in range(s.size):
        x = max(zero, one + alpha * (s[j] - s_i))
        values[j] = x * x
        slopes[j] = x + x


@compiled()
def _fill_row(
    s: Floats, i: int, alpha: Any, hinge: bool, extremes: Floats, values: Floats, slopes: Floats
) -> None:
    """Fill what each item adds to item i's rank, itself nothing, and the derivatives.

    ``extremes``, of shape (2, blocks), has each block's lowest and highest score.
    """
    for b in range(extremes.shape[1]):
        first, last = b * _BLOCK, min((b + 1) * _BLOCK, s.size)
        lowest, highest = alpha * (extremes[0, b] - s[i]), alpha * (extremes[1, b] - s[i])
        if highest < -1.0 if hinge else highest < -_SATURATED:
            values[first:last] = 0
            slopes[first:last] = 0
        elif hinge:
            _hinges(s[i], s[first:last], alpha, values[first:last], slopes[first:last])
        elif lowest > _SATURATED:
            values[first:last] = 1
            slopes[first:last] = 0
        else:
            _sigmoids(s[i], s[first:last], alpha, values[first:last], slopes[first:last])
    values[i] = 0
    slopes[i] = 0


@compiled()
def _extremes(s: Floats) -> Floats:
    blocks = (s.size + _BLOCK - 1) // _BLOCK
    found = np.empty((2, blocks), s.dtype)
    for b in range(blocks):
        own = s[b * _BLOCK : (b + 1) * _BLOCK]
        found[0, b], found[1, b] = own.min(), own.max()
    return found


@compiled()
def _sum(x: Floats) -> float:
    """Add up short sums in double precision."""
    total = 0.0
    for first in range(0, x.size, ACROSS):
        total += lane_sum(x[first : first + ACROSS])
    return total


@compiled()
def _softplus(x: float) -> float:
    return float(max(x, 0.0) + math.log1p(math.exp(-abs(x))))


@compiled()
def _sigmoid(x: float) -> float:
    t = math.exp(-abs(x))
    return float((1.0 if x >= 0.0 else t) / (1.0 + t))


@compiled()
def _worth(kind: int, rank: float, part: float, bound: float, alpha: float) -> tuple[float, float, float]:
    """Return what an item adds for each gain, and its derivatives in the rank and in the part."""
    if kind == Code.DCG:
        depth = math.log2(1.0 + rank)
        value = 1.0 / depth
        return value, -value / (depth * (1.0 + rank) * math.log(2.0)), 0.0
    if kind == Code.AP:
        return part / rank, -part / (rank * rank), 1.0 / rank
    if kind == Code.BPREF:
        x = alpha * (1.0 - part / bound)
        return _softplus(x) / alpha, 0.0, -_sigmoid(x) / bound
    if kind == Code.RECIPROCAL_RANK:
        return 1.0 / rank, -1.0 / (rank * rank), 0.0
    return 1.0, 0.0, 0.0


@compiled()
def _choice(s: Floats, relevant: int, alpha: Any) -> NDArray[np.float64]:
    """Return the softmax of the relevant items' scores, with which each is the first of them."""
    share = np.empty(relevant)
    best = s[:relevant].max()
    for i in range(relevant):
        share[i] = math.exp(alpha * (s[i] - best))
    share /= share.sum()
    return share


@compiled()
def approx_queries(
    first: int, last: int, lists: ByLabel, aims: Aims, alpha: Any, losses: Floats, gradients: Floats
) -> None:
    """Fill the losses, minus smooth measures, and gradients of queries ``first`` to ``last`` (not included).

    A relevant item's smooth rank is 1 + sum over other items j of sigmoid(alpha (s_j - s_i)) (Qin,
    Liu and Li, Information Retrieval 2010), or with `Aims.hinge` of max(0, 1 + alpha (s_j - s_i))^2,
    which bounds it from above (Qiu et al., SONG, ICML 2022). The measure is the sum over relevant
    items of what they add, over `Aims.ideal`:

    - `DCG`: gain / log2(1 + rank);
    - `AP`: b / rank, where b counts relevant items alone as the rank counts all;
    - `PRECISION`: 1, for precision, recall or success at k;
    - `BPREF`: softplus(alpha (1 - b / bound)) / alpha, smooth for max(0, 1 - b / bound), where b
      counts the judged nonrelevant items above;
    - `RECIPROCAL_RANK`: 1 / rank, weighted by the softmax of the relevant items' alpha s.

    With k, each is multiplied by sigmoid(alpha_k (k + 1/2 - rank)).

    Parameters
    ----------
    first, last, lists, losses, gradients
        As of `lmtune.losses.pair_kernels.ranknet_queries`.
    aims : Aims
    alpha : number of the scores' type
    """
    for q in range(first, last):
        order = lists.order[q, : lists.real[q]]
        s = lists.scores[q][order]
        n = s.size
        if spoiled(s, order, q, losses, gradients):
            continue
        gain = aims.gains[q][order]
        ideal = aims.ideal[q]
        losses[q] = 0.0
        relevant = 0
        while relevant < n and gain[relevant] > 0:
            relevant += 1
        if ideal == 0.0 or relevant == 0:
            continue
        chosen = aims.kind == Code.RECIPROCAL_RANK
        share = _choice(s, relevant, alpha) if chosen else np.empty(0)
        total = 0.0
        worth = np.zeros(relevant)
        gradient = np.zeros(n)
        sums = np.zeros(n, s.dtype)
        values, slopes = np.empty(n, s.dtype), np.empty(n, s.dtype)
        extremes = _extremes(s)
        begin, end = aims.part[q]
        for i in range(relevant):
            _fill_row(s, i, alpha, aims.hinge, extremes, values, slopes)
            rank = 1.0 + _sum(values)
            part = _sum(values[begin:end]) + (1.0 if begin <= i < end else 0.0)
            value, by_rank, by_part = _worth(aims.kind, rank, part, aims.bound[q], float(alpha))
            if aims.k > 0:
                inside = _sigmoid(aims.alpha_k * (aims.k + 0.5 - rank))
                by_rank = by_rank * inside - value * aims.alpha_k * inside * (1.0 - inside)
                by_part *= inside
                value *= inside
            weight = (share[i] if chosen else gain[i]) / ideal
            total += weight * value
            worth[i] = value / ideal
            gradient[i] += weight * (by_rank * _sum(slopes) + by_part * _sum(slopes[begin:end]))
            add_scaled(s.dtype.type(-weight * by_rank), slopes, sums)
            add_scaled(s.dtype.type(-weight * by_part), slopes[begin:end], sums[begin:end])
            if (i + 1) % DOWN == 0:
                flush(sums, gradient)
        flush(sums, gradient)
        losses[q] = -total
        if chosen:
            mean = (share * worth).sum()
            for i in range(relevant):
                gradient[i] -= share[i] * (worth[i] - mean)
        for i in range(n):
            gradients[q, order[i]] = gradient[i] * alpha
