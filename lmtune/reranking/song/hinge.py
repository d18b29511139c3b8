"""Sums of the squared hinge over whole lists, by sorting: O(n log n) and no n x n matrix.

With l(x) = max(0, x + c)^2, g_i = sum_j w_j l(s_j - s_i) is a quadratic in s_i whose coefficients
are sums of w_j, w_j s_j and w_j s_j^2 over the items with s_j > s_i - c. Sorted scores turn those
into running sums. They are formed in float64 around each list's mean, for the quadratic cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SortedLists:
    """Scores of lists (B, n) in ascending order, centred, with what scatters results back."""

    order: Tensor
    values: Tensor
    margin: float

    @classmethod
    def sort(cls, scores: Tensor, mask: Tensor, margin: float) -> SortedLists:
        """Sort `scores` (B, n); where `mask` is False they may hold anything."""
        kept = torch.where(mask, scores.double(), 0.0)
        centre = kept.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        values, order = torch.sort(torch.where(mask, kept - centre, 0.0), dim=1, stable=True)
        return cls(order, values, margin)

    def inner(self, weights: Tensor) -> Tensor:
        """Compute g_i = sum_j w_j max(0, s_j - s_i + c)^2 for all i.

        Parameters
        ----------
        weights : Tensor (B, n)
            w_j in the caller's order, 0 on padding.

        Returns
        -------
        float64 Tensor (B, n)
            In the caller's order.
        """
        weight = weights.double().gather(1, self.order)
        below = self.values - self.margin
        first = torch.searchsorted(self.values, below, right=True)
        zeroth, once, twice = (
            _after(weight * power, first)
            for power in (torch.ones_like(self.values), self.values, self.values.square())
        )
        sums = (twice - 2.0 * below * once + below.square() * zeroth).clamp(min=0.0)
        return self._back(sums)

    def gradient(self, weights: Tensor, outer: Tensor) -> Tensor:
        """Compute the gradient of sum_i a_i g_i in the scores, with a held fixed.

        Parameters
        ----------
        weights : Tensor (B, n)
            w_j, as in `inner`.
        outer : Tensor (B, n)
            a_i, 0 for items that are not relevant and on padding.

        Returns
        -------
        float64 Tensor (B, n)
        """
        weight = weights.double().gather(1, self.order)
        factor = outer.double().gather(1, self.order)
        below = self.values - self.margin
        first = torch.searchsorted(self.values, below, right=True)
        pull = _after(weight * self.values, first) - below * _after(weight, first)
        above = self.values + self.margin
        last = torch.searchsorted(self.values, above, right=False)
        push = above * _before(factor, last) - _before(factor * self.values, last)
        return self._back(2.0 * (weight * push - factor * pull))

    def derivative(self, weights: Tensor, changes: Tensor) -> Tensor:
        """Compute the derivative of each g_i along `changes` (B, n) of the scores.

        Returns
        -------
        float64 Tensor (B, n)
        """
        weight = weights.double().gather(1, self.order)
        step = changes.double().gather(1, self.order)
        below = self.values - self.margin
        first = torch.searchsorted(self.values, below, right=True)
        pull = _after(weight * self.values, first) - below * _after(weight, first)
        moved = weight * step
        push = _after(moved * self.values, first) - below * _after(moved, first)
        return self._back(2.0 * (push - step * pull))

    def _back(self, values: Tensor) -> Tensor:
        return torch.empty_like(values).scatter_(1, self.order, values)


def _after(values: Tensor, first: Tensor) -> Tensor:
    """Sum values[first:] of each row."""
    running = torch.nn.functional.pad(values.flip(1).cumsum(1).flip(1), (0, 1))
    return running.gather(1, first)


def _before(values: Tensor, last: Tensor) -> Tensor:
    """Sum values[:last] of each row."""
    running = torch.nn.functional.pad(values.cumsum(1), (1, 0))
    return running.gather(1, last)
