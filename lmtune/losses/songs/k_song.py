"""K-SONG: SONG for NDCG at a cutoff; finding each list's score threshold is a lower-level problem.

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

# Enough for pure bisection; Newton's method usually needs five to ten.
_MAX_STEPS = 80
# Convergence tolerances: of the step, relative to tau1 + |t|, and of L'.
_STEP_TOLERANCE, _SLOPE_TOLERANCE = 1e-14, 1e-15


class Slope(NamedTuple):
    """The increasing function L'(t) = target + tau2 t - sum_j weight_j sigmoid((s_j - t) / tau1).

    L is the objective :math:`L_q` of `KSong`, and its root t the threshold. B is the number of lists.

    Attributes
    ----------
    scores, weights : float64 Tensor (B, n)
        Weights are 0 on padding and sum to 1 over a list.
    target : float64 Tensor (B, 1)
        (K + eps) / N, with the list's length N.
    tau1, tau2 : float
        As in `KSong`.
    """

    scores: Tensor
    weights: Tensor
    target: Tensor
    tau1: float
    tau2: float

    def rows(self, chosen: Tensor) -> Slope:
        """Return the function of some lists, by a mask or indices."""
        scores, weights, target, tau1, tau2 = self
        return Slope(scores[chosen], weights[chosen], target[chosen], tau1, tau2)

    def bracket(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return lower bounds, upper bounds and first guesses of the roots, each of shape (B, 1)."""
        scores, weights, target, tau1, tau2 = self
        present = weights > 0
        least = torch.where(present, scores, torch.inf).amin(1, keepdim=True)
        most = torch.where(present, scores, -torch.inf).amax(1, keepdim=True)
        empty = ~present.any(1, keepdim=True)
        least, most = torch.where(empty, 0.0, least), torch.where(empty, 0.0, most)
        # Beyond these, the sigmoids are 0 or 1 and only the quadratic term of L changes.
        low = torch.minimum(least - 40.0 * tau1, (-target / tau2).clamp(max=0.0))
        high = torch.maximum(most + 40.0 * tau1, ((1.0 - target) / tau2).clamp(min=0.0))
        # First guess: the score at which the weights, summed from the top, reach `target`.
        falling, order = torch.where(present, scores, -torch.inf).sort(dim=1, descending=True)
        position = (weights.gather(1, order).cumsum(1) < target).sum(1, keepdim=True)
        guess = falling.gather(1, position.clamp(max=scores.shape[1] - 1))
        return low, high, torch.minimum(torch.maximum(guess, least), most)


def solve_thresholds(thresholds: Tensor, unknown: Tensor, slope: Slope) -> Tensor:
    """Solve L'(t) = 0 for the lists with unknown thresholds, without synchronising a device.

    Newton's method, to 14 digits. A step that leaves the bracket, or shrinks too slowly, is replaced by
    bisection.

    Parameters
    ----------
    thresholds : float64 Tensor (B, 1)
        The known thresholds. On the CPU, unknown ones are filled in place.
    unknown : bool Tensor (B, 1)
        Whether to solve for a list's threshold.
    slope : Slope
        L' of all B lists.

    Returns
    -------
    float64 Tensor (B, 1)
    """
    if is_fused(slope.scores):
        from lmtune.losses.songs.fused_memory import roots

        scores, weights, target, tau1, tau2 = slope
        return torch.where(unknown, roots(scores, weights, target, tau1=tau1, tau2=tau2), thresholds)
    if not evaluation.on_cpu(thresholds):
        return torch.where(unknown, _solve(slope), thresholds)
    rows = unknown.squeeze(1)
    if bool(rows.any()):
        thresholds[rows] = _solve(slope.rows(rows))
    return thresholds


def _solve(slope: Slope) -> Tensor:
    """Return the roots of all lists, shape (B, 1), by the method of `solve_thresholds`."""
    scores, weights, target, tau1, tau2 = slope
    low, high, root = slope.bracket()
    step = high - low
    for _ in range(_MAX_STEPS):
        sigma = torch.sigmoid((scores - root) / tau1)
        part = weights * sigma
        value = target + tau2 * root - part.sum(1, keepdim=True)
        derivative = tau2 + (part * (1.0 - sigma)).sum(1, keepdim=True) / tau1
        above = value > 0
        high, low = torch.where(above, root, high), torch.where(above, low, root)
        newton, bisection = -value / derivative, 0.5 * (low + high) - root
        accept = (root + newton >= low) & (root + newton <= high) & (newton.abs() <= 0.5 * step.abs())
        step = torch.where(accept, newton, bisection)
        exact = value.abs() <= _SLOPE_TOLERANCE
        converged = exact | (step.abs() <= _STEP_TOLERANCE * (tau1 + root.abs()))
        root = root + torch.where(exact, 0.0, step)
        if evaluation.on_cpu(converged) and bool(converged.all()):
            break
    return root


def _read_eta(text: str) -> float | Literal["solve"]:
    """Parse K-SONG's option eta, a number or "solve"."""
    if text == "solve":
        return "solve"
    try:
        return float(text)
    except ValueError:
        raise InputError("bad eta", value=text, accepted="0 or more, or 'solve'") from None


