"""SONG and K-SONG of whole lists as kernels of Triton's: ApproxNDCG's, with sums of hinges for ranks.

The bound of an item's rank is N g = sum_j max(0, s_j - s_i + c)^2. K-SONG's threshold of each list is found
by a program of its own, in double precision: it costs no more than a few passes over the list.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.reranking.losses.fused import (
    COLUMNS,
    ROWS,
    Evaluated,
    evaluated,
    fill,
    filled,
    gain_of,
    gained,
    hinge,
    limit_of,
    load_items,
    of_query,
    sides_kernel,
    sigmoids,
    store_outcome,
)

# Steps of K-SONG's search, as many as halving alone may take, and when it ends.
_MOST_STEPS, _NEAR, _ROUNDING = tl.constexpr(80), tl.constexpr(1e-14), tl.constexpr(1e-15)


@triton.jit
def _steep(x):
    """Return p (1 - p) of p = 1 / (1 + e^-x)."""
    small = tl.exp(-tl.abs(x))
    return small / ((1 + small) * (1 + small))


@triton.jit
def _load(scores, mask, begin, items, block: tl.constexpr):
    j = begin + tl.arange(0, block)
    real = tl.load(mask + j, mask=j < items, other=0) != 0
    return j, real, tl.load(scores + j, mask=real, other=0).to(tl.float64)


@triton.jit
def root_of(
    scores,
    mask,
    weights,
    items,
    length,
    target,
    wanted,
    block: tl.constexpr,
    tau1: tl.constexpr,
    tau2: tl.constexpr,
    weighted: tl.constexpr,
):
    """Find where target + tau2 t is the mean sigmoid of (s - t) / tau1, by Newton's steps within halves.

    The mean is weighted, or of `length` items alike.
    """
    least = tl.full([block], float("inf"), tl.float64)
    most = tl.full([block], float("-inf"), tl.float64)
    for begin in range(0, items, block):
        _, real, score = _load(scores, mask, begin, items, block)
        least = tl.minimum(least, tl.where(real, score, float("inf")))
        most = tl.maximum(most, tl.where(real, score, float("-inf")))
    # Beyond these the smooth step is over, and only the quadratic term is left.
    low, high = tl.min(least, 0), tl.max(most, 0)
    low, high = tl.where(low > high, 0.0, low), tl.where(low > high, 0.0, high)  # an empty list
    at = 0.5 * (low + high)
    low = tl.minimum(low - 40.0 * tau1, tl.minimum(-target / tau2, 0.0))
    high = tl.maximum(high + 40.0 * tau1, tl.maximum((1.0 - target) / tau2, 0.0))
    last, left = high - low, tl.where(wanted, _MOST_STEPS, 0)
    while left > 0:
        parts = tl.zeros([block], tl.float64)
        bends = tl.zeros([block], tl.float64)
        for begin in range(0, items, block):
            j, real, score = _load(scores, mask, begin, items, block)
            part, small = sigmoids((score - at) / tau1)
            weight = tl.load(weights + j, mask=real, other=0) if weighted else tl.where(real, 1.0, 0.0)
            parts += weight * part
            bends += weight * (small / ((1 + small) * (1 + small)))
        tilt = target + tau2 * at - tl.sum(parts, 0) / length
        low, high = tl.where(tilt > 0, low, at), tl.where(tilt > 0, at, high)
        newton = -tilt / (tau2 + tl.sum(bends, 0) / (length * tau1))
        half = 0.5 * (low + high) - at
        steady = (at + newton >= low) & (at + newton <= high) & (tl.abs(newton) <= 0.5 * tl.abs(last))
        last = tl.where(steady, newton, half)
        flat = tl.abs(tilt) <= _ROUNDING
        done = flat | (tl.abs(last) <= (tau1 + tl.abs(at)) * _NEAR)
        at += tl.where(flat, 0, last)
        left = tl.where(done, 0, left - 1)
    return at


@triton.jit
def threshold_kernel(
    scores,
    labels,
    mask,
    sides,
    out,
    items,
    block: tl.constexpr,
    k: tl.constexpr,
    scale: tl.constexpr,
    epsilon: tl.constexpr,
    tau1: tl.constexpr,
    tau2: tl.constexpr,
):
    """Fill each list's threshold, and what the loss falls with it over N L'', but for the ideal DCG.

    Where the whole list is above the cutoff the threshold is minus infinity, and nothing falls.
    """
    row = tl.program_id(0).to(tl.int64)
    ranks = sides + (tl.num_programs(0) + row) * items
    scores, labels, mask = scores + row * items, labels + row * items, mask + row * items
    count = tl.zeros([block], tl.int32)
    for begin in range(0, items, block):
        _, real, score = _load(scores, mask, begin, items, block)
        count += real.to(tl.int32)
    length = tl.maximum(tl.sum(count, 0), 1).to(tl.float64)
    cutoff = limit_of(length, k)
    target = tl.where(length <= cutoff, 1, (cutoff + epsilon) / length)
    at = root_of(scores, mask, scores, items, length, target, target < 1, block, tau1, tau2, False)
    at = tl.where(length <= cutoff, float("-inf"), at)
    bends = tl.zeros([block], tl.float64)
    pulls = tl.zeros([block], tl.float64)
    for begin in range(0, items, block):
        j, real, score = _load(scores, mask, begin, items, block)
        gain = gain_of(tl.load(labels + j, mask=real, other=-1).to(tl.float64), "exponential")
        value, _ = gained(gain, tl.load(ranks + j, mask=real, other=1).to(tl.float64), 0, 1.0)
        bends += tl.where(real, _steep((score - at) / tau1), 0)
        pulls += tl.where(real, value * scale * _steep(scale * (score - at)), 0)
    fall = tl.sum(pulls, 0) / (length * tau2 + tl.sum(bends, 0) / tau1)
    tl.store(out + 2 * row, at)
    tl.store(out + 2 * row + 1, fall)


@triton.jit
def song_kernel(
    scores,
    labels,
    mask,
    sides,
    thresholds,
    out,
    items,
    margin: tl.constexpr,
    scale: tl.constexpr,
    tau1: tl.constexpr,
    theoretical: tl.constexpr,
):
    """Fill minus each item's part of the bound of NDCG, and its slope; a scale of 0 takes no threshold."""
    kind: tl.constexpr = out.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    plane, start = tl.num_programs(0).to(tl.int64) * items, row * items
    scores, labels, mask = scores + start, labels + start, mask + start
    sides, out = sides + start, out + start
    norm, counted, wrong, spoilt = of_query(scores, labels, mask, sides, items, kind, True)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    here, score, label = load_items(scores, labels, mask, i, items, kind)
    rank = tl.load(sides + plane + i, mask=here, other=1)
    value, fall_i = gained(gain_of(label, "exponential"), rank, 0, 1.0)
    own = tl.zeros([ROWS], kind)
    at = tl.load(thresholds + 2 * row) if scale > 0 else 0.0
    if scale > 0:
        above = score.to(tl.float64) - at
        psi, _ = sigmoids((scale * above).to(kind))
        if theoretical:  # in double precision: for an item alone at the threshold the two cancel
            part, _double = gained(gain_of(label.to(tl.float64), "exponential"), rank.to(tl.float64), 0, 1.0)
            moved = tl.load(thresholds + 2 * row + 1) * _steep(above / tau1) / tau1
            own = (moved - part * scale * _steep(scale * above)).to(kind)
        value *= psi
        fall_i *= psi
    score_i = score[:, None]
    slope = tl.zeros([ROWS, COLUMNS], kind)
    for begin in range(0, items, COLUMNS):
        j = begin + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        _value, fall = gained(
            gain_of(label_j, "exponential"), tl.load(sides + plane + j, mask=real, other=1), 0, 1.0
        )
        if scale > 0:
            psi, _ = sigmoids((scale * (score.to(tl.float64) - at)).to(kind))
            fall *= psi
        score_j = score[None, :]
        steep = fall[None, :] * hinge(score_i, score_j, margin)
        steep -= fall_i[:, None] * hinge(score_j, score_i, margin)
        # Not its own: the two roundings of its fall can differ.
        other = here[:, None] & real[None, :] & (i[:, None] != j[None, :])
        slope += tl.where(other, steep, 0)
    steep = (2 * tl.sum(slope, 1) + own) / norm
    store_outcome(out, plane, i, here, items, -value / norm, steep, counted, wrong, spoilt)


def bound(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    *,
    margin: float,
    cutoff: float | None,
    scale: float = 0.0,
    tau1: float = 1.0,
    theoretical: bool = False,
    **search: Any,
) -> Evaluated:
    """Evaluate SONG's objective, or with a scale of psi K-SONG's; `search` is its `epsilon` and `tau2`."""
    k = cutoff or 0
    sides = filled(sides_kernel, scores, labels, mask, alpha=margin, k=k, gains="exponential", wanted="hinge")
    thresholds = scores.new_empty(len(scores), 2, dtype=torch.float64) if scale else scores
    if scale:
        block = min(1024, triton.next_power_of_2(scores.shape[1]))
        options = {"block": block, "k": k, "scale": scale, "tau1": tau1, **search}
        inputs = scores, labels, mask, sides
        fill(thresholds, threshold_kernel, (len(scores),), *inputs, items=scores.shape[1], **options)
    options = {"margin": margin, "scale": scale, "tau1": tau1, "theoretical": theoretical}
    return evaluated(filled(song_kernel, scores, labels, mask, sides, thresholds, **options))
