"""ListNet: the cross-entropy of who comes first."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from lmtune.reranking.losses.declared import Backend, Reduce, checked
from lmtune.reranking.losses.evaluation import LossCall, evaluate
from lmtune.reranking.losses.given_gradients import LossAndGradient
from lmtune.reranking.losses.kernel_calls import Arrays, run
from lmtune.reranking.losses.padded_lists import Labels, PaddedLists, Scores
from lmtune.reranking.losses.plain_torch import at_once
from lmtune.surrogates.list_kernels import listnet_queries

Target = Literal["softmax", "labels"]


@checked
def listnet(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    target: Target = "softmax",
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute the top-one ListNet loss.

    .. math:: L_q = -\sum_i t_i \ln \frac{e^{s_i}}{\sum_j e^{s_j}}, \qquad
        t_i = \frac{e^{y_i}}{\sum_j e^{y_j}}

    in nats.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As of `lmtune.reranking.losses.ranknet`.
    target : {"softmax", "labels"}
        "labels" puts t_i = y_i: the softmax cross-entropy of Bruch et al. (ICTIR 2019), whose
        weight grows with a query's labels.

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
    Cao et al., Learning to Rank: From Pairwise Approach to Listwise Approach, ICML 2007. allRank's
    ``listNet`` also counts queries without a relevant item, with a uniform target. Rax's
    ``softmax_loss`` and TF-Ranking's ``SoftmaxLoss`` are ``target="labels"``.

    Examples
    --------
    With equal scores the loss is ln 3, whatever the labels:

    >>> import torch
    >>> round(float(listnet(torch.zeros(1, 3), torch.tensor([[0, 2, 0]]))), 6)
    1.098612
    """

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        a = Arrays.of(lists)
        return run(a, listnet_queries, a.scores, a.labels, a.mask, target == "softmax")

    def cross_entropy(lists: PaddedLists) -> Tensor:
        lowest = torch.finfo(lists.scores.dtype).min
        logarithm = lists.scores.masked_fill(~lists.mask, lowest).log_softmax(dim=1)
        weight = lists.labels
        if target == "softmax":
            weight = weight.masked_fill(~lists.mask, lowest).softmax(dim=1)
        return -(weight * torch.where(lists.mask, logarithm, 0)).sum(dim=1)

    return evaluate(
        LossCall(scores, labels, mask, reduce, backend), partial(at_once, cross_entropy), in_kernels
    )
