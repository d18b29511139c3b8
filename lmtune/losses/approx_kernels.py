"""Kernels of measures of smooth ranks, and their gradients, computed row by row over pairs of items."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Floats
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import add_scaled, decay, lane_sum
from lmtune.losses.packing_kernels import ByLabel, mark_nonfinite
from lmtune.losses.pair_kernels import ACROSS, DOWN, flush
from lmtune.measures.kinds import Code

# Items per block. If all of a block are far above or below an item, their sigmoids are not computed.
_BLOCK = 1024
# Beyond this argument a sigmoid is within 2e-16 of 0 or 1, below the resolution of float64.
_SATURATED = 36.5


class SmoothMeasure(NamedTuple):
    """The measure that is computed from smooth ranks.

    Attributes
    ----------
    kind : int
        The formula of a relevant item's value, a `lmtune.measures.kinds.MeasureKind.smooth`.
    k : int
        Cutoff; 0 without truncation.
    alpha_k : float
        Steepness of the truncation.
    hinge : bool
        Whether ranks are SONG's bounds instead of sums of sigmoids.
    gains : array of shape (queries, items)
        Gains; 0 for items that are not relevant.
    ideal : float64 array of shape (queries,)
        Normaliser of the sum over relevant items; the loss is 0 for queries with 0.
    part : int64 array of shape (queries, 2)
        Range of the items, by falling label, that the partial rank of `AP` and `BPREF` counts: the relevant
        items for AP, the judged non-relevant items for bpref.
    bound : float64 array of shape (queries,)
        Number of non-relevant items above a relevant item that reduce its value in `BPREF` to 0; 1 or more.
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
    """Fill sigmoid(alpha (s_j - s_i)) for all j, and the derivatives in alpha s_j."""
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    for j in range(s.size):
        x = alpha * (s[j] - s_i)
        t = decay(abs(x))
        r = one / (one + t)
        values[j] = (one if x >= zero else t) * r
        slopes[j] = t * r * r


@compiled()
def _hinges(s_i: Any, s: Floats, alpha: Any, values: Floats, slopes: Floats) -> None:
    """Fill max(0, 1 + alpha (s_j - s_i))^2 for all j, and the derivatives in alpha s_j."""
    zero, one = s.dtype.type(0.0), s.dtype.type(1.0)
    for j in range(s.size):
        x = max(zero, one + alpha * (s[j] - s_i))
        values[j] = x * x
        slopes[j] = x + x


@compiled()
def _fill_row(
    s: Floats, i: int, alpha: Any, hinge: bool, extremes: Floats, values: Floats, slopes: Floats
) -> None:
    """Fill each item's contribution to item i's rank, and the derivatives; both are 0 for item i itself.

    ``extremes``, shape (2, blocks), has each block's lowest and highest score.
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
    extremes = np.empty((2, blocks), s.dtype)
    for b in range(blocks):
        block = s[b * _BLOCK : (b + 1) * _BLOCK]
        extremes[0, b], extremes[1, b] = block.min(), block.max()
    return extremes


@compiled()
def _sum(x: Floats) -> float:
    """Sum in short pieces of x's precision, and add these in double precision."""
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
def _value(kind: int, rank: float, part: float, bound: float, alpha: float) -> tuple[float, float, float]:
    """Return an item's value per unit of gain, and its derivatives in the rank and in the partial rank."""
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
def _softmax(s: Floats, relevant: int, alpha: Any) -> NDArray[np.float64]:
    """Return the softmax of alpha times the scores of the relevant items, the first `relevant` items."""
    share = np.empty(relevant)
    best = s[:relevant].max()
    for i in range(relevant):
        share[i] = math.exp(alpha * (s[i] - best))
    share /= share.sum()
    return share


@compiled()
def approx_queries(
    first: int,
    last: int,
    lists: ByLabel,
    measure: SmoothMeasure,
    alpha: Any,
    losses: Floats,
    gradients: Floats,
) -> None:
    """Fill the losses, minus smooth measures, and gradients of queries ``first`` to ``last - 1``.

    The smooth rank of a relevant item i is 1 plus the sum over other items j of sigmoid(alpha (s_j - s_i))
    (Qin, Liu and Li, Information Retrieval 2010). With `SmoothMeasure.hinge`, the terms are
    max(0, 1 + alpha (s_j - s_i))^2, an upper bound (Qiu et al., SONG, ICML 2022). The measure is the sum of
    the relevant items' values, divided by `SmoothMeasure.ideal`:

    - `DCG`: gain / log2(1 + rank);
    - `AP`: b / rank, where b is the smooth rank among the relevant items only;
    - `PRECISION`: 1, for precision, recall or success at k;
    - `BPREF`: softplus(alpha (1 - b / bound)) / alpha, a smooth max(0, 1 - b / bound), where b
      is the smooth number of judged non-relevant items above;
    - `RECIPROCAL_RANK`: 1 / rank, weighted by the softmax of alpha s over the relevant items.

    With k, each value is multiplied by sigmoid(alpha_k (k + 1/2 - rank)).

    Parameters
    ----------
    first, last, lists, losses, gradients
        As in `lmtune.losses.pair_kernels.ranknet_queries`.
    measure : SmoothMeasure
    alpha : number of the scores' type
    """
    for q in range(first, last):
        order = lists.order[q, : lists.real[q]]
        s = lists.scores[q][order]
        n = s.size
        if mark_nonfinite(s, order, q, losses, gradients):
            continue
        gain = measure.gains[q][order]
        ideal = measure.ideal[q]
        losses[q] = 0.0
        relevant = 0
        while relevant < n and gain[relevant] > 0:
            relevant += 1
        if ideal == 0.0 or relevant == 0:
            continue
        by_softmax = measure.kind == Code.RECIPROCAL_RANK
        share = _softmax(s, relevant, alpha) if by_softmax else np.empty(0)
        total = 0.0
        item_values = np.zeros(relevant)
        gradient = np.zeros(n)
        sums = np.zeros(n, s.dtype)
        values, slopes = np.empty(n, s.dtype), np.empty(n, s.dtype)
        extremes = _extremes(s)
        begin, end = measure.part[q]
        for i in range(relevant):
            _fill_row(s, i, alpha, measure.hinge, extremes, values, slopes)
            rank = 1.0 + _sum(values)
            part = _sum(values[begin:end]) + (1.0 if begin <= i < end else 0.0)
            value, by_rank, by_part = _value(measure.kind, rank, part, measure.bound[q], float(alpha))
            if measure.k > 0:
                inside = _sigmoid(measure.alpha_k * (measure.k + 0.5 - rank))
                by_rank = by_rank * inside - value * measure.alpha_k * inside * (1.0 - inside)
                by_part *= inside
                value *= inside
            weight = (share[i] if by_softmax else gain[i]) / ideal
            total += weight * value
            item_values[i] = value / ideal
            gradient[i] += weight * (by_rank * _sum(slopes) + by_part * _sum(slopes[begin:end]))
            add_scaled(s.dtype.type(-weight * by_rank), slopes, sums)
            add_scaled(s.dtype.type(-weight * by_part), slopes[begin:end], sums[begin:end])
            if (i + 1) % DOWN == 0:
                flush(sums, gradient)
        flush(sums, gradient)
        losses[q] = -total
        if by_softmax:
            mean = (share * item_values).sum()
            for i in range(relevant):
                gradient[i] -= share[i] * (item_values[i] - mean)
        for i in range(n):
            gradients[q, order[i]] = gradient[i] * alpha
