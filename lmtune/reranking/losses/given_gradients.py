"""A scalar whose gradient is given, not derived."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor


class _Given(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient.to(scores.dtype))
        return value.to(torch.float64 if scores.dtype == torch.float64 else torch.float32)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return (gradient * outputs[0]).to(gradient.dtype), None, None


def with_gradient(scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return `value` (scalar) such that backward gives `gradient` to `scores`.

    The value is float64 for float64 scores, else float32; the gradient has the scores' type.
    """
    return cast("Tensor", _Given.apply(scores, value, gradient))  # type: ignore[no-untyped-call]
