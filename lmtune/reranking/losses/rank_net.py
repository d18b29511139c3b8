"""RankNet: the likelihood of each pair's order."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lmtune.reranking.losses.declared import Backend, Positive, Reduce, checked
from lmtune.reranking.losses.evaluation import LossCall, evaluate
from lmtune.reranking.losses.given_gradients import LossAndGradient
from lmtune.reranking.losses.kernel_calls import Arrays, run
from lmtune.reranking.losses.padded_lists import Labels, PaddedLists, Scores
from lmtune.reranking.losses.pair_sums import pair_costs
from lmtune.surrogates.pair_kernels import ranknet_queries

Pairs = Literal["mean", "sum"]


@checked
def ranknet(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    pairs: Pairs = "mean",
    sigma: Positive = 1.0,
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute the RankNet loss.

    .. math:: L_q = \sum_{y_i > y_j} \ln\left(1 + e^{-\sigma (s_i - s_j)}\right)

    in nats, divided by the number of pairs with ``pairs="mean"``.

    Parameters
    ----------
    scores : Tensor of shape (queries, items) or (queries, items, 1), or a sequence of Tensor
        Of any floating-point type; float16 and bfloat16 are computed in float32. A sequence has
        one tensor (items,) or (items, 1) a query.
    labels : Tensor or array_like of the same shape, or a sequence of them
        Grades of at least 0, of any type; -1 is padding where there is no mask.
    mask : bool Tensor of shape (queries, items), optional
        False on padding; by default items are real but for labels of -1.
    reduce : {"mean", "sum", "none"}
        Over queries. Those without a relevant item (label above 0) contribute 0 and the mean is
        not taken over them.
    pairs : {"mean", "sum"}
        Over a query's pairs. With "sum", long lists weigh more.
    sigma : float
        Steepness; above 0.
    backend : {"auto", "kernels", "torch"}
        "kernels" runs on the CPU alone; "torch" goes through the same pairs in plain PyTorch, block
        by block, or on a CUDA device with Triton in fused kernels. "auto" takes the kernels where it
        can. All need memory for the lists, not for their pairs, and none gives gradients of gradients
        (RuntimeError).

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
    Burges et al., Learning to Rank Using Gradient Descent, ICML 2005. allRank's ``rankNet`` and
    Rax's ``pairwise_logistic_loss`` take one mean over the pairs of all queries of the batch:
    ``pairs="sum", reduce="sum"`` divided by their number. TF-Ranking's ``PairwiseLogisticLoss``
    divides that sum by the number of items, padding included.

    Examples
    --------
    The pairs (1, 2) and (3, 2) differ in label; ln(1 + e^-1) and ln(1 + e^0):

    >>> import torch
    >>> loss = ranknet(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1, 0, 1]]), pairs="sum")
    >>> round(float(loss), 6)
    1.006409
    """

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        a = Arrays.of(lists)
        return run(a, ranknet_queries, a.by_label(), a.number(sigma), pairs == "mean")

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        del gradient_wanted  # it comes with the losses
        losses, gradient = pair_costs(lists, sigma)
        if pairs == "sum":
            return losses, gradient
        share = 1 / _number_of_pairs(lists).clamp(min=1)
        return losses * share, gradient * share[:, None]

    return evaluate(LossCall(scores, labels, mask, reduce, backend), in_torch, in_kernels)


def _number_of_pairs(lists: PaddedLists) -> Tensor:
    """Count each query's pairs of real items with different labels; of shape (queries,)."""
    labels = torch.where(lists.mask, lists.labels, -1).sort(dim=1).values
    below = torch.searchsorted(labels, labels, right=False)
    padding = (~lists.mask).sum(dim=1, keepdim=True)
    return (below - padding).clamp(min=0).sum(dim=1).to(lists.scores.dtype)
