"""Triton kernels of the pairwise losses and ApproxNDCG; one program per query and block of items.

The first kernel computes ranks, ideal DCG or numbers of pairs by counting over pairs instead of sorting. The
second computes each item's part of the loss and its gradient. A program loops over all items in blocks
and accumulates in registers, without atomics, so results are reproducible. Options are compile-time
constants.

In all kernels, `plane` is the number of elements of a tensor (queries, items); tensors `sides` and `out`
consist of several such planes.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.devices import as_current

Evaluated = tuple[Tensor, Tensor, Tensor]
"""Each query's loss, its gradient in the scores, and 1 if it has a relevant item, else 0."""


def fill(out: Tensor, kernel: Any, programs: tuple[int, ...], *inputs: Tensor, **options: Any) -> Tensor:
    """Launch a kernel that fills a tensor.

    Kernels compute addresses from shapes, so inputs are made contiguous. Triton launches on the current
    device, so the current device is set to that of `out`.

    Parameters
    ----------
    out : Tensor
        The kernel's argument `out`. If it is empty, the kernel is not launched.
    kernel : triton.JITFunction
    programs : tuple of int
        The launch grid.
    *inputs : Tensor
        The kernel's positional arguments.
    **options
        Its other arguments.

    Returns
    -------
    Tensor
        `out`.
    """
    if out.numel():
        with as_current(out.device):
            kernel[programs](*(tensor.contiguous() for tensor in inputs), out=out, **options)
    return out


# Block sizes: items per program, and items that these are compared with in one step.
ROWS, COLUMNS = tl.constexpr(32), tl.constexpr(32)


@triton.jit
def load_items(scores, labels, mask, at, items, kind: tl.constexpr):
    """Load items: the mask, the scores (0 on padding) and the labels (-1 on padding)."""
    real = tl.load(mask + at, mask=at < items, other=0) != 0
    score = tl.load(scores + at, mask=real, other=0).to(kind)
    return real, score, tl.load(labels + at, mask=real, other=-1).to(kind)


@triton.jit
def gain_of(label, gains: tl.constexpr):
    """Return the gain 2^y - 1 (NaN for labels above 100), y or [y > 0]; 0 on padding."""
    if gains == "exponential":
        gain = tl.where(label > 100, float("nan"), tl.exp2(label) - 1)
    else:
        gain = tl.where(label > 0, 1.0, 0.0).to(label.dtype) if gains == "binary" else label
    return tl.where(label < 0, 0, gain)


@triton.jit
def discount_of(rank, k: tl.constexpr, measure: tl.constexpr):
    """Return 1 / log2(1 + rank), 1 / rank (MRR) or 1 / k (precision); 0 beyond k. k = 0 means no cutoff."""
    if measure == "precision":
        discount = rank * 0 + 1.0 / k
    else:
        discount = 1 / rank if measure == "mrr" else 1 / tl.log2(1 + rank)
    return tl.where(rank <= k, discount, 0) if k > 0 else discount


@triton.jit
def limit_of(length, k: tl.constexpr):
    """Return the cutoff as a rank: k, or for k below 1 that share of the list's length, rounded up.

    The factor is `lmtune.losses.songs.pairs.ROUNDED_DOWN`.
    """
    return tl.ceil(length * (k * (1 - 1e-6))) if k < 1 else length * 0 + k


@triton.jit
def hinge(above, below, margin: tl.constexpr):
    """Return max(0, above - below + margin); NaN stays NaN."""
    difference = above - below + margin
    return tl.where(difference < 0, 0, difference)