class KSong(Song):
    r"""SONG for NDCG at a cutoff K: relevant items are weighted by a smooth indicator of the top K.

    The weight is :math:`\psi(h_q(x_i) - \lambda_q)` with
    :math:`\psi(x) = 1 / (1 + e^{-\text{scale}\, x})` and :math:`\lambda_q` the minimiser of

    .. math:: L_q(\lambda) = \frac{K + \epsilon}{N_q} \lambda + \frac{\tau_2}{2} \lambda^2 +
              \frac{1}{N_q} \sum_i \tau_1 \ln(1 + e^{(h_q(x_i) - \lambda) / \tau_1}),

    which is approximately the (K + 1)-th largest score. The state tracks it for each query: it is solved for
    on the query's first sample, and then updated in each visit by a gradient step of size eta, or solved for
    again. In lists of at most K items, all weights are 1.

    Parameters
    ----------
    pairs, gamma, margin
        As in `Song`.
    cutoff : float
        K: a rank, or below 1 a share of each list's length, rounded up. With a small cutoff, training uses
        few items of each list; a larger one may give better NDCG at the small cutoff.
    inside : {"threshold", "rank"}
        The criterion for the top K. "threshold" compares the item's score with :math:`\lambda_q`. "rank"
        compares the bound of the item's rank with K, both divided by the list's length:
        :math:`\psi(K / N_q - g_{q,i})`. Like earlier bounds of NDCG@K, it needs no lower-level problem.
    theoretical : bool
        If True, differentiate the weights too, through :math:`\lambda_q` by the implicit function theorem,
        as in the paper's results. If False (the paper's practical form), the weights are constant.
    scale : float, optional
        Scale of psi, above 0. With the margin c, the default is 2 / max(c, 1), or 2 / max(c, 1)^2 for
        ``inside="rank"``, where the bound contains the squared margin. With a much larger scale, such as
        2 N_q, items far below rank K have no gradient.
    eta : float or "solve", optional
        Step size of lambda, at least 0, or ``"solve"`` to minimise L_q on each sample. By default, whole
        lists are solved, and sampled lists take steps of 0.01 max(c, 1).
    gamma_curvature : float
        Weight of the new value in s_q, the running estimate of L_q'', in (0, 1].
    tau1 : float, optional
        Smoothing of L_q, above 0; by default 0.1 max(c, 1). The gradient of lambda is an average over the
        items within a few tau1 of lambda. If that is a single item, the theoretical form trains worse.
    tau2 : float
        Strong convexity of L_q, above 0.

    Attributes
    ----------
    epsilon : float
        In [0, 1). 0.5 makes lambda the (K + 1)-th score; LibAUC uses 0.
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
        # Learnt scores scale with the margin, so defaults for score differences and steps do too.
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
        """Return the options of the Triton kernels, see `lmtune.losses.fused_song.bound`."""
        names = "scale", "epsilon", "tau1", "tau2", "theoretical"
        return super().options() | {name: getattr(self, name) for name in names}

    def sums_pairs(self, scores: Tensor) -> bool:
        """Return whether Triton kernels over all pairs are used; they do not support ``inside="rank"``."""
        return self.inside == "threshold" and super().sums_pairs(scores)

    def update_options(self) -> dict[str, Any]:
        """Return the options of `fused_song.threshold_kernel` that update the thresholds.

        `solve` names the lists whose threshold is solved for: "unknown", "whole" (unknown or whole) or "all".
        """
        step = 0.01 * max(self.margin, 1.0) if self.eta is None else self.eta
        solve = "unknown" if self.eta is not None else "whole"
        if isinstance(step, str):
            solve, step = "all", 0.0
        return {"solve": solve, "step": step, "gamma": self.gamma_curvature if self.theoretical else 0.0}

    def query_state(self) -> list[Tensor]:
        """Return the per-query arrays of the state, writable tensors of shape (queries,)."""
        return [self.threshold, self.curvature] if self.theoretical else [self.threshold]

    def _select(self, batch: Sample, ranks: Tensor) -> Selection:
        """Return the items' weights and their derivatives, and update the state."""
        cutoff = self._cutoffs(batch)
        assert cutoff is not None
        all_top = batch.lengths <= cutoff
        if self.inside == "rank":
            psi = torch.sigmoid(self.scale * (cutoff - ranks) / batch.lengths)
            slope = torch.where(all_top, 0.0, -self.scale * psi * (1.0 - psi))
            return Selection(torch.where(all_top, 1.0, psi), inner_slope=slope if self.theoretical else None)
        target = (cutoff + self.epsilon) / batch.lengths
        threshold = self._read_state("threshold", batch)
        unknown = torch.isnan(threshold)
        if self.eta is None:
            unknown |= batch.whole
        elif isinstance(self.eta, str):
            unknown = torch.ones_like(unknown)
        objective_slope = Slope(batch.scores, batch.level, target, self.tau1, self.tau2)
        threshold = solve_thresholds(threshold, unknown, objective_slope)
        sigma = torch.sigmoid((batch.scores - threshold) / self.tau1)
        psi = torch.sigmoid(self.scale * (batch.scores - threshold))
        psi_slope = threshold_slope = None
        if self.theoretical:
            sigma_slope = sigma * (1.0 - sigma) / self.tau1
            current = self.tau2 + (batch.level * sigma_slope).sum(1, keepdim=True)
            old = self._read_state("curvature", batch)
            new = old + self.gamma_curvature * (current - old)
            curvature = torch.where(torch.isnan(old), current, new)
            self._write_state("curvature", batch, curvature)
            threshold_slope = sigma_slope / curvature
            psi_slope = torch.where(all_top, 0.0, self.scale * psi * (1.0 - psi))
        if self.training and self.has_state:
            next_threshold = threshold
            if not isinstance(self.eta, str):
                derivative = target + self.tau2 * threshold
                derivative = derivative - (batch.level * sigma).sum(1, keepdim=True)
                if self.eta is None:
                    step = 0.01 * max(self.margin, 1.0) * (~batch.whole).double()
                else:
                    step = torch.full_like(derivative, self.eta)
                next_threshold = threshold - step * derivative
            self._write_state("threshold", batch, next_threshold)
        return Selection(torch.where(all_top, 1.0, psi), psi_slope, threshold_slope)
