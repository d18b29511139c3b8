"""Losses of each item by itself: the likelihood of its relevance, its distance from a teacher's score."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from lmtune.losses.evaluation import (
    Labels,
    LossCall,
    PaddedLists,
    Reduce,
    Scores,
    Smoothing,
    checked,
    evaluate,
)
from lmtune.losses.plain_torch import at_once


@checked
def binary_cross_entropy(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    smoothing: Smoothing = 0.0,
) -> Tensor:
    r"""Compute the cross-entropy of relevant (a label above 0) or not, of each item by itself.

    .. math:: L_q = \frac{1}{n} \sum_i \ln\left(1 + e^{s_i}\right) - t_i s_i, \qquad
        t_i = (1 - \epsilon) [y_i > 0] + \epsilon / 2

    in nats, for a list of n items.

    Parameters
    ----------
    scores, labels, mask, reduce
        As of `lmtune.losses.ranknet`.
    smoothing : float
        :math:`\epsilon` of label smoothing (Szegedy et al., Rethinking the Inception Architecture for
        Computer Vision, CVPR 2016); at least 0, below 1.

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
        target = (1 - smoothing) * (lists.labels > 0).to(lists.scores.dtype) + smoothing / 2
        costs = functional.softplus(lists.scores) - lists.scores * target
        return (costs * lists.mask).sum(dim=1) / lists.mask.sum(dim=1).clamp(min=1)

    compute = partial(at_once, cross_entropy)
    call = LossCall(scores, labels, mask, reduce, "auto")
    return evaluate(call, compute, lambda lists: compute(lists, True))


@checked
def margin_mse(
    scores: Scores, labels: Labels, *, mask: Tensor | None = None, reduce: Reduce = "mean"
) -> Tensor:
    r"""Compute the mean squared error of differences of scores from those of a teacher's.

    .. math:: L_q = \frac{2}{n (n - 1)} \sum_{i < j} \big((s_i - s_j) - (y_i - y_j)\big)^2
        = \frac{2}{n - 1} \sum_i (d_i - \bar d)^2, \qquad d_i = s_i - y_i

    for a list of n items; 0 for one of a single item.

    Parameters
    ----------
    scores, mask, reduce
        As of `lmtune.losses.ranknet`.
    labels
        The teacher's scores, less the lowest of the list, for no label is below 0; only their differences
        count.

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
    Hofstätter et al., Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge
    Distillation, 2020, who have pairs of a relevant and another document; of two items it is theirs, and
    sentence-transformers' ``MarginMSELoss``.

    Examples
    --------
    The teacher puts the first item 3 above the second, the scores 1:

    >>> import torch
    >>> float(margin_mse(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 0.0]])))
    4.0
    """

    def squares(lists: PaddedLists) -> Tensor:
        items = lists.mask.sum(dim=1, keepdim=True)

        def centred(values: Tensor) -> Tensor:
            values = torch.where(lists.mask, values, 0)
            return torch.where(lists.mask, values - values.sum(dim=1, keepdim=True) / items.clamp(min=1), 0)

        # Scores first, so that large ones keep the digits of their differences.
        distance = centred(centred(lists.scores) - lists.labels)
        return 2 * distance.square().sum(dim=1) / (items[:, 0] - 1).clamp(min=1)

    compute = partial(at_once, squares)
    call = LossCall(scores, labels, mask, reduce, "auto")
    return evaluate(call, compute, lambda lists: compute(lists, True))
