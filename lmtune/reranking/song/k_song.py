"""K-SONG: SONG for NDCG at a cutoff, with the cutoff as a lower-level problem.

Source: Qiu et al., ICML 2022 (see `songs`), section 5 and algorithm 2.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.reranking.losses.declared import Bounds, Positive, Share, checked
from lmtune.reranking.song.estimators import EstimatorName
from lmtune.reranking.song.pairs import RankOrShare, RelevantPairs
from lmtune.reranking.song.samples import Sample
from lmtune.reranking.song.songs import MARGIN, Selection, Song
from lmtune.reranking.song.thresholds import Slope, solve_thresholds


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
    pairs, gamma, margin, estimator
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
        estimator: EstimatorName = "moving-average",
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
        super().__init__(pairs, gamma=gamma, margin=margin, estimator=estimator, cutoff=cutoff)
        if isinstance(eta, str):
            _read_eta(eta)
        self.inside, self.theoretical, self.scale, self.eta = inside, theoretical, scale, eta
        self.gamma_curvature, self.tau1, self.tau2 = gamma_curvature, tau1, tau2
        if pairs is not None:
            queries = len(pairs.queries)
            self.register_buffer("threshold", torch.full((queries,), torch.nan))
            if theoretical:
                self.register_buffer("curvature", torch.full((queries,), torch.nan))

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
