"""Sums over pairs of items in plain PyTorch, with gradients by formula, some rows of the pairs at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from lmtune.reranking.losses.evaluation import PaddedLists
from lmtune.reranking.losses.plain_torch import SwapWeights, against

# Numbers in each of a block's intermediates: 4 MB of float32 on the CPU, 64 MB elsewhere.
_CPU_BLOCK, _DEVICE_BLOCK = 1 << 20, 1 << 24


def pair_costs(
    lists: PaddedLists, sigma: float, weights: SwapWeights | None = None, *, all_pairs: bool = False
) -> tuple[Tensor, Tensor]:
    r"""Sum :math:`w_{ij} \ln(1 + e^{-\sigma (s_i - s_j)})` over the pairs with label i above label j.

    Parameters
    ----------
    lists : PaddedLists
    sigma : float
        Steepness.
    weights : SwapWeights, optional
        Constants to the gradient; 1 by default.
    all_pairs : bool
        Over all pairs of items instead, an item and itself among them, each weighing label i.

    Returns
    -------
    losses : Tensor of shape (queries,)
    gradient : Tensor of shape (queries, items)
    """
    losses, gradient = lists.scores.new_zeros(len(lists.scores)), torch.zeros_like(lists.scores)
    for rows in row_slices(lists.scores):
        label_i, label_j = against(lists.labels, rows)
        mask_i, mask_j = against(lists.mask, rows)
        score_i, score_j = against(lists.scores, rows)
        margin = sigma * (score_i - score_j)
        weight = label_i if all_pairs else 1 if weights is None else weights.of(rows)
        weight = torch.where((all_pairs | (label_i > label_j)) & mask_i & mask_j, weight, 0)
        losses -= (weight * torch.nn.functional.logsigmoid(margin)).sum(dim=(1, 2))
        pushes = sigma * weight * torch.sigmoid(-margin)
        gradient += pushes.sum(dim=1)
        gradient[:, rows] -= pushes.sum(dim=2)
    return losses, gradient


def smooth_ranks(lists: PaddedLists, alpha: float) -> Tensor:
    r"""Return :math:`1 + \sum_{j \ne i} 1 / (1 + e^{-\alpha (s_j - s_i)})`, of shape (queries, items).

    Padding gets a rank that means nothing.
    """
    rank = torch.empty_like(lists.scores)
    for rows in row_slices(lists.scores):
        score_i, score_j = against(lists.scores, rows)
        beats = torch.where(lists.mask[:, None, :], torch.sigmoid(alpha * (score_j - score_i)), 0)
        # An item does not beat itself, but is counted with sigmoid(0).
        rank[:, rows] = 0.5 + beats.sum(dim=2)
    return rank


def through_ranks(lists: PaddedLists, alpha: float, slopes: Tensor) -> Tensor:
    r"""Return a loss's gradient in the scores, given its slopes c in the `smooth_ranks`.

    .. math:: \partial L / \partial s_i = \alpha \sum_j \beta_{ij} (1 - \beta_{ij}) (c_j - c_i),
        \qquad \beta_{ij} = 1 / (1 + e^{-\alpha (s_j - s_i)})

    Parameters
    ----------
    slopes : Tensor of shape (queries, items)
        0 on padding.
    """
    gradient = torch.empty_like(lists.scores)
    for rows in row_slices(lists.scores):
        score_i, score_j = against(lists.scores, rows)
        slope_i, slope_j = against(slopes, rows)
        beats = torch.sigmoid(alpha * (score_j - score_i))
        steps = alpha * beats * (1 - beats) * (slope_j - slope_i)
        gradient[:, rows] = torch.where(lists.mask[:, None, :], steps, 0).sum(dim=2)
    return torch.where(lists.mask, gradient, 0)


def row_slices(scores: Tensor, *, of_items: bool = True) -> list[slice]:
    """Cut the items of lists, or the lists, so that a slice's part of all pairs is small."""
    queries, items = scores.shape
    count, pairs_each = (items, queries * items) if of_items else (queries, items**2)
    block = _CPU_BLOCK if scores.device.type == "cpu" else _DEVICE_BLOCK
    step = max(1, block // max(1, pairs_each))
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]
