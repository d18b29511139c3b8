"""The objectives of SONG and K-SONG, written as the paper has them, for autograd."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def ideal_dcg(labels: Tensor, cutoff: int | None = None) -> float:
    gains = sorted((2.0 ** float(y) - 1.0 for y in labels), reverse=True)[:cutoff]
    return float(sum(gain / np.log2(rank + 1) for rank, gain in enumerate(gains, 1)))


def inner(scores: Tensor, margin: float) -> Tensor:
    """g_i of one whole list (n,)."""
    return torch.clamp(scores[None, :] - scores[:, None] + margin, min=0).square().mean(1)


def song(lists: Sequence[tuple[Tensor, Tensor]], margin: float = 1.0) -> Tensor:
    """Mean over queries with relevant items of sum_i f(g_i); lists of (scores, labels)."""
    terms = []
    for scores, labels in lists:
        if (labels > 0).any():
            ranks = len(scores) * inner(scores, margin) + 1
            f = (1 - 2.0**labels) / torch.log2(ranks) / ideal_dcg(labels)
            terms.append(f[labels > 0].sum())
    return torch.stack(terms).mean()


def lower_slope(
    scores: npt.NDArray[np.float64], t: float, cutoff: int, epsilon: float, tau1: float, tau2: float
) -> float:
    from scipy.special import expit

    return float((cutoff + epsilon) / len(scores) + tau2 * t - expit((scores - t) / tau1).mean())


def threshold(
    scores: npt.NDArray[np.float64], cutoff: int, epsilon: float, tau1: float, tau2: float
) -> float:
    """lambda_q, by scipy."""
    from scipy.optimize import brentq

    arguments = (cutoff, epsilon, tau1, tau2)
    return float(brentq(lambda t: lower_slope(scores, t, *arguments), -1e5, 1e5, xtol=1e-15, rtol=1e-15))


def k_song(
    lists: Sequence[tuple[Tensor, Tensor]],
    cutoff: int,
    *,
    scale: float,
    epsilon: float,
    tau1: float,
    tau2: float,
    margin: float = 1.0,
) -> float:
    """The bilevel objective, lambda_q solved for at the given scores."""
    terms = []
    for scores, labels in lists:
        if not (labels > 0).any():
            continue
        at = threshold(scores.numpy(), cutoff, epsilon, tau1, tau2)
        psi = 1 / (1 + torch.exp(-scale * (scores - at)))
        ranks = len(scores) * inner(scores, margin) + 1
        f = (1 - 2.0**labels) / torch.log2(ranks) / ideal_dcg(labels, cutoff)
        terms.append(float((psi * f)[labels > 0].sum()))
    return float(np.mean(terms))