@triton.jit
def sigmoids(x):
    """Return 1 / (1 + e^-x), and e^-|x|."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x > 0, 1, small) / (1 + small), small


@triton.jit
def query_summary(scores, labels, mask, sides, items, kind: tl.constexpr, shared: tl.constexpr):
    """Return a query's normaliser, two flags, and NaN if a score is not finite, else 0.

    The normaliser is the sum of the first plane of `sides` if `shared`, or 1 if that is 0. The flags
    are: has a relevant item, has an invalid label.
    """
    norm = tl.zeros([COLUMNS], kind)
    nonfinite = tl.zeros([COLUMNS], kind)
    relevant = tl.zeros([COLUMNS], tl.int32)
    wrong = tl.zeros([COLUMNS], tl.int32)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label = load_items(scores, labels, mask, j, items, kind)
        nonfinite += tl.where(real, score - score, 0)
        relevant += (label > 0).to(tl.int32)
        wrong += (real & ((label >= 0) == 0)).to(tl.int32)
        if shared:
            norm += tl.load(sides + j, mask=j < items, other=0)
    total = tl.sum(norm, 0)
    return (
        tl.where(total == 0, 1, total),
        tl.sum(relevant, 0) > 0,
        tl.sum(wrong, 0) > 0,
        tl.sum(nonfinite, 0),
    )


@triton.jit
def store_planes(out, plane, i, real_i, items, cost, slope, counted, wrong, nonfinite):
    """Store each item's part of the loss, its gradient, and the query's `counted` flag, one plane each."""
    counts = counted & (wrong == 0)
    tl.store(out + i, tl.where(wrong, float("nan"), tl.where(counts, cost + nonfinite, 0)), mask=i < items)
    tl.store(out + plane + i, tl.where(counts & real_i, slope + nonfinite, 0), mask=i < items)
    tl.store(out + 2 * plane + i, counted.to(cost.dtype), mask=i < 1)


@triton.jit
def sides_kernel(
    scores,
    labels,
    mask,
    out,
    items,
    alpha: tl.constexpr,
    k: tl.constexpr,
    gains: tl.constexpr,
    quantity: tl.constexpr,
):
    """Fill each item's part of the normaliser (first plane) and a quantity of its rank (second plane).

    The parts sum to the ideal DCG at k, a rank or below 1 a share of the list; for the quantity "pairs" they
    sum to the number of pairs. The other quantities are:

    - "rank": the rank of `lmtune.losses.plain_torch.ranks`;
    - "smooth": the smooth rank with steepness alpha;
    - "hinge": SONG's bound of the rank with margin alpha;
    - "spread": sum over j of |s_i - s_j|.
    """
    kind: tl.constexpr = out.dtype.element_ty
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask, out = scores + start, labels + start, mask + start, out + start
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real_i, score, label = load_items(scores, labels, mask, i, items, kind)
    score_i, label_i = score[:, None], label[:, None]
    rank = tl.zeros([ROWS, COLUMNS], kind)
    count = tl.zeros([ROWS, COLUMNS], kind)
    length = tl.zeros([COLUMNS], tl.float64)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        length += tl.where(real, 1, 0)
        real, score_j, label_j = real[None, :], score[None, :], label_j[None, :]
        same_label, other = label_j == label_i, j[None, :] != i[:, None]
        if quantity == "pairs":
            count += tl.where(real & (label_j < label_i), 1, 0)
        else:
            count += tl.where(real & ((label_j > label_i) | (same_label & (j[None, :] < i[:, None]))), 1, 0)
            if quantity == "smooth":
                beats, _ = sigmoids(alpha * (score_j - score_i))
            elif quantity == "hinge":
                excess = hinge(score_j, score_i, alpha)
                beats = excess * excess
            elif quantity == "spread":
                beats = tl.abs(score_j - score_i)
            else:
                beats = tl.where((score_j > score_i) | ((score_j == score_i) & (label_j < label_i)), 1.0, 0.0)
                beats += tl.where((score_j == score_i) & same_label, 0.5, 0.0)
            rank += tl.where(real & other, beats, 0)
    part = tl.sum(count, 1)
    if quantity != "pairs":
        ideal_rank = 1 + part
        part = gain_of(label, gains) * discount_of(ideal_rank, k if k >= 1 else 0, "ndcg")
        if k > 0 and k < 1:
            part = tl.where(ideal_rank <= limit_of(tl.sum(length, 0), k), part, 0)
    own_part = alpha * alpha if quantity == "hinge" else (0 if quantity == "spread" else 1)
    tl.store(out + i, tl.where(real_i, part, 0), mask=i < items)
    tl.store(out + plane + i, tl.sum(rank, 1) + own_part, mask=i < items)


@triton.jit
def pair_costs_kernel(
    scores,
    labels,
    mask,
    sides,
    out,
    items,
    sigma: tl.constexpr,
    mu: tl.constexpr,
    k: tl.constexpr,
    gains: tl.constexpr,
    measure: tl.constexpr,
    shared: tl.constexpr,
):
    """Fill each item's sum of costs ln(1 + e^(-sigma (s_i - s_j))) over items j with lower labels.

    The second plane is the gradient in s_i, from all pairs with the item. If there is a measure, costs are
    weighted by |G_i - G_j| (|D_i - D_j| + tightness) / IDCG, see `lmtune.losses.plain_torch.SwapWeights`.
    """
    kind: tl.constexpr = out.dtype.element_ty
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask = scores + start, labels + start, mask + start
    sides, out = sides + start, out + start
    norm, counted, wrong, nonfinite = query_summary(scores, labels, mask, sides, items, kind, shared)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real_i, score, label = load_items(scores, labels, mask, i, items, kind)
    score_i, label_i = score[:, None], label[:, None]
    swapped: tl.constexpr = measure != "" and measure != "arp"
    rank_i = tl.load(sides + plane + i, mask=real_i, other=1)[:, None] if swapped else score_i
    cost = tl.zeros([ROWS, COLUMNS], kind)
    slope = tl.zeros([ROWS, COLUMNS], kind)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        score_j, label_j = score[None, :], label_j[None, :]
        above = label_i > label_j
        pair = real_i[:, None] & real[None, :] & (above | (label_i < label_j))
        if tl.max(tl.max(pair.to(tl.int32), 1), 0) > 0:  # most blocks have no pair: few items are relevant
            x = sigma * tl.where(above, score_i - score_j, score_j - score_i)
            push, small = sigmoids(-x)
            larger = 1 + small
            # log1p(small): the quotient corrects the rounding of 1 + small.
            rounded = tl.where(larger == 1, 1, larger - 1)
            term = tl.maximum(-x, 0) + tl.where(larger == 1, small, tl.log(larger) * (small / rounded))
            if measure == "arp":
                term *= tl.abs(label_i - label_j)
                push *= tl.abs(label_i - label_j)
            elif swapped:
                rank_j = tl.load(sides + plane + j, mask=real, other=1)[None, :]
                discount_i, discount_j = discount_of(rank_i, k, measure), discount_of(rank_j, k, measure)
                weight = tl.abs(discount_i - discount_j)
                if mu > 0:
                    distance = tl.maximum(tl.abs(rank_i - rank_j), 1)
                    tightness = mu * (discount_of(distance, 0, "ndcg") - discount_of(distance + 1, 0, "ndcg"))
                    weight += tl.where((discount_i > 0) | (discount_j > 0), tightness, 0)
                weight *= tl.abs(gain_of(label_i, gains) - gain_of(label_j, gains))
                term *= weight
                push *= weight
            cost += tl.where(pair & above, term, 0)
            slope += tl.where(pair, tl.where(above, -push, push), 0)
    steep = sigma * tl.sum(slope, 1) / norm
    store_planes(out, plane, i, real_i, items, tl.sum(cost, 1) / norm, steep, counted, wrong, nonfinite)


@triton.jit
def smooth_gain(gain, rank, k: tl.constexpr, alpha_k: tl.constexpr):
    """Return G / log2(1 + r) and minus its derivative in r.

    If k is above 0, the gain is multiplied by the sigmoid of alpha_k (k + 1/2 - r).
    """
    logarithm = tl.log2(1 + rank)
    value = gain / logarithm
    fall = value / (logarithm * (1 + rank) * 0.6931471805599453)
    if k > 0:
        inside, small = sigmoids(alpha_k * (k + 0.5 - rank))
        fall = inside * (fall + value * alpha_k * tl.where(k + 0.5 > rank, small, 1) / (1 + small))
        value *= inside
    return value, fall


@triton.jit
def approx_kernel(
    scores,
    labels,
    mask,
    sides,
    out,
    items,
    alpha: tl.constexpr,
    k: tl.constexpr,
    alpha_k: tl.constexpr,
    gains: tl.constexpr,
):
    """Fill minus each item's part of the NDCG of smooth ranks, and the gradient."""
    kind: tl.constexpr = out.dtype.element_ty
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask = scores + start, labels + start, mask + start
    sides, out = sides + start, out + start
    norm, counted, wrong, nonfinite = query_summary(scores, labels, mask, sides, items, kind, True)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real_i, score, label = load_items(scores, labels, mask, i, items, kind)
    rank = tl.load(sides + plane + i, mask=real_i, other=1)
    value, fall_i = smooth_gain(gain_of(label, gains), rank, k, alpha_k)
    score_i = score[:, None]
    slope = tl.zeros([ROWS, COLUMNS], kind)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        rank = tl.load(sides + plane + j, mask=real, other=1)
        _, fall = smooth_gain(gain_of(label_j, gains), rank, k, alpha_k)
        _, small = sigmoids(alpha * (score[None, :] - score_i))
        steep = small / ((1 + small) * (1 + small)) * (fall[None, :] - fall_i[:, None])
        # Exclude j = i: its two values of `fall` may be rounded differently and would not cancel.
        other = real_i[:, None] & real[None, :] & (i[:, None] != j[None, :])
        slope += tl.where(other, steep, 0)
    steep = alpha * tl.sum(slope, 1) / norm
    store_planes(out, plane, i, real_i, items, -value / norm, steep, counted, wrong, nonfinite)


