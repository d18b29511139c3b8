"""Helpers of the losses in plain PyTorch: gradients, ranks, discounts, and weights of swaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lmtune.losses.evaluation import LossAndGradient, PaddedLists
from lmtune.losses.packing_kernels import Measure


def loss_and_gradient(
    loss: Callable[[PaddedLists], Tensor], lists: PaddedLists, gradient_wanted: bool
) -> LossAndGradient:
    """Compute each list's loss, shape (queries,), and its gradient in the scores by autograd."""

    def loss_of_scores(scores: Tensor) -> Tensor:
        return loss(PaddedLists(scores, lists.labels, lists.mask))

    return value_and_gradient(loss_of_scores, lists.scores, gradient_wanted)


def value_and_gradient(
    function: Callable[[Tensor], Tensor], values: Tensor, gradient_wanted: bool
) -> LossAndGradient:
    """Compute a function of each query's values, shape (queries,), and its gradient by autograd.

    The gradient is None unless `gradient_wanted`.
    """
    if not gradient_wanted:
        return function(values), None
    with torch.enable_grad():
        values = values.detach().requires_grad_()
        result = function(values)
        (gradient,) = torch.autograd.grad(result.sum(), values)
    return result.detach(), gradient


def ranks(lists: PaddedLists) -> Tensor:
    """Rank each query's items by falling score, shape (queries, items); the best rank is 1.

    Among equal scores, less relevant items come first. Items with equal score and label get their mean rank:
    1 + #(s_j > s_i) + #(s_j = s_i, y_j < y_i) + #(s_j = s_i, y_j = y_i, j != i) / 2.
    Ranks therefore do not depend on the order of the items, and lists of equal scores have a gradient.
    Ranks of padding are arbitrary.
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
    """Return the discounts of `discount_table`; 0 for ranks beyond k.

    `k` is one cutoff for all queries, or a tensor that broadcasts with the ranks.
    """
    if measure == "precision":
        discount = torch.ones_like(ranks) / (ranks.shape[-1] if k is None else k)
    else:
        discount = 1 / (ranks if measure == "mrr" else torch.log2(1 + ranks))
    return discount if k is None else torch.where(ranks <= k, discount, 0)


def ideal_dcg(gains: Tensor, k: int | Tensor | None) -> Tensor:
    """Return each query's ideal DCG at k, shape (queries,); 1 where it is 0.

    `k` is one cutoff for all queries, or has shape (queries, 1).
    """
    ranks = torch.arange(1, gains.shape[1] + 1, dtype=gains.dtype, device=gains.device)
    best = (gains.sort(dim=1, descending=True).values * discounts(ranks, k)).sum(dim=1)
    return torch.where(best > 0, best, 1)


class SwapWeights(NamedTuple):
    """The change of a measure when two items swap: |G_i - G_j| (|D_i - D_j| + tightness) / IDCG.

    Attributes
    ----------
    share : Tensor of shape (queries, items)
        G / IDCG.
    discount : Tensor of shape (queries, items), optional
        D; 0 beyond the cutoff. If None, |D_i - D_j| is 1.
    rank : Tensor of shape (queries, items)
        Ranks from 1; ties may have half ranks.
    tightness : Tensor of shape (2 items + 1,), optional
        ``tightness[2 d]`` is added for a rank distance d if at least one of the items is above the cutoff.
    """

    share: Tensor
    discount: Tensor | None
    rank: Tensor
    tightness: Tensor | None = None

    def of_rows(self, rows: slice) -> Tensor:
        """Return the weights of pairs (i, j), i in a slice of the items, j any item; valid if G_i > G_j."""
        share_i, share_j = pair_views(self.share, rows)
        if self.discount is None:
            return share_i - share_j
        (discount_i, discount_j), (rank_i, rank_j) = (
            pair_views(self.discount, rows),
            pair_views(self.rank, rows),
        )
        weight = (discount_i - discount_j).abs()
        if self.tightness is not None:
            near = self.tightness[(2 * (rank_i - rank_j).abs()).long()]
            weight = weight + torch.where((discount_i > 0) | (discount_j > 0), near, 0)
        return weight * (share_i - share_j)


def pair_views(values: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
    """Return v_i of a slice of the items and v_j of all items, shaped to broadcast over pairs (i, j)."""
    return values[:, rows, None], values[:, None, :]
