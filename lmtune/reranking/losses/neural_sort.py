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
from lmtune.reranking.losses.plain_torch import discounts, ideal_dcg
from lmtune.surrogates.discounts import discount_table
from lmtune.surrogates.neural_kernels import neural_ndcg_queries

# Numbers in the matrices of the queries that are looked at together: 8 MB of float64.
_CHUNK = 1 << 20


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
        longest list, but not with the number of queries.

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
        gain = shares(lists)
        losses = lists.scores.new_empty(lists.scores.shape[0])
        gradient = torch.zeros_like(lists.scores) if gradient_wanted else None
        queries, items = lists.scores.shape
        step = max(1, _CHUNK // max(1, items**2))
        for first in range(0, queries, step):
            part = slice(first, first + step)
            with torch.set_grad_enabled(gradient_wanted):
                chunk = lists.scores[part].double().requires_grad_(gradient_wanted)
                loss = _negative_ndcg(chunk, gain[part], lists.mask[part], tau, sinkhorn, k)
                if gradient is not None:
                    gradient[part] = torch.autograd.grad(loss.sum(), chunk)[0].to(gradient.dtype)
            losses[part] = loss.detach().to(losses.dtype)
        return losses, gradient

    return evaluate(LossCall(scores, labels, mask, reduce, backend), in_torch, in_kernels)


def _negative_ndcg(
    scores: Tensor, gain: Tensor, mask: Tensor, tau: float, sinkhorn: int, k: int | None
) -> Tensor:
    items = scores.shape[1]
    length = mask.sum(dim=1, keepdim=True)
    place = torch.arange(1, items + 1, dtype=scores.dtype, device=scores.device)
    filled = place <= length
    spread = torch.where(mask[:, None, :], (scores[:, :, None] - scores[:, None, :]).abs(), 0)
    exponent = (length + 1 - 2 * place)[:, :, None] * scores[:, None, :]
    exponent = (exponent - spread.sum(dim=2)[:, None, :]) / tau
    lowest = torch.finfo(exponent.dtype).min
    matrix = exponent.masked_fill(~mask[:, None, :], lowest).softmax(dim=2)
    matrix = matrix * (filled[:, :, None] & mask[:, None, :])
    row, column = _sinkhorn(matrix, filled, mask, sinkhorn)
    places_gain = row * _times(matrix, column * gain)
    return -(places_gain * discounts(place, k)).sum(dim=1)


def _sinkhorn(matrix: Tensor, filled: Tensor, mask: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Find factors of rows and columns that make a matrix doubly stochastic.

    Factors spare the scaled matrices. NeuralSort gives each item at least 1/n of some place, so
    that no sum is near 0.
    """
    row, column = filled.to(matrix.dtype), mask.to(matrix.dtype)
    for _ in range(iterations):
        column = mask / torch.where(mask, _times(matrix.transpose(1, 2), row), 1)
        row = filled / torch.where(filled, _times(matrix, column), 1)
    return row, column


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return torch.matmul(matrix, vector.unsqueeze(2)).squeeze(2)
