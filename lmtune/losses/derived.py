"""Losses derived from others: given by a user's lambdas, and of scores with Gumbel noise."""

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
    r"""Make a loss of a lambda-function.

    Its backward pass gives :math:`\partial L / \partial s_i = -\lambda_i`, so that a step against
    the gradient goes where the lambdas point. Its value is :math:`-\sum_i \lambda_i s_i`, on which
    nothing depends: lambdas need not have a cost. (Where they have one that grows in proportion to
    the scores, such as piecewise constant ones, it is that cost.)

    Parameters
    ----------
    function : callable
        (scores, labels) -> lambdas for one query; see `lmtune.losses.lambda_functions`. It is
        called with float64 arrays of the query's real documents, without padding, on the CPU.

    Returns
    -------
    callable
        ``loss(scores, labels, *, mask=None, reduce="mean")`` as `lmtune.losses` have it:
        the mean is over queries with a relevant document, and the others get no gradient. RankNet's
        lambdas summed over pairs so give the gradient of ``ranknet(..., pairs="sum")``.

    Raises
    ------
    InputError
        When called, for shapes that do not fit, and for whatever is wrong with the function's
        answer.

    Examples
    --------
    >>> import torch
    >>> loss = lambda_loss(lambda scores, labels: labels - labels.mean())
    >>> scores = torch.zeros(1, 3, requires_grad=True)
    >>> loss(scores, torch.tensor([[2, 1, 0]])).backward()
    >>> scores.grad
    tensor([[-1.,  0.,  1.]])
    """
    called = checked_function(function)

    def compute(lists: PaddedLists) -> LossAndGradient:
        scores, labels, mask = (
            tensor.detach().cpu().numpy() for tensor in (lists.scores, lists.labels, lists.mask)
        )
        gradient, losses = np.zeros(scores.shape), np.zeros(scores.shape[0])
        for q in np.flatnonzero((labels > 0).any(axis=1)):
            real = mask[q]
            of_query = scores[q, real].astype(np.float64)
            if not np.isfinite(of_query).all():  # the training says so itself; it is not the function
                gradient[q, real] = losses[q] = np.nan
                continue
            lambdas = called(of_query, labels[q, real].astype(np.float64))
            gradient[q, real] = 0.0 - lambdas  # no minus zeros
            losses[q] = -(lambdas @ of_query)
        like = lists.scores
        return torch.from_numpy(losses).to(like), torch.from_numpy(gradient).to(like)

    @eager
    def loss(
        scores: Scores, labels: Labels, *, mask: Tensor | None = None, reduce: Reduce = "mean"
    ) -> Tensor:
        # The value takes the lambdas, too, whether a gradient is wanted or not.
        return evaluate(
            LossCall(scores, labels, mask, reduce, "auto"), lambda lists, _wanted: compute(lists), compute
        )

    return loss


def loss_from_options(options: Mapping[str, Any]) -> LambdaLoss:
    """Load the loss that `lmtune.losses.lambda_functions.named_options` names.

    Raises
    ------
    InputError
        Where the function cannot be loaded, or its file is no longer the one of the digest.
    """
    function = load_function(str(options["function"]))
    if function.digest != options["digest"]:
        raise InputError(
            "the lambda-function's file has changed since",
            file=function.file,
            accepted=f"the file of digest {options['digest']}",
        )
    return lambda_loss(function)


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
