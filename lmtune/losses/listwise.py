"""Listwise losses, and SONG and K-SONG on whole lists.

NeuralSort's and Sinkhorn's matrices have shape (lists, ranks, items). Items are sorted by falling score, with
padding at the end. The matrix is the identity on padding, so intermediate steps need no mask.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.losses.approx_kernels import SmoothMeasure, approx_queries
from lmtune.losses.evaluation import (
    PADDING,
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
    Smoothing,
    as_padded,
    by_triton,
    checked,
    evaluate,
    run_kernel,
)
from lmtune.losses.list_kernels import listmle_queries, listnet_queries, neural_ndcg_queries, shuffle_ties
from lmtune.losses.packing_kernels import discount_table
from lmtune.losses.pairwise import row_slices, smooth_rank_gradient, smooth_ranks
from lmtune.losses.plain_torch import discounts, ideal_dcg, loss_and_gradient, ranks, value_and_gradient
from lmtune.losses.songs.k_song import KSong
from lmtune.losses.songs.pairs import RankOrShare
from lmtune.losses.songs.songs import MARGIN, Song
from lmtune.measures.kinds import Code

_Factors = tuple[Tensor, Tensor]
"""A gradient in matrices (lists, n, n), as factors (lists, n, terms) and (lists, terms, n) of a product."""


class _SortedItems(NamedTuple):
    """Lists sorted by falling score, with the quantities that NeuralSort needs.

    Attributes
    ----------
    scores : float64 Tensor (lists, n)
        Centred by each list's mean and divided by tau; 0 on padding.
    real : bool Tensor (lists, n)
        False on padding.
    ranks : float64 Tensor (n,)
        Ranks from 0.
    coefficients : float64 Tensor (lists, n)
        NeuralSort's factors of the scores: n - 1 - 2 r for rank r from 0 of a list of n items, the number of
        items below the rank minus the number above it. Arbitrary on padding.
    starts, stops : int64 Tensor (lists, n)
        Range of the items with the same score as each item; arbitrary on padding.
    tau : float
        The temperature of `neural_ndcg`.
    """

    scores: Tensor
    real: Tensor
    ranks: Tensor
    coefficients: Tensor
    starts: Tensor
    stops: Tensor
    tau: float

    @classmethod
    def of(cls, falling: Tensor, count: Tensor, tau: float) -> _SortedItems:
        """Prepare falling scores (lists, n), of which the first `count` (lists, 1) are real."""
        ranks = torch.arange(falling.shape[1], dtype=falling.dtype, device=falling.device)
        real = ranks < count
        scores = torch.where(real, falling, 0)
        centred = scores - scores.sum(1, keepdim=True) / count.clamp(min=1)
        scores = torch.where(real, centred, 0) / tau
        rising = -falling
        starts, stops = (torch.searchsorted(rising, rising, right=right) for right in (False, True))
        return cls(scores, real, ranks, count - 1 - 2 * ranks, starts, stops, tau)

    def neural_sort(self) -> Tensor:
        """Return NeuralSort's matrices (lists, n, n): rows are ranks, columns items; each row sums to 1."""
        above = self.scores.cumsum(1) - self.scores
        below = self.scores.sum(1, keepdim=True) - above - self.scores
        # spread_j = sum_i |s_j - s_i|: `ranks` items are above item j, and `count_below` are below it.
        count_below = self.coefficients + self.ranks
        spread = above - self.ranks * self.scores + count_below * self.scores - below
        exponent = self.coefficients[:, :, None] * self.scores[:, None, :] - spread[:, None, :]
        matrix = exponent.masked_fill_(~self.real[:, None, :], -torch.inf).softmax(dim=2)
        identity = torch.eye(len(self.ranks), dtype=matrix.dtype, device=matrix.device)
        return torch.where(self.real[:, :, None] & self.real[:, None, :], matrix, identity)

    def neural_sort_gradient(self, matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return the gradient (lists, n) in the scores from the gradient in the matrices, as `_Factors`."""
        slopes = torch.bmm(left, right)
        slopes -= (slopes * matrix).sum(2, keepdim=True)
        slopes *= matrix
        direct = (self.coefficients[:, :, None] * slopes).sum(1)
        spread = -slopes.sum(1)
        # The derivative of |s_j - s_i| in s_j is -1 for i above j, 1 for i below j, 0 for equal scores.
        sums = torch.nn.functional.pad(spread.cumsum(1), (1, 0))
        above, until = sums.gather(1, self.starts), sums.gather(1, self.stops)
        count_below = self.coefficients + 2 * self.ranks + 1 - self.stops
        gradient = direct + (count_below - self.starts) * spread + (sums[:, -1:] - until) - above
        return torch.where(self.real, gradient, 0) / self.tau


class _SinkhornSteps(NamedTuple):
    """Row and column factors that make matrices doubly stochastic, for each iteration from 0.

    The scaled matrix has the elements u_i K_ij v_j.

    Attributes
    ----------
    matrix : Tensor (lists, n, n)
        K, with positive row and column sums.
    rows, columns : Tensor (iterations + 1, lists, n, 1)
        u and v after each iteration; all ones before the first.
    """

    matrix: Tensor
    rows: Tensor
    columns: Tensor

    @classmethod
    def of(cls, matrix: Tensor, iterations: int) -> _SinkhornSteps:
        """Scale columns, then rows, to sum to 1, repeatedly."""
        one = torch.ones_like(matrix[:, :, :1])
        rows, columns = [one], [one]
        for _ in range(iterations):
            columns.append(torch.bmm(matrix.mT, rows[-1]).reciprocal_())
            rows.append(torch.bmm(matrix, columns[-1]).reciprocal_())
        return cls(matrix, torch.stack(rows), torch.stack(columns))

    def loss_and_gradient(
        self, discount: Tensor, gain: Tensor, gradient_wanted: bool
    ) -> tuple[Tensor, _Factors | None]:
        """Return minus the discounted gains (lists,), and the gradient in the matrices if requested.

        Parameters
        ----------
        discount : Tensor (lists, n)
            Discounts of the ranks; 0 on padding.
        gain : Tensor (lists, n)
            Gains of the items; 0 on padding.
        """
        matrix, transposed = self.matrix, self.matrix.mT
        weighted = self.columns[-1] * gain[:, :, None]
        gain_sums = torch.bmm(matrix, weighted)
        gain_sum_slopes = -discount[:, :, None] * self.rows[-1]
        losses = (gain_sum_slopes * gain_sums).sum(dim=(1, 2))
        if not gradient_wanted:
            return losses, None
        # Iteration t computes v = 1 / (K' u) and u = 1 / (K v), so dv = -v^2 d(K' u) and du = -u^2 d(K v).
        # The slopes are the loss's derivatives in the row sums K v, in the column sums K' u, and in v. The
        # backward pass also needs only matrix-vector products.
        row_derivatives, column_derivatives = -self.rows.square(), -self.columns.square()
        row_sum_slope = -gain_sum_slopes * gain_sums * self.rows[-1]
        column_slope = torch.bmm(transposed, gain_sum_slopes) * gain[:, :, None]
        column_slope = column_slope + torch.bmm(transposed, row_sum_slope)
        row_sum_slopes, column_sum_slopes = [], []
        for t in range(len(self.rows) - 1, 0, -1):
            row_sum_slopes.append(row_sum_slope)
            column_sum_slopes.append(column_slope * column_derivatives[t])
            row_sum_slope = torch.bmm(matrix, column_sum_slopes[-1]) * row_derivatives[t - 1]
            column_slope = torch.bmm(transposed, row_sum_slope)
        before, after = self.rows[:-1].flip(0), self.columns[1:].flip(0)
        left = torch.cat([gain_sum_slopes, *row_sum_slopes, *before], dim=2)
        return losses, (left, torch.cat([weighted, *after, *column_sum_slopes], dim=2).mT)


_Target = Literal["softmax", "labels"]


@checked
def listnet(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    target: _Target = "softmax",
    temperature: Positive = 1.0,
    smoothing: Smoothing = 0.0,
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute the top-one ListNet loss.

    .. math:: L_q = -\sum_i t_i \ln \frac{e^{s_i / T}}{\sum_j e^{s_j / T}}, \qquad
        t_i = \frac{e^{y_i / T}}{\sum_j e^{y_j / T}}

    in nats. If the labels are a teacher's scores, it is the Kullback-Leibler divergence from the teacher's
    softmax plus the constant entropy of that softmax.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As in `lmtune.losses.ranknet`.
    target : {"softmax", "labels"}
        "labels" sets t_i = y_i: the softmax cross-entropy of Bruch et al. (ICTIR 2019), in which queries
        with larger labels weigh more. For lists with one relevant item of label 1 it is InfoNCE.
    temperature : float
        T; above 0.
    smoothing : float
        Label smoothing :math:`\epsilon`, at least 0 and below 1: targets are
        :math:`(1 - \epsilon) t_i + \epsilon \sum_j t_j / n` for a list of n items.

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
    Cao et al., Learning to Rank: From Pairwise Approach to Listwise Approach, ICML 2007. InfoNCE: van den
    Oord et al., Representation Learning with Contrastive Predictive Coding, 2018. Temperatures for teachers:
    Hinton et al., Distilling the Knowledge in a Neural Network, 2015; they multiply the loss by T^2, which
    is left to the learning rate here.

    allRank's ``listNet`` also counts queries without a relevant item, with a uniform target. Rax's
    ``softmax_loss`` and TF-Ranking's ``SoftmaxLoss`` correspond to ``target="labels"``.

    Examples
    --------
    For three equal scores the loss is ln 3 with any labels:

    >>> import torch
    >>> round(float(listnet(torch.zeros(1, 3), torch.tensor([[0, 2, 0]]))), 6)
    1.098612
    """

    def smoothed_targets(targets: Tensor, lists: PaddedLists) -> Tensor:
        if target == "softmax":
            targets = targets.masked_fill(~lists.mask, torch.finfo(targets.dtype).min).softmax(dim=1)
        if smoothing:
            mean = targets.sum(dim=1, keepdim=True) / lists.lengths
            targets = torch.where(lists.mask, torch.lerp(targets, mean, smoothing), 0)
        return targets

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        targets = lists.labels
        if smoothing:
            targets = smoothed_targets(targets.double(), lists).to(targets.dtype)
        arrays = lists.scores.numpy(), targets.numpy(), lists.mask.numpy()
        return run_kernel(lists, listnet_queries, *arrays, target == "softmax" and not smoothing)

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        lowest = torch.finfo(lists.scores.dtype).min
        logarithm = lists.scores.masked_fill(~lists.mask, lowest).log_softmax(dim=1)
        targets = smoothed_targets(lists.labels, lists)
        losses = -(targets * torch.where(lists.mask, logarithm, 0)).sum(dim=1)
        if not gradient_wanted:
            return losses, None
        return losses, torch.addcmul(-targets, logarithm.exp(), targets.sum(dim=1, keepdim=True))

    if temperature != 1.0:
        scores, labels, mask = as_padded(scores, labels, mask)
        scores = scores / temperature
        if target == "softmax":
            mask = labels != PADDING if mask is None else mask
            labels = labels / temperature
    return evaluate(LossCall(scores, labels, mask, reduce, backend), in_torch, in_kernels)


@checked
def sl_at_k(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    k: Annotated[int, Bounds(low=1)] = 10,
    temperature: Positive = 1.0,
    weight_temperature: Positive = 1.0,
) -> Tensor:
    r"""Compute SL@K: the softmax loss, in which relevant items below rank K count less.

    .. math:: L_q = -\frac{1}{|R|} \sum_{i \in R} w_i \ln \frac{e^{s_i / T}}{\sum_j e^{s_j / T}}, \qquad
        w_i = \frac{1}{1 + e^{-(s_i - b) / T_w}}

    in nats, for the items R with labels above 0, where b is the K-th greatest score. The gradient treats w
    as constant. For lists of fewer than K items, w is 1.

    Parameters
    ----------
    scores, labels, mask, reduce
        As in `lmtune.losses.ranknet`.
    k : int
        K, the cutoff of NDCG to optimise.
    temperature, weight_temperature : float
        T and T_w; above 0.

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
    Yang et al., Breaking the Top-K Barrier: Advancing Top-K Ranking Metrics Optimization in Recommender
    Systems, KDD 2025. They sum over a user's items and estimate b by sampling; their scores are cosines, so
    their temperatures are lower.

    Examples
    --------
    For three equal scores, w is 1/2 and the softmax loss is ln 3:

    >>> import torch
    >>> round(float(sl_at_k(torch.zeros(1, 3), torch.tensor([[0, 2, 0]]), k=1)), 6)
    0.549306
    """

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        real = lists.scores.masked_fill(~lists.mask, -torch.inf)
        items = real.shape[1]
        least = real.topk(k, dim=1).values[:, -1:] if k <= items else torch.full_like(real[:, :1], -torch.inf)
        relevant = lists.labels > 0
        weight = torch.sigmoid((lists.scores - least) / weight_temperature)
        weight = torch.where(relevant, weight, 0) / relevant.sum(dim=1, keepdim=True).clamp(min=1)
        logarithm = (real / temperature).log_softmax(dim=1)
        losses = -torch.where(relevant, weight * logarithm, 0).sum(dim=1)
        if not gradient_wanted:
            return losses, None
        return losses, (logarithm.exp() * weight.sum(dim=1, keepdim=True) - weight) / temperature

    return evaluate(LossCall(scores, labels, mask, reduce, "auto"), in_torch)


_Ties = Literal["random", "shared"]
_Positions = Literal["equal", "log2", "exponential"]


@checked
def listmle(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    ties: _Ties = "random",
    positions: _Positions = "equal",
    seed: int | None = None,
    generator: torch.Generator | None = None,
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute the ListMLE loss.

    .. math:: L_q = -\sum_{k=1}^{n} \alpha_k \left[ s_{\pi(k)} - \ln \sum_{l \ge k} e^{s_{\pi(l)}} \right]

    in nats, where pi sorts the items by falling label. In real lists most labels are tied, so the treatment
    of ties matters.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As in `lmtune.losses.ranknet`.
    ties : {"random", "shared"}
        "random" orders items with equal labels randomly, with a new draw in each call. "shared" uses
        Breslow's likelihood for ties, without a draw: the denominator of an item is the sum over all items
        with the same label or a lower one, including itself.
    positions : {"equal", "log2", "exponential"}
        The weights :math:`\alpha_k`: 1, 1 / log2(1 + k) or :math:`(2^{n-k} - 1) / (2^{n-1} - 1)`. The last
        two (position-aware ListMLE) run in plain PyTorch and need ``ties="random"``.
    seed : int, optional
        Makes the draw of one call reproducible. Without seed and generator, torch's global generator is used.
    generator : torch.Generator, optional
        Must be on the scores' device.

    Returns
    -------
    Tensor
        A scalar, or shape (queries,) with ``reduce="none"``.

    Raises
    ------
    InputError
        If shapes or types do not match or an option is invalid; if seed and generator are both passed; or
        if ``ties="shared"`` is combined with position weights.

    Notes
    -----
    Xia et al., Listwise Approach to Learning to Rank: Theory and Algorithm, ICML 2008; Breslow,
    Covariance Analysis of Censored Survival Data, Biometrics 1974; Lan et al., Position-Aware ListMLE: A
    Sequential Learning Process for Ranking, UAI 2014 (their weights 2^(n-k) - 1 grow with n).

    allRank's ``listMLE`` draws one order of columns for the whole batch; Rax and TF-Ranking draw one per
    query, as here. All three also count queries without a relevant item, for which the loss depends only on
    the draw. TF-Ranking's value, but not its gradient, also includes the order of the padding.

    Examples
    --------
    Three equal scores have 3! equally likely orders, so the loss is ln 6:

    >>> import torch
    >>> round(float(listmle(torch.zeros(1, 3), torch.tensor([[0, 2, 1]]))), 6)
    1.791759
    """
    if seed is not None and generator is not None:
        raise InputError("seed and generator were both passed", accepted="one of them")
    shared = ties == "shared"
    if shared and positions != "equal":
        raise InputError(
            "ties=shared does not support position weights",
            value=positions,
            accepted="positions=equal, or ties=random",
        )

    def order(lists: PaddedLists) -> Tensor:
        chosen = generator
        if seed is not None:
            chosen = torch.Generator(lists.scores.device).manual_seed(seed)
        return _order(lists, None if shared else _draw(lists, chosen))

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        return run_kernel(lists, listmle_queries, lists.by_label(order(lists).numpy()), shared)

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        loss = partial(plackett_luce, order=order(lists), shared=shared, positions=positions)
        return loss_and_gradient(loss, lists, gradient_wanted)

    batch = LossCall(scores, labels, mask, reduce, backend)
    return evaluate(batch, in_torch, in_kernels if positions == "equal" else None)


def plackett_luce(
    lists: PaddedLists, order: Tensor, *, shared: bool, positions: _Positions = "equal"
) -> Tensor:
    """Return minus the Plackett-Luce log-likelihood of each query's items in a given order.

    Parameters
    ----------
    lists : PaddedLists
    order : int64 Tensor of shape (queries, items)
        Indices of the items by falling label, padding last.
    shared : bool
        Whether items with equal labels share one denominator.
    positions : {"equal", "log2", "exponential"}
        Weights of the positions, see `listmle`.

    Returns
    -------
    Tensor of shape (queries,)
    """
    real = lists.mask.gather(1, order)
    # float64, because torch computes the derivative of logcumsumexp with logarithms, inaccurate in float32.
    lowest = torch.finfo(torch.float64).min
    sorted_scores = lists.scores.double().gather(1, order)
    # Subtract the first score: with large scores, score minus log-sum-exp would lose digits.
    sorted_scores = sorted_scores - sorted_scores[:, :1].detach()
    from_last = sorted_scores.masked_fill(~real, lowest).flip(1)
    denominators = from_last.logcumsumexp(dim=1).flip(1)
    if shared:
        # Negated labels are ascending, as `searchsorted` needs; it finds the first item with the same label.
        labels = -torch.where(real, lists.labels.gather(1, order), -1)
        denominators = denominators.gather(1, torch.searchsorted(labels, labels))
    terms = torch.where(real, denominators - sorted_scores, 0)
    rank = torch.arange(1, terms.shape[1] + 1, dtype=terms.dtype, device=terms.device)
    if positions == "log2":
        terms = terms * discounts(rank, None)
    elif positions == "exponential":
        last = torch.exp2(1.0 - real.sum(dim=1, keepdim=True))
        terms = terms * (torch.exp2(1.0 - rank) - last).clamp(min=0) / (1.0 - last).clamp(min=0.5)
    return terms.sum(dim=1).to(lists.scores.dtype)


def _draw(lists: PaddedLists, generator: torch.Generator | None) -> Tensor:
    """Draw a number in [0, 1) for each item, shape (queries, items), to order items with equal labels."""
    shape, device = lists.scores.shape, lists.scores.device
    return torch.rand(shape, generator=generator, device=device, dtype=torch.float64)


def _order(lists: PaddedLists, draw: Tensor | None) -> Tensor:
    """Return the items' indices by falling label, padding last; ties by `draw`, or arbitrarily without it."""
    if lists.on_cpu:
        ordered = lists.by_label()
        if draw is not None:
            shuffle_ties(0, len(ordered.order), ordered, draw.numpy())
        return torch.from_numpy(ordered.order)
    labels = torch.where(lists.mask, lists.labels, -1)
    if draw is None:
        return labels.argsort(dim=1, descending=True)
    by_draw = draw.argsort(dim=1)
    order = labels.gather(1, by_draw).argsort(dim=1, descending=True, stable=True)
    return by_draw.gather(1, order)


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
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute minus the approximate NDCG, between -1 and 0.

    .. math:: L_q = -\frac{1}{\mathrm{IDCG}} \sum_i \frac{G_i}{\log_2(1 + \hat r_i)}, \qquad
        \hat r_i = 1 + \sum_{j \ne i} \frac{1}{1 + e^{-\alpha (s_j - s_i)}}

    With k, IDCG is at cutoff k and each term is multiplied by a smooth version of
    :math:`[\hat r_i \le k]`, the sigmoid of :math:`\alpha_k (k + 1/2 - \hat r_i)`. The 1/2 includes the k-th
    item, so the loss tends to -NDCG@k for steep sigmoids.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As in `lmtune.losses.ranknet`.
    alpha : float
        Steepness of the ranks; above 0.
    k : int, optional
        Truncation; none by default.
    alpha_k : float
        Steepness of the truncation; above 0.
    gains : {"exponential", "linear"}
        G = 2^y - 1 or G = y.

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
    Qin, Liu and Li, A General Approximation Framework for Direct Optimization of Information
    Retrieval Measures, Information Retrieval 2010; with alpha = 10: Bruch et al., Revisiting
    Approximate Metric Optimization in the Age of Deep Neural Networks, SIGIR 2019. allRank's
    ``approxNDCGLoss`` is the same; TF-Ranking and Rax write temperature = 1 / alpha (0.1 by
    default).

    Examples
    --------
    With three equal scores, the smooth rank of the relevant item is 1 + 1/2 + 1/2:

    >>> import torch
    >>> loss = approx_ndcg(torch.zeros(1, 3), torch.tensor([[0, 2, 0]]))
    >>> round(float(loss), 6)
    -0.63093
    """

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        gain = lists.gains(gains)
        ideal = ideal_dcg(gain.double(), k).numpy()
        parts, bounds = np.zeros((ideal.size, 2), np.int64), np.ones(ideal.size)  # not used for DCG
        measure = SmoothMeasure(int(Code.DCG), k or 0, alpha_k, False, gain.numpy(), ideal, parts, bounds)
        return run_kernel(lists, approx_queries, lists.by_label(), measure, lists.number(alpha))

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        gain = lists.gains(gains)
        share = gain / ideal_dcg(gain, k)[:, None]

        def values(rank: Tensor) -> Tensor:
            value = share / torch.log2(1 + rank)
            if k is not None:
                value = value * torch.sigmoid(alpha_k * (k + 0.5 - rank))
            return -torch.where(lists.mask, value, 0).sum(dim=1)

        losses, slopes = value_and_gradient(values, smooth_ranks(lists, alpha), gradient_wanted)
        return losses, None if slopes is None else smooth_rank_gradient(lists, alpha, slopes)

    options = {"alpha": alpha, "k": k, "alpha_k": alpha_k, "gains": gains}
    batch = LossCall(scores, labels, mask, reduce, backend)
    return evaluate(batch, in_torch, in_kernels, ("fused.approx_ndcg", options))


@checked
def adr_mse(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    alpha: Positive = 1.0,
) -> Tensor:
    r"""Compute ADR-MSE: the mean squared error of smooth ranks, discounted by the labels' ranks.

    .. math:: L_q = \frac{1}{n} \sum_i \frac{(r_i - \hat r_i)^2}{\log_2(1 + r_i)}

    for a list of n items, with the smooth ranks of `approx_ndcg` and the ranks r by falling label. Items with
    equal labels have their mean rank.

    Parameters
    ----------
    scores, labels, mask, reduce
        As in `lmtune.losses.ranknet`.
    alpha : float
        Steepness of the smooth ranks; above 0.

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
    Schlatt et al., Rank-DistiLLM: Closing the Effectiveness Gap Between Cross-Encoders and LLMs for Passage
    Re-ranking, ECIR 2025; made for a teacher's order. ``ADRMSELoss`` of sentence-transformers averages over
    the items of all queries instead of over queries.

    Examples
    --------
    Two equal scores have the smooth rank 1.5, and the labels' ranks are 1 and 2:

    >>> import torch
    >>> round(float(adr_mse(torch.zeros(1, 2), torch.tensor([[1, 0]]))), 6)
    0.203866
    """

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        target = ranks(PaddedLists(lists.labels, lists.labels, lists.mask))
        discounted = lists.mask / (lists.lengths * torch.log2(1 + target))
        error = smooth_ranks(lists, alpha) - target
        slopes = 2 * discounted * error
        gradient = smooth_rank_gradient(lists, alpha, slopes) if gradient_wanted else None
        return (slopes * error).sum(dim=1) / 2, gradient

    return evaluate(LossCall(scores, labels, mask, reduce, "auto"), in_torch)


# Longest list for which the Triton kernel is used; for longer rows it compiles for minutes, or fails.
_LONGEST_FUSED = 8192


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

    The rows of P sum to 1. Sinkhorn iterations, which scale columns and then rows to sum to 1, make P
    doubly stochastic, so that no gain is counted twice.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As in `lmtune.losses.ranknet`.
    tau : float
        Temperature; above 0. With smaller tau or longer lists, P approaches the permutation that sorts the
        scores. For lists of about sixty items or more, tau = 10 may train better
        (experiments/rerank/README.md).
    sinkhorn : int
        Number of Sinkhorn iterations, which are also differentiated; 0 uses NeuralSort's P unchanged. For
        long lists, 50 iterations come within about 1e-4 of the limit.
    k : int, optional
        Truncation, also of IDCG; none by default.
    gains : {"exponential", "linear"}
        G = 2^y - 1 or G = y.

    Returns
    -------
    Tensor
        A scalar, or shape (queries,) with ``reduce="none"``. Memory grows with the square of the
        longest list but not with the number of queries, which are processed in blocks.

    Raises
    ------
    InputError
        If shapes or types do not match, or an option is invalid.

    Notes
    -----
    Pobrotyn and Białobrzeski, NeuralNDCG, SIGIR eCom 2021; Grover et al., Stochastic Optimization
    of Sorting Networks via Continuous Relaxations (NeuralSort), ICLR 2019.

    The computation is in float64 for any type of scores, because the exponents of P are differences of sums
    as large as n times the scores.

    allRank's ``neuralNDCG`` is the same, except that it stops iterating when all queries of the batch are
    within 1e-6 of the limit; gradients may not have converged then. Related: SoftRank and `pirank`.

    Examples
    --------
    Two equal scores share both ranks, so the discount of each is (1 + 1/log2(3)) / 2:

    >>> import torch
    >>> round(float(neural_ndcg(torch.zeros(1, 2), torch.tensor([[0, 1]]))), 6)
    -0.815465
    """

    def normalised_gains(lists: PaddedLists) -> Tensor:
        gain = lists.gains(gains).double()
        return gain / ideal_dcg(gain, k)[:, None]

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        scores = lists.scores.numpy().astype(np.float64)
        table = discount_table(scores.shape[1], k)[2::2].copy()
        inputs = scores, normalised_gains(lists).numpy(), lists.mask.numpy(), table, float(tau), sinkhorn
        return run_kernel(lists, neural_ndcg_queries, *inputs, double=True)

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        # A score that is not finite makes the list's loss NaN.
        real = torch.where(lists.scores.isfinite(), lists.scores.double(), torch.nan)
        falling, order = torch.where(lists.mask, real, -torch.inf).sort(dim=1, descending=True)
        gain, count = normalised_gains(lists).gather(1, order), lists.mask.sum(dim=1, keepdim=True)
        losses, slopes = falling.new_empty(len(falling)), torch.zeros_like(falling)
        for part in row_slices(falling, of_items=False):
            items = _SortedItems.of(falling[part], count[part], tau)
            matrix = items.neural_sort()
            steps = _SinkhornSteps.of(matrix, sinkhorn)
            discount = torch.where(items.real, discounts(items.ranks + 1, k), 0)
            losses[part], factors = steps.loss_and_gradient(discount, gain[part], gradient_wanted)
            if factors is not None:
                slopes[part] = items.neural_sort_gradient(matrix, *factors)
        gradient = torch.empty_like(slopes).scatter_(1, order, slopes).to(lists.scores.dtype)
        return losses.to(lists.scores.dtype), gradient

    options = {"tau": tau, "sinkhorn": sinkhorn, "k": k, "gains": gains}
    scores, labels, mask = as_padded(scores, labels, mask)
    batch = LossCall(scores, labels, mask, reduce, backend)
    fused = ("fused_sort.neural_ndcg", options) if scores.shape[1] <= _LONGEST_FUSED else None
    return evaluate(batch, in_torch, in_kernels, fused)


@checked
def pirank(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    tau: Positive = 1.0,
    k: Cutoff = None,
    gains: Gains = "exponential",
    backend: Backend = "auto",
) -> Tensor:
    """Compute PiRank's loss of depth 1, minus 1: `neural_ndcg` without Sinkhorn iterations.

    Parameters
    ----------
    scores, labels, mask, reduce, tau, k, gains, backend
        As in `neural_ndcg`.

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
    Swezey et al., PiRank: Scalable Learning To Rank via Differentiable Sorting, NeurIPS 2021. Not
    implemented: depths above 1, which sort the top k by merging NeuralSorts of short lists, and the
    straight-through estimator.

    Examples
    --------
    >>> import torch
    >>> round(float(pirank(torch.zeros(1, 2), torch.tensor([[0, 1]]))), 6)
    -0.815465
    """
    options: Any = {"tau": tau, "k": k, "gains": gains, "backend": backend}
    return neural_ndcg(scores, labels, mask=mask, reduce=reduce, sinkhorn=0, **options)


@checked
def song(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    margin: Positive = MARGIN,
    cutoff: RankOrShare | None = None,
) -> Tensor:
    """Compute SONG's objective, an upper bound on -NDCG, on whole lists.

    Parameters
    ----------
    scores, labels, mask
        As in `lmtune.losses.ranknet`.
    margin, cutoff
        As in `lmtune.losses.songs.Song`, which states the formula.

    Returns
    -------
    Tensor
        A scalar in [-1, 0], the mean over queries with a relevant item; 0 if there is no such query.

    Raises
    ------
    InputError
        If shapes or types do not match, or an option is invalid.

    Examples
    --------
    With margin 1 and two equal scores, g = 1 and the relevant item adds -1 / log2(2 g + 1):

    >>> import torch
    >>> round(float(song(torch.zeros(1, 2), torch.tensor([[1, 0]]), margin=1.0)), 6)
    -0.63093
    """
    return _whole_list_objective(Song(None, margin=margin, cutoff=cutoff), scores, labels, mask)


@checked
def k_song(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    margin: Positive = MARGIN,
    cutoff: RankOrShare = 50,
    theoretical: bool = True,
) -> Tensor:
    """Compute K-SONG's objective, for NDCG at a cutoff, on whole lists.

    Parameters
    ----------
    scores, labels, mask
        As in `lmtune.losses.ranknet`.
    margin, cutoff, theoretical
        As in `lmtune.losses.songs.KSong`, which states the formula.

    Returns
    -------
    Tensor
        A scalar, the mean over queries with a relevant item; 0 if there is no such query.

    Raises
    ------
    InputError
        If shapes or types do not match, or an option is invalid.

    Examples
    --------
    For lists no longer than the cutoff, the value equals `song`:

    >>> import torch
    >>> round(float(k_song(torch.zeros(1, 2), torch.tensor([[1, 0]]), margin=1.0, cutoff=2)), 6)
    -0.63093
    """
    module = KSong(None, margin=margin, cutoff=cutoff, theoretical=theoretical)
    return _whole_list_objective(module, scores, labels, mask)


def _whole_list_objective(module: Song, scores: Scores, labels: Labels, mask: Tensor | None) -> Tensor:
    """Return the objective of a module without state, in float64 unless by Triton kernels."""
    score, label, real = as_padded(scores, labels, mask)
    if module.sums_pairs(score):
        return by_triton(score, label, real, "mean", "fused_song.bound", module.options())
    lists = PaddedLists.of(score.double() if score.is_floating_point() else score, label, real)
    return module.of_lists(score, lists) if score.numel() else 0 * score.sum()
