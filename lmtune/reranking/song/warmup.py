"""The warm-up before SONG: listwise cross-entropy with running estimates, and a fresh last layer.

Source: Qiu et al. 2022, section 6 and appendix B.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.reranking.losses.evaluation import Share, checked, eager, with_gradient
from lmtune.reranking.song.pairs import RelevantPairs
from lmtune.reranking.song.state import PairState, Sample, sample_of

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

    estimator = "moving-average"
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
        old = self.state.kept[batch.slots].double()
        if not self.training:
            return torch.where(torch.isnan(old), current, old)
        gamma = batch.gamma(self.gamma)
        # Neither term can overflow, and a gamma of 1 leaves the second at -inf: no weight at all.
        moved = torch.logaddexp(current + torch.log(gamma), old + torch.log1p(-gamma))
        moved = torch.minimum(moved, current + _MOST_ABOVE)
        new = torch.where(torch.isnan(old), current, moved)
        self.state.write(batch.slots, new)
        return new


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
