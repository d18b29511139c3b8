"""Binary cross-entropy: the likelihood of each item's relevance, by itself."""

from __future__ import annotations

from functools import partial

from torch import Tensor
from torch.nn import functional

from lmtune.reranking.losses.evaluation import (
    Labels,
    LossCall,
    PaddedLists,
    Reduce,
    Scores,
    checked,
    evaluate,
)
from lmtune.reranking.losses.plain_torch import at_once


@checked
def binary_cross_entropy(
    scores: Scores, labels: Labels, *, mask: Tensor | None = None, reduce: Reduce = "mean"
) -> Tensor:
    r"""Compute the cross-entropy of relevant (a label above 0) or not, of each item by itself.

    .. math:: L_q = \frac{1}{n} \sum_i \ln\left(1 + e^{s_i}\right) - [y_i > 0] s_i

    in nats, for a list of n items.

    Parameters
    ----------
    scores, labels, mask, reduce
        As of `lmtune.reranking.losses.ranknet`.

    Returns
    -------
    Tensor
        A scalar, or of shape (queries,) with ``reduce="none"``.

    Raises
    ------
    InputError
        If shapes, types or options do not fit.

    Notes
    -----
    Rax's ``pointwise_sigmoid_loss`` and TF-Ranking's ``SigmoidCrossEntropyLoss`` take the labels
    themselves for probabilities.

    Examples
    --------
    With scores of 0 the loss is ln 2, whatever the labels:

    >>> import torch
    >>> round(float(binary_cross_entropy(torch.zeros(1, 3), torch.tensor([[0, 1, 0]]))), 6)
    0.693147
    """

    def cross_entropy(lists: PaddedLists) -> Tensor:
        costs = functional.softplus(lists.scores) - lists.scores * (lists.labels > 0)
        return (costs * lists.mask).sum(dim=1) / lists.mask.sum(dim=1).clamp(min=1)

    compute = partial(at_once, cross_entropy)
    call = LossCall(scores, labels, mask, reduce, "auto")
    return evaluate(call, compute, lambda lists: compute(lists, True))
