"""SONG and K-SONG: stochastic minimisation of NDCG surrogates over lists of any length.

Source: Qiu, Hu, Zhong, Zhang and Yang, Large-scale Stochastic Optimization of NDCG Surrogates for
Deep Learning with Provable Convergence, ICML 2022, algorithms 1 and 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.reranking.song.estimators import ESTIMATORS
from lmtune.reranking.song.gradients import with_gradient
from lmtune.reranking.song.hinge import SortedLists
from lmtune.reranking.song.pairs import RelevantPairs
from lmtune.reranking.song.samples import Sample, sample_of
from lmtune.reranking.song.state import PairState, exchange
from lmtune.reranking.song.thresholds import solve_threshold


@dataclass(frozen=True)
class Selection:
    """Weights psi (B, n) of the items, and psi' with the gradient of lambda (B, n) or None."""

    psi: Tensor
    slope: Tensor | None
    threshold_gradient: Tensor | None


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
    and others among its others, in any numbers; the estimates are weighted to stay unbiased. Time
    and memory are O(n log n) and O(n) a list of n sampled items, whatever the whole list's length.
    In evaluation mode (``.eval()``) the state is read, not changed.

    Parameters
    ----------
    pairs : RelevantPairs
        The training data's.
    gamma : float
        Weight of the new value in u, in (0, 1]; 1 forgets the past.
    margin : float
        c, at least 0.
    estimator : {"moving-average", "storm", "msvr", "msvr-sp"}
        How u follows g. "storm" and "msvr" need `previous_scores` at each call, "msvr-sp" needs
        `score_changes`; `PreviousIterate` makes both.
    """

    objective: Tensor
    ideal: Tensor

    def __init__(
        self,
        pairs: RelevantPairs,
        *,
        gamma: float = 0.3,
        margin: float = 1.0,
        estimator: str = "moving-average",
        cutoff: int | None = None,
    ) -> None:
        super().__init__()
        if not 0.0 < gamma <= 1.0:
            raise InputError("gamma out of range", value=gamma, accepted="(0, 1]")
        if not (margin >= 0.0 and math.isfinite(margin)):
            raise InputError("margin out of range", value=margin, accepted="0 and above")
        if estimator not in ESTIMATORS:
            raise InputError("unknown estimator", value=estimator, accepted=", ".join(ESTIMATORS))
        self.gamma, self.margin, self.estimator = gamma, margin, estimator
        self.state = PairState(pairs)
        ideal = torch.from_numpy(pairs.ideal_dcg(cutoff))
        self.register_buffer("ideal", ideal.float(), persistent=False)
        self.active = max(int((pairs.counts > 0).sum()), 1)
        self.objective = torch.tensor(torch.nan)

    def forward(
        self,
        scores: Tensor,
        labels: Tensor,
        *,
        mask: Tensor | None = None,
        queries: Tensor,
        items: Tensor,
        previous_scores: Tensor | None = None,
        score_changes: Tensor | None = None,
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
        previous_scores : Tensor (B, n), optional
            Scores of the same items at the weights before the last step.
        score_changes : Tensor (B, n), optional
            Derivatives of the scores along the last step of the weights, taken at the present
            weights: one point, no second evaluation of the loss.

        Returns
        -------
        Tensor ()
            0, with gradient 0, where no query has a relevant item. `objective` keeps it detached.

        Raises
        ------
        InputError
            For unknown ids, shapes that do not match, and missing previous scores.
        """
        with torch.no_grad():
            batch = sample_of(self.state, scores, labels, mask, queries, items)
            lists = SortedLists.sort(batch.scores, batch.mask, self.margin)
            itself = self.margin**2 / batch.lengths
            current = self._inner(batch, lists)
            change = self._change(batch, lists, current, previous_scores, score_changes)
            estimate = self._estimate(batch, current, change, itself)
            ideal = self.ideal[batch.positions].double().unsqueeze(1)
            gain = torch.where(batch.relevant, torch.exp2(batch.labels) - 1.0, 0.0)
            gain = gain / torch.where(ideal > 0, ideal, 1.0) * batch.pairs / batch.queries
            ranks = batch.lengths * estimate + 1.0
            logs = torch.log2(ranks).clamp(min=1e-12)
            value = -gain / logs
            outer = gain * batch.lengths / (logs.square() * ranks * math.log(2.0))
            selection = self._select(batch)
            if selection is None:
                gradient = lists.gradient(batch.others, outer)
            else:
                gradient = lists.gradient(batch.others, outer * selection.psi)
                if selection.slope is not None:
                    assert selection.threshold_gradient is not None
                    pull = selection.slope * value
                    gradient = gradient + pull
                    gradient -= pull.sum(1, keepdim=True) * selection.threshold_gradient
                value = value * selection.psi
            total = value.sum()
            self.objective = total
        return with_gradient(scores, total, gradient)

    def exchange(self, group: Any = None) -> None:
        """Share the last step's state with the other processes of data-parallel training.

        Call it after each step when processes see different queries.
        """
        exchange([self.state.estimate], self.state.written, group)

    def _inner(self, batch: Sample, lists: SortedLists) -> Tensor:
        """Compute g^_i, in which item i counts once whatever its weight among the others."""
        once = self.margin**2 * (1.0 / batch.lengths - batch.others)
        return lists.inner(batch.others) + once

    def _change(
        self,
        batch: Sample,
        lists: SortedLists,
        current: Tensor,
        previous_scores: Tensor | None,
        score_changes: Tensor | None,
    ) -> Tensor | None:
        needs = ESTIMATORS[self.estimator][1]
        if needs == "previous":
            if previous_scores is None:
                raise InputError(f"the estimator '{self.estimator}' needs previous_scores")
            before = torch.where(batch.mask, previous_scores.detach().double(), 0.0)
            return current - self._inner(batch, SortedLists.sort(before, batch.mask, self.margin))
        if needs == "direction":
            if score_changes is None:
                raise InputError(f"the estimator '{self.estimator}' needs score_changes")
            step = torch.where(batch.mask, score_changes.detach().double(), 0.0)
            return lists.derivative(batch.others, step)
        return None

    def _estimate(
        self, batch: Sample, current: Tensor, change: Tensor | None, itself: Tensor
    ) -> Tensor:
        """Move u and return it as (B, n), with g^ where there is no state."""
        rule = ESTIMATORS[self.estimator][0]
        chosen = batch.relevant
        fresh = current[chosen]
        old = self.state.estimate[batch.slots].double()
        share = min(float(batch.queries) / self.active, 1.0) if change is not None else 1.0
        moved = rule(old, fresh, None if change is None else change[chosen], self.gamma, share)
        if change is not None:
            # These can overshoot; no g is below an item's own hinge, so neither is its estimate.
            moved = torch.maximum(moved, itself.expand_as(chosen)[chosen])
        new = torch.where(torch.isnan(old), fresh, moved)
        if self.training:
            self.state.write(batch.slots, new)
        else:
            new = torch.where(torch.isnan(old), fresh, old)
        return current.masked_scatter(chosen, new)

    def _select(self, batch: Sample) -> Selection | None:
        """Weigh the items; None weighs all alike."""
        del batch
        return None


