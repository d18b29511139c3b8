"""K-SONG's thresholds as a kernel of Triton's: one program a list, which stops by itself."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.reranking.song.thresholds import MOST_STEPS, NEAR, ROUNDING, Slope

_STEPS, _NEAR, _ROUNDING = tl.constexpr(MOST_STEPS), tl.constexpr(NEAR), tl.constexpr(ROUNDING)


@triton.jit
def threshold_kernel(scores, weights, numbers, unknown, out, items, block: tl.constexpr):
    """Fill the roots of `Slope`, in units of tau1; `numbers` has low, high, at, target and tau1 tau2."""
    row = tl.program_id(0)
    scores, weights = scores + row.to(tl.int64) * items, weights + row.to(tl.int64) * items
    low, high, at = tl.load(numbers + 5 * row), tl.load(numbers + 5 * row + 1), tl.load(numbers + 5 * row + 2)
    target, tau = tl.load(numbers + 5 * row + 3), tl.load(numbers + 5 * row + 4)
    last, left = high - low, tl.where(tl.load(unknown + row), _STEPS, 0)
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
        flat = tl.abs(tilt) <= _ROUNDING
        near = flat | (tl.abs(last) <= (1 + tl.abs(at)) * _NEAR)
        at += tl.where(flat, 0, last)
        left = tl.where(near, 0, left - 1)
    tl.store(out + row, at)


def solve(unknown: Tensor, slope: Slope) -> Tensor:
    """Find the roots of lists whose threshold is unknown; others' numbers mean nothing."""
    scores, target = slope.scores / slope.tau1, slope.target
    low, high, at = (bound / slope.tau1 for bound in slope.bracket())
    numbers = torch.cat([low, high, at, target, torch.full_like(target, slope.tau1 * slope.tau2)], dim=1)
    out, block = torch.empty_like(target), min(1024, triton.next_power_of_2(scores.shape[1]))
    threshold_kernel[(len(scores),)](
        scores, slope.weights.contiguous(), numbers, unknown, out, scores.shape[1], block=block
    )
    return slope.tau1 * out
