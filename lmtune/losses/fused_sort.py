"""Triton kernels of NeuralNDCG, which recompute NeuralSort's matrix instead of storing it.

The matrix's columns are the items in the caller's order. Its rows are the ranks, one per real item.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.losses.fused import (
    COLUMNS,
    ROWS,
    Evaluated,
    discount_of,
    fill,
    fill_planes,
    gain_of,
    load_items,
    query_summary,
    reduce_planes,
    sides_kernel,
    store_planes,
)

_TILE = 2048  # matrix elements that a program processes at a time; at least one row


@triton.jit
def _columns(
    scores, labels, mask, spreads, items, tau: tl.constexpr, gains: tl.constexpr, block: tl.constexpr
):
    """Load the columns: indices, mask, number of items, scores and spreads divided by tau, and gains."""
    j = tl.arange(0, block)
    real, score, label = load_items(scores, labels, mask, j, items, tl.float64)
    count = tl.sum(real.to(tl.int32), 0)
    centred = tl.where(real, score - tl.sum(score, 0) / tl.maximum(count, 1), 0) / tau
    spread = tl.load(spreads + j, mask=real, other=0) / tau
    return j, real, count, centred, spread, gain_of(label, gains)


@triton.jit
def _exponents(places, count, real, score, spread):
    """Return (n + 1 - 2 r) s_j - sum |s_j - s_l| for some rows; minus infinity on padding."""
    tilt = (count - 1 - 2 * places).to(tl.float64)
    return tl.where(real[None, :], tilt[:, None] * score[None, :] - spread[None, :], float("-inf"))


@triton.jit
def _shares(offsets, places, count, real, score, spread):
    """Return a mask of real rows, and some rows of the matrix; 0 for rows that are not real."""
    there = places < count
    offset = tl.load(offsets + places, mask=there, other=0)
    share = tl.exp(_exponents(places, count, real, score, spread) - offset[:, None])
    return there, tl.where(there[:, None], share, 0)


@triton.jit
def sinkhorn_kernel(
    scores,
    labels,
    mask,
    spreads,
    out,
    items,
    iterations,
    tau: tl.constexpr,
    gains: tl.constexpr,
    block: tl.constexpr,
    rows: tl.constexpr,
):
    """Fill the log-sum-exp of each row, and the row and column factors of each Sinkhorn iteration.

    Plane 0 has the rows' log-sum-exp. Planes 1 + 2 t and 2 + 2 t have the row and column factors of iteration
    t; those of iteration 0 are 1.
    """
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask = scores + start, labels + start, mask + start
    spreads, out = spreads + start, out + start
    j, real, count, score, spread, _ = _columns(scores, labels, mask, spreads, items, tau, gains, block)
    sums = tl.zeros([block], tl.float64)
    for first in range(0, items, rows):
        places = first + tl.arange(0, rows)
        exponent = _exponents(places, count, real, score, spread)
        top = tl.max(exponent, 1)
        top = tl.where(top == float("-inf"), 0, top)
        share = tl.exp(exponent - top[:, None])
        total = tl.sum(share, 1)
        there = places < count
        sums += tl.sum(tl.where(there[:, None], share / tl.where(there, total, 1)[:, None], 0), 0)
        tl.store(out + places, top + tl.log(tl.where(there, total, 1)), mask=places < items)
        tl.store(out + plane + places, there.to(tl.float64), mask=places < items)
    tl.store(out + 2 * plane + j, real.to(tl.float64), mask=j < items)
    tl.debug_barrier()  # other threads read what this thread wrote
    for step in range(1, iterations + 1):
        column = tl.where(real, 1 / tl.where(real, sums, 1), 0)
        tl.store(out + (2 + 2 * step) * plane + j, column, mask=j < items)
        sums = tl.zeros([block], tl.float64)
        for first in range(0, items, rows):
            places = first + tl.arange(0, rows)
            there, share = _shares(out, places, count, real, score, spread)
            total = tl.sum(share * column[None, :], 1)
            row = tl.where(there, 1 / tl.where(there, total, 1), 0)
            tl.store(out + (1 + 2 * step) * plane + places, row, mask=places < items)
            sums += tl.sum(share * row[:, None], 0)


@triton.jit
def sinkhorn_slopes_kernel(
    scores,
    labels,
    mask,
    spreads,
    steps,
    out,
    items,
    iterations,
    tau: tl.constexpr,
    k: tl.constexpr,
    gains: tl.constexpr,
    block: tl.constexpr,
    rows: tl.constexpr,
):
    """Fill the unnormalised loss, and the vectors that make up the gradient in the matrix.

    Plane 0 has the loss, at item 0. Plane 1 has the pulls, the gradient in each row's product with the scaled
    gains. Planes 2 t and 1 + 2 t have the gradients in the row and column products of iteration t, from 1.
    The gradient in the matrix is a sum of outer products: pulls and scaled gains; for each t, row gradients
    of t and column factors of t, and row factors of t - 1 and column gradients of t.
    """
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask = scores + start, labels + start, mask + start
    spreads, steps, out = spreads + start, steps + start, out + start
    j, real, count, score, spread, gain = _columns(scores, labels, mask, spreads, items, tau, gains, block)
    gained = gain * tl.load(steps + (2 + 2 * iterations) * plane + j, mask=j < items, other=0)
    loss = tl.zeros([rows], tl.float64)
    pulled = tl.zeros([block], tl.float64)
    column = tl.zeros([block], tl.float64)
    for first in range(0, items, rows):
        places = first + tl.arange(0, rows)
        there, share = _shares(steps, places, count, real, score, spread)
        factor = tl.load(steps + (1 + 2 * iterations) * plane + places, mask=there, other=0)
        pull = -factor * tl.where(there, discount_of((places + 1).to(tl.float64), k, "ndcg"), 0)
        part = pull * tl.sum(share * gained[None, :], 1)
        loss += part
        row = -part * factor
        tl.store(out + plane + places, pull, mask=places < items)
        tl.store(out + (2 * iterations) * plane + places, row, mask=(places < items) & (iterations > 0))
        pulled += tl.sum(share * pull[:, None], 0)
        column += tl.sum(share * row[:, None], 0)
    tl.store(out + j, tl.where(j == 0, tl.sum(loss, 0), 0), mask=j < items)
    column += pulled * gain
    for back in range(0, iterations):
        step = iterations - back
        factor = tl.load(steps + (2 + 2 * step) * plane + j, mask=j < items, other=0)
        column *= -factor * factor
        tl.store(out + (1 + 2 * step) * plane + j, column, mask=j < items)
        sums = tl.zeros([block], tl.float64)
        for first in range(0, items, rows):
            places = first + tl.arange(0, rows)
            there, share = _shares(steps, places, count, real, score, spread)
            factor_r = tl.load(steps + (2 * step - 1) * plane + places, mask=there, other=0)
            row = -factor_r * factor_r * tl.sum(share * column[None, :], 1)
            tl.store(out + (2 * step - 2) * plane + places, row, mask=(places < items) & (step > 1))
            sums += tl.sum(share * row[:, None], 0)
        column = sums


@triton.jit
def neural_sort_slopes_kernel(
    scores,
    labels,
    mask,
    spreads,
    steps,
    slopes,
    out,
    items,
    iterations,
    tau: tl.constexpr,
    gains: tl.constexpr,
    block: tl.constexpr,
    rows: tl.constexpr,
):
    """Fill the gradients in the scores of the exponents (plane 0) and in the spreads (plane 1)."""
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask = scores + start, labels + start, mask + start
    spreads, steps, slopes, out = spreads + start, steps + start, slopes + start, out + start
    j, real, count, score, spread, gain = _columns(scores, labels, mask, spreads, items, tau, gains, block)
    gained = gain * tl.load(steps + (2 + 2 * iterations) * plane + j, mask=j < items, other=0)
    direct = tl.zeros([block], tl.float64)
    spreading = tl.zeros([block], tl.float64)
    for first in range(0, items, rows):
        places = first + tl.arange(0, rows)
        there, share = _shares(steps, places, count, real, score, spread)
        slope = tl.load(slopes + plane + places, mask=there, other=0)[:, None] * gained[None, :]
        for step in range(1, iterations + 1):
            row = tl.load(slopes + 2 * step * plane + places, mask=there, other=0)
            factor = tl.load(steps + (2 + 2 * step) * plane + j, mask=j < items, other=0)
            before = tl.load(steps + (2 * step - 1) * plane + places, mask=there, other=0)
            column = tl.load(slopes + (1 + 2 * step) * plane + j, mask=j < items, other=0)
            slope += row[:, None] * factor[None, :] + before[:, None] * column[None, :]
        slope = share * (slope - tl.sum(slope * share, 1)[:, None])
        tilt = tl.where(there, (count - 1 - 2 * places).to(tl.float64), 0)
        direct += tl.sum(tilt[:, None] * slope, 0)
        spreading -= tl.sum(slope, 0)
    tl.store(out + j, direct, mask=j < items)
    tl.store(out + plane + j, spreading, mask=j < items)


@triton.jit
def neural_ndcg_kernel(scores, labels, mask, sides, losses, slopes, out, items, tau: tl.constexpr):
    """Fill each query's loss, at its first item, and the gradient in the scores.

    |s_i - s_j| occurs in the spreads of i and j, so both spreads contribute to the gradient.
    """
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask, sides = scores + start, labels + start, mask + start, sides + start
    losses, slopes, out = losses + start, slopes + start, out + start
    norm, counted, wrong, nonfinite = query_summary(scores, labels, mask, sides, items, tl.float64, True)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real_i, score_i, _ = load_items(scores, labels, mask, i, items, tl.float64)
    spread_i = tl.load(slopes + plane + i, mask=real_i, other=0)
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score_j, _ = load_items(scores, labels, mask, j, items, tl.float64)
        both = spread_i[:, None] + tl.load(slopes + plane + j, mask=real, other=0)[None, :]
        above = tl.where(score_i[:, None] > score_j[None, :], both, 0)
        below = tl.where(score_i[:, None] < score_j[None, :], both, 0)
        total += tl.where(real[None, :], above - below, 0)
    slope = (tl.load(slopes + i, mask=real_i, other=0) + tl.sum(total, 1)) / (tau * norm)
    loss = tl.load(losses + i, mask=i < items, other=0) / norm
    store_planes(out, plane, i, real_i, items, loss, slope, counted, wrong, nonfinite)


def neural_ndcg(
    scores: Tensor, labels: Tensor, mask: Tensor, *, tau: float, sinkhorn: int, k: int | None, gains: str
) -> Evaluated:
    """Evaluate minus the NDCG of a smooth permutation."""
    inputs, items = (scores.double(), labels, mask), scores.shape[1]
    block = triton.next_power_of_2(items)
    shape = {"gains": gains, "block": block, "rows": max(1, _TILE // block), "tau": tau, "items": items}
    shape["num_warps"] = min(16, max(4, block // 256))

    def fill_lists(kernel: object, *others: Tensor, planes: int, **options: int) -> Tensor:
        out = inputs[0].new_empty(planes, *scores.shape)
        return fill(out, kernel, (len(scores),), *inputs, *others, iterations=sinkhorn, **shape, **options)

    sides = fill_planes(sides_kernel, *inputs, alpha=0.0, k=k or 0, gains=gains, quantity="spread")
    spreads = sides.select(0, 1)
    steps = fill_lists(sinkhorn_kernel, spreads, planes=2 * sinkhorn + 3)
    slopes = fill_lists(sinkhorn_slopes_kernel, spreads, steps, planes=2 * sinkhorn + 2, k=k or 0)
    sorts = fill_lists(neural_sort_slopes_kernel, spreads, steps, slopes, planes=2)
    losses, gradient, counted = reduce_planes(
        fill_planes(neural_ndcg_kernel, *inputs, sides, slopes, sorts, tau=tau)
    )
    kind = torch.float64 if scores.dtype == torch.float64 else torch.float32
    return losses.to(kind), gradient.to(kind), counted.to(kind)
