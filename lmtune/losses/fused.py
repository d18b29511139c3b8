"""Losses over pairs as kernels of Triton's: one program a query and block of items, no sort.

The first of two kernels counts in the pairs what others sort for (ranks, places by label, numbers of
pairs), the second takes each item's part of the loss and its slope. A program goes over all items block by
block and keeps its sums in registers, without atomics, so that results are the same in each run. Numbers
that are options are compiled in.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.devices import as_current

Evaluated = tuple[Tensor, Tensor, Tensor]
"""Each query's loss, its gradient in the scores, and whether it counts, 1 or 0."""


def fill(out: Tensor, kernel: Any, programs: tuple[int, ...], *inputs: Tensor, **options: Any) -> Tensor:
    """Let a kernel fill a new tensor from others.

    Kernels reckon places from shapes alone, so that the others are laid out row by row first; and Triton
    starts on the current device, whatever device tensors are on.

    Parameters
    ----------
    out : Tensor
        As the kernel's argument of that name; without elements, nothing is started.
    kernel : triton.JITFunction
    programs : tuple of int
        How many programs, along each axis.
    *inputs : Tensor
        The kernel's first arguments.
    **options
        The rest.

    Returns
    -------
    Tensor
        The one given.
    """
    if out.numel():
        with as_current(out.device):
            kernel[programs](*(tensor.contiguous() for tensor in inputs), out=out, **options)
    return out


# Items of a program's own, and items that it holds them against at a time.
ROWS, COLUMNS = tl.constexpr(32), tl.constexpr(32)


@triton.jit
def load_items(scores, labels, mask, at, items, kind: tl.constexpr):
    """Return places, which are real, and their scores and labels (-1 on padding)."""
    real = tl.load(mask + at, mask=at < items, other=0) != 0
    score = tl.load(scores + at, mask=real, other=0).to(kind)
    return real, score, tl.load(labels + at, mask=real, other=-1).to(kind)


@triton.jit
def gain_of(label, gains: tl.constexpr):
    """Return 2^y - 1 (no number for a label above 100), y or whether y > 0; 0 on padding."""
    if gains == "exponential":
        gain = tl.where(label > 100, float("nan"), tl.exp2(label) - 1)
    else:
        gain = tl.where(label > 0, 1.0, 0.0).to(label.dtype) if gains == "binary" else label
    return tl.where(label < 0, 0, gain)


@triton.jit
def discount_of(rank, k: tl.constexpr, measure: tl.constexpr):
    """Return 1 / log2(1 + rank), 1 / rank (MRR) or 1 / k (precision), 0 beyond k; k of 0 is none."""
    if measure == "precision":
        discount = rank * 0 + 1.0 / k
    else:
        discount = 1 / rank if measure == "mrr" else 1 / tl.log2(1 + rank)
    return tl.where(rank <= k, discount, 0) if k > 0 else discount


@triton.jit
def limit_of(length, k: tl.constexpr):
    """Return the cutoff k, or below 1 that share of a list's length, rounded up."""
    return tl.ceil(length * k) if k < 1 else length * 0 + k


@triton.jit
def hinge(above, below, margin: tl.constexpr):
    """Return max(0, above - below + margin), NaN for what is none."""
    apart = above - below + margin
    return tl.where(apart < 0, 0, apart)


