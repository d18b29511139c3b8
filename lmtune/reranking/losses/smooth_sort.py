"""NeuralSort and Sinkhorn's iterations on many lists at once, with gradients by formula.

Lists stand side by side, each by falling score and padded at its end. In the matrices padded places
hold padded items for sure (1 on the diagonal), so that nothing needs to be masked between.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Sides = tuple[Tensor, Tensor]
"""A gradient in matrices (lists, n, n) as a product: of (lists, n, terms) and (lists, terms, n)."""


class SortedItems(NamedTuple):
    """Scores (lists, n) that fall, and what each is beside the others.

    Attributes
    ----------
    scores : float64 Tensor (lists, n)
        Divided by tau, less their list's mean; 0 on padding.
    real : bool Tensor (lists, n)
        False on padding.
    places : float64 Tensor (n,)
        0, 1, ...
    tilt : float64 Tensor (lists, n)
        Items below each place less items above it; on padding it means nothing.
    starts, stops : int64 Tensor (lists, n)
        Each item's run of equal scores; on padding they mean nothing.
    tau : float
    """

    scores: Tensor
    real: Tensor
    places: Tensor
    tilt: Tensor
    starts: Tensor
    stops: Tensor
    tau: float

    @classmethod
    def of(cls, falling: Tensor, count: Tensor, tau: float) -> SortedItems:
        """Take scores (lists, n), of which the first `count` (lists, 1) are real."""
        places = torch.arange(falling.shape[1], dtype=falling.dtype, device=falling.device)
        real = places < count
        kept = torch.where(real, falling, 0)
        scores = torch.where(real, kept - kept.sum(1, keepdim=True) / count.clamp(min=1), 0) / tau
        rising = -falling
        starts, stops = (torch.searchsorted(rising, rising, right=right) for right in (False, True))
        return cls(scores, real, places, count - 1 - 2 * places, starts, stops, tau)

    def neural_sort(self) -> Tensor:
        """Return NeuralSort's matrices (lists, n, n): rows are places, columns items; rows sum to 1."""
        above = self.scores.cumsum(1) - self.scores
        below = self.scores.sum(1, keepdim=True) - above - self.scores
        # Sums of |s_j - s_i|: j stands below as many items as its place says.
        behind = self.tilt + self.places
        spread = above - self.places * self.scores + behind * self.scores - below
        exponent = self.tilt[:, :, None] * self.scores[:, None, :] - spread[:, None, :]
        matrix = exponent.masked_fill_(~self.real[:, None, :], -torch.inf).softmax(dim=2)
        alone = torch.eye(len(self.places), dtype=matrix.dtype, device=matrix.device)
        return torch.where(self.real[:, :, None] & self.real[:, None, :], matrix, alone)

    def through_neural_sort(self, matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return the gradient (lists, n) in the scores, given that in the matrices as `Sides`."""
        slopes = torch.bmm(left, right)
        slopes -= (slopes * matrix).sum(2, keepdim=True)
        slopes *= matrix
        direct = (self.tilt[:, :, None] * slopes).sum(1)
        spread = -slopes.sum(1)
        # |s_j - s_i| has the slopes of s_j: -1 for each i above, 1 for each below, 0 for equal ones.
        sums = torch.nn.functional.pad(spread.cumsum(1), (1, 0))
        above, until = sums.gather(1, self.starts), sums.gather(1, self.stops)
        behind = self.tilt + 2 * self.places + 1 - self.stops
        gradient = direct + (behind - self.starts) * spread + (sums[:, -1:] - until) - above
        return torch.where(self.real, gradient, 0) / self.tau


class SinkhornSteps(NamedTuple):
    """Factors that make matrices (lists, n, n) doubly stochastic, of each iteration from the 0th.

    Attributes
    ----------
    matrix : Tensor (lists, n, n)
    rows, columns : Tensor (iterations + 1, lists, n, 1)
    """

    matrix: Tensor
    rows: Tensor
    columns: Tensor

    @classmethod
    def of(cls, matrix: Tensor, iterations: int) -> SinkhornSteps:
        """Scale columns, then rows, to sum to 1, so many times."""
        one = torch.ones_like(matrix[:, :, :1])
        rows, columns = [one], [one]
        for _ in range(iterations):
            columns.append(torch.bmm(matrix.mT, rows[-1]).reciprocal_())
            rows.append(torch.bmm(matrix, columns[-1]).reciprocal_())
        return cls(matrix, torch.stack(rows), torch.stack(columns))

    def outcome(self, discount: Tensor, gain: Tensor, gradient_wanted: bool) -> tuple[Tensor, Sides | None]:
        """Return minus the discounted gains of the places (lists,), and the gradient in the matrices.

        Parameters
        ----------
        discount, gain : Tensor (lists, n)
            Of places, and of items; 0 on padding.
        """
        matrix, across = self.matrix, self.matrix.mT
        weighted = self.columns[-1] * gain[:, :, None]
        places = torch.bmm(matrix, weighted)
        pulls = -discount[:, :, None] * self.rows[-1]
        losses = (pulls * places).sum(dim=(1, 2))
        if not gradient_wanted:
            return losses, None
        # Iteration t takes v = 1 / (K' u) and u = 1 / (K v); back through both, again with vectors alone.
        row_slopes, column_slopes = -self.rows.square(), -self.columns.square()
        row = -pulls * places * self.rows[-1]
        column = torch.bmm(across, pulls) * gain[:, :, None] + torch.bmm(across, row)
        row_sides, column_sides = [], []
        for t in range(len(self.rows) - 1, 0, -1):
            row_sides.append(row)
            column_sides.append(column * column_slopes[t])
            row = torch.bmm(matrix, column_sides[-1]) * row_slopes[t - 1]
            column = torch.bmm(across, row)
        before, after = self.rows[:-1].flip(0), self.columns[1:].flip(0)
        left = torch.cat([pulls, *row_sides, *before], dim=2)
        return losses, (left, torch.cat([weighted, *after, *column_sides], dim=2).mT)
