"""`lmtune.reranking.losses.pair_sums` as kernels of Triton's: one program a query and block of items.

A program goes over the other items block by block and keeps its sums in registers: no matrix of pairs,
no atomics, so that results are the same in each run. Lists are sorted by label first. Then the items
above and below a label are two runs of places, and pairs of equal labels cost nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.reranking.losses.evaluation import PaddedLists
from lmtune.reranking.losses.plain_torch import SwapWeights
from lmtune.reranking.training.devices import as_current


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
_ROWS, _COLUMNS = tl.constexpr(32), tl.constexpr(32)


@triton.jit
def _softplus(x):
    """Return ln(1 + e^-x) and its slope with the sign turned, 1 / (1 + e^x)."""
    small = tl.exp(-tl.abs(x))
    above = 1 + small
    # log1p: the quotient takes back what rounding 1 + small lost.
    kept = tl.where(above == 1, 1, above - 1)
    log = tl.where(above == 1, small, tl.log(above) * (small / kept))
    return tl.maximum(-x, 0) + log, tl.where(x > 0, small, 1) / above


@triton.jit
def _swap_weight(swaps, tightness, plane, i, j, here, there, tight: tl.constexpr):
    """Return what `SwapWeights.of` does; its share, discount and rank lie a plane apart."""
    share_i = tl.load(swaps + i, mask=here, other=0)[:, None]
    share_j = tl.load(swaps + j, mask=there, other=0)[None, :]
    discount_i = tl.load(swaps + plane + i, mask=here, other=0)[:, None]
    discount_j = tl.load(swaps + plane + j, mask=there, other=0)[None, :]
    weight = tl.abs(discount_i - discount_j)
    if tight:
        rank_i = tl.load(swaps + 2 * plane + i, mask=here, other=0)[:, None]
        rank_j = tl.load(swaps + 2 * plane + j, mask=there, other=0)[None, :]
        near = tl.load(tightness + (2 * tl.abs(rank_i - rank_j)).to(tl.int32))
        weight += tl.where((discount_i > 0) | (discount_j > 0), near, 0)
    return weight * tl.abs(share_i - share_j)


@triton.jit
def pair_costs_kernel(
    scores, runs, real, swaps, tightness, steepness, out, items, weighted: tl.constexpr, tight: tl.constexpr
):
    """Fill each item's costs against those of lower labels and, a plane on, its slope against all."""
    plane = tl.num_programs(0).to(tl.int64) * items
    start = tl.program_id(0).to(tl.int64) * items
    scores, runs, swaps, out = scores + start, runs + start, swaps + start, out + start
    count, steep = tl.load(real + tl.program_id(0)), tl.load(steepness)
    i = tl.program_id(1) * _ROWS + tl.arange(0, _ROWS)
    here = i < count
    score_i = tl.load(scores + i, mask=here, other=0)[:, None]
    first = tl.load(runs + i, mask=here, other=0)[:, None]
    after = tl.load(runs + plane + i, mask=here, other=items)[:, None]
    cost = tl.zeros([_ROWS, _COLUMNS], scores.dtype.element_ty)
    slope = tl.zeros([_ROWS, _COLUMNS], scores.dtype.element_ty)
    for at in range(0, tl.max(first), _COLUMNS):
        j = at + tl.arange(0, _COLUMNS)
        score_j = tl.load(scores + j, mask=j < count, other=0)[None, :]
        _, push = _softplus(steep * (score_j - score_i))
        if weighted:
            push *= _swap_weight(swaps, tightness, plane, i, j, here, j < count, tight)
        slope += tl.where(j[None, :] < first, push, 0)
    for at in range(tl.min(after) // _COLUMNS * _COLUMNS, count, _COLUMNS):
        j = at + tl.arange(0, _COLUMNS)
        score_j = tl.load(scores + j, mask=j < count, other=0)[None, :]
        term, push = _softplus(steep * (score_i - score_j))
        if weighted:
            weight = _swap_weight(swaps, tightness, plane, i, j, here, j < count, tight)
            term *= weight
            push *= weight
        below = (j[None, :] >= after) & (j < count)[None, :]
        cost += tl.where(below, term, 0)
        slope -= tl.where(below, push, 0)
    tl.store(out + i, tl.sum(cost, 1), mask=i < items)
    tl.store(out + plane + i, tl.sum(slope, 1), mask=i < items)


@triton.jit
def ranks_kernel(scores, slopes, real, steepness, out, items, gradient: tl.constexpr):
    """Fill the sums of `smooth_ranks`, or of `through_ranks` for given slopes, of sorted lists."""
    start = tl.program_id(0).to(tl.int64) * items
    scores, slopes, out = scores + start, slopes + start, out + start
    count, steep = tl.load(real + tl.program_id(0)), tl.load(steepness)
    i = tl.program_id(1) * _ROWS + tl.arange(0, _ROWS)
    here = i < count
    score_i = tl.load(scores + i, mask=here, other=0)[:, None]
    slope_i = tl.load(slopes + i, mask=here, other=0)[:, None]
    total = tl.zeros([_ROWS, _COLUMNS], scores.dtype.element_ty)
    for at in range(0, count, _COLUMNS):
        j = at + tl.arange(0, _COLUMNS)
        x = steep * (tl.load(scores + j, mask=j < count, other=0)[None, :] - score_i)
        small = tl.exp(-tl.abs(x))
        if gradient:
            slope_j = tl.load(slopes + j, mask=j < count, other=0)[None, :]
            term = small / ((1 + small) * (1 + small)) * (slope_j - slope_i)
        else:
            term = tl.where(x > 0, 1, small) / (1 + small)
        total += tl.where((j < count)[None, :], term, 0)
    tl.store(out + i, tl.where(here, tl.sum(total, 1), 0), mask=i < items)


class _Sorted(NamedTuple):
    """Lists by falling label, padding last.

    Attributes
    ----------
    order : int64 Tensor of shape (queries, items)
        Which item stands at each place.
    labels : Tensor of shape (queries, items)
        -1 on padding.
    real : int32 Tensor of shape (queries,)
        How many items are not padding.
    """

    order: Tensor
    labels: Tensor
    real: Tensor

    @classmethod
    def of(cls, lists: PaddedLists) -> _Sorted:
        labels, order = torch.where(lists.mask, lists.labels, -1).sort(dim=1, descending=True)
        return cls(order, labels, lists.mask.sum(dim=1, dtype=torch.int32))

    def take(self, values: Tensor) -> Tensor:
        return values.gather(1, self.order)

    def put_back(self, values: Tensor) -> Tensor:
        return torch.empty_like(values).scatter_(1, self.order, values)

    @property
    def programs(self) -> tuple[int, int]:
        queries, items = self.labels.shape
        return queries, triton.cdiv(items, _ROWS.value)


def pair_costs(lists: PaddedLists, sigma: float, weights: SwapWeights | None = None) -> tuple[Tensor, Tensor]:
    """As of `lmtune.reranking.losses.pair_sums`."""
    by_label = _Sorted.of(lists)
    scores, falling = by_label.take(lists.scores), -by_label.labels
    runs = torch.stack(
        [torch.searchsorted(falling, falling, right=right, out_int32=True) for right in (False, True)]
    )
    swaps = scores if weights is None else torch.stack([by_label.take(part) for part in weights[:3]])
    tightness = None if weights is None else weights.tightness
    steep = scores.new_full((1,), sigma)
    inputs = scores, runs, by_label.real, swaps, scores if tightness is None else tightness, steep
    flags = {"weighted": weights is not None, "tight": tightness is not None}
    out = scores.new_empty(2, *scores.shape)
    costs, slopes = fill(out, pair_costs_kernel, by_label.programs, *inputs, items=scores.shape[1], **flags)
    return costs.sum(dim=1), sigma * by_label.put_back(slopes)


def smooth_ranks(lists: PaddedLists, alpha: float) -> Tensor:
    """As of `lmtune.reranking.losses.pair_sums`."""
    return 0.5 + _over_ranks(lists, alpha, None)


def through_ranks(lists: PaddedLists, alpha: float, slopes: Tensor) -> Tensor:
    """As of `lmtune.reranking.losses.pair_sums`."""
    return alpha * _over_ranks(lists, alpha, slopes)


def _over_ranks(lists: PaddedLists, alpha: float, slopes: Tensor | None) -> Tensor:
    by_label = _Sorted.of(lists)
    scores = by_label.take(lists.scores)
    steep, slope = scores.new_full((1,), alpha), scores if slopes is None else by_label.take(slopes)
    inputs = scores, slope, by_label.real, steep
    flags = {"items": scores.shape[1], "gradient": slopes is not None}
    out = scores.new_empty(scores.shape)
    return by_label.put_back(fill(out, ranks_kernel, by_label.programs, *inputs, **flags))