@triton.jit
def sigmoids(x):
    """Return 1 / (1 + e^-x), and e^-|x|."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x > 0, 1, small) / (1 + small), small


@triton.jit
def of_query(scores, labels, mask, sides, items, kind: tl.constexpr, shared: tl.constexpr):
    """Return what parts are divided by, if the query counts, if a label is wrong, NaN for bad scores."""
    norm = tl.zeros([COLUMNS], kind)
    spoilt = tl.zeros([COLUMNS], kind)
    relevant = tl.zeros([COLUMNS], tl.int32)
    wrong = tl.zeros([COLUMNS], tl.int32)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label = load_items(scores, labels, mask, j, items, kind)
        spoilt += tl.where(real, score - score, 0)
        relevant += (label > 0).to(tl.int32)
        wrong += (real & ((label >= 0) == 0)).to(tl.int32)
        if shared:
            norm += tl.load(sides + j, mask=j < items, other=0)
    total = tl.sum(norm, 0)
    return tl.where(total == 0, 1, total), tl.sum(relevant, 0) > 0, tl.sum(wrong, 0) > 0, tl.sum(spoilt, 0)


@triton.jit
def store_outcome(out, plane, i, here, items, cost, slope, counted, wrong, spoilt):
    """Fill an item's part of the loss, its slope, and whether its query counts, a plane each."""
    counts = counted & (wrong == 0)
    tl.store(out + i, tl.where(wrong, float("nan"), tl.where(counts, cost + spoilt, 0)), mask=i < items)
    tl.store(out + plane + i, tl.where(counts & here, slope + spoilt, 0), mask=i < items)
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
    wanted: tl.constexpr,
):
    """Fill each item's part of the ideal DCG, by which losses are divided, and a plane on what is wanted.

    That is its "rank", as of `lmtune.losses.plain_torch.ranks`, a "smooth" one, its bound by a
    "hinge" of the margin alpha, or its "spread", the sum of its distances from the other scores. With "pairs"
    the parts sum to the number of pairs. A k below 1 is a share of the list.
    """
    kind: tl.constexpr = out.dtype.element_ty
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask, out = scores + start, labels + start, mask + start, out + start
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    here, score, label = load_items(scores, labels, mask, i, items, kind)
    score_i, label_i = score[:, None], label[:, None]
    rank = tl.zeros([ROWS, COLUMNS], kind)
    count = tl.zeros([ROWS, COLUMNS], kind)
    length = tl.zeros([COLUMNS], tl.float64)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        length += tl.where(real, 1, 0)
        real, score_j, label_j = real[None, :], score[None, :], label_j[None, :]
        alike, other = label_j == label_i, j[None, :] != i[:, None]
        if wanted == "pairs":
            count += tl.where(real & (label_j < label_i), 1, 0)
        else:
            count += tl.where(real & ((label_j > label_i) | (alike & (j[None, :] < i[:, None]))), 1, 0)
            if wanted == "smooth":
                beats, _ = sigmoids(alpha * (score_j - score_i))
            elif wanted == "hinge":
                apart = hinge(score_j, score_i, alpha)
                beats = apart * apart
            elif wanted == "spread":
                beats = tl.abs(score_j - score_i)
            else:
                beats = tl.where((score_j > score_i) | ((score_j == score_i) & (label_j < label_i)), 1.0, 0.0)
                beats += tl.where((score_j == score_i) & alike, 0.5, 0.0)
            rank += tl.where(real & other, beats, 0)
    part = tl.sum(count, 1)
    if wanted != "pairs":
        place = 1 + part
        part = gain_of(label, gains) * discount_of(place, k if k >= 1 else 0, "ndcg")
        if k > 0 and k < 1:
            part = tl.where(place <= limit_of(tl.sum(length, 0), k), part, 0)
    itself = alpha * alpha if wanted == "hinge" else (0 if wanted == "spread" else 1)
    tl.store(out + i, tl.where(here, part, 0), mask=i < items)
    tl.store(out + plane + i, tl.sum(rank, 1) + itself, mask=i < items)


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
    """Fill each item's costs ln(1 + e^(-sigma (s_i - s_j))) against those of lower labels, and its slope.

    With a measure, they are weighted by |G_i - G_j| (|D_i - D_j| + tightness) / IDCG, as of `SwapWeights`.
    """
    kind: tl.constexpr = out.dtype.element_ty
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask = scores + start, labels + start, mask + start
    sides, out = sides + start, out + start
    norm, counted, wrong, spoilt = of_query(scores, labels, mask, sides, items, kind, shared)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    here, score, label = load_items(scores, labels, mask, i, items, kind)
    score_i, label_i = score[:, None], label[:, None]
    swapped: tl.constexpr = measure != "" and measure != "arp"
    rank_i = tl.load(sides + plane + i, mask=here, other=1)[:, None] if swapped else score_i
    cost = tl.zeros([ROWS, COLUMNS], kind)
    slope = tl.zeros([ROWS, COLUMNS], kind)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        score_j, label_j = score[None, :], label_j[None, :]
        above = label_i > label_j
        pair = here[:, None] & real[None, :] & (above | (label_i < label_j))
        if tl.max(tl.max(pair.to(tl.int32), 1), 0) > 0:  # most items of real lists are not relevant
            x = sigma * tl.where(above, score_i - score_j, score_j - score_i)
            push, small = sigmoids(-x)
            larger = 1 + small
            # log1p: the quotient takes back what rounding 1 + small lost.
            kept = tl.where(larger == 1, 1, larger - 1)
            term = tl.maximum(-x, 0) + tl.where(larger == 1, small, tl.log(larger) * (small / kept))
            if measure == "arp":
                term *= tl.abs(label_i - label_j)
                push *= tl.abs(label_i - label_j)
            elif swapped:
                rank_j = tl.load(sides + plane + j, mask=real, other=1)[None, :]
                discount_i, discount_j = discount_of(rank_i, k, measure), discount_of(rank_j, k, measure)
                weight = tl.abs(discount_i - discount_j)
                if mu > 0:
                    apart = tl.maximum(tl.abs(rank_i - rank_j), 1)
                    near = mu * (discount_of(apart, 0, "ndcg") - discount_of(apart + 1, 0, "ndcg"))
                    weight += tl.where((discount_i > 0) | (discount_j > 0), near, 0)
                weight *= tl.abs(gain_of(label_i, gains) - gain_of(label_j, gains))
                term *= weight
                push *= weight
            cost += tl.where(pair & above, term, 0)
            slope += tl.where(pair, tl.where(above, -push, push), 0)
    steep = sigma * tl.sum(slope, 1) / norm
    store_outcome(out, plane, i, here, items, tl.sum(cost, 1) / norm, steep, counted, wrong, spoilt)


