"""Training by a user's lambdas: a loss whose gradient is given instead of its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    eager,
    evaluate,
)
from lmtune.losses.lambda_functions import LambdaFunction, checked_function, load_function

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
