"""The score that a query's K best items exceed, as the minimiser of a smooth convex function."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lmtune.reranking.losses import padded_lists
from lmtune.reranking.losses.pair_sums import is_fused

# As many as halving alone may take; five to ten are the rule.
_MOST_STEPS = 80
_NEAR, _ROUNDING = 1e-14, 1e-15


class Slope(NamedTuple):
    """L'(t) = target + tau2 t - sum_j weight_j sigmoid((s_j - t) / tau1), which increases in t.

    Attributes
    ----------
    scores, weights : float64 Tensor (B, n)
        Weights are 0 on padding and sum to 1 over a list.
    target : float64 Tensor (B, 1)
        (K + eps) / N.
    tau1, tau2 : float
    """

    scores: Tensor
    weights: Tensor
    target: Tensor
    tau1: float
    tau2: float

    def rows(self, chosen: Tensor) -> Slope:
        """Take some of the lists."""
        scores, weights, target, tau1, tau2 = self
        return Slope(scores[chosen], weights[chosen], target[chosen], tau1, tau2)

    def bracket(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return bounds of each root and where it may lie, (B, 1) each."""
        scores, weights, target, tau1, tau2 = self
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
        near = falling.gather(1, place.clamp(max=scores.shape[1] - 1))
        return low, high, torch.minimum(torch.maximum(near, least), most)


def solve_thresholds(kept: Tensor, unknown: Tensor, slope: Slope) -> Tensor:
    """Find where L' is 0 for the lists whose threshold is unknown; nothing waits for a device.

    Newton's steps find the root to 14 digits, halving the interval that holds it wherever they leave
    it or shrink too slowly.

    Parameters
    ----------
    kept : float64 Tensor (B, 1)
        The thresholds that are known.
    unknown : bool Tensor (B, 1)
    slope : Slope

    Returns
    -------
    float64 Tensor (B, 1)
    """
    if is_fused(slope.scores):
        return torch.where(unknown, _fused(slope, unknown), kept)
    if not padded_lists.on_cpu(kept):
        return torch.where(unknown, _solve(slope), kept)
    rows = unknown.squeeze(1)
    if bool(rows.any()):
        kept[rows] = _solve(slope.rows(rows))
    return kept


def _fused(slope: Slope, unknown: Tensor) -> Tensor:
    from lmtune.reranking.song.fused_thresholds import roots

    scores, weights, target, tau1, tau2 = slope
    bounds = [bound / tau1 for bound in slope.bracket()]
    numbers = torch.cat([*bounds, target, torch.full_like(target, tau1 * tau2)], dim=1)
    limits = {"most_steps": _MOST_STEPS, "rounding": _ROUNDING, "near": _NEAR}
    return tau1 * roots(scores / tau1, weights, numbers, unknown, limits)


def _solve(slope: Slope) -> Tensor:
    scores, weights, target, tau1, tau2 = slope
    low, high, at = slope.bracket()
    step = high - low
    for _ in range(_MOST_STEPS):
        sigma = torch.sigmoid((scores - at) / tau1)
        part = weights * sigma
        tilt = target + tau2 * at - part.sum(1, keepdim=True)
        bend = tau2 + (part * (1.0 - sigma)).sum(1, keepdim=True) / tau1
        above = tilt > 0
        high, low = torch.where(above, at, high), torch.where(above, low, at)
        newton, half = -tilt / bend, 0.5 * (low + high) - at
        steady = (at + newton >= low) & (at + newton <= high) & (newton.abs() <= 0.5 * step.abs())
        step = torch.where(steady, newton, half)
        near = (tilt.abs() <= _ROUNDING) | (step.abs() <= _NEAR * (tau1 + at.abs()))
        at = at + torch.where(tilt.abs() <= _ROUNDING, 0.0, step)
        if padded_lists.on_cpu(near) and bool(near.all()):
            break
    return at