@triton.jit
def gained(gain, rank, k: tl.constexpr, alpha_k: tl.constexpr):
    """Return G / log2(1 + r), with k times the sigmoid of alpha_k (k + 1/2 - r), and minus its slope in r."""
    logarithm = tl.log2(1 + rank)
    value = gain / logarithm
    fall = value / (logarithm * (1 + rank) * 0.6931471805599453)
    if k > 0:
        kept, small = sigmoids(alpha_k * (k + 0.5 - rank))
        fall = kept * (fall + value * alpha_k * tl.where(k + 0.5 > rank, small, 1) / (1 + small))
        value *= kept
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
    """Fill minus each item's part of the NDCG of smooth ranks, and its slope."""
    kind: tl.constexpr = out.dtype.element_ty
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, labels, mask = scores + start, labels + start, mask + start
    sides, out = sides + start, out + start
    norm, counted, wrong, spoilt = of_query(scores, labels, mask, sides, items, kind, True)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    here, score, label = load_items(scores, labels, mask, i, items, kind)
    rank = tl.load(sides + plane + i, mask=here, other=1)
    value, fall_i = gained(gain_of(label, gains), rank, k, alpha_k)
    score_i = score[:, None]
    slope = tl.zeros([ROWS, COLUMNS], kind)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        rank = tl.load(sides + plane + j, mask=real, other=1)
        _, fall = gained(gain_of(label_j, gains), rank, k, alpha_k)
        _, small = sigmoids(alpha * (score[None, :] - score_i))
        steep = small / ((1 + small) * (1 + small)) * (fall[None, :] - fall_i[:, None])
        # Not its own: the two roundings of its fall can differ.
        other = here[:, None] & real[None, :] & (i[:, None] != j[None, :])
        slope += tl.where(other, steep, 0)
    steep = alpha * tl.sum(slope, 1) / norm
    store_outcome(out, plane, i, here, items, -value / norm, steep, counted, wrong, spoilt)


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
    """Evaluate RankNet's cost, over the number of pairs for its mean, or with a measure's weights."""
    chosen: dict[str, Any] = {"k": k or 0, "gains": gains}
    options: dict[str, Any] = {
        "sigma": sigma,
        "mu": mu,
        "measure": measure,
        "shared": measure == "ndcg" or mean,
    }
    sides = scores
    if mean or measure not in ("", "arp"):
        wanted = "pairs" if mean else "rank"
        sides = filled(sides_kernel, scores, labels, mask, alpha=0.0, wanted=wanted, **chosen)
    return evaluated(filled(pair_costs_kernel, scores, labels, mask, sides, **chosen, **options))


def approx_ndcg(
    scores: Tensor, labels: Tensor, mask: Tensor, *, alpha: float, k: int | None, alpha_k: float, gains: str
) -> Evaluated:
    """Evaluate minus the NDCG of smooth ranks."""
    chosen: dict[str, Any] = {"alpha": alpha, "k": k or 0, "gains": gains}
    sides = filled(sides_kernel, scores, labels, mask, wanted="smooth", **chosen)
    return evaluated(filled(approx_kernel, scores, labels, mask, sides, alpha_k=alpha_k, **chosen))


def filled(kernel: Any, scores: Tensor, *others: Tensor, planes: int = 3, **options: Any) -> Tensor:
    """Let a kernel fill planes of the scores' shape, one program a query and block of items."""
    queries, items = scores.shape
    kind = torch.float64 if scores.dtype == torch.float64 else torch.float32
    out = scores.new_empty(planes, queries, items, dtype=kind)
    programs = queries, triton.cdiv(items, ROWS.value)
    return fill(out, kernel, programs, scores, *others, items=items, **options)


def evaluated(planes: Tensor) -> Evaluated:
    """Take costs, slopes and what counts from their planes."""
    costs, slopes, counted = planes
    return costs.sum(dim=1), slopes, counted.select(1, 0)
