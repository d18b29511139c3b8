"""K-SONG's thresholds as a kernel of Triton's: one program a list, which stops by itself."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from lmtune.reranking.losses.fused import fill


@triton.jit
def threshold_kernel(
    scores,
    weights,
    numbers,
    unknown,
    out,
    items,
    block: tl.constexpr,
    most_steps: tl.constexpr,
    rounding: tl.constexpr,
    near: tl.constexpr,
):
    """Fill the roots of `thresholds.Slope`; `numbers` has low, high, at, target and tau1 tau2."""
    row = tl.program_id(0)
    scores, weights = scores + row.to(tl.int64) * items, weights + row.to(tl.int64) * items
    low, high, at = tl.load(numbers + 5 * row), tl.load(numbers + 5 * row + 1), tl.load(numbers + 5 * row + 2)
    target, tau = tl.load(numbers + 5 * row + 3), tl.load(numbers + 5 * row + 4)
    last, left = high - low, tl.where(tl.load(unknown + row), most_steps, 0)
    while left > 0:
        parts = tl.zeros([block], scores.dtype.element_ty)
        bends = tl.zeros([block], scores.dtype.element_ty)
        for begin in range(0, items, block):
            j = begin + tl.arange(0, block)
            x = tl.load(scores + j, mask=j < items, other=0) - at
            small = tl.exp(-tl.abs(x))
            part = tl.load(weights + j, mask=j < items, other=0) * (tl.where(x > 0, 1, small) / (1 + small))
            parts += part
            bends += part * (tl.where(x > 0, small, 1) / (1 + small))
        tilt = target + tau * at - tl.sum(parts, 0)
        low, high = tl.where(tilt > 0, low, at), tl.where(tilt > 0, at, high)
        newton, half = -tilt / (tau + tl.sum(bends, 0)), 0.5 * (low + high) - at
        steady = (at + newton >= low) & (at + newton <= high) & (tl.abs(newton) <= 0.5 * tl.abs(last))
        last = tl.where(steady, newton, half)
        flat = tl.abs(tilt) <= rounding
        done = flat | (tl.abs(last) <= (1 + tl.abs(at)) * near)
        at += tl.where(flat, 0, last)
        left = tl.where(done, 0, left - 1)
    tl.store(out + row, at)


def roots(
    scores: Tensor, weights: Tensor, numbers: Tensor, unknown: Tensor, limits: dict[str, float]
) -> Tensor:
    """Find the roots (B, 1), in units of tau1; those of lists that are not wanted mean nothing.

    Parameters
    ----------
    scores, weights : float64 Tensor (B, n)
        Scores in units of tau1.
    numbers : float64 Tensor (B, 5)
        As the kernel takes them.
    unknown : bool Tensor (B, 1)
        Which lists are wanted.
    limits : dict
        The kernel's `most_steps`, `rounding` and `near`.
    """
    lists, items = scores.shape
    block = min(1024, triton.next_power_of_2(items))
    inputs = scores, weights, numbers, unknown
    out = scores.new_empty(lists, 1)
    return fill(out, threshold_kernel, (lists,), *inputs, items=items, block=block, **limits)
