"""Losses of stochastic scores: the mean over scores plus Gumbel noise."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.losses.evaluation import Labels, Reduce, Scores, as_padded, check_lists, eager, wide
from lmtune.options import check, option


@dataclass(frozen=True)
class StochasticOptions:
    """The option of every loss by name that makes it `stochastic`."""

    gumbel: int = option(
        0, "draws of Gumbel noise on the scores; 0 takes them as they are", low=0, high=1_000
    )


def stochastic(loss: Callable[..., Tensor], draws: int) -> Callable[..., Tensor]:
    r"""Make the mean of a loss over draws of scores plus noise, an estimate of its expectation.

    .. math:: \frac{1}{m} \sum_{d=1}^{m} L(s + z_d, y), \qquad z = -\ln(-\ln u), \quad u \sim U(0, 1)

    of each item and draw. Sorting such scores draws an order from the Plackett-Luce model of the scores, so
    that the loss is one of a stochastic ranking.

    Parameters
    ----------
    loss : callable
        One of `lmtune.losses`, or another function of scores and labels that takes `mask` and
        `reduce` as these do.
    draws : int
        m; 1 to 1,000. Time and memory grow with it.

    Returns
    -------
    callable
        ``loss(scores, labels, *, mask=None, reduce="mean", generator=None, **options)``, where the generator,
        on the scores' device, draws the noise and then whatever the loss draws.

    Raises
    ------
    InputError
        For a number of draws out of bounds, or a loss that takes no `reduce`, as those that remember earlier
        scores; when called, what the loss raises.

    Notes
    -----
    Bruch et al., A Stochastic Treatment of Learning to Rank Scoring Functions, WSDM 2020. TF-Ranking's
    ``GumbelSampler`` and Rax's ``gumbel_t12n`` draw the same noise.

    Examples
    --------
    The sigmoid of a difference of two draws is uniform, and minus its logarithm 1 in the mean; without
    noise RankNet's loss of equal scores is ln 2:

    >>> import torch
    >>> from lmtune.losses import ranknet
    >>> noise, pairs = torch.Generator().manual_seed(1), torch.tensor([[1, 0]]).expand(1000, 2)
    >>> round(float(stochastic(ranknet, 100)(torch.zeros(1000, 2), pairs, generator=noise)), 2)
    1.0
    """
    check(StochasticOptions(draws), lambda _option: "draws")
    taken = inspect.signature(loss).parameters
    if draws == 0:
        raise InputError("a stochastic loss without a draw", value=draws, accepted="1 or more")
    if "reduce" not in taken:
        raise InputError("a loss that cannot be stochastic", value=loss, accepted="one that takes reduce=")

    @eager
    def mean_over_draws(
        scores: Scores,
        labels: Labels,
        *,
        mask: Tensor | None = None,
        reduce: Reduce = "mean",
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> Tensor:
        score, label, real = as_padded(scores, labels, mask)
        check_lists(score, label, real)
        drawn = {"generator": generator} if generator is not None and "generator" in taken else {}
        noisy = with_noise(score, draws, generator).flatten(0, 1)
        if real is not None:
            real = real.repeat_interleave(draws, dim=0)
        label = label.repeat_interleave(draws, dim=0)
        value = loss(noisy, label, mask=real, reduce=reduce, **drawn, **options)
        if reduce == "none":
            return value.view(-1, draws).mean(dim=1)
        return value / draws if reduce == "sum" else value

    return mean_over_draws


def with_noise(scores: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
    """Add standard Gumbel noise to scores, anew in each draw; of shape (queries, draws, items)."""
    shape = len(scores), draws, scores.shape[1]
    uniform = torch.rand(shape, generator=generator, device=scores.device, dtype=torch.float64)
    noise = -torch.log(-torch.log(uniform.clamp(min=torch.finfo(torch.float64).tiny)))
    return scores[:, None] + noise.to(wide(scores.detach()).dtype)
