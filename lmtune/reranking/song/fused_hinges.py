"""SONG's sums over pairs, and K-SONG's thresholds of weighted lists, as kernels of Triton's."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.reranking.losses.fused import COLUMNS, ROWS, fill
from lmtune.reranking.losses.fused_song import root_of


@triton.jit
def threshold_kernel(
    scores, mask, weights, targets, out, items, block: tl.constexpr, tau1: tl.constexpr, tau2: tl.constexpr
):
    """Fill the roots of `lmtune.reranking.song.k_song.Slope`."""
    row = tl.program_id(0)
    start = row.to(tl.int64) * items
    scores, mask, weights = scores + start, mask + start, weights + start
    target = tl.load(targets + row)
    at = root_of(scores, mask, weights, items, 1.0, target, True, block, tau1, tau2, True)
    tl.store(out + row, at)


def roots(scores: Tensor, weights: Tensor, target: Tensor, *, tau1: float, tau2: float) -> Tensor:
    """Find the roots, float64 (B, 1).

    Parameters
    ----------
    scores, weights : float64 Tensor (B, n)
        Weights are 0 on padding and sum to 1 over a list.
    target : float64 Tensor (B, 1)
    tau1, tau2 : float
    """
    lists, items = scores.shape
    block = min(1024, triton.next_power_of_2(items))
    inputs = scores, weights > 0, weights, target
    out = scores.new_empty(lists, 1)
    return fill(out, threshold_kernel, (lists,), *inputs, items=items, block=block, tau1=tau1, tau2=tau2)


@triton.jit
def hinge_kernel(scores, mask, weights, others, out, items, margin: tl.constexpr, wanted: tl.constexpr):
    """Fill sums over the pairs of each item i with all items j, from hinges max(0, s_j - s_i + margin)."""
    start = tl.program_id(0).to(tl.int64) * items
    scores, mask, weights, others, out = (
        scores + start,
        mask + start,
        weights + start,
        others + start,
        out + start,
    )
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    here = tl.load(mask + i, mask=i < items, other=0) != 0
    score_i = tl.load(scores + i, mask=here, other=0).to(tl.float64)[:, None]
    weight_i = tl.load(weights + i, mask=here, other=0)[:, None]
    other_i = tl.load(others + i, mask=here, other=0)[:, None]
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real = tl.load(mask + j, mask=j < items, other=0) != 0
        score_j = tl.load(scores + j, mask=real, other=0).to(tl.float64)[None, :]
        weight_j = tl.load(weights + j, mask=real, other=0)[None, :]
        other_j = tl.load(others + j, mask=real, other=0)[None, :]
        hinge = score_j - score_i + margin
        hinge = tl.where(hinge < 0, 0, hinge)
        if wanted == "inner":
            total += weight_j * hinge * hinge
        elif wanted == "derivative":
            total += 2 * weight_j * hinge * (other_j - other_i)
        else:
            back = score_i - score_j + margin
            total += 2 * (weight_i * other_j * tl.where(back < 0, 0, back) - other_i * weight_j * hinge)
        total += tl.where(real[None, :], score_j - score_j, 0)  # no number, where a score is none
    tl.store(out + i, tl.where(here, tl.sum(total, 1), 0), mask=i < items)


class HingeSums(NamedTuple):
    """What `lmtune.reranking.song.songs.SortedLists` computes, on a GPU, from all pairs.

    Attributes
    ----------
    scores : Tensor (B, n)
        Where `mask` is False they may hold anything.
    mask : bool Tensor (B, n)
    weights : float64 Tensor (B, n)
        w_j; 0 on padding.
    margin : float
        c.
    """

    scores: Tensor
    mask: Tensor
    weights: Tensor
    margin: float

    def inner(self) -> Tensor:
        """Compute g_i = sum_j w_j max(0, s_j - s_i + c)^2 for all i, float64 (B, n)."""
        return self._sums("inner", self.weights)

    def gradient(self, outer: Tensor) -> Tensor:
        """Compute the gradient of sum_i a_i g_i in the scores, for a (B, n) held fixed; float64 (B, n)."""
        return self._sums("gradient", outer)

    def derivative(self, changes: Tensor) -> Tensor:
        """Compute the derivative of each g_i along `changes` (B, n) of the scores; float64 (B, n)."""
        return self._sums("derivative", changes)

    def _sums(self, wanted: str, others: Tensor) -> Tensor:
        queries, items = self.scores.shape
        programs = queries, triton.cdiv(items, ROWS.value)
        out = self.scores.new_empty(queries, items, dtype=torch.float64)
        inputs = self.scores, self.mask, self.weights, others.double()
        return fill(out, hinge_kernel, programs, *inputs, items=items, margin=self.margin, wanted=wanted)