class KSong(Song):
    r"""SONG for NDCG at a cutoff K: relevant items are weighted by how far they are in the top K.

    The weight is :math:`\psi(h_q(x_i) - \lambda_q)` with
    :math:`\psi(x) = 1 / (1 + e^{-\text{scale}\, x})` and :math:`\lambda_q` the minimiser of

    .. math:: L_q(\lambda) = \frac{K + \epsilon}{N_q} \lambda + \frac{\tau_2}{2} \lambda^2 +
              \frac{1}{N_q} \sum_i \tau_1 \ln(1 + e^{(h_q(x_i) - \lambda) / \tau_1}),

    which is about the (K + 1)-th largest score. It is tracked for each query: found exactly on the
    query's first sample, then moved by a gradient step of size eta a visit, or found anew at each
    visit. Lists of K items or fewer are weighted 1.

    Parameters
    ----------
    pairs, gamma, margin, estimator
        As for `Song`.
    cutoff : int
        K.
    theoretical : bool
        Differentiate the weights too, through :math:`\lambda_q` by the implicit function theorem;
        the practical form holds them fixed.
    scale : float
        Of psi, above 0.
    eta : float
        Step of lambda, at least 0, or ``"solve"`` to minimise L_q on each sample.
    gamma_curvature : float
        Weight of the new value in s_q, the running estimate of L_q'', in (0, 1].
    tau1, tau2 : float
        Smoothing and convexity of L_q, above 0.
    epsilon : float
        In [0, 1); 0.5 puts lambda at the (K + 1)-th score itself.
    """

    threshold: Tensor
    curvature: Tensor

    def __init__(
        self,
        pairs: RelevantPairs,
        *,
        cutoff: int = 10,
        theoretical: bool = False,
        gamma: float = 0.3,
        margin: float = 1.0,
        estimator: str = "moving-average",
        scale: float = 2.0,
        eta: float | str = 0.01,
        gamma_curvature: float = 0.9,
        tau1: float = 0.01,
        tau2: float = 1e-4,
        epsilon: float = 0.5,
    ) -> None:
        if cutoff < 1:
            raise InputError("cutoff out of range", value=cutoff, accepted="1 and above")
        super().__init__(pairs, gamma=gamma, margin=margin, estimator=estimator, cutoff=cutoff)
        positive = {"scale": scale, "tau1": tau1, "tau2": tau2}
        for name, value in positive.items():
            if not value > 0.0:
                raise InputError(f"{name} out of range", value=value, accepted="above 0")
        if not 0.0 < gamma_curvature <= 1.0:
            raise InputError("gamma_curvature out of range", value=gamma_curvature)
        if not 0.0 <= epsilon < 1.0:
            raise InputError("epsilon out of range", value=epsilon, accepted="[0, 1)")
        if (eta != "solve") if isinstance(eta, str) else not eta >= 0.0:
            raise InputError("eta out of range", value=eta, accepted="0 and above, or 'solve'")
        self.cutoff, self.theoretical, self.scale, self.eta = cutoff, theoretical, scale, eta
        self.gamma_curvature, self.tau1, self.tau2 = gamma_curvature, tau1, tau2
        self.epsilon = epsilon
        queries = len(pairs.queries)
        self.register_buffer("threshold", torch.full((queries,), torch.nan))
        if theoretical:
            self.register_buffer("curvature", torch.full((queries,), torch.nan))
        self._visited = torch.empty(0, dtype=torch.long)

    def exchange(self, group: Any = None) -> None:
        """Share the last step's state with the other processes of data-parallel training."""
        super().exchange(group)
        shared = [self.threshold, self.curvature] if self.theoretical else [self.threshold]
        exchange(shared, self._visited, group)

    def _select(self, batch: Sample) -> Selection:
        target = (self.cutoff + self.epsilon) / batch.lengths
        kept = self.threshold[batch.positions].double().unsqueeze(1)
        solve = isinstance(self.eta, str)
        threshold = kept
        if solve or bool(torch.isnan(kept).any()):
            exact = solve_threshold(
                batch.scores, batch.level, target, tau1=self.tau1, tau2=self.tau2
            )
            threshold = exact if solve else torch.where(torch.isnan(kept), exact, kept)
        sigma = torch.sigmoid((batch.scores - threshold) / self.tau1)
        whole = batch.lengths <= self.cutoff
        psi = torch.sigmoid(self.scale * (batch.scores - threshold))
        slope = threshold_gradient = None
        if self.theoretical:
            bend = batch.level * sigma * (1.0 - sigma) / self.tau1
            now = self.tau2 + bend.sum(1, keepdim=True)
            before = self.curvature[batch.positions].double().unsqueeze(1)
            new = before + self.gamma_curvature * (now - before)
            curvature = torch.where(torch.isnan(before), now, new)
            if self.training:
                self.curvature[batch.positions] = curvature.squeeze(1).to(self.curvature.dtype)
            threshold_gradient = bend / curvature
            slope = torch.where(whole, 0.0, self.scale * psi * (1.0 - psi))
        if self.training:
            moved = threshold
            if not isinstance(self.eta, str):
                tilt = target + self.tau2 * threshold
                tilt = tilt - (batch.level * sigma).sum(1, keepdim=True)
                moved = threshold - self.eta * tilt
            self.threshold[batch.positions] = moved.squeeze(1).to(self.threshold.dtype)
            self._visited = batch.positions
        return Selection(torch.where(whole, 1.0, psi), slope, threshold_gradient)