def pair_costs(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    *,
    sigma: float,
    mean: bool = False,
    measure: str = "",
    k: int | None = None,
    mu: float = 0.0,
    gains: str = "exponential",
) -> Evaluated:
    """Evaluate RankNet's cost: a sum, a mean over pairs, or a sum weighted by a measure's changes."""
    chosen: dict[str, Any] = {"k": k or 0, "gains": gains}
    options: dict[str, Any] = {
        "sigma": sigma,
        "mu": mu,
        "measure": measure,
        "shared": measure == "ndcg" or mean,
    }
    sides = scores
    if mean or measure not in ("", "arp"):
        quantity = "pairs" if mean else "rank"
        sides = fill_planes(sides_kernel, scores, labels, mask, alpha=0.0, quantity=quantity, **chosen)
    return reduce_planes(fill_planes(pair_costs_kernel, scores, labels, mask, sides, **chosen, **options))


def approx_ndcg(
    scores: Tensor, labels: Tensor, mask: Tensor, *, alpha: float, k: int | None, alpha_k: float, gains: str
) -> Evaluated:
    """Evaluate minus the approximate NDCG."""
    chosen: dict[str, Any] = {"alpha": alpha, "k": k or 0, "gains": gains}
    sides = fill_planes(sides_kernel, scores, labels, mask, quantity="smooth", **chosen)
    return reduce_planes(fill_planes(approx_kernel, scores, labels, mask, sides, alpha_k=alpha_k, **chosen))


def fill_planes(kernel: Any, scores: Tensor, *others: Tensor, planes: int = 3, **options: Any) -> Tensor:
    """Launch a kernel that fills planes of the scores' shape, with one program per query and block."""
    queries, items = scores.shape
    kind = torch.float64 if scores.dtype == torch.float64 else torch.float32
    out = scores.new_empty(planes, queries, items, dtype=kind)
    programs = queries, triton.cdiv(items, ROWS.value)
    return fill(out, kernel, programs, scores, *others, items=items, **options)


def reduce_planes(planes: Tensor) -> Evaluated:
    """Return losses, gradients and `counted` flags from the planes that `store_planes` filled."""
    costs, slopes, counted = planes
    return costs.sum(dim=1), slopes, counted.select(1, 0)
