"""SONG: stochastic minimisation of an NDCG surrogate over lists of any length.

Source: Qiu, Hu, Zhong, Zhang and Yang, Large-scale Stochastic Optimization of NDCG Surrogates for
Deep Learning with Provable Convergence, ICML 2022, algorithm 1. Section 6 and appendix B describe the
warm-up by listwise cross-entropy with running estimates, and the reinitialisation of the last layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.losses import evaluation
from lmtune.losses.evaluation import (
    PaddedLists,
    Positive,
    Share,
    by_triton,
    checked,
    eager,
    is_fused,
    wide,
    with_gradient,
)
from lmtune.losses.plain_torch import ideal_dcg
from lmtune.losses.songs.pairs import (
    ROUNDED_DOWN,
    PairState,
    RankOrShare,
    RelevantPairs,
    Sample,
    check_cutoff,
    real_items,
    sample_of,
    whole_sample,
)
from lmtune.losses.songs.whole_list_kernels import Batch, PairArrays, whole_cross_entropy

# Up to this length of a list, summing over all pairs was faster than sorting, on an H200.
_LONGEST_UNSORTED = 2048


class _SortedLists(NamedTuple):
    """Lists (B, n) sorted by ascending score, with sums over the items j with s_j > s_i - c.

    Attributes
    ----------
    order : int64 Tensor (B, n)
        Indices of the items by ascending score.
    values, weights : float64 Tensor (B, n)
        Centred scores s and weights w, in sorted order; 0 on padding.
    below : float64 Tensor (B, n)
        s_i - c.
    sums : float64 Tensor (3, B, n)
        Sums of w_j, w_j s_j and w_j s_j^2 over the items with s_j above `below`.
    margin : float
        c.
    """

    order: Tensor
    values: Tensor
    weights: Tensor
    below: Tensor
    sums: Tensor
    margin: float

    @classmethod
    def sort(cls, scores: Tensor, mask: Tensor, margin: float, weights: Tensor) -> _SortedLists:
        """Sort `scores` (B, n). On padding scores are arbitrary and weights must be 0."""
        score = torch.where(mask, scores.double(), 0.0)
        centre = score.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        values, order = torch.sort(torch.where(mask, score - centre, 0.0), dim=1, stable=True)
        weight = weights.double().gather(1, order)
        below = values - margin
        first = torch.searchsorted(values, below, right=True)
        sums = _suffix_sums(first, weight, weight * values, weight * values.square())
        return cls(order, values, weight, below, sums, margin)

    def inner(self) -> Tensor:
        """Compute g_i = sum_j w_j max(0, s_j - s_i + c)^2 for all i.

        Returns
        -------
        float64 Tensor (B, n)
            In the caller's order of items, like all results.
        """
        weight_sum, score_sum, square_sum = self.sums
        sums = (square_sum - 2.0 * self.below * score_sum + self.below.square() * weight_sum).clamp(min=0.0)
        return self._unsort(sums)

    def gradient(self, outer: Tensor) -> Tensor:
        """Compute the gradient of sum_i a_i g_i in the scores, for constant a.

        Parameters
        ----------
        outer : Tensor (B, n)
            a_i; 0 on padding and for items that are not relevant.

        Returns
        -------
        float64 Tensor (B, n)
        """
        factor = outer.double().gather(1, self.order)
        above = self.values + self.margin
        last = torch.searchsorted(self.values, above, right=False)
        factor_sum, score_sum = _prefix_sums(last, factor, factor * self.values)
        from_others = above * factor_sum - score_sum
        return self._unsort(2.0 * (self.weights * from_others - factor * self._hinge_sums()))

    def _hinge_sums(self) -> Tensor:
        """Compute sum_j w_j max(0, s_j - s_i + c), in sorted order."""
        return self.sums[1] - self.below * self.sums[0]

    def _unsort(self, values: Tensor) -> Tensor:
        return torch.empty_like(values).scatter_(1, self.order, values)


def _suffix_sums(first: Tensor, *values: Tensor) -> Tensor:
    """Sum values[first:] of each row, for each of the arrays (B, n); returns shape (arrays, B, n)."""
    running = torch.nn.functional.pad(torch.stack(values).flip(2).cumsum(2).flip(2), (0, 1))
    return running.gather(2, first.expand(len(values), -1, -1))


def _prefix_sums(last: Tensor, *values: Tensor) -> Tensor:
    """Sum values[:last] of each row, for each of the arrays (B, n); returns shape (arrays, B, n)."""
    running = torch.nn.functional.pad(torch.stack(values).cumsum(2), (1, 0))
    return running.gather(2, last.expand(len(values), -1, -1))


MARGIN = 5.0
"""Default margin: margins from 2 to 10 did not differ on validation queries (experiments/song/README.md)."""


@dataclass(frozen=True)
class Selection:
    """K-SONG's weights psi of the items and their derivatives, each of shape (B, n).

    Attributes
    ----------
    psi : Tensor
    slope : Tensor or None
        psi', the derivative in the item's score; None if the weights are constant in the gradient.
    threshold_slope : Tensor or None
        N times the gradient of the threshold lambda in the scores.
    inner_slope : Tensor or None
        The derivative of psi in the item's g; None if psi does not depend on g.
    """

    psi: Tensor
    slope: Tensor | None = None
    threshold_slope: Tensor | None = None
    inner_slope: Tensor | None = None


class Song(nn.Module):
    r"""SONG's loss: a bound of NDCG, with a running estimate for each relevant pair.

    With :math:`g_{q,i} = \frac{1}{N_q} \sum_j \max(0, h_q(x_j) - h_q(x_i) + c)^2` the objective is
    the mean over queries with relevant items of

    .. math:: \sum_{i \text{ relevant}} \frac{1 - 2^{y_i}}{Z_q \log_2(N_q g_{q,i} + 1)},

    where :math:`Z_q` is the ideal DCG. The objective lies in [-1, 0]; for :math:`c \ge 1`, its negative is
    a lower bound of NDCG. The paper divides by the number of pairs instead of the number of queries,
    which differs by a constant factor.

    Each call moves the estimates u of the pairs in the batch towards their g. It returns a scalar: the
    estimate of the objective on the batch, with the mean of f'(u) grad g^ as its gradient.

    Lists may be whole or sampled. A sample has a fixed number of the list's relevant items and a fixed number
    of its other items, each drawn uniformly. Weights make g^ and, given u, the gradient unbiased; this needs
    2 relevant items and 1 other item, or all if there are fewer. For n sampled items per list, time is
    O(n log n) and memory O(n), independent of the length of the whole list. In evaluation mode (``.eval()``)
    the state is not updated.

    Parameters
    ----------
    pairs : RelevantPairs, optional
        The pairs of the training data. Without pairs there is no state, and only `of_lists` can be called.
    gamma : float, optional
        Weight of the new value in u, in (0, 1]; 1 ignores earlier values. The default is 1 for lists with
        all items in the batch, where g^ equals g, and 0.3 for sampled lists.
    margin : float
        c, above 0. The bound is tightest at 1. A larger margin makes the discount flatter: for large c the
        objective approaches a constant plus a multiple of the gain-weighted sum of
        ln sum_j max(0, (h_j - h_i) / c + 1)^2, which is smoother and closer to a cross-entropy. The range of
        learnt scores grows with c.
    cutoff : float, optional
        Truncation of the ideal DCG, as a rank or a share of each list, see `KSong`; none by default.
    """

    objective: Tensor
    ideal: Tensor

    @checked
    def __init__(
        self,
        pairs: RelevantPairs | None,
        *,
        gamma: Share | None = None,
        margin: Positive = MARGIN,
        cutoff: RankOrShare | None = None,
    ) -> None:
        super().__init__()
        if cutoff is not None:
            check_cutoff(cutoff)
        self.gamma, self.margin, self.cutoff = gamma, margin, cutoff
        self.has_state = pairs is not None
        if pairs is not None:
            self.state = PairState(pairs)
            ideal = torch.from_numpy(pairs.ideal_dcg(cutoff))
            self.register_buffer("ideal", ideal.float(), persistent=False)
        self.objective = torch.tensor(torch.nan)

    @eager
    def forward(
        self, scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, queries: Tensor, items: Tensor
    ) -> Tensor:
        """Update the state and return the estimated objective, differentiable in the scores.

        Parameters
        ----------
        scores, labels : Tensor (B, n)
            Labels above 0 are relevant; gains are 2^label - 1.
        mask : bool Tensor (B, n), optional
            False on padding; by default, item ids below 0 mark padding.
        queries : int64 Tensor (B,)
            Query ids, as in the pairs.
        items : int64 Tensor (B, n)
            Item ids, as in the pairs; -1 on padding.

        Returns
        -------
        Tensor ()
            0, with gradient 0, if no query has a relevant item. The attribute `objective` is a detached copy.

        Raises
        ------
        InputError
            If shapes do not match, a query or a relevant pair is unknown, or a sample is too small.
        """
        if self.sums_pairs(scores):
            real = real_items(scores, labels, mask, queries, items)
            options = {"module": self, "queries": queries, "items": items}
            value = by_triton(scores, labels, real, "mean", "songs.fused_memory.bound", options)
            self.objective = self.state.check_on_cpu(value.detach())
            return value
        with torch.no_grad():
            batch = sample_of(self.state, scores, labels, mask, queries, items)
            lists = self._sums(batch, batch.scores)
            estimate = self._estimate(batch, self._inner(batch, lists))
            ideal = self._read_state("ideal", batch)
            total, gradient = self._bound(batch, lists, estimate, ideal)
            self.objective = self.state.nan_if_faulty(total)
        return with_gradient(scores, self.objective, gradient)

    def of_lists(self, scores: Tensor, lists: PaddedLists) -> Tensor:
        """Return the objective of whole lists, differentiable in the scores, without using the state.

        Parameters
        ----------
        scores : Tensor (B, n)
            The tensor that receives the gradient.
        lists : PaddedLists
            The same scores in float64, with labels and mask.
        """
        with torch.no_grad():
            batch = whole_sample(lists)
            items = self._sums(batch, batch.scores)
            ideal = ideal_dcg(lists.gains("exponential"), self._cutoffs(batch)).unsqueeze(1)
            total, gradient = self._bound(batch, items, self._inner(batch, items), ideal)
            if not lists.on_cpu:
                total = torch.where(lists.wrong.any(), torch.nan, total)
        return with_gradient(scores, total, gradient)

    def _bound(
        self, batch: Sample, lists: _SortedLists, estimate: Tensor, ideal: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the estimated objective and its gradient (B, n) from u (B, n) and Z (B, 1)."""
        gain = torch.where(batch.relevant, torch.exp2(batch.labels) - 1.0, 0.0)
        gain = gain / torch.where(ideal > 0, ideal, 1.0) * batch.pairs / batch.queries
        ranks = batch.lengths * estimate + 1.0
        logs = torch.log2(ranks).clamp(min=1e-12)
        value = -gain / logs
        outer = gain * batch.lengths / (logs.square() * ranks * math.log(2.0))
        selection = self._select(batch, batch.lengths * estimate)
        if selection is None:
            return value.sum(), lists.gradient(outer)
        outer = outer * selection.psi
        if selection.inner_slope is not None:
            outer = outer + value * selection.inner_slope
        gradient = lists.gradient(outer)
        if selection.slope is not None:
            assert selection.threshold_slope is not None
            pull = selection.slope * value
            # Item i's own term has weight 1 / N; the terms of other items have their weight in g^_i.
            own_term = pull * (1.0 / batch.lengths - batch.others)
            total_pull = batch.others * pull.sum(1, keepdim=True) + own_term
            gradient = gradient + pull - total_pull * selection.threshold_slope
        return (value * selection.psi).sum(), gradient

    def _cutoffs(self, batch: Sample) -> Tensor | None:
        """Return each list's cutoff K, shape (B, 1), like `RelevantPairs.cutoffs`; None without a cutoff."""
        if self.cutoff is None:
            return None
        ranks = torch.full_like(batch.lengths, self.cutoff)
        return torch.ceil(ROUNDED_DOWN * ranks * batch.lengths) if self.cutoff < 1 else ranks

    def _read_state(self, name: str, batch: Sample) -> Tensor:
        """Read a per-query array for the lists of a batch, float64 (B, 1); NaN for missing values."""
        if not self.has_state:
            return torch.full_like(batch.lengths, torch.nan)
        values: Tensor = getattr(self, name)[batch.positions]
        return values.double().unsqueeze(1)

    def _write_state(self, name: str, batch: Sample, values: Tensor) -> None:
        """Store values (B, 1) in a per-query array, in training mode only."""
        if self.training and self.has_state:
            state = getattr(self, name)
            state[batch.positions] = values.squeeze(1).to(state.dtype)

    def options(self) -> dict[str, Any]:
        """Return the options of the Triton kernels, see `lmtune.losses.fused_song.bound`."""
        return {"margin": self.margin, "cutoff": self.cutoff}

    def query_state(self) -> list[Tensor]:
        """Return the per-query arrays of the state, writable tensors of shape (queries,)."""
        return []

    def update_options(self) -> dict[str, Any]:
        """Return the Triton kernels' options for updating the per-query arrays."""
        return {}

    def sums_pairs(self, scores: Tensor) -> bool:
        """Return whether Triton kernels over all pairs of lists (B, n) are used, faster than sorting here."""
        return bool(scores.numel()) and is_fused(scores) and scores.shape[1] <= _LONGEST_UNSORTED

    def _sums(self, batch: Sample, scores: Tensor) -> _SortedLists:
        return _SortedLists.sort(scores, batch.mask, self.margin, batch.others)

    def _inner(self, batch: Sample, lists: _SortedLists) -> Tensor:
        """Compute g^_i; item i itself has weight 1 / N instead of its weight in `others`."""
        own_term = self.margin**2 / batch.lengths
        total = lists.inner() + own_term - self.margin**2 * batch.others
        # Rounding must not make g^ smaller than the term of item i itself.
        return torch.maximum(total, own_term)

    def _estimate(self, batch: Sample, current: Tensor) -> Tensor:
        """Update u and return it, shape (B, n); pairs not visited yet start at g^ (`current`)."""
        assert batch.slots is not None
        gamma = batch.gamma(self.gamma)
        return self.state.update(batch.slots, current, lambda old: old + gamma * (current - old))

    def _select(self, batch: Sample, ranks: Tensor) -> Selection | None:
        """Return weights of the items from estimated rank bounds N u (B, n); None for equal weights."""
        del batch, ranks
        return None


