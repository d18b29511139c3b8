"""K-SONG: SONG for NDCG at a cutoff, with the cutoff as a lower-level problem.

Source: Qiu et al., ICML 2022 (see `songs`), section 5 and algorithm 2.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.losses import evaluation
from lmtune.losses.evaluation import Bounds, Positive, Share, checked, is_fused
from lmtune.losses.songs.pairs import RankOrShare, RelevantPairs, Sample
from lmtune.losses.songs.songs import MARGIN, Selection, Song

# As many as halving alone may take; five to ten are the rule.
_MOST_STEPS = 80
_NEAR, _ROUNDING = 1e-14, 1e-15


class Slope(NamedTuple):
    """L'(t) = target + tau2 t - sum_j weight_j sigmoid((s_j - t) / tau1), which increases in t.

    Attributes
    ----------
    scores, weights : float64 Tensor (B, n)
        Weights are 0 on padding and sum to 1 over a list.
    target : float64 Tensor (B, 1)
        (K + eps) / N.
    tau1, tau2 : float
    """

    scores: Tensor
    weights: Tensor
    target: Tensor
    tau1: float
    tau2: float

    def rows(self, chosen: Tensor) -> Slope:
        """Take some of the lists."""
        scores, weights, target, tau1, tau2 = self
        return Slope(scores[chosen], weights[chosen], target[chosen], tau1, tau2)

    def bracket(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return bounds of each root and where it may lie, (B, 1) each."""
        scores, weights, target, tau1, tau2 = self
        present = weights > 0
        least = torch.where(present, scores, torch.inf).amin(1, keepdim=True)
        most = torch.where(present, scores, -torch.inf).amax(1, keepdim=True)
        empty = ~present.any(1, keepdim=True)
        least, most = torch.where(empty, 0.0, least), torch.where(empty, 0.0, most)
        # Beyond these the smooth step is over, and only the quadratic term is left.
        low = torch.minimum(least - 40.0 * tau1, (-target / tau2).clamp(max=0.0))
        high = torch.maximum(most + 40.0 * tau1, ((1.0 - target) / tau2).clamp(min=0.0))
        # The root is near the score down to which the items weigh `target`.
        falling, order = torch.where(present, scores, -torch.inf).sort(dim=1, descending=True)
        position = (weights.gather(1, order).cumsum(1) < target).sum(1, keepdim=True)
        near = falling.gather(1, position.clamp(max=scores.shape[1] - 1))
        return low, high, torch.minimum(torch.maximum(near, least), most)


def solve_thresholds(kept: Tensor, unknown: Tensor, slope: Slope) -> Tensor:
    """Find where L' is 0 for the lists whose threshold is unknown; nothing waits for a device.

    Newton's steps find the root to 14 digits, halving the interval that holds it wherever they leave
    it or shrink too slowly.

    Parameters
    ----------
    kept : float64 Tensor (B, 1)
        The thresholds that are known.
    unknown : bool Tensor (B, 1)
    slope : Slope

    Returns
    -------
    float64 Tensor (B, 1)
    """
    if is_fused(slope.scores):
        from lmtune.losses.songs.fused_memory import roots

        scores, weights, target, tau1, tau2 = slope
        return torch.where(unknown, roots(scores, weights, target, tau1=tau1, tau2=tau2), kept)
    if not evaluation.on_cpu(kept):
        return torch.where(unknown, _solve(slope), kept)
    rows = unknown.squeeze(1)
    if bool(rows.any()):
        kept[rows] = _solve(slope.rows(rows))
    return kept


def _solve(slope: Slope) -> Tensor:
    scores, weights, target, tau1, tau2 = slope
    low, high, at = slope.bracket()
    step = high - low
    for _ in range(_MOST_STEPS):
        sigma = torch.sigmoid((scores - at) / tau1)
        part = weights * sigma
        tilt = target + tau2 * at - part.sum(1, keepdim=True)
        bend = tau2 + (part * (1.0 - sigma)).sum(1, keepdim=True) / tau1
        above = tilt > 0
        high, low = torch.where(above, at, high), torch.where(above, low, at)
        newton, half = -tilt / bend, 0.5 * (low + high) - at
        steady = (at + newton >= low) & (at + newton <= high) & (newton.abs() <= 0.5 * step.abs())
        step = torch.where(steady, newton, half)
        near = (tilt.abs() <= _ROUNDING) | (step.abs() <= _NEAR * (tau1 + at.abs()))
        at = at + torch.where(tilt.abs() <= _ROUNDING, 0.0, step)
        if evaluation.on_cpu(near) and bool(near.all()):
            break
    return at


