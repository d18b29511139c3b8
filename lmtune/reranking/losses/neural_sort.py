"""NeuralNDCG: NDCG of an order that NeuralSort smooths."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from lmtune.reranking.losses.declared import Backend, Bounds, Cutoff, Gains, Positive, Reduce, checked
from lmtune.reranking.losses.evaluation import LossCall, evaluate
from lmtune.reranking.losses.given_gradients import LossAndGradient
from lmtune.reranking.losses.kernel_calls import Arrays, run
from lmtune.reranking.losses.padded_lists import Labels, PaddedLists, Scores
from lmtune.reranking.losses.pair_sums import row_slices
from lmtune.reranking.losses.plain_torch import discounts, ideal_dcg
from lmtune.reranking.losses.smooth_sort import SinkhornSteps, SortedItems
from lmtune.surrogates.discounts import discount_table
from lmtune.surrogates.neural_kernels import neural_ndcg_queries


@checked
def neural_ndcg(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    tau: Positive = 1.0,
    sinkhorn: Annotated[int, Bounds(low=0, high=1_000_000)] = 50,
    k: Cutoff = None,
    gains: Gains = "exponential",
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute minus the NDCG of a smooth permutation, between -1 and 0.

    .. math:: L_q = -\frac{1}{\mathrm{IDCG}} \sum_{r=1}^{k} \frac{(P G)_r}{\log_2(1 + r)}, \qquad
        P_{r \cdot} = \mathrm{softmax}_j \left[ \frac{(n + 1 - 2 r) s_j
        - \sum_l |s_j - s_l|}{\tau} \right]

    P's rows sum to 1; Sinkhorn's iterations (columns, then rows, scaled to sum to 1) make it doubly
    stochastic, so that no item's gain is counted twice.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As of `lmtune.reranking.losses.ranknet`.
    tau : float
        Temperature; above 0. As it falls, P becomes the permutation that sorts the scores.
    sinkhorn : int
        Iterations; 0 leaves P as NeuralSort gives it. The gradient goes through them. Of long
        lists, 50 come within about 1e-4 of the limit.
    k : int, optional
        Truncation, of IDCG too; none by default.
    gains : {"exponential", "linear"}
        G = 2^y - 1 or G = y.

    Returns
    -------
    Tensor
        A scalar, or of shape (queries,) with ``reduce="none"``. Memory grows with the square of the
        longest list, but not with the number of queries: so many are taken together as fit a block.

    Raises
    ------
    InputError
        If shapes, types or options do not fit.

    Notes
    -----
    Pobrotyn and Białobrzeski, NeuralNDCG, SIGIR eCom 2021; Grover et al., Stochastic Optimization
    of Sorting Networks via Continuous Relaxations (NeuralSort), ICLR 2019. Computed in float64
    whatever the scores' type, on devices that have it: P's exponents are differences of sums as
    large as n times the scores.
    allRank's ``neuralNDCG`` is the same, but stops iterating when all queries of the batch are
    within 1e-6 of the limit, where their gradients need not be. SoftRank and PiRank are relatives;
    PiRank sorts the top k by merging NeuralSorts of short lists.

    Examples
    --------
    Two equal scores share both places, (1 + 1/log2(3)) / 2 each:

    >>> import torch
    >>> round(float(neural_ndcg(torch.zeros(1, 2), torch.tensor([[0, 1]]))), 6)
    -0.815465
    """

    def shares(lists: PaddedLists) -> Tensor:
        gain = lists.gains(gains).double()
        return gain / ideal_dcg(gain, k)[:, None]

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        a = Arrays.of(lists, double=True)
        table = discount_table(a.scores.shape[1], k)[2::2].copy()
        inputs = a.scores, shares(lists).numpy(), a.mask, table, float(tau), sinkhorn
        return run(a, neural_ndcg_queries, *inputs, like=lists.scores)

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        # A list with a score that is no finite number has a loss that is none.
        real = torch.where(lists.scores.isfinite(), lists.scores.double(), torch.nan)
        falling, order = torch.where(lists.mask, real, -torch.inf).sort(dim=1, descending=True)
        gain, count = shares(lists).gather(1, order), lists.mask.sum(dim=1, keepdim=True)
        losses, slopes = falling.new_empty(len(falling)), torch.zeros_like(falling)
        for part in row_slices(falling, of_items=False):
            items = SortedItems.of(falling[part], count[part], tau)
            matrix = items.neural_sort()
            steps = SinkhornSteps.of(matrix, sinkhorn)
            discount = torch.where(items.real, discounts(items.places + 1, k), 0)
            losses[part], sides = steps.outcome(discount, gain[part], gradient_wanted)
            if sides is not None:
                slopes[part] = items.through_neural_sort(matrix, *sides)
        gradient = torch.empty_like(slopes).scatter_(1, order, slopes).to(lists.scores.dtype)
        return losses.to(lists.scores.dtype), gradient

    return evaluate(LossCall(scores, labels, mask, reduce, backend), in_torch, in_kernels)
