"""SONG: stochastic minimisation of an NDCG surrogate over lists of any length.

Source: Qiu, Hu, Zhong, Zhang and Yang, Large-scale Stochastic Optimization of NDCG Surrogates for
Deep Learning with Provable Convergence, ICML 2022, algorithm 1.

The warm-up before it, listwise cross-entropy with running estimates, and the fresh last layer: Qiu et al.
2022, section 6 and appendix B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.losses.evaluation import (
    PaddedLists,
    Positive,
    Share,
    by_triton,
    checked,
    eager,
    is_fused,
    with_gradient,
)
from lmtune.losses.plain_torch import ideal_dcg
from lmtune.losses.songs.pairs import (
    PairState,
    RankOrShare,
    RelevantPairs,
    Sample,
    check_cutoff,
    real_items,
    sample_of,
    whole_sample,
)

# Items of a list up to which an H200 was quicker through all pairs than by a sort.
_LONGEST_UNSORTED = 2048


class _SortedLists(NamedTuple):
    """Lists (B, n) by ascending score, and sums over the items above each one's margin.

    Attributes
    ----------
    order : int64 Tensor (B, n)
        Which item stands at each place.
    values, weights : float64 Tensor (B, n)
        Scores less their list's mean, and the weights w_j; 0 on padding.
    below : float64 Tensor (B, n)
        s_i - c.
    sums : float64 Tensor (3, B, n)
        Of w_j, w_j s_j and w_j s_j^2 over the items with s_j above `below`.
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
        """Sort `scores` (B, n); where `mask` is False they may hold anything, and weights are 0."""
        kept = torch.where(mask, scores.double(), 0.0)
        centre = kept.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        values, order = torch.sort(torch.where(mask, kept - centre, 0.0), dim=1, stable=True)
        weight = weights.double().gather(1, order)
        below = values - margin
        first = torch.searchsorted(values, below, right=True)
        sums = _after(first, weight, weight * values, weight * values.square())
        return cls(order, values, weight, below, sums, margin)

    def inner(self) -> Tensor:
        """Compute g_i = sum_j w_j max(0, s_j - s_i + c)^2 for all i.

        Returns
        -------
        float64 Tensor (B, n)
            In the caller's order, as all results.
        """
        zeroth, once, twice = self.sums
        sums = (twice - 2.0 * self.below * once + self.below.square() * zeroth).clamp(min=0.0)
        return self._back(sums)

    def gradient(self, outer: Tensor) -> Tensor:
        """Compute the gradient of sum_i a_i g_i in the scores, with a held fixed.

        Parameters
        ----------
        outer : Tensor (B, n)
            a_i, 0 for items that are not relevant and on padding.

        Returns
        -------
        float64 Tensor (B, n)
        """
        factor = outer.double().gather(1, self.order)
        above = self.values + self.margin
        last = torch.searchsorted(self.values, above, right=False)
        zeroth, once = _before(last, factor, factor * self.values)
        push = above * zeroth - once
        return self._back(2.0 * (self.weights * push - factor * self._pull()))

    def _pull(self) -> Tensor:
        """Compute sum_j w_j max(0, s_j - s_i + c)."""
        return self.sums[1] - self.below * self.sums[0]

    def _back(self, values: Tensor) -> Tensor:
        return torch.empty_like(values).scatter_(1, self.order, values)


def _after(first: Tensor, *values: Tensor) -> Tensor:
    """Sum values[first:] of each row of some (B, n); returns (values, B, n)."""
    running = torch.nn.functional.pad(torch.stack(values).flip(2).cumsum(2).flip(2), (0, 1))
    return running.gather(2, first.expand(len(values), -1, -1))


def _before(last: Tensor, *values: Tensor) -> Tensor:
    """Sum values[:last] of each row of some (B, n); returns (values, B, n)."""
    running = torch.nn.functional.pad(torch.stack(values).cumsum(2), (1, 0))
    return running.gather(2, last.expand(len(values), -1, -1))


MARGIN = 5.0
"""The middle of the margins that validation did not tell apart, 2 to 10 (experiments/song/README.md)."""


@dataclass(frozen=True)
class Selection:
    """Weights psi (B, n) of the items, and what moves them, of shape (B, n) or None.

    Attributes
    ----------
    slope, threshold_slope : Tensor or None
        psi', and the gradient of lambda times N.
    inner_slope : Tensor or None
        The derivative of psi in the item's g, where psi depends on it.
    """

    psi: Tensor
    slope: Tensor | None = None
    threshold_slope: Tensor | None = None
    inner_slope: Tensor | None = None


