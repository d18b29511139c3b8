"""Losses without item comparisons: binary cross-entropy of relevance, and MarginMSE."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from lmtune.losses.evaluation import (
    Labels,
    LossAndGradient,
    LossCall,
    PaddedLists,
    Reduce,
    Scores,
    Smoothing,
    checked,
    evaluate,
    run_kernel,
)
from lmtune.losses.pointwise_kernels import binary_cross_entropy_queries, margin_mse_queries


@checked
def binary_cross_entropy(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    smoothing: Smoothing = 0.0,
) -> Tensor:
    r"""Compute the binary cross-entropy of relevance (label above 0), averaged over each list's items.

    .. math:: L_q = \frac{1}{n} \sum_i \ln\left(1 + e^{s_i}\right) - t_i s_i, \qquad
        t_i = (1 - \epsilon) [y_i > 0] + \epsilon / 2

    in nats, for a list of n items.

    Parameters
    ----------
    scores, labels, mask, reduce
        As in `lmtune.losses.ranknet`.
    smoothing : float
        Label smoothing :math:`\epsilon`, at least 0 and below 1 (Szegedy et al., Rethinking the Inception
        Architecture for Computer Vision, CVPR 2016).

    Returns
    -------
    Tensor
        A scalar, or shape (queries,) with ``reduce="none"``.

    Raises
    ------
    InputError
        If shapes or types do not match, or an option is invalid.

    Notes
    -----
    Rax's ``pointwise_sigmoid_loss`` and TF-Ranking's ``SigmoidCrossEntropyLoss`` use the labels
    themselves as probabilities.

    Examples
    --------
    If all scores are 0, the loss is ln 2 for any labels:

    >>> import torch
    >>> round(float(binary_cross_entropy(torch.zeros(1, 3), torch.tensor([[0, 1, 0]]))), 6)
    0.693147
    """

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        s, target = lists.scores, lists.labels.sign()
        if smoothing:
            target = target * (1 - smoothing) + smoothing / 2
        share = lists.mask / lists.lengths
        losses = torch.linalg.vecdot(functional.softplus(s) - s * target, share)
        return losses, (s.sigmoid() - target) * share if gradient_wanted else None

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        return run_kernel(lists, binary_cross_entropy_queries, *lists.arrays(), lists.number(smoothing))

    return evaluate(LossCall(scores, labels, mask, reduce, "auto"), in_torch, in_kernels)


@checked
def margin_mse(
    scores: Scores, labels: Labels, *, mask: Tensor | None = None, reduce: Reduce = "mean"
) -> Tensor:
    r"""Compute MarginMSE: the mean squared error between score differences and a teacher's differences.

    .. math:: L_q = \frac{2}{n (n - 1)} \sum_{i < j} \big((s_i - s_j) - (y_i - y_j)\big)^2
        = \frac{2}{n - 1} \sum_i (d_i - \bar d)^2, \qquad d_i = s_i - y_i

    for a list of n items, and 0 for a list of one item.

    Parameters
    ----------
    scores, mask, reduce
        As in `lmtune.losses.ranknet`.
    labels
        The teacher's scores, shifted so that the lowest of the list is 0, because labels must not be
        negative. The shift does not matter: only differences enter the loss.

    Returns
    -------
    Tensor
        A scalar, or shape (queries,) with ``reduce="none"``.

    Raises
    ------
    InputError
        If shapes or types do not match, or an option is invalid.

    Notes
    -----
    Hofstätter et al., Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge
    Distillation, 2020. Their pairs are a relevant and a non-relevant document: for a list of two items
    this loss equals theirs and ``MarginMSELoss`` of sentence-transformers.

    Examples
    --------
    The teacher scores the first item 3 above the second; the given scores differ by 1:

    >>> import torch
    >>> float(margin_mse(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 0.0]])))
    4.0
    """

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        items = lists.lengths

        def centred(values: Tensor) -> Tensor:
            return torch.where(lists.mask, values - values.sum(dim=1, keepdim=True) / items, 0)

        # Centre the scores before subtracting labels: differences of large scores stay accurate.
        distance = centred(centred(lists.scores) - lists.labels)
        slope = distance * (4 / (items - 1).clamp(min=1))
        return torch.linalg.vecdot(slope, distance) / 2, slope if gradient_wanted else None

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        return run_kernel(lists, margin_mse_queries, *lists.arrays())

    return evaluate(LossCall(scores, labels, mask, reduce, "auto"), in_torch, in_kernels)
