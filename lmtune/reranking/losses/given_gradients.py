"""Losses whose gradient is taken along with their value, and handed to autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from lmtune.reranking.devices import autocast

# Each query's loss, and its gradient with regard to the scores (None where nobody asks for it).
LossAndGradient = tuple[Tensor, Tensor | None]


def with_gradient(scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return `value` (scalar) such that backward gives `gradient` to `scores`.

    The value is float64 for float64 scores, else float32; the gradient has the scores' type.
    """
    return cast("Tensor", _Given.apply(scores, value, gradient))  # type: ignore[no-untyped-call]


class _Given(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient.to(scores.dtype))
        return value.to(torch.float64 if scores.dtype == torch.float64 else torch.float32)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return (gradient * outputs[0]).to(gradient.dtype), None, None


def differentiable(scores: Tensor, compute: Callable[[bool], LossAndGradient]) -> Tensor:
    """Make each query's loss a function of the scores that autograd knows.

    A query's loss depends on its own scores alone. So its gradient is taken in the forward pass, by
    `compute`, and the backward pass has only to scale it: nothing else is kept between the two.
    Gradients of gradients are not to be had: asking for them raises RuntimeError.

    Parameters
    ----------
    scores : Tensor of shape (queries, items)
        As the caller gave them.
    compute : callable
        Takes whether a gradient is wanted; never run in autocast's precision.

    Returns
    -------
    Tensor of shape (queries,)
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
            product = outer.numpy()[:, None] * gradient.numpy()
            return torch.from_numpy(product).to(scores.dtype), None
        return (outer.unsqueeze(1) * gradient).to(scores.dtype), None


class _Constant(torch.autograd.Function):
    """A gradient that cannot be differentiated again, rather than one that passes as constant."""

    @staticmethod
    def forward(_ctx: Any, gradient: Tensor, _scores: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(_ctx: Any, _outer: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError("this loss has no second derivatives: it was differentiated twice")