# A sample with widely spread scores can raise u by e^100. A moving average would need hundreds of visits
# to recover, with a vanishing gradient meanwhile. Therefore u is limited to 100 g^.
_MAX_LOG_EXCESS = math.log(100.0)


class ListwiseCrossEntropy(nn.Module):
    r"""Listwise cross-entropy on whole or sampled lists, with a running estimate for each relevant pair.

    The objective is the mean over queries with relevant items of

    .. math:: \sum_{i \text{ relevant}} \frac{y_i}{\sum_k y_k}
              \ln \sum_{j \in S_q} e^{h_q(x_j) - h_q(x_i)},

    the logarithm of :math:`g_{q,i} = \frac{1}{N_q} \sum_j e^{h_j - h_i}` up to a constant. The state has a
    running estimate u of g for each pair. It stores ln u, so large scores do not overflow, and limits u to
    100 g^, so that outliers do not persist. The gradient is the mean of grad g^ / u; for gamma = 1 and
    whole lists this is the gradient of the cross-entropy. Call it like `Song`.

    Parameters
    ----------
    pairs : RelevantPairs
        The pairs of the training data.
    gamma : float, optional
        Weight of the new value in u, in (0, 1]; by default 0.3 for sampled lists, 1 for whole lists.
    """

    objective: Tensor
    label_sums: Tensor

    @checked
    def __init__(self, pairs: RelevantPairs, *, gamma: Share | None = None) -> None:
        super().__init__()
        self.gamma = gamma
        self.state = PairState(pairs)
        sums = torch.from_numpy(pairs.label_sums())
        self.register_buffer("label_sums", sums.float(), persistent=False)
        self.objective = torch.tensor(torch.nan)

    @eager
    def forward(
        self, scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, queries: Tensor, items: Tensor
    ) -> Tensor:
        """Update the state and return the estimated objective; see `Song.forward`."""
        real = real_items(scores, labels, mask, queries, items)
        with torch.no_grad():
            result = self._of_whole_lists(scores, labels, real, queries, items)
            if result is None:
                result = self._of_samples(scores, labels, real, queries, items)
            self.objective, gradient = result
        return with_gradient(scores, self.objective, gradient)

    def _of_whole_lists(
        self, scores: Tensor, labels: Tensor, mask: Tensor, queries: Tensor, items: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Compute the loss by kernels; None unless all lists are whole and estimates take the new values."""
        if not (self.training and self.gamma in (None, 1.0) and evaluation.on_cpu(scores) and scores.numel()):
            return None
        state, score = self.state, wide(scores.detach())
        tensors = (score, labels.to(score.dtype), mask, queries, items)
        batch = Batch(*(values.contiguous().numpy() for values in tensors))
        buffers = (state.query_ids, state.sizes, state.keys, state.padded_estimate, self.label_sums)
        ids, sizes, keys, estimates, sums = (values.numpy() for values in buffers)
        pairs = PairArrays(ids, sizes, keys, state.stride, estimates, sums)
        gradient = np.zeros_like(batch.scores)
        is_whole, value = whole_cross_entropy(batch, pairs, gradient)
        return (score.new_tensor(value), torch.from_numpy(gradient)) if is_whole else None

    def _of_samples(
        self, scores: Tensor, labels: Tensor, mask: Tensor, queries: Tensor, items: Tensor
    ) -> tuple[Tensor, Tensor]:
        batch = sample_of(self.state, scores, labels, mask, queries, items)
        log_weights = batch.others.clamp(min=0.0).log()
        logits = torch.where(batch.mask, batch.scores + log_weights, -torch.inf)
        total = _log_denominators(batch.scores, logits, batch.lengths, batch.relevant)
        current = total - batch.scores
        estimate = self._estimate(batch, current)
        sums = self.label_sums[batch.positions].double().unsqueeze(1)
        weight = torch.where(batch.relevant, batch.labels, 0.0) * batch.pairs / batch.queries
        weight = weight / torch.where(sums > 0, sums, 1.0)
        value = self.state.nan_if_faulty((weight * (estimate + torch.log(batch.lengths))).sum())
        outer = torch.where(batch.relevant, weight * torch.exp(current - estimate), 0.0)
        gradient = _gradient(batch.scores, logits, total, outer, batch.lengths, batch.relevant)
        return value, gradient

    def _estimate(self, batch: Sample, current: Tensor) -> Tensor:
        assert batch.slots is not None
        gamma = batch.gamma(self.gamma)

        def next_estimate(old: Tensor) -> Tensor:
            # Moving average of u, in logarithms. Neither term overflows; for gamma = 1 the second is -inf.
            mean = torch.logaddexp(current + torch.log(gamma), old + torch.log1p(-gamma))
            return torch.minimum(mean, current + _MAX_LOG_EXCESS)

        return self.state.update(batch.slots, current, next_estimate)


def _log_denominators(scores: Tensor, logits: Tensor, lengths: Tensor, relevant: Tensor) -> Tensor:
    """Compute ln of (e^s_i / N + sum over j other than i of w_j e^s_j), for relevant i; else 0."""
    others = _log_sum_exp_of_others(logits)
    return torch.where(relevant, torch.logaddexp(scores - torch.log(lengths), others), 0.0)


def _log_sum_exp_of_others(logits: Tensor) -> Tensor:
    """Compute ln of the sum over j other than i of e^logit_j, for each i of a list."""
    greatest = logits.amax(1, keepdim=True)
    greatest = torch.where(torch.isfinite(greatest), greatest, 0.0)
    # Sum the items before and after i: subtracting e^logit_i from the total would cancel if i dominates.
    powers = torch.exp(logits - greatest)
    before = torch.nn.functional.pad(powers.cumsum(1), (1, 0))[:, :-1]
    after = torch.nn.functional.pad(powers.flip(1).cumsum(1).flip(1), (0, 1))[:, 1:]
    return torch.log(before + after) + greatest


def _gradient(
    scores: Tensor, logits: Tensor, total: Tensor, outer: Tensor, lengths: Tensor, relevant: Tensor
) -> Tensor:
    """Compute the gradient of sum_i outer_i (total_i - s_i) in the scores, for constant outer."""
    # The derivative of total_i in s_j is w_j e^s_j / e^total_i, a product of a factor of j and one of i.
    # For j = i it is `own_term`.
    scaled = torch.where(relevant & (outer > 0), torch.log(outer) - total, -torch.inf)
    from_others = torch.exp(_log_sum_exp_of_others(scaled) + logits)
    own_term = torch.where(relevant, torch.exp(scores - torch.log(lengths) - total), 0.0)
    return torch.where(torch.isfinite(logits), from_others, 0.0) + outer * (own_term - 1.0)


def reinitialise_last_layer(network: nn.Module, *, seed: int, layer: nn.Module | None = None) -> nn.Module:
    """Reinitialise the weights of a network's last layer, as the paper does between warm-up and SONG.

    Parameters
    ----------
    network : torch.nn.Module
        The last layer is the last registered module with parameters and a method ``reset_parameters``.
    seed : int
        Seed of the new weights. The global random state is restored.
    layer : torch.nn.Module, optional
        The layer to reinitialise, if the order of registration is not the order of the layers.

    Returns
    -------
    torch.nn.Module
        The reinitialised layer.

    Raises
    ------
    InputError
        If there is no such layer.
    """
    if layer is None:
        for module in network.modules():
            if hasattr(module, "reset_parameters") and any(True for _ in module.parameters(False)):
                layer = module
    reset = getattr(layer, "reset_parameters", None)
    if layer is None or reset is None:
        raise InputError(
            "the network has no layer to reinitialise",
            value=type(network).__name__,
            accepted="a layer with parameters and reset_parameters()",
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        device = next(layer.parameters()).device
        layer.cpu()
        reset()
        layer.to(device)
    return layer
