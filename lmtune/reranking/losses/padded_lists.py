"""What the losses share: padded lists of items, gradients taken at once, the mean over queries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.reranking.losses.declared import Gains, Reduce

# Each query's loss, and its gradient with regard to the scores (None where nobody asks for it).
LossAndGradient = tuple[Tensor, Tensor | None]


@dataclass(frozen=True, slots=True)
class Lists:
    """Items of some queries, padded to one length, cut off from autograd.

    On the CPU they are made by NumPy: torch would wake its threads, which then spin for a while
    beside those that compute the loss.

    Parameters
    ----------
    scores : Tensor of shape (queries, items)
        float32 or float64; 0 on padding.
    labels : Tensor of shape (queries, items)
        The same type; at least 0; 0 on padding.
    mask : bool Tensor of shape (queries, items)
        False on padding.
    """

    scores: Tensor
    labels: Tensor
    mask: Tensor

    @property
    def relevant(self) -> Tensor:
        """Tell which queries have an item with a label above 0; bool, of shape (queries,)."""
        if self.labels.device.type == "cpu":
            return torch.from_numpy((self.labels.numpy() > 0).any(axis=1))
        return (self.labels > 0).any(dim=1)

    def gains(self, gains: Gains) -> Tensor:
        """Return 2^y - 1 (exponential) or y (linear) of each label; 0 on padding."""
        if gains == "linear":
            return self.labels
        if self.labels.device.type == "cpu":
            return torch.from_numpy(np.exp2(self.labels.numpy()) - 1)
        return torch.exp2(self.labels) - 1


def lists_of(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Lists:
    """Check a loss's input and blank out the padding, whatever stands there.

    Raises
    ------
    InputError
        If shapes differ, scores are not floating-point numbers, the mask is not boolean, or (on the
        CPU alone, as it would stall another device) a label is negative or not a number.
    """
    if scores.ndim != 2:
        raise InputError(
            "scores have the wrong shape", value=tuple(scores.shape), accepted="(queries, items)"
        )
    if not scores.is_floating_point():
        raise InputError("scores are not floating-point numbers", value=scores.dtype, accepted="e.g. float32")
    for name, other in (("labels", labels), ("mask", mask)):
        if other is not None and other.shape != scores.shape:
            raise InputError(
                f"{name} have another shape than the scores",
                value=tuple(other.shape),
                accepted=f"the scores' shape, {tuple(scores.shape)}",
            )
    if mask is None:
        mask = torch.from_numpy(np.ones(scores.shape, bool)).to(scores.device)
    if mask.dtype != torch.bool:
        raise InputError("the mask is not boolean", value=mask.dtype, accepted="True on real items")
    scores, labels = wide(scores.detach()), labels.detach()
    if scores.device.type != "cpu":
        labels = torch.where(mask, labels, 0).to(scores.dtype)
        return Lists(torch.where(mask, scores, 0), labels, mask)
    real = mask.numpy()
    label = np.where(real, wide(labels).numpy(), 0)
    if not (label >= 0).all():
        raise InputError(
            "a label is not a number of at least 0",
            value=label[~(label >= 0)][0].item(),
            accepted="0 and up; padding is for the mask",
        )
    score = np.where(real, scores.numpy(), scores.numpy().dtype.type(0))
    return Lists(torch.from_numpy(score), torch.from_numpy(label.astype(score.dtype, copy=False)), mask)


def wide(values: Tensor) -> Tensor:
    """Return half-precision numbers in float32, others as they are."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def reduced(losses: Tensor, counted: Tensor, reduce: Reduce) -> Tensor:
    """Sum up the queries' losses.

    Parameters
    ----------
    losses : Tensor of shape (queries,)
    counted : bool Tensor of shape (queries,)
        The others contribute 0, and the mean is not taken over them.
    reduce : {"mean", "sum", "none"}
        The mean is 0 where no query counts; "none" gives one number for each query.
    """
    losses = torch.where(counted, losses, 0)
    if reduce == "none":
        return losses
    total = losses.sum()
    return total / counted.sum().clamp(min=1) if reduce == "mean" else total


def differentiable(scores: Tensor, lists: Lists, compute: Callable[[Lists, bool], LossAndGradient]) -> Tensor:
    """Make each query's loss a function of the scores that autograd knows.

    A query's loss depends on its own scores alone. So its gradient is taken in the forward pass, by
    `compute`, and the backward pass has only to scale it: nothing else is kept between the two.
    Gradients of gradients are not to be had: asking for them raises RuntimeError.

    Parameters
    ----------
    scores : Tensor of shape (queries, items)
        As the caller gave them.
    lists : Lists
        The same with their labels.
    compute : callable
        Takes the lists and whether a gradient is wanted; never run in autocast's precision.

    Returns
    -------
    Tensor of shape (queries,)
    """
    return _Scaled.apply(scores, lists, compute)  # type: ignore[no-any-return,no-untyped-call]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, lists: Lists, compute: Any) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        kind = scores.device.type
        known = torch.amp.is_autocast_available(kind)
        with torch.autocast(kind, enabled=False) if known else nullcontext():
            losses, gradient = compute(lists, wanted)
        if wanted:
            ctx.save_for_backward(scores, gradient)
        return losses  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        scores, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            gradient = _Constant.apply(gradient, scores)  # type: ignore[no-untyped-call]
        elif gradient.device.type == "cpu":
            product = outer.numpy()[:, None] * gradient.numpy()
            return torch.from_numpy(product).to(scores.dtype), None, None
        return (outer.unsqueeze(1) * gradient).to(scores.dtype), None, None


class _Constant(torch.autograd.Function):
    """A gradient that cannot be differentiated again, rather than one that passes as constant."""

    @staticmethod
    def forward(_ctx: Any, gradient: Tensor, _scores: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(_ctx: Any, _outer: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError("this loss has no second derivatives: it was differentiated twice")
