"""Kernels of the losses without item comparisons: binary cross-entropy and MarginMSE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Floats
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import decay, lane_dot, lane_sum, log1p


@compiled()
def binary_cross_entropy_queries(
    first: int,
    last: int,
    scores: Floats,
    labels: Floats,
    mask: NDArray[np.bool_],
    smoothing: Any,
    losses: Floats,
    gradients: Floats,
) -> None:
    """Fill the mean cross-entropies and their gradients of queries ``first`` to ``last - 1``.

    Parameters
    ----------
    first, last : int
    scores, labels : arrays of shape (queries, items)
        Of the same floating-point type as the losses and gradients; 0 on padding.
    mask : bool array of shape (queries, items)
    smoothing : number of the scores' type
        Targets are 1 - smoothing / 2 for labels above 0, else smoothing / 2.
    losses : array of shape (queries,)
    gradients : array of shape (queries, items)
    """
    zero, one, half = scores.dtype.type(0.0), scores.dtype.type(1.0), scores.dtype.type(0.5)
    low = smoothing * half
    costs = np.empty_like(scores[0])
    for q in range(first, last):
        s, y, real, slope = scores[q], labels[q], mask[q], gradients[q]
        share = one / s.dtype.type(max(real.sum(), 1))
        for i in range(s.size):
            x = s[i]
            target = one - low if y[i] > zero else low
            small = decay(abs(x))
            cost = (x if x > zero else zero) - x * target + log1p(small)
            costs[i] = cost if real[i] else zero
            rise = ((one if x > zero else small) / (one + small) - target) * share
            slope[i] = rise if real[i] else zero
        nonfinite = zero * lane_sum(s)  # NaN if a score is not finite, else 0
        losses[q] = lane_sum(costs) * share + nonfinite
        if nonfinite != zero:
            slope[:] = np.where(real, nonfinite, zero)


@compiled()
def margin_mse_queries(
    first: int,
    last: int,
    scores: Floats,
    labels: Floats,
    mask: NDArray[np.bool_],
    losses: Floats,
    gradients: Floats,
) -> None:
    """Fill MarginMSE's losses and gradients; the parameters are those of `binary_cross_entropy_queries`."""
    zero, one, two = scores.dtype.type(0.0), scores.dtype.type(1.0), scores.dtype.type(2.0)
    for q in range(first, last):
        s, y, real, slope = scores[q], labels[q], mask[q], gradients[q]
        items = real.sum()
        share = one / s.dtype.type(max(items, 1))
        factor = two / s.dtype.type(max(items - 1, 1))
        # Centre the scores before subtracting labels: differences of large scores stay accurate.
        mean = lane_sum(s) * share
        for i in range(s.size):
            distance = (s[i] - mean) - y[i]
            slope[i] = distance if real[i] else zero
        mean = lane_sum(slope) * share
        for i in range(s.size):
            distance = slope[i] - mean
            slope[i] = distance if real[i] else zero
        losses[q] = factor * lane_dot(slope, slope)
        for i in range(s.size):
            slope[i] *= two * factor