class Song(nn.Module):
    r"""Gradient estimates of the NDCG bound of SONG, with a running estimate for each pair.

    With :math:`g_{q,i} = \frac{1}{N_q} \sum_j \max(0, h_q(x_j) - h_q(x_i) + c)^2` the objective is
    the mean over queries with relevant items of

    .. math:: \sum_{i \text{ relevant}} \frac{1 - 2^{y_i}}{Z_q \log_2(N_q g_{q,i} + 1)},

    where :math:`Z_q` is the ideal DCG. It lies in [-1, 0], and with :math:`c \ge 1` minus it is a
    lower bound of NDCG. (The paper divides by the number of pairs, a constant, where this divides
    by the number of queries.) Each call moves the estimates u of the pairs in the batch towards
    their g and returns a scalar whose value is the objective's estimate on the batch and whose
    gradient is the mean of f'(u) grad g^.

    Lists may be whole or samples: relevant items drawn uniformly among the list's relevant ones
    and others among its others, in numbers fixed beforehand. g^ and, given u, the gradient are
    weighted to be unbiased; which takes 2 relevant items and 1 other, or all where there are fewer.
    Time and memory are O(n log n) and O(n) a list of n sampled items, whatever the whole list's
    length. In evaluation mode (``.eval()``) the state is read, not changed.

    Parameters
    ----------
    pairs : RelevantPairs, optional
        The training data's; without, nothing is kept, and only `of_lists` can be called.
    gamma : float, optional
        Weight of the new value in u, in (0, 1]; 1 forgets the past. By default 0.3 where a list is
        sampled, and 1 where all its items are in the batch, for then g^ is g.
    margin : float
        c, above 0. At 1 the bound is tightest. Above, the discount flattens: for large c the
        objective nears a constant plus a multiple of the gain-weighted sum of
        ln sum_j max(0, (h_j - h_i) / c + 1)^2, smoother and nearer to a cross-entropy. Scores
        grow with c.
    cutoff : float, optional
        Take the ideal DCG down to this rank, or share of each list, as `KSong` does; else of the
        whole list.
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
        self.remembers = pairs is not None
        if pairs is not None:
            self.state = PairState(pairs)
            ideal = torch.from_numpy(pairs.ideal_dcg(cutoff))
            self.register_buffer("ideal", ideal.float(), persistent=False)
        self.objective = torch.tensor(torch.nan)

    @eager
    def forward(
        self, scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, queries: Tensor, items: Tensor
    ) -> Tensor:
        """Update the state and return the objective's estimate, with its gradient estimate.

        Parameters
        ----------
        scores, labels : Tensor (B, n)
            Labels above 0 are relevant; gains are 2^label - 1.
        mask : bool Tensor (B, n), optional
            False on padding; by default items below 0 are padding.
        queries : int64 Tensor (B,)
            Ids as in the pairs.
        items : int64 Tensor (B, n)
            Ids as in the pairs; -1 on padding.

        Returns
        -------
        Tensor ()
            0, with gradient 0, where no query has a relevant item. `objective` keeps it detached.

        Raises
        ------
        InputError
            For unknown ids, and shapes that do not match.
        """
        if self.sums_pairs(scores):
            real = real_items(scores, labels, mask, queries, items)
            asked = {"module": self, "queries": queries, "items": items}
            value = by_triton(scores, labels, real, "mean", "songs.fused_memory.bound", asked)
            self.objective = self.state.told(value.detach())
            return value
        with torch.no_grad():
            batch = sample_of(self.state, scores, labels, mask, queries, items)
            lists = self._sums(batch, batch.scores)
            estimate = self._estimate(batch, self._inner(batch, lists))
            ideal = self._recalled("ideal", batch)
            total, gradient = self._bound(batch, lists, estimate, ideal)
            self.objective = self.state.sound(total)
        return with_gradient(scores, self.objective, gradient)

    def of_lists(self, scores: Tensor, lists: PaddedLists) -> Tensor:
        """Return the objective of whole lists, with its gradient; nothing is read or kept.

        Parameters
        ----------
        scores : Tensor (B, n)
            To which the gradient goes.
        lists : PaddedLists
            The same, of type float64, with labels.
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
        """Compute the objective's estimate and its gradient (B, n), given u (B, n) and Z (B, 1)."""
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
            # Each item's own weight moves with lambda; beside item i the items weigh as in g^_i.
            itself = pull * (1.0 / batch.lengths - batch.others)
            moved = batch.others * pull.sum(1, keepdim=True) + itself
            gradient = gradient + pull - moved * selection.threshold_slope
        return (value * selection.psi).sum(), gradient

    def _cutoffs(self, batch: Sample) -> Tensor | None:
        """Give each list's K, (B, 1), as `RelevantPairs.cutoffs` does."""
        if self.cutoff is None:
            return None
        ranks = torch.full_like(batch.lengths, self.cutoff)
        return torch.ceil(ranks * batch.lengths) if self.cutoff < 1 else ranks

    def _recalled(self, name: str, batch: Sample) -> Tensor:
        """Read what is kept of each list, float64 (B, 1); NaN where nothing is."""
        if not self.remembers:
            return torch.full_like(batch.lengths, torch.nan)
        kept: Tensor = getattr(self, name)[batch.positions]
        return kept.double().unsqueeze(1)

    def _remember(self, name: str, batch: Sample, values: Tensor) -> None:
        """Keep numbers (B, 1) of the lists, in training."""
        if self.training and self.remembers:
            kept = getattr(self, name)
            kept[batch.positions] = values.squeeze(1).to(kept.dtype)

    def options(self) -> dict[str, Any]:
        """Return what the kernels for whole lists take, see `lmtune.losses.fused_song.bound`."""
        return {"margin": self.margin, "cutoff": self.cutoff}

    def remembered(self) -> list[Tensor]:
        """Return what is kept of each query, (queries,) each, to be written to as well."""
        return []

    def moves(self) -> dict[str, Any]:
        """Return how a kernel moves what is kept of each query."""
        return {}

    def sums_pairs(self, scores: Tensor) -> bool:
        """Tell whether kernels go through all pairs of lists (B, n), where a sort would be slower."""
        return bool(scores.numel()) and is_fused(scores) and scores.shape[1] <= _LONGEST_UNSORTED

    def _sums(self, batch: Sample, scores: Tensor) -> _SortedLists:
        return _SortedLists.sort(scores, batch.mask, self.margin, batch.others)

    def _inner(self, batch: Sample, lists: _SortedLists) -> Tensor:
        """Compute g^_i, in which item i counts once whatever its weight among the others."""
        itself = self.margin**2 / batch.lengths
        whole = lists.inner() + itself - self.margin**2 * batch.others
        # Never below its own hinge, not even where scores cancel to the last bit.
        return torch.maximum(whole, itself)

    def _estimate(self, batch: Sample, current: Tensor) -> Tensor:
        """Move u and return it as (B, n), with g^ where there is no state."""
        assert batch.slots is not None
        gamma = batch.gamma(self.gamma)
        return self.state.move(batch.slots, current, lambda old: old + gamma * (current - old))

    def _select(self, batch: Sample, ranks: Tensor) -> Selection | None:
        """Weigh the items, whose estimated bounds of ranks N u (B, n) are given; None weighs all alike."""
        del batch, ranks
        return None


