"""Sums of the squared hinge over whole lists, by sorting: O(n log n) and no n x n matrix.

With l(x) = max(0, x + c)^2, g_i = sum_j w_j l(s_j - s_i) is a quadratic in s_i whose coefficients
are sums of w_j, w_j s_j and w_j s_j^2 over the items with s_j > s_i - c. Sorted scores turn those
into running sums. They are formed in float64 around each list's mean, for the quadratic cancels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class SortedLists(NamedTuple):
    """Lists (B, n) by ascending score, and sums over the items above each one's margin.

    Attributes
    ----------
    order : int64 Tensor (B, n)
        Which item stands at each place.
    values, weights : float64 Tensor (B, n)
        Scores less their list's mean, and the weights w_j; 0 on padding.
    below : float64 Tensor (B, n)
        s_i - c.
    sums : float64 Tensor (3, B, n)
        Of w_j, w_j s_j and w_j s_j^2 over the items with s_j above `below`.
    first : int64 Tensor (B, n)
        The first of these items.
    margin : float
        c.
    """

    order: Tensor
    values: Tensor
    weights: Tensor
    below: Tensor
    sums: Tensor
    first: Tensor
    margin: float

    @classmethod
    def sort(cls, scores: Tensor, mask: Tensor, margin: float, weights: Tensor) -> SortedLists:
        """Sort `scores` (B, n); where `mask` is False they may hold anything, and weights are 0."""
        kept = torch.where(mask, scores.double(), 0.0)
        centre = kept.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        values, order = torch.sort(torch.where(mask, kept - centre, 0.0), dim=1, stable=True)
        weight = weights.double().gather(1, order)
        below = values - margin
        first = torch.searchsorted(values, below, right=True)
        sums = _after(first, weight, weight * values, weight * values.square())
        return cls(order, values, weight, below, sums, first, margin)

    def inner(self) -> Tensor:
        """Compute g_i = sum_j w_j max(0, s_j - s_i + c)^2 for all i.

        Returns
        -------
        float64 Tensor (B, n)
            In the caller's order, as all results.
        """
        zeroth, once, twice = self.sums
        sums = (twice - 2.0 * self.below * once + self.below.square() * zeroth).clamp(min=0.0)
        return self._back(sums)

    def gradient(self, outer: Tensor) -> Tensor:
        """Compute the gradient of sum_i a_i g_i in the scores, with a held fixed.

        Parameters
        ----------
        outer : Tensor (B, n)
            a_i, 0 for items that are not relevant and on padding.

        Returns
        -------
        float64 Tensor (B, n)
        """
        factor = outer.double().gather(1, self.order)
        above = self.values + self.margin
        last = torch.searchsorted(self.values, above, right=False)
        zeroth, once = _before(last, factor, factor * self.values)
        push = above * zeroth - once
        return self._back(2.0 * (self.weights * push - factor * self._pull()))

    def derivative(self, changes: Tensor) -> Tensor:
        """Compute the derivative of each g_i along `changes` (B, n) of the scores.

        Returns
        -------
        float64 Tensor (B, n)
        """
        step = changes.double().gather(1, self.order)
        moved = self.weights * step
        zeroth, once = _after(self.first, moved, moved * self.values)
        return self._back(2.0 * (once - self.below * zeroth - step * self._pull()))

    def _pull(self) -> Tensor:
        """Compute sum_j w_j max(0, s_j - s_i + c)."""
        return self.sums[1] - self.below * self.sums[0]

    def _back(self, values: Tensor) -> Tensor:
        return torch.empty_like(values).scatter_(1, self.order, values)


def _after(first: Tensor, *values: Tensor) -> Tensor:
    """Sum values[first:] of each row of some (B, n); returns (values, B, n)."""
    running = torch.nn.functional.pad(torch.stack(values).flip(2).cumsum(2).flip(2), (0, 1))
    return running.gather(2, first.expand(len(values), -1, -1))


def _before(last: Tensor, *values: Tensor) -> Tensor:
    """Sum values[:last] of each row of some (B, n); returns (values, B, n)."""
    running = torch.nn.functional.pad(torch.stack(values).cumsum(2), (1, 0))
    return running.gather(2, last.expand(len(values), -1, -1))
