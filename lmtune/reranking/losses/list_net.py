"""ListNet: the cross-entropy of who comes first."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from lmtune.reranking.losses.declared import Backend, Reduce, checked
from lmtune.reranking.losses.kernel_calls import Arrays, kernels_wanted, run
from lmtune.reranking.losses.list_kernels import listnet_queries
from lmtune.reranking.losses.padded_lists import Lists, LossAndGradient, differentiable, lists_of, reduced
from lmtune.reranking.losses.plain_torch import at_once

Target = Literal["softmax", "labels"]


@checked
def listnet(
    scores: Tensor,
    labels: Tensor,
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
    lists = lists_of(scores, labels, mask)
    by_kernel = kernels_wanted(backend, lists)

    def compute(lists: Lists, gradient_wanted: bool) -> LossAndGradient:
        if by_kernel:
            a = Arrays.of(lists, double=True)
            inputs = a.scores, a.labels, a.mask, target == "softmax"
            return run(a, listnet_queries, *inputs, like=lists.scores)
        return at_once(lists, partial(_in_torch, softmax=target == "softmax"), gradient_wanted)

    return reduced(differentiable(scores, lists, compute), lists.relevant, reduce)


def _in_torch(lists: Lists, *, softmax: bool) -> Tensor:
    lowest = torch.finfo(lists.scores.dtype).min
    logarithm = lists.scores.masked_fill(~lists.mask, lowest).log_softmax(dim=1)
    weight = lists.labels
    if softmax:
        weight = weight.masked_fill(~lists.mask, lowest).softmax(dim=1)
    return -(weight * torch.where(lists.mask, logarithm, 0)).sum(dim=1)
