"""Parts of losses in plain PyTorch: gradients, ranks, what swaps do to NDCG."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lmtune.losses.evaluation import LossAndGradient, PaddedLists
from lmtune.losses.packing_kernels import Measure


def at_once(
    loss: Callable[[PaddedLists], Tensor], lists: PaddedLists, gradient_wanted: bool
) -> LossAndGradient:
    """Take the loss of whole lists, of shape (queries,), and its gradient."""

    def of(scores: Tensor) -> Tensor:
        return loss(PaddedLists(scores, lists.labels, lists.mask))

    return differentiated(of, lists.scores, gradient_wanted)


def differentiated(
    function: Callable[[Tensor], Tensor], values: Tensor, gradient_wanted: bool
) -> LossAndGradient:
    """Take each query's function of its values, of shape (queries,), and its gradient by autograd."""
    if not gradient_wanted:
        return function(values), None
    with torch.enable_grad():
        values = values.detach().requires_grad_()
        result = function(values)
        (gradient,) = torch.autograd.grad(result.sum(), values)
    return result.detach(), gradient


def ranks(lists: PaddedLists) -> Tensor:
    """Rank the items of each query by their scores, 1 the best; of shape (queries, items).

    Among equal scores the less relevant come first, and items equal in both share the mean of
    their places: 1 + #(s_j > s_i) + #(s_j = s_i, y_j < y_i) + #(s_j = s_i, y_j = y_i, j != i) / 2.
    So ranks do not depend on the order of the items, and lists of equal scores still have something
    to learn. Padding gets a rank that means nothing.
    """
    scores = torch.where(lists.mask, lists.scores, -torch.inf)
    order = lists.labels.argsort(dim=1)
    order = order.gather(1, scores.gather(1, order).argsort(dim=1, descending=True, stable=True))
    score, label = scores.gather(1, order), lists.labels.gather(1, order)
    count = scores.shape[1] + 1
    position = torch.arange(1, count, dtype=scores.dtype, device=scores.device).expand_as(scores)
    new = torch.ones_like(lists.mask)
    new[:, 1:] = (score[:, 1:] != score[:, :-1]) | (label[:, 1:] != label[:, :-1])
    first = torch.where(new, position, 0).cummax(dim=1).values
    last = torch.where(new.roll(-1, dims=1), position, torch.inf).flip(1).cummin(dim=1).values.flip(1)
    return torch.empty_like(scores).scatter_(1, order, (first + last) / 2)


def discounts(ranks: Tensor, k: int | Tensor | None, measure: Measure = "ndcg") -> Tensor:
    """Return `discount_table`'s discounts; 0 for ranks beyond k, one for all or for each of the ranks."""
    if measure == "precision":
        discount = torch.ones_like(ranks) / (ranks.shape[-1] if k is None else k)
    else:
        discount = 1 / (ranks if measure == "mrr" else torch.log2(1 + ranks))
    return discount if k is None else torch.where(ranks <= k, discount, 0)


def ideal_dcg(gains: Tensor, k: int | Tensor | None) -> Tensor:
    """Return the largest DCG (at k, one or of shape (queries, 1)), or 1 where it is 0, of each query."""
    places = torch.arange(1, gains.shape[1] + 1, dtype=gains.dtype, device=gains.device)
    best = (gains.sort(dim=1, descending=True).values * discounts(places, k)).sum(dim=1)
    return torch.where(best > 0, best, 1)


class SwapWeights(NamedTuple):
    """The change of a measure where two items swap: |G_i - G_j| (|D_i - D_j| + tightness) / IDCG.

    Attributes
    ----------
    share, discount, rank : Tensor of shape (queries, items)
        G / IDCG; D, 0 beyond the cutoff; ranks, halves among equals, 1 the best. Without D, |D_i - D_j| is 1.
    tightness : Tensor of shape (2 items + 1,), optional
        What a distance d of ranks adds, at index 2 d, where one of the items is above the cutoff.
    """

    share: Tensor
    discount: Tensor | None
    rank: Tensor
    tightness: Tensor | None = None

    def of(self, rows: slice) -> Tensor:
        """Return the weights of a slice of items (i) against all (j), where G_i is above G_j."""
        share_i, share_j = against(self.share, rows)
        if self.discount is None:
            return share_i - share_j
        (discount_i, discount_j), (rank_i, rank_j) = against(self.discount, rows), against(self.rank, rows)
        weight = (discount_i - discount_j).abs()
        if self.tightness is not None:
            near = self.tightness[(2 * (rank_i - rank_j).abs()).long()]
            weight = weight + torch.where((discount_i > 0) | (discount_j > 0), near, 0)
        return weight * (share_i - share_j)


def against(values: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
    """Return v_i of a slice of items and v_j of all items, to be compared."""
    return values[:, rows, None], values[:, None, :]
