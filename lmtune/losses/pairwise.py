"""Pairwise losses: RankNet, LambdaRank and NDCG-Loss2++; sums over pairs in plain PyTorch."""

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
from lmtune.losses.plain_torch import SwapWeights, against, discounts, ideal_dcg, ranks

# Numbers in each of a block's intermediates: 4 MB of float32 on the CPU, 64 MB elsewhere.
_CPU_BLOCK, _DEVICE_BLOCK = 1 << 20, 1 << 24


def pair_costs(
    lists: PaddedLists, sigma: float, weights: SwapWeights | None = None, *, all_pairs: bool = False
) -> tuple[Tensor, Tensor]:
    r"""Sum :math:`w_{ij} \ln(1 + e^{-\sigma (s_i - s_j)})` over the pairs with label i above label j.

    Parameters
    ----------
    lists : PaddedLists
    sigma : float
        Steepness.
    weights : SwapWeights, optional
        Constants to the gradient; 1 by default.
    all_pairs : bool
        Over all pairs of items instead, an item and itself among them, each weighing label i.

    Returns
    -------
    losses : Tensor of shape (queries,)
    gradient : Tensor of shape (queries, items)
    """
    losses, gradient = lists.scores.new_zeros(len(lists.scores)), torch.zeros_like(lists.scores)
    for rows in row_slices(lists.scores):
        label_i, label_j = against(lists.labels, rows)
        mask_i, mask_j = against(lists.mask, rows)
        score_i, score_j = against(lists.scores, rows)
        margin = sigma * (score_i - score_j)
        weight = label_i if all_pairs else 1 if weights is None else weights.of(rows)
        weight = torch.where((all_pairs | (label_i > label_j)) & mask_i & mask_j, weight, 0)
        losses -= (weight * torch.nn.functional.logsigmoid(margin)).sum(dim=(1, 2))
        pushes = sigma * weight * torch.sigmoid(-margin)
        gradient += pushes.sum(dim=1)
        gradient[:, rows] -= pushes.sum(dim=2)
    return losses, gradient


def smooth_ranks(lists: PaddedLists, alpha: float) -> Tensor:
    r"""Return :math:`1 + \sum_{j \ne i} 1 / (1 + e^{-\alpha (s_j - s_i)})`, of shape (queries, items).

    Padding gets a rank that means nothing.
    """
    rank = torch.empty_like(lists.scores)
    for rows in row_slices(lists.scores):
        score_i, score_j = against(lists.scores, rows)
        beats = torch.where(lists.mask[:, None, :], torch.sigmoid(alpha * (score_j - score_i)), 0)
        # An item does not beat itself, but is counted with sigmoid(0).
        rank[:, rows] = 0.5 + beats.sum(dim=2)
    return rank


def through_ranks(lists: PaddedLists, alpha: float, slopes: Tensor) -> Tensor:
    r"""Return a loss's gradient in the scores, given its slopes c in the `smooth_ranks`.

    .. math:: \partial L / \partial s_i = \alpha \sum_j \beta_{ij} (1 - \beta_{ij}) (c_j - c_i),
        \qquad \beta_{ij} = 1 / (1 + e^{-\alpha (s_j - s_i)})

    Parameters
    ----------
    slopes : Tensor of shape (queries, items)
        0 on padding.
    """
    gradient = torch.empty_like(lists.scores)
    for rows in row_slices(lists.scores):
        score_i, score_j = against(lists.scores, rows)
        slope_i, slope_j = against(slopes, rows)
        beats = torch.sigmoid(alpha * (score_j - score_i))
        steps = alpha * beats * (1 - beats) * (slope_j - slope_i)
        gradient[:, rows] = torch.where(lists.mask[:, None, :], steps, 0).sum(dim=2)
    return torch.where(lists.mask, gradient, 0)