def _read_eta(text: str) -> float | Literal["solve"]:
    """Read K-SONG's step, a number or a word."""
    if text == "solve":
        return "solve"
    try:
        return float(text)
    except ValueError:
        raise InputError("bad eta", value=text, accepted="0 or more, or 'solve'") from None


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
    pairs, gamma, margin
        As for `Song`.
    cutoff : float
        K: a rank, or below 1 a share of each list's length, rounded up. A small one learns from few
        items of each list, and may measure worse at its own cutoff than a larger one.
    inside : {"threshold", "rank"}
        What says whether an item is in the top K: its score against :math:`\lambda_q`, or as in former
        bounds of NDCG@K, without a lower level, the bound of its rank against K, both as shares of the
        list: :math:`\psi(K / N_q - g_{q,i})`.
    theoretical : bool
        Differentiate the weights too, through :math:`\lambda_q` by the implicit function theorem,
        as the paper's results do; the practical form, False, holds them fixed.
    scale : float, optional
        Of psi, above 0; by default 2 / max(c, 1), and for ranks, whose bound has the margin squared,
        2 / max(c, 1)^2. With much more, such as 2 N_q, ranks far below K have no gradient.
    eta : float or "solve", optional
        Step of lambda, at least 0, or ``"solve"`` to minimise L_q on each sample. By default
        lists that are whole in the batch are solved for, others make steps of 0.01 max(c, 1).
    gamma_curvature : float
        Weight of the new value in s_q, the running estimate of L_q'', in (0, 1].
    tau1 : float, optional
        Smoothing of L_q, above 0; by default 0.1 max(c, 1). The gradient of lambda is an average
        over the items within a few tau1 of it: where that is one item, the theoretical form
        learns worse.
    tau2 : float
        Convexity of L_q, above 0.

    Attributes
    ----------
    epsilon : float
        In [0, 1); 0.5 puts lambda at the (K + 1)-th score itself, LibAUC has 0.
    """

    epsilon = 0.5
    threshold: Tensor
    curvature: Tensor

    @checked
    def __init__(
        self,
        pairs: RelevantPairs | None,
        *,
        cutoff: RankOrShare = 50,
        inside: Literal["threshold", "rank"] = "threshold",
        theoretical: bool = True,
        gamma: Share | None = None,
        margin: Positive = MARGIN,
        scale: Positive | None = None,
        eta: Annotated[float | Literal["solve"] | None, Bounds(low=0, read=_read_eta)] = None,
        gamma_curvature: Share = 0.9,
        tau1: Positive | None = None,
        tau2: Positive = 1e-4,
    ) -> None:
        # Scores spread with the margin, and so do what they are compared with and steps among them.
        if scale is None:
            scale = 2.0 / max(margin, 1.0) ** (2 if inside == "rank" else 1)
        if tau1 is None:
            tau1 = 0.1 * max(margin, 1.0)
        super().__init__(pairs, gamma=gamma, margin=margin, cutoff=cutoff)
        if isinstance(eta, str):
            _read_eta(eta)
        self.inside, self.theoretical, self.scale, self.eta = inside, theoretical, scale, eta
        self.gamma_curvature, self.tau1, self.tau2 = gamma_curvature, tau1, tau2
        if pairs is not None:
            queries = len(pairs.queries)
            self.register_buffer("threshold", torch.full((queries,), torch.nan))
            if theoretical:
                self.register_buffer("curvature", torch.full((queries,), torch.nan))

    def options(self) -> dict[str, Any]:
        """Return what the kernels for whole lists take."""
        names = "scale", "epsilon", "tau1", "tau2", "theoretical"
        return super().options() | {name: getattr(self, name) for name in names}

    def sums_pairs(self, scores: Tensor) -> bool:
        """Tell whether kernels compute it; they have no weights by rank."""
        return self.inside == "threshold" and super().sums_pairs(scores)

    def moves(self) -> dict[str, Any]:
        """Return when `fused_song.threshold_kernel` looks for thresholds anew, and how far it steps."""
        step = 0.01 * max(self.margin, 1.0) if self.eta is None else self.eta
        anew = "unknown" if self.eta is not None else "whole"
        if isinstance(step, str):
            anew, step = "all", 0.0
        return {"anew": anew, "step": step, "gamma": self.gamma_curvature if self.theoretical else 0.0}

    def remembered(self) -> list[Tensor]:
        """Return what is kept of each query, (queries,) each, to be written to as well."""
        return [self.threshold, self.curvature] if self.theoretical else [self.threshold]

    def _select(self, batch: Sample, ranks: Tensor) -> Selection:
        cutoff = self._cutoffs(batch)
        assert cutoff is not None
        all_top = batch.lengths <= cutoff
        if self.inside == "rank":
            psi = torch.sigmoid(self.scale * (cutoff - ranks) / batch.lengths)
            fall = torch.where(all_top, 0.0, -self.scale * psi * (1.0 - psi))
            return Selection(torch.where(all_top, 1.0, psi), inner_slope=fall if self.theoretical else None)
        target = (cutoff + self.epsilon) / batch.lengths
        kept = self._recalled("threshold", batch)
        unknown = torch.isnan(kept)
        if self.eta is None:
            unknown |= batch.whole
        elif isinstance(self.eta, str):
            unknown = torch.ones_like(unknown)
        slope_of = Slope(batch.scores, batch.level, target, self.tau1, self.tau2)
        threshold = solve_thresholds(kept, unknown, slope_of)
        sigma = torch.sigmoid((batch.scores - threshold) / self.tau1)
        psi = torch.sigmoid(self.scale * (batch.scores - threshold))
        slope = threshold_slope = None
        if self.theoretical:
            bend = sigma * (1.0 - sigma) / self.tau1
            now = self.tau2 + (batch.level * bend).sum(1, keepdim=True)
            before = self._recalled("curvature", batch)
            new = before + self.gamma_curvature * (now - before)
            curvature = torch.where(torch.isnan(before), now, new)
            self._remember("curvature", batch, curvature)
            threshold_slope = bend / curvature
            slope = torch.where(all_top, 0.0, self.scale * psi * (1.0 - psi))
        if self.training and self.remembers:
            moved = threshold
            if not isinstance(self.eta, str):
                tilt = target + self.tau2 * threshold
                tilt = tilt - (batch.level * sigma).sum(1, keepdim=True)
                if self.eta is None:
                    step = 0.01 * max(self.margin, 1.0) * (~batch.whole).double()
                else:
                    step = torch.full_like(tilt, self.eta)
                moved = threshold - step * tilt
            self._remember("threshold", batch, moved)
        return Selection(torch.where(all_top, 1.0, psi), slope, threshold_slope)
