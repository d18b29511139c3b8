"""Losses whose gradient is taken along with their value, and handed to autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from lmtune.reranking.devices import autocast

P = ParamSpec("P")
R = TypeVar("R")

# Each query's loss, and its gradient with regard to the scores (None where nobody asks for it).
LossAndGradient = tuple[Tensor, Tensor | None]


def eager(function: Callable[P, R]) -> Callable[P, R]:
    """Have a loss called as it is by what `torch.compile` makes, which cannot look into its kernels."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():  # torch's compiler, slow to import, is there then
            return cast("R", torch.compiler.disable(function)(*args, **kwargs))  # type: ignore[no-untyped-call]
        return function(*args, **kwargs)

    return call


def with_gradient(scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return `value` (scalar) such that backward gives `gradient` to `scores`.

    The value is float64 for float64 scores, else float32, and so is the gradient until the backward
    pass has scaled it: as half-precision scores have it, it could be 0 before a large scale is on it.
    """
    kind = torch.float64 if scores.dtype == torch.float64 else torch.float32
    return differentiable(scores, lambda _wanted: (value.to(kind, copy=True), gradient.to(kind)))


def differentiable(scores: Tensor, compute: Callable[[bool], LossAndGradient]) -> Tensor:
    """Make each query's loss a function of the scores that autograd knows.

    A query's loss depends on its own scores alone. So its gradient is taken in the forward pass, by
    `compute`, and the backward pass has only to scale it: nothing else is kept between the two. The same
    goes for one loss of all queries.
    Gradients of gradients are not to be had: asking for them raises RuntimeError.

    Parameters
    ----------
    scores : Tensor of shape (queries, items)
        As the caller gave them.
    compute : callable
        Takes whether a gradient is wanted; never run in autocast's precision.

    Returns
    -------
    Tensor of shape (queries,), or ()
    """
    return cast("Tensor", _Scaled.apply(scores, compute))  # type: ignore[no-untyped-call]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, compute: Callable[[bool], LossAndGradient]) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        with autocast(scores.device, bf16=False):
            losses, gradient = compute(wanted)
        if wanted:
            ctx.save_for_backward(scores, gradient)
        return losses

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        scores, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            gradient = _Constant.apply(gradient, scores)  # type: ignore[no-untyped-call]
        elif gradient.device.type == "cpu":
            product = outer.numpy()[..., None] * gradient.numpy()
            return torch.from_numpy(product).to(scores.dtype), None
        return (outer.unsqueeze(-1) * gradient).to(scores.dtype), None


class _Constant(torch.autograd.Function):
    """A gradient that cannot be differentiated again, rather than one that passes as constant."""

    @staticmethod
    def forward(_ctx: Any, gradient: Tensor, _scores: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(_ctx: Any, _outer: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError("this loss has no second derivatives: it was differentiated twice")
