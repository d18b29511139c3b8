"""The score that a query's K best items exceed, as the minimiser of a smooth convex function."""

from __future__ import annotations

import torch
from torch import Tensor


def solve_threshold(scores: Tensor, weights: Tensor, target: Tensor, *, tau1: float, tau2: float) -> Tensor:
    """Find where L'(t) = target + tau2 t - sum_j weight_j sigmoid((s_j - t) / tau1) is 0.

    L' increases in t, so bisection finds its root, to the last bits.

    Parameters
    ----------
    scores, weights : float64 Tensor (B, n)
        Weights are 0 on padding and sum to 1 over a list.
    target : float64 Tensor (B, 1)
        (K + eps) / N.

    Returns
    -------
    float64 Tensor (B, 1)
    """
    present = weights > 0
    least = torch.where(present, scores, torch.inf).amin(1, keepdim=True)
    most = torch.where(present, scores, -torch.inf).amax(1, keepdim=True)
    empty = ~present.any(1, keepdim=True)
    least, most = torch.where(empty, 0.0, least), torch.where(empty, 0.0, most)
    # Beyond these the smooth step is over, and only the quadratic term is left.
    low = torch.minimum(least - 40.0 * tau1, (-target / tau2).clamp(max=0.0))
    high = torch.maximum(most + 40.0 * tau1, ((1.0 - target) / tau2).clamp(min=0.0))
    for _ in range(80):
        middle = 0.5 * (low + high)
        sigma = torch.sigmoid((scores - middle) / tau1)
        slope = target + tau2 * middle - (weights * sigma).sum(1, keepdim=True)
        above = slope > 0
        high = torch.where(above, middle, high)
        low = torch.where(above, low, middle)
    return 0.5 * (low + high)
