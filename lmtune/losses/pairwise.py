"""Pairwise losses: RankNet, LambdaRank and NDCG-Loss2++; also blockwise sums over pairs in plain PyTorch."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.losses.evaluation import (
    Backend,
    Bounds,
    Cutoff,
    Gains,
    Labels,
    LossAndGradient,
    LossCall,
    PaddedLists,
    Positive,
    Reduce,
    Scores,
    checked,
    evaluate,
    run_kernel,
)
from lmtune.losses.packing_kernels import Measure, discount_table, tightness_table
from lmtune.losses.pair_kernels import Swaps, ranknet_queries, weighted_queries
from lmtune.losses.plain_torch import SwapWeights, discounts, ideal_dcg, pair_views, ranks

# Largest number of elements of an intermediate tensor: 4 MB of float32 on the CPU, 64 MB on other devices.
_CPU_BLOCK, _DEVICE_BLOCK = 1 << 20, 1 << 24


def pair_costs(lists: PaddedLists, sigma: float, weights: SwapWeights | None = None) -> tuple[Tensor, Tensor]:
    r"""Sum :math:`w_{ij} \ln(1 + e^{-\sigma (s_i - s_j)})` over the pairs with label i above label j.

    Parameters
    ----------
    lists : PaddedLists
    sigma : float
        Steepness.
    weights : SwapWeights, optional
        The weights w_ij, constant in the gradient; 1 by default.

    Returns
    -------
    losses : Tensor of shape (queries,)
    gradient : Tensor of shape (queries, items)
    """
    losses, gradient = lists.scores.new_zeros(len(lists.scores)), torch.zeros_like(lists.scores)
    for rows in row_slices(lists.scores):
        label_i, label_j = pair_views(lists.labels, rows)
        mask_i, mask_j = pair_views(lists.mask, rows)
        score_i, score_j = pair_views(lists.scores, rows)
        margin = sigma * (score_i - score_j)
        weight = 1 if weights is None else weights.of_rows(rows)
        weight = torch.where((label_i > label_j) & mask_i & mask_j, weight, 0)
        losses -= (weight * torch.nn.functional.logsigmoid(margin)).sum(dim=(1, 2))
        lambdas = sigma * weight * torch.sigmoid(-margin)
        gradient += lambdas.sum(dim=1)
        gradient[:, rows] -= lambdas.sum(dim=2)
    return losses, gradient


def _label_weighted_costs(lists: PaddedLists, sigma: float) -> LossAndGradient:
    r"""Sum :math:`y_i \ln(1 + e^{-\sigma (s_i - s_j)})` over all i and j other than i."""
    order = lists.labels.argsort(dim=1, descending=True)
    if lists.on_cpu:  # elsewhere reading the number of relevant items would synchronise
        order = order[:, : int((lists.labels > 0).sum(dim=1).numpy().max(initial=0))]
    label, score = lists.labels.gather(1, order), lists.scores.gather(1, order)
    other = torch.where(lists.mask, lists.scores, -torch.inf)[:, None, :]
    losses = -math.log(2) * lists.labels.sum(dim=1)  # the pairs with i = j, which the sums include
    pushes, pulls = torch.zeros_like(lists.scores), torch.zeros_like(lists.scores)
    for rows in row_slices(lists.scores):
        if rows.start >= order.shape[1]:
            break
        weight = label[:, rows]
        margin = sigma * (score[:, rows, None] - other)
        losses -= (weight * torch.nn.functional.logsigmoid(margin).sum(dim=2)).sum(dim=1)
        push = margin.neg_().sigmoid_()
        pushes += torch.bmm(weight[:, None, :], push).squeeze(1)
        pulls.scatter_(1, order[:, rows], weight * push.sum(dim=2))
    return losses, sigma * (pushes - pulls)


def smooth_ranks(lists: PaddedLists, alpha: float) -> Tensor:
    r"""Return :math:`1 + \sum_{j \ne i} 1 / (1 + e^{-\alpha (s_j - s_i)})`, shape (queries, items).

    Ranks of padding are arbitrary.
    """
    rank = torch.empty_like(lists.scores)
    for rows in row_slices(lists.scores):
        score_i, score_j = pair_views(lists.scores, rows)
        beats = torch.where(lists.mask[:, None, :], torch.sigmoid(alpha * (score_j - score_i)), 0)
        # The sum includes j = i with sigmoid(0) = 0.5, so add 0.5 rather than 1.
        rank[:, rows] = 0.5 + beats.sum(dim=2)
    return rank


def smooth_rank_gradient(lists: PaddedLists, alpha: float, slopes: Tensor) -> Tensor:
    r"""Return a loss's gradient in the scores from its gradient c in the `smooth_ranks`.

    .. math:: \partial L / \partial s_i = \alpha \sum_j \beta_{ij} (1 - \beta_{ij}) (c_j - c_i),
        \qquad \beta_{ij} = 1 / (1 + e^{-\alpha (s_j - s_i)})

    Parameters
    ----------
    slopes : Tensor of shape (queries, items)
        The gradient c in the ranks; 0 on padding.
    """
    gradient = torch.empty_like(lists.scores)
    for rows in row_slices(lists.scores):
        score_i, score_j = pair_views(lists.scores, rows)
        slope_i, slope_j = pair_views(slopes, rows)
        beats = torch.sigmoid(alpha * (score_j - score_i))
        steps = alpha * beats * (1 - beats) * (slope_j - slope_i)
        gradient[:, rows] = torch.where(lists.mask[:, None, :], steps, 0).sum(dim=2)
    return torch.where(lists.mask, gradient, 0)


def row_slices(scores: Tensor, *, of_items: bool = True) -> list[slice]:
    """Split the items, or the lists if not `of_items`, into slices with a bounded number of pairs each."""
    queries, items = scores.shape
    count, pairs_each = (items, queries * items) if of_items else (queries, items**2)
    block = _CPU_BLOCK if scores.device.type == "cpu" else _DEVICE_BLOCK
    step = max(1, block // max(1, pairs_each))
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]


_Pairs = Literal["mean", "sum", "all"]
_OfMeasure = Gains | Literal["binary"]


@checked
def ranknet(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    pairs: _Pairs = "mean",
    sigma: Positive = 1.0,
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute the RankNet loss.

    .. math:: L_q = \sum_{y_i > y_j} \ln\left(1 + e^{-\sigma (s_i - s_j)}\right)

    in nats; with ``pairs="mean"``, divided by the number of pairs.

    Parameters
    ----------
    scores : Tensor of shape (queries, items) or (queries, items, 1), or a sequence of Tensor
        Any floating-point type; float16 and bfloat16 are computed in float32. A sequence has one tensor
        of shape (items,) or (items, 1) per query.
    labels : Tensor or array_like of the same shape, or a sequence of them
        Grades of at least 0, of any numeric type. Without a mask, -1 marks padding.
    mask : bool Tensor of shape (queries, items), optional
        False on padding; by default, True except where the label is -1.
    reduce : {"mean", "sum", "none"}
        Reduction over queries. Queries without a relevant item (label above 0) contribute 0 and are left
        out of the mean.
    pairs : {"mean", "sum", "all"}
        Reduction over a query's pairs. With "sum", long lists weigh more. "all" sums over all i and all
        j other than i with weight y_i; with clicks divided by propensities as labels it is an unbiased
        estimate, see `lmtune.rerank.propensity_weights`. "all" runs in plain PyTorch.
    sigma : float
        Steepness; above 0.
    backend : {"auto", "kernels", "torch"}
        "kernels" uses the Numba kernels, on the CPU only. "torch" evaluates the same pairs blockwise in
        plain PyTorch, or on a CUDA device with fused Triton kernels. "auto" uses kernels if it can.
        Memory grows with the lists, not with their pairs. Second derivatives raise RuntimeError.

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
    Burges et al., Learning to Rank Using Gradient Descent, ICML 2005. allRank's ``rankNet`` and
    Rax's ``pairwise_logistic_loss`` average over the pairs of all queries in the batch:
    ``pairs="sum", reduce="sum"`` divided by the number of pairs. TF-Ranking's ``PairwiseLogisticLoss``
    divides the same sum by the number of items, including padding.

    Examples
    --------
    The labels of pairs (1, 2) and (3, 2) differ, so the loss is ln(1 + e^-1) + ln(1 + e^0):

    >>> import torch
    >>> loss = ranknet(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1, 0, 1]]), pairs="sum")
    >>> round(float(loss), 6)
    1.006409
    """

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        return run_kernel(lists, ranknet_queries, lists.by_label(), lists.number(sigma), pairs == "mean")

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        del gradient_wanted  # always computed, together with the losses
        if pairs == "all":
            return _label_weighted_costs(lists, sigma)
        losses, gradient = pair_costs(lists, sigma)
        if pairs == "sum":
            return losses, gradient
        share = 1 / _number_of_pairs(lists).clamp(min=1)
        return losses * share, gradient * share[:, None]

    batch = LossCall(scores, labels, mask, reduce, backend)
    if pairs == "all":
        return evaluate(batch, in_torch)
    in_triton = "fused.pair_costs", {"sigma": sigma, "mean": pairs == "mean"}
    return evaluate(batch, in_torch, in_kernels, in_triton)


