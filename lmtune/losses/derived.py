"""Losses built from functions: from user-defined lambdas, or from another loss with Gumbel noise."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.losses.evaluation import (
    Labels,
    LossAndGradient,
    LossCall,
    PaddedLists,
    Reduce,
    Scores,
    as_padded,
    check_lists,
    eager,
    evaluate,
    wide,
)
from lmtune.losses.lambda_functions import LambdaFunction, checked_function, load_function
from lmtune.options import check, option

LambdaLoss = Callable[..., Tensor]


def lambda_loss(function: LambdaFunction) -> LambdaLoss:
    r"""Make a loss from a lambda function.

    The backward pass returns :math:`\partial L / \partial s_i = -\lambda_i`, so a gradient step moves the
    scores in the direction of the lambdas. The value :math:`-\sum_i \lambda_i s_i` does not affect training:
    lambdas need not be the gradient of a cost. (If the lambdas are the gradient of a cost proportional to
    the scores, as piecewise constant lambdas are, the value is that cost.)

    Parameters
    ----------
    function : callable
        (scores, labels) -> lambdas for one query; see `lmtune.losses.lambda_functions`. It is called on
        the CPU with float64 arrays of the query's documents, without padding.

    Returns
    -------
    callable
        ``loss(scores, labels, *, mask=None, reduce="mean")``, like the losses of `lmtune.losses`. The mean
        is over queries with a relevant document; other queries get gradient 0. With RankNet's lambdas,
        summed over pairs, the gradient equals that of ``ranknet(..., pairs="sum")``.

    Raises
    ------
    InputError
        When the loss is called: if shapes do not match, or the function returns an invalid result.

    Examples
    --------
    >>> import torch
    >>> loss = lambda_loss(lambda scores, labels: labels - labels.mean())
    >>> scores = torch.zeros(1, 3, requires_grad=True)
    >>> loss(scores, torch.tensor([[2, 1, 0]])).backward()
    >>> scores.grad
    tensor([[-1.,  0.,  1.]])
    """
    lambdas_of = checked_function(function)

    def compute(lists: PaddedLists) -> LossAndGradient:
        scores, labels, mask = (
            tensor.detach().cpu().numpy() for tensor in (lists.scores, lists.labels, lists.mask)
        )
        gradient, losses = np.zeros(scores.shape), np.zeros(scores.shape[0])
        for q in np.flatnonzero((labels > 0).any(axis=1)):
            real = mask[q]
            of_query = scores[q, real].astype(np.float64)
            if not np.isfinite(of_query).all():  # not the function's fault; training reports NaN losses
                gradient[q, real] = losses[q] = np.nan
                continue
            lambdas = lambdas_of(of_query, labels[q, real].astype(np.float64))
            gradient[q, real] = 0.0 - lambdas  # unlike -lambdas, never -0.0
            losses[q] = -(lambdas @ of_query)
        like = lists.scores
        return torch.from_numpy(losses).to(like), torch.from_numpy(gradient).to(like)

    @eager
    def loss(
        scores: Scores, labels: Labels, *, mask: Tensor | None = None, reduce: Reduce = "mean"
    ) -> Tensor:
        # Even the value needs the lambdas, so the gradient is always computed.
        return evaluate(
            LossCall(scores, labels, mask, reduce, "auto"), lambda lists, _wanted: compute(lists), compute
        )

    return loss


def loss_from_options(options: Mapping[str, Any]) -> LambdaLoss:
    """Load the loss from the options of `lmtune.losses.lambda_functions.complete_options`.

    Raises
    ------
    InputError
        If the function cannot be loaded, or its file does not match the digest.
    """
    function = load_function(str(options["function"]))
    if function.digest != options["digest"]:
        raise InputError(
            "the lambda function's file has changed",
            file=function.file,
            accepted=f"the file with digest {options['digest']}",
        )
    return lambda_loss(function)


@dataclass(frozen=True)
class StochasticOptions:
    """The option `gumbel`, by which every loss of the command line can be made `stochastic`."""

    gumbel: int = option(
        0, "number of draws of Gumbel noise added to the scores; 0 adds none", low=0, high=1_000
    )


def stochastic(loss: Callable[..., Tensor], draws: int) -> Callable[..., Tensor]:
    r"""Make a loss that averages another loss over draws of Gumbel noise added to the scores.

    .. math:: \frac{1}{m} \sum_{d=1}^{m} L(s + z_d, y), \qquad z = -\ln(-\ln u), \quad u \sim U(0, 1)

    with independent noise for each item and draw. Sorting the noisy scores samples a ranking from the
    Plackett-Luce model of the scores, so this estimates the expected loss of a stochastic ranking.

    Parameters
    ----------
    loss : callable
        A loss of `lmtune.losses`, or another function of scores and labels with the arguments `mask` and
        `reduce`.
    draws : int
        m, from 1 to 1,000. Time and memory grow with it.

    Returns
    -------
    callable
        ``loss(scores, labels, *, mask=None, reduce="mean", generator=None, **options)``. The generator must
        be on the scores' device; it draws the noise first and then whatever the loss draws.

    Raises
    ------
    InputError
        If the number of draws is out of range, or the loss has no argument `reduce`, as SONG's losses.
        When called: any error of the loss.

    Notes
    -----
    Bruch et al., A Stochastic Treatment of Learning to Rank Scoring Functions, WSDM 2020. TF-Ranking's
    ``GumbelSampler`` and Rax's ``gumbel_t12n`` draw the same noise.

    Examples
    --------
    Without noise, RankNet's loss of two equal scores is ln 2. With noise, the sigmoid of the difference of
    two draws is uniform, and the mean of minus its logarithm is 1:

    >>> import torch
    >>> from lmtune.losses import ranknet
    >>> noise, pairs = torch.Generator().manual_seed(1), torch.tensor([[1, 0]]).expand(1000, 2)
    >>> round(float(stochastic(ranknet, 100)(torch.zeros(1000, 2), pairs, generator=noise)), 2)
    1.0
    """
    check(StochasticOptions(draws), lambda _option: "draws")
    parameters = inspect.signature(loss).parameters
    if draws == 0:
        raise InputError("a stochastic loss needs at least one draw", value=draws, accepted="1 or more")
    if "reduce" not in parameters:
        raise InputError("loss cannot be stochastic", value=loss, accepted="a loss with the argument reduce")

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
        seeded = {"generator": generator} if generator is not None and "generator" in parameters else {}
        noisy = with_noise(score, draws, generator).flatten(0, 1)
        if real is not None:
            real = real.repeat_interleave(draws, dim=0)
        label = label.repeat_interleave(draws, dim=0)
        value = loss(noisy, label, mask=real, reduce=reduce, **seeded, **options)
        if reduce == "none":
            return value.view(-1, draws).mean(dim=1)
        return value / draws if reduce == "sum" else value

    return mean_over_draws


def with_noise(scores: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
    """Add standard Gumbel noise to scores, independent in each draw; shape (queries, draws, items)."""
    shape = len(scores), draws, scores.shape[1]
    uniform = torch.rand(shape, generator=generator, device=scores.device, dtype=torch.float64)
    noise = -torch.log(-torch.log(uniform.clamp(min=torch.finfo(torch.float64).tiny)))
    return scores[:, None] + noise.to(wide(scores.detach()).dtype)
