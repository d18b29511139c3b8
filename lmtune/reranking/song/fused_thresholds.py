"""K-SONG's thresholds of weighted lists as a kernel of Triton's: a program a list, which stops by itself."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from lmtune.reranking.losses.fused import fill
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