def _number_of_pairs(lists: PaddedLists) -> Tensor:
    """Count each query's pairs of real items with different labels, shape (queries,)."""
    labels = torch.where(lists.mask, lists.labels, -1).sort(dim=1).values
    below = torch.searchsorted(labels, labels, right=False)
    padding = (~lists.mask).sum(dim=1, keepdim=True)
    return (below - padding).clamp(min=0).sum(dim=1).to(lists.scores.dtype)


@checked
def lambdarank(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    measure: Measure = "ndcg",
    k: Cutoff = None,
    sigma: Positive = 1.0,
    gains: Gains = "exponential",
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute the LambdaRank loss, whose gradient is the sum of the lambdas.

    .. math:: L_q = \sum_{y_i > y_j} w_{ij} \ln\left(1 + e^{-\sigma (s_i - s_j)}\right), \qquad
        w_{ij} = \frac{|G_i - G_j|\,|D(r_i) - D(r_j)|}{\mathrm{IDCG}}

    in nats, with D(r) = 1 / log2(1 + r) for r <= k, else 0. The weight is the change of NDCG@k when items i
    and j swap ranks, so every pair with an item in the top k counts. The weights are constant in the
    gradient, which is therefore

    .. math:: \partial L / \partial s_i = \sum_j (\lambda_{ji} - \lambda_{ij}), \qquad
        \lambda_{ij} = \sigma w_{ij} / (1 + e^{\sigma (s_i - s_j)})

    Ranks r are by falling score, from 1. Among equal scores, less relevant items come first; items with equal
    score and label get their mean rank. The loss therefore does not depend on the order of the items, and
    a list of equal scores has a useful gradient.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As in `lmtune.losses.ranknet`.
    measure : {"ndcg", "mrr", "precision", "arp"}
        The measure whose change weights the pairs. IDCG is 1 except for "ndcg".
        "mrr": reciprocal ranks of the relevant items, G = [y > 0], D(r) = 1/r.
        "precision": precision at k, G = [y > 0], D(r) = 1/k.
        "arp": average relevance position, w_ij = y_i - y_j at any ranks (ARP-Loss2).
    k : int, optional
        Truncation; none by default.
    sigma : float
        Steepness; above 0.
    gains : {"exponential", "linear"}
        G = 2^y - 1 or G = y, for NDCG.

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
    Burges, Ragno and Le, Learning to Rank with Nonsmooth Cost Functions, NIPS 2006. As a loss with constant
    weights: Wang et al., The LambdaLoss Framework, CIKM 2018.

    Differences from other packages:

    - allRank's ``lambdaRank_scheme`` measures softplus in bits (divide ours by ln 2) and sums over queries.
      With k it keeps only pairs with both items in the top k.
    - Rax's ``dcg_lambdaweight`` and TF-Ranking's ``NDCGLambdaWeight`` with ``smooth_fraction=1`` multiply
      these weights by the padded list length, and take the means described in `ranknet`.
    - TF-Ranking's ``MRRLambdaWeight``, ``PrecisionLambdaWeight`` (here divided by k) and
      ``LabelDiffLambdaWeight`` correspond to "mrr", "precision" and "arp".

    Examples
    --------
    Two items in the wrong order: the swap changes NDCG by 1 - 1/log2(3) = 0.369070, and ln(1 + e) is
    1.313262:

    >>> import torch
    >>> loss = lambdarank(torch.tensor([[1.0, 0.0]]), torch.tensor([[0, 1]]))
    >>> round(float(loss), 6)
    0.484686
    """
    if measure == "precision" and k is None:
        raise InputError("measure=precision needs k", accepted="k, the number of top ranks")
    of_measure: _OfMeasure = gains if measure == "ndcg" else "linear" if measure == "arp" else "binary"
    return _weighted(LossCall(scores, labels, mask, reduce, backend), measure, k, sigma, 0.0, of_measure)


@checked
def ndcg_loss2pp(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    k: Cutoff = None,
    sigma: Positive = 1.0,
    mu: Annotated[float, Bounds(low=0)] = 10.0,
    gains: Gains = "exponential",
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute NDCG-Loss2++ of the LambdaLoss family.

    LambdaRank's loss with the weights

    .. math:: w_{ij} = \frac{|G_i - G_j|}{\mathrm{IDCG}} \left( |D(r_i) - D(r_j)|
        + \mu\,[D(d) - D(d + 1)] \right), \qquad d = |r_i - r_j|

    The second term makes the bound on 1 - NDCG tighter; it is 0 for pairs with no item in the top k.

    Parameters
    ----------
    scores, labels, mask, reduce, k, sigma, gains, backend
        As in `lambdarank`, including the treatment of ties.
    mu : float
        Weight of the second term; at least 0.

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
    Wang et al., The LambdaLoss Framework for Ranking Metric Optimization, CIKM 2018, section 6
    (they choose mu on validation queries; 10 is allRank's default). allRank's ``ndcgLoss2PP_scheme``
    measures softplus in bits and sums over queries; its k is stricter, see `lambdarank`.

    Examples
    --------
    The swap of `lambdarank`'s example: 1 - 1/log2(3) counts once for the ranks and ten times for their
    distance of 1:

    >>> import torch
    >>> loss = ndcg_loss2pp(torch.tensor([[1.0, 0.0]]), torch.tensor([[0, 1]]))
    >>> round(float(loss), 5)
    5.33154
    """
    return _weighted(LossCall(scores, labels, mask, reduce, backend), "ndcg", k, sigma, mu, gains)


def _weighted(
    batch: LossCall, measure: Measure, k: int | None, sigma: float, mu: float, gains: _OfMeasure
) -> Tensor:
    def ideal_of(gain: Tensor) -> Tensor:
        return ideal_dcg(gain, k) if measure == "ndcg" else gain.new_ones(len(gain))

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        items = lists.scores.shape[1]
        table, deepest = discount_table(items, k, measure), 2 * (items if k is None else k)
        tightness = tightness_table(items, mu) if mu else table[:0]
        if measure == "arp":  # makes |D_i - D_j| + tightness 1 for every pair
            table, tightness, deepest = np.zeros_like(table), np.ones_like(table), 2 * items
        gain = lists.gains(gains).numpy()
        ideal = ideal_of(torch.from_numpy(gain).double()).numpy()
        ordered = lists.by_label()
        tightness = tightness.astype(ordered.scores.dtype)
        swaps = Swaps(gain, ideal, ordered.scores, lists.by_score(), False, table, tightness, deepest)
        return run_kernel(lists, weighted_queries, ordered, swaps, lists.number(sigma))

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        del gradient_wanted  # always computed, together with the losses
        gain = lists.gains(gains)
        if measure == "arp":
            return pair_costs(lists, sigma, SwapWeights(gain, None, gain))
        rank = ranks(lists)
        tightness = _tightness(gain, mu) if mu else None
        discount = discounts(rank, k, measure)
        weights = SwapWeights(gain / ideal_of(gain)[:, None], discount, rank, tightness)
        return pair_costs(lists, sigma, weights)

    options = {"sigma": sigma, "measure": measure, "k": k, "mu": mu, "gains": gains}
    return evaluate(batch, in_torch, in_kernels, ("fused.pair_costs", options))


def _tightness(gain: Tensor, mu: float) -> Tensor:
    """Compute `tightness_table` on the device of the gains: copying it from the CPU would synchronise."""
    halves = torch.arange(2 * gain.shape[1] + 3, dtype=torch.float64, device=gain.device)
    discount = discounts((halves / 2).clamp(min=1), None)
    return (mu * (discount[:-2] - discount[2:])).to(gain.dtype)
