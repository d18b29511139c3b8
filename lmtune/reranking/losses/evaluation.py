"""What all losses do alike: check the lists, choose the code, take the mean over queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.reranking.losses.declared import Backend, Reduce
from lmtune.reranking.losses.given_gradients import LossAndGradient, differentiable
from lmtune.reranking.losses.padded_lists import Labels, PaddedLists, Scores, as_padded

# A loss's formula: each query's loss of padded lists, and its gradient if it is wanted.
QueryLosses = Callable[[PaddedLists, bool], LossAndGradient]


class LossCall(NamedTuple):
    """What each loss is called with besides its own options; see `lmtune.reranking.losses.ranknet`."""

    scores: Scores
    labels: Labels
    mask: Tensor | None
    reduce: Reduce
    backend: Backend


def evaluate(
    batch: LossCall, in_torch: QueryLosses, in_kernels: Callable[[PaddedLists], LossAndGradient]
) -> Tensor:
    """Compute a loss by its kernels where they can run, and are wanted, else in plain PyTorch.

    Parameters
    ----------
    batch : LossCall
    in_torch, in_kernels : callable
        The same formula; the kernels give the gradient in any case.

    Returns
    -------
    Tensor
        A scalar, 0 where no query counts, or of shape (queries,) with ``reduce="none"``. Queries
        without a relevant item contribute 0, and the mean is not taken over them.

    Raises
    ------
    InputError
        If the lists do not fit, or kernels are asked for on another device than the CPU. There
        nothing waits for a device: a query with a wrong label has the loss NaN.
    """
    scores, labels, mask = as_padded(batch.scores, batch.labels, batch.mask)
    lists = PaddedLists.of(scores, labels, mask)
    if batch.backend == "kernels" and not lists.on_cpu:
        raise InputError("the kernels run on the CPU alone", value=str(lists.scores.device), accepted="torch")

    def compute(gradient_wanted: bool) -> LossAndGradient:
        if lists.on_cpu and batch.backend != "torch":
            return in_kernels(lists)
        return in_torch(lists, gradient_wanted)

    counted = lists.relevant
    losses = torch.where(counted, differentiable(scores, compute), 0)
    if not lists.on_cpu:
        losses = losses.masked_fill(lists.wrong, torch.nan)
    if batch.reduce == "none":
        return losses
    total = losses.sum()
    return total / counted.sum().clamp(min=1) if batch.reduce == "mean" else total
