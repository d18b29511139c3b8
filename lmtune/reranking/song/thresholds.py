"""The score that a query's K best items exceed, as the minimiser of a smooth convex function."""

from __future__ import annotations

import torch
from torch import Tensor

# As many as halving alone may take; five to ten are the rule.
_MOST_STEPS = 80
_NEAR, _ROUNDING = 1e-14, 1e-15


def solve_threshold(scores: Tensor, weights: Tensor, target: Tensor, *, tau1: float, tau2: float) -> Tensor:
    """Find where L'(t) = target + tau2 t - sum_j weight_j sigmoid((s_j - t) / tau1) is 0.

    L' increases in t: Newton's steps find its root to 14 digits, halving the interval that holds it
    wherever they leave it or shrink too slowly.

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
    # The root is near the score down to which the items weigh `target`.
    falling, order = torch.where(present, scores, -torch.inf).sort(dim=1, descending=True)
    place = (weights.gather(1, order).cumsum(1) < target).sum(1, keepdim=True)
    at = torch.minimum(torch.maximum(falling.gather(1, place.clamp(max=scores.shape[1] - 1)), least), most)
    step = high - low
    for _ in range(_MOST_STEPS):
        sigma = torch.sigmoid((scores - at) / tau1)
        part = weights * sigma
        slope = target + tau2 * at - part.sum(1, keepdim=True)
        bend = tau2 + (part * (1.0 - sigma)).sum(1, keepdim=True) / tau1
        above = slope > 0
        high, low = torch.where(above, at, high), torch.where(above, low, at)
        newton, half = -slope / bend, 0.5 * (low + high) - at
        steady = (at + newton >= low) & (at + newton <= high) & (newton.abs() <= 0.5 * step.abs())
        step = torch.where(steady, newton, half)
        near = (slope.abs() <= _ROUNDING) | (step.abs() <= _NEAR * (tau1 + at.abs()))
        at = at + torch.where(slope.abs() <= _ROUNDING, 0.0, step)
        if bool(near.all()):
            break
    return at