def row_slices(scores: Tensor, *, of_items: bool = True) -> list[slice]:
    """Cut the items of lists, or the lists, so that a slice's part of all pairs is small."""
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
    pairs : {"mean", "sum", "all"}
        Over a query's pairs. With "sum", long lists weigh more. "all" is the sum over all i and j other than
        i, each weighing y_i: of clicks over propensities it is unbiased, see
        `lmtune.rerank.propensity_weights`. In plain PyTorch.
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
        return run_kernel(lists, ranknet_queries, lists.by_label(), lists.number(sigma), pairs == "mean")

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        del gradient_wanted  # it comes with the losses
        losses, gradient = pair_costs(lists, sigma, all_pairs=pairs == "all")
        if pairs == "all":
            return losses - math.log(2) * lists.labels.sum(dim=1), gradient  # of items beside themselves
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
    """Count each query's pairs of real items with different labels; of shape (queries,)."""
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

    in nats, with D(r) = 1 / log2(1 + r), or 0 for r > k: the weight is the change of NDCG@k when
    items i and j swap places, so that every pair with an item among the first k counts. Weights are
    constants to the gradient, which is therefore

    .. math:: \partial L / \partial s_i = \sum_j (\lambda_{ji} - \lambda_{ij}), \qquad
        \lambda_{ij} = \sigma w_{ij} / (1 + e^{\sigma (s_i - s_j)})

    Ranks r are by score, 1 the best. Among equal scores the less relevant items come first, and
    items equal in score and label share the mean of their places: nothing depends on the order in
    which items are given, and a list of equal scores is pushed the right way.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As of `lmtune.losses.ranknet`.
    measure : {"ndcg", "mrr", "precision", "arp"}
        What the weights are of, IDCG being 1 for all but the first. "mrr": G = [y > 0], D(r) = 1/r, the
        reciprocal ranks of relevant items; "precision", of the first k: G = [y > 0], D(r) = 1/k; "arp", the
        average relevance position: w_ij = y_i - y_j, wherever the items stand (ARP-Loss2).
    k : int, optional
        Truncation; none by default.
    sigma : float
        Steepness; above 0.
    gains : {"exponential", "linear"}
        G = 2^y - 1 or G = y, for NDCG.

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
    Burges, Ragno and Le, Learning to Rank with Nonsmooth Cost Functions, NIPS 2006; as a loss with
    weights held fixed: Wang et al., The LambdaLoss Framework, CIKM 2018. allRank's
    ``lambdaRank_scheme`` measures softplus in bits (divide ours by ln 2), sums over queries, and
    with k keeps only pairs whose items are both among the first k. Rax's ``dcg_lambdaweight`` and
    TF-Ranking's ``NDCGLambdaWeight`` with ``smooth_fraction=1`` multiply these weights by the
    list's length with padding, and take the means that `ranknet` names; TF-Ranking's
    ``MRRLambdaWeight``, ``PrecisionLambdaWeight`` (here divided by k) and ``LabelDiffLambdaWeight`` are the
    other measures.

    Examples
    --------
    Two items in the wrong order; the swap is worth 1 - 1/log2(3) = 0.369070, and ln(1 + e) is
    1.313262:

    >>> import torch
    >>> loss = lambdarank(torch.tensor([[1.0, 0.0]]), torch.tensor([[0, 1]]))
    >>> round(float(loss), 6)
    0.484686
    """
    if measure == "precision" and k is None:
        raise InputError("weights of precision without k", accepted="k, how many first places count")
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

    The second part bounds NDCG's loss more tightly; it is 0 for pairs with no item among the first
    k.

    Parameters
    ----------
    scores, labels, mask, reduce, k, sigma, gains, backend
        As of `lambdarank`, ties included.
    mu : float
        Weight of the second part; at least 0.

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
    Wang et al., The LambdaLoss Framework for Ranking Metric Optimization, CIKM 2018, section 6
    (they take mu from validation; 10 is allRank's). allRank's ``ndcgLoss2PP_scheme`` measures
    softplus in bits and sums over queries; its k is stricter, as `lambdarank` says.

    Examples
    --------
    The swap of `lambdarank`'s example, with 1 - 1/log2(3) once for the ranks and ten times for
    their distance of 1:

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
        if measure == "arp":  # whatever two items' discounts are, they differ by 1
            table, tightness, deepest = np.zeros_like(table), np.ones_like(table), 2 * items
        gain = lists.gains(gains).numpy()
        ideal = ideal_of(torch.from_numpy(gain).double()).numpy()
        ordered = lists.by_label()
        tightness = tightness.astype(ordered.scores.dtype)
        swaps = Swaps(gain, ideal, ordered.scores, lists.by_score(), False, table, tightness, deepest)
        return run_kernel(lists, weighted_queries, ordered, swaps, lists.number(sigma))

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        del gradient_wanted  # it comes with the losses
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
    """Make `tightness_table` beside the gains (queries, items): a copied table would be waited for."""
    halves = torch.arange(2 * gain.shape[1] + 3, dtype=torch.float64, device=gain.device)
    discount = discounts((halves / 2).clamp(min=1), None)
    return (mu * (discount[:-2] - discount[2:])).to(gain.dtype)
