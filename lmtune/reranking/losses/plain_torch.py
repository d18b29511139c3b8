"""Losses over pairs in plain PyTorch, some rows of the pairs' matrix at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lmtune.reranking.losses.given_gradients import LossAndGradient
from lmtune.reranking.losses.padded_lists import PaddedLists

# Numbers in each of a block's intermediates: 4 MB of float32 on the CPU, 64 MB elsewhere.
_CPU_BLOCK, _DEVICE_BLOCK = 1 << 20, 1 << 24


def in_blocks(
    lists: PaddedLists, rows_loss: Callable[[PaddedLists, slice], Tensor], gradient_wanted: bool
) -> LossAndGradient:
    """Sum a loss that is a sum over items, and its gradient, block by block.

    Memory grows with the length of the lists, not with its square: each block's gradient is taken
    before the next one is looked at.

    Parameters
    ----------
    lists : PaddedLists
    rows_loss : callable
        Takes the lists and a slice of items; returns those items' part of each query's loss, of
        shape (queries,), by operations that autograd can follow.
    gradient_wanted : bool
    """
    losses = lists.scores.new_zeros(lists.scores.shape[0])
    gradient = torch.zeros_like(lists.scores) if gradient_wanted else None
    for rows in row_slices(lists.scores):
        if gradient is None:
            losses += rows_loss(lists, rows)
            continue
        with torch.enable_grad():
            scores = lists.scores.detach().requires_grad_()
            part = rows_loss(PaddedLists(scores, lists.labels, lists.mask), rows)
            gradient += torch.autograd.grad(part.sum(), scores)[0]
        losses += part.detach()
    return losses, gradient


def at_once(
    loss: Callable[[PaddedLists], Tensor], lists: PaddedLists, gradient_wanted: bool
) -> LossAndGradient:
    """Take the loss of whole lists, of shape (queries,), and its gradient."""
    if not gradient_wanted:
        return loss(lists), None
    with torch.enable_grad():
        scores = lists.scores.detach().requires_grad_()
        losses = loss(PaddedLists(scores, lists.labels, lists.mask))
        (gradient,) = torch.autograd.grad(losses.sum(), scores)
    return losses.detach(), gradient


def row_slices(scores: Tensor) -> list[slice]:
    """Cut the items of lists into slices, so that slice x all items x queries is small."""
    queries, items = scores.shape
    block = _CPU_BLOCK if scores.device.type == "cpu" else _DEVICE_BLOCK
    step = max(1, block // max(1, queries * items))
    return [slice(first, min(first + step, items)) for first in range(0, items, step)]


def pairs_of(values: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
    """Return v_i of a slice of items and v_j of all items, to be held against each other."""
    return values[:, rows, None], values[:, None, :]


def ordered(lists: PaddedLists, rows: slice) -> Tensor:
    """Tell which pairs (i of a slice, j) are of real items with label i above label j."""
    label_i, label_j = pairs_of(lists.labels, rows)
    mask_i, mask_j = pairs_of(lists.mask, rows)
    return (label_i > label_j) & mask_i & mask_j


def ranks(lists: PaddedLists) -> Tensor:
    """Rank the items of each query by their scores, 1 the best; of shape (queries, items).

    Among equal scores the less relevant come first, and items equal in both share the mean of
    their places: 1 + #(s_j > s_i) + #(s_j = s_i, y_j < y_i) + #(s_j = s_i, y_j = y_i, j != i) / 2.
    So ranks do not depend on the order of the items, and lists of equal scores still have something
    to learn. Padding gets a rank that means nothing.
    """
    found = torch.empty_like(lists.scores)
    for rows in row_slices(lists.scores):
        score_i, score_j = pairs_of(lists.scores, rows)
        label_i, label_j = pairs_of(lists.labels, rows)
        mask = lists.mask[:, None, :]
        equal = score_j == score_i
        before = ((score_j > score_i) | (equal & (label_j < label_i))) & mask
        tied = equal & (label_j == label_i) & mask
        found[:, rows] = 0.5 + before.sum(dim=2) + 0.5 * tied.sum(dim=2)
    return found


def discounts(ranks: Tensor, k: int | None) -> Tensor:
    """Return 1 / log2(1 + rank); 0 for ranks beyond k."""
    discount = 1 / torch.log2(1 + ranks)
    return discount if k is None else torch.where(ranks <= k, discount, 0)


def ideal_dcg(gains: Tensor, k: int | None) -> Tensor:
    """Return the largest DCG (at k) of each query, or 1 where it is 0; of shape (queries,)."""
    places = torch.arange(1, gains.shape[1] + 1, dtype=gains.dtype, device=gains.device)
    best = (gains.sort(dim=1, descending=True).values * discounts(places, k)).sum(dim=1)
    return torch.where(best > 0, best, 1)
