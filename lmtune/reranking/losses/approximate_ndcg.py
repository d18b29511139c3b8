"""ApproxNDCG: NDCG with ranks that are smooth in the scores."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from lmtune.reranking.losses.declared import Backend, Bounds, Cutoff, Gains, Positive, Reduce, checked
from lmtune.reranking.losses.evaluation import LossCall, evaluate
from lmtune.reranking.losses.given_gradients import LossAndGradient
from lmtune.reranking.losses.kernel_calls import Arrays, run
from lmtune.reranking.losses.padded_lists import Labels, PaddedLists, Scores, as_padded, wide
from lmtune.reranking.losses.pair_sums import smooth_ranks, through_ranks
from lmtune.reranking.losses.plain_torch import differentiated, ideal_dcg
from lmtune.surrogates.approx_kernels import DCG, Aims, approx_queries

Draws = Annotated[int, Bounds(low=0, high=1_000)]


@checked
def approx_ndcg(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    alpha: Positive = 10.0,
    k: Cutoff = None,
    alpha_k: Positive = 10.0,
    gains: Gains = "exponential",
    gumbel: Draws = 0,
    generator: torch.Generator | None = None,
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute minus the approximate NDCG, between -1 and 0.

    .. math:: L_q = -\frac{1}{\mathrm{IDCG}} \sum_i \frac{G_i}{\log_2(1 + \hat r_i)}, \qquad
        \hat r_i = 1 + \sum_{j \ne i} \frac{1}{1 + e^{-\alpha (s_j - s_i)}}

    With k, IDCG is that of the first k places and each term is multiplied by a smooth
    :math:`[\hat r_i \le k]`, the sigmoid of :math:`\alpha_k (k + 1/2 - \hat r_i)`; the half lets
    the k-th item in, so that steep sigmoids give NDCG@k itself.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As of `lmtune.reranking.losses.ranknet`.
    alpha : float
        Steepness of the ranks; above 0.
    k : int, optional
        Truncation; none by default.
    alpha_k : float
        Steepness of the truncation; above 0.
    gains : {"exponential", "linear"}
        G = 2^y - 1 or G = y.
    gumbel : int
        Take the mean over so many draws of scores plus standard Gumbel noise, that is over orders drawn
        from the Plackett-Luce model; 0 takes the scores as they are.
    generator : torch.Generator, optional
        Of these draws, on the scores' device.

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
    Qin, Liu and Li, A General Approximation Framework for Direct Optimization of Information
    Retrieval Measures, Information Retrieval 2010; with alpha = 10: Bruch et al., Revisiting
    Approximate Metric Optimization in the Age of Deep Neural Networks, SIGIR 2019. allRank's
    ``approxNDCGLoss`` is the same; TF-Ranking and Rax write temperature = 1 / alpha (0.1 by
    default). The noise: Bruch et al., A Stochastic Treatment of Learning to Rank Scoring Functions,
    WSDM 2020.

    Examples
    --------
    Equal scores put the one relevant item of three at rank 1 + 1/2 + 1/2:

    >>> import torch
    >>> loss = approx_ndcg(torch.zeros(1, 3), torch.tensor([[0, 2, 0]]))
    >>> round(float(loss), 6)
    -0.63093
    """

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        a = Arrays.of(lists)
        gain = lists.gains(gains)
        ideal = ideal_dcg(gain.double(), k).numpy()
        none = np.zeros((ideal.size, 2), np.int64)
        aims = Aims(DCG, k or 0, alpha_k, False, gain.numpy(), ideal, none, np.ones(ideal.size))
        return run(a, approx_queries, a.by_label(), aims, a.number(alpha))

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        gain = lists.gains(gains)
        share = gain / ideal_dcg(gain, k)[:, None]

        def values(rank: Tensor) -> Tensor:
            value = share / torch.log2(1 + rank)
            if k is not None:
                value = value * torch.sigmoid(alpha_k * (k + 0.5 - rank))
            return -torch.where(lists.mask, value, 0).sum(dim=1)

        losses, slopes = differentiated(values, smooth_ranks(lists, alpha), gradient_wanted)
        return losses, None if slopes is None else through_ranks(lists, alpha, slopes)

    if gumbel:
        scores, labels, mask = _with_noise(*as_padded(scores, labels, mask), gumbel, generator)
    found = evaluate(LossCall(scores, labels, mask, reduce, backend), in_torch, in_kernels)
    if gumbel and reduce == "sum":
        return found / gumbel
    return found.view(gumbel, -1).mean(0) if gumbel and reduce == "none" else found


def _with_noise(
    scores: Tensor, labels: Tensor, mask: Tensor | None, draws: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Repeat lists, each time with other noise of -ln(-ln U) on the scores."""
    kind = wide(scores.detach()).dtype
    uniform = torch.rand((draws, *scores.shape), generator=generator, device=scores.device, dtype=kind)
    noise = -torch.log(-torch.log(uniform.clamp(min=torch.finfo(kind).tiny)))
    noisy = (scores + noise).flatten(0, 1)
    return noisy, labels.repeat(draws, 1), None if mask is None else mask.repeat(draws, 1)
