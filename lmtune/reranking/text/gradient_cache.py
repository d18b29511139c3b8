"""Scores of many texts with their gradient, in the memory of a few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def scores_in_pieces(
    score: Callable[[Tensor], Tensor], pieces: Sequence[Tensor], device: torch.device | str = "cpu"
) -> Tensor:
    """Score pieces of a list such that a backward pass holds one piece's graph at a time.

    Each piece is scored without keeping what its gradient needs. The backward pass, once it knows the
    gradient of the loss in all scores, scores piece after piece again, from the same state of torch's
    generators and under the same autocast, so that dropout drops what it dropped before: the gradient
    is that of scoring the pieces once, for the price of another forward pass. The last piece, whose
    turn in the backward pass comes first, is scored once.

    Parameters
    ----------
    score : callable
        Takes some places, an int64 tensor of shape (n,), and gives their scores, of shape (n,), the
        same each time but for the weights, the generators and autocast.
    pieces : sequence of Tensor
        Places 0 to N - 1, each in one piece, in any order.
    device : torch.device or str
        Where the scores are computed: the state of its generator is kept.

    Returns
    -------
    Tensor of shape (N,)
        By place.

    Notes
    -----
    Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, RepL4NLP 2021,
    by torch's activation checkpointing (Chen et al. 2016), whose unit here is the piece.
    """
    *others, last = (piece.to(device) for piece in pieces)
    found = torch.cat([*(checkpoint(score, piece, use_reentrant=False) for piece in others), score(last)])
    return found[torch.argsort(torch.cat([*others, last])).to(found.device)]


def pieces_of(lengths: Sequence[int], count: int) -> list[Tensor]:
    """Divide places 0 to N - 1 into pieces of at most `count`, of like length, the longest first."""
    order = torch.argsort(torch.tensor(lengths), descending=True, stable=True)
    return list(torch.split(order, count))


def pieces_within(lengths: Sequence[int], tokens: int) -> list[Tensor]:
    """Divide places as `pieces_of`, so that no piece padded to its longest has more tokens; one place may."""
    order = torch.argsort(torch.tensor(lengths), descending=True, stable=True)
    pieces, first = [], 0
    while first < len(order):
        count = max(1, tokens // lengths[int(order[first])])
        pieces.append(order[first : first + count])
        first += count
    return pieces