# One sample with scores far apart may raise u by e^100, which a moving average takes hundreds of
# visits to forget, without gradient meanwhile: u stays within a factor of 100 above g^.
_MOST_ABOVE = math.log(100.0)


class ListwiseCrossEntropy(nn.Module):
    r"""Gradient estimates of the listwise cross-entropy from samples of lists.

    The objective is the mean over queries with relevant items of

    .. math:: \sum_{i \text{ relevant}} \frac{y_i}{\sum_k y_k}
              \ln \sum_{j \in S_q} e^{h_q(x_j) - h_q(x_i)},

    a composition of the logarithm and :math:`g_{q,i} = \frac{1}{N_q} \sum_j e^{h_j - h_i}`, of
    which a running estimate u is kept for each pair, as its logarithm: no score is too large, and
    none is remembered for long, for u is held to at most 100 g^. The
    gradient is the mean of grad g^ / u; with gamma = 1 and whole lists it is that of the
    cross-entropy itself. Each list is treated by itself. Call it as `Song` is called.

    Parameters
    ----------
    pairs : RelevantPairs
        The training data's.
    gamma : float, optional
        Weight of the new value in u, in (0, 1]; by default 0.3 for sampled lists, 1 for whole ones.
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
        """Update the state and return the objective's estimate; see `Song.forward`."""
        with torch.no_grad():
            batch = sample_of(self.state, scores, labels, mask, queries, items)
            # ln of the weights: item i counts once in its own sum, the others for their strata.
            shares = batch.others.clamp(min=0.0).log()
            logits = torch.where(batch.mask, batch.scores + shares, -torch.inf)
            total = _sum_beside(batch.scores, logits, batch.lengths, batch.relevant)
            current = total - batch.scores
            estimate = self._estimate(batch, current)
            sums = self.label_sums[batch.positions].double().unsqueeze(1)
            weight = torch.where(batch.relevant, batch.labels, 0.0) * batch.pairs / batch.queries
            weight = weight / torch.where(sums > 0, sums, 1.0)
            value = self.state.sound((weight * (estimate + torch.log(batch.lengths))).sum())
            outer = torch.where(batch.relevant, weight * torch.exp(current - estimate), 0.0)
            gradient = _gradient(batch.scores, logits, total, outer, batch.lengths, batch.relevant)
            self.objective = value
        return with_gradient(scores, value, gradient)

    def _estimate(self, batch: Sample, current: Tensor) -> Tensor:
        assert batch.slots is not None
        gamma = batch.gamma(self.gamma)

        def moved(old: Tensor) -> Tensor:
            # Neither term can overflow, and a gamma of 1 leaves the second at -inf: no weight at all.
            mean = torch.logaddexp(current + torch.log(gamma), old + torch.log1p(-gamma))
            return torch.minimum(mean, current + _MOST_ABOVE)

        return self.state.move(batch.slots, current, moved)


def _sum_beside(scores: Tensor, logits: Tensor, lengths: Tensor, relevant: Tensor) -> Tensor:
    """Compute ln of (e^s_i / N + sum over j other than i of w_j e^s_j), for relevant i."""
    rest = _sum_of_others(logits)
    return torch.where(relevant, torch.logaddexp(scores - torch.log(lengths), rest), 0.0)


def _sum_of_others(logits: Tensor) -> Tensor:
    """Compute ln of the sum over j other than i of e^logit_j, for each i of a list."""
    most = logits.amax(1, keepdim=True)
    most = torch.where(torch.isfinite(most), most, 0.0)
    # Without cancellation where i dominates: sums over the items before and after it.
    parts = torch.exp(logits - most)
    before = torch.nn.functional.pad(parts.cumsum(1), (1, 0))[:, :-1]
    after = torch.nn.functional.pad(parts.flip(1).cumsum(1).flip(1), (0, 1))[:, 1:]
    return torch.log(before + after) + most


def _gradient(
    scores: Tensor, logits: Tensor, total: Tensor, outer: Tensor, lengths: Tensor, relevant: Tensor
) -> Tensor:
    """Compute the gradient of sum_i outer_i (total_i - s_i), outer held fixed."""
    # Item j's share of total_i is w_j e^s_j / e^total_i: one factor each, up to i's own share.
    scaled = torch.where(relevant & (outer > 0), torch.log(outer) - total, -torch.inf)
    from_others = torch.exp(_sum_of_others(scaled) + logits)
    itself = torch.where(relevant, torch.exp(scores - torch.log(lengths) - total), 0.0)
    return torch.where(torch.isfinite(logits), from_others, 0.0) + outer * (itself - 1.0)


def reinitialise_last_layer(network: nn.Module, *, seed: int, layer: nn.Module | None = None) -> nn.Module:
    """Draw the weights of a network's last layer anew, as between warm-up and SONG.

    Parameters
    ----------
    network : torch.nn.Module
        Its last module that has parameters and ``reset_parameters`` is taken, in the order of
        registration.
    seed : int
        The global random state is left as it was.
    layer : torch.nn.Module, optional
        The layer itself, where the order of registration misleads.

    Returns
    -------
    torch.nn.Module
        The layer.

    Raises
    ------
    InputError
        Where no such layer is found.
    """
    if layer is None:
        for module in network.modules():
            if hasattr(module, "reset_parameters") and any(True for _ in module.parameters(False)):
                layer = module
    reset = getattr(layer, "reset_parameters", None)
    if layer is None or reset is None:
        raise InputError("no layer with weights to draw anew", value=type(network).__name__)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        device = next(layer.parameters()).device
        layer.cpu()
        reset()
        layer.to(device)
    return layer
