"""Lists of items, padded to one length, as all losses take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.reranking.losses.declared import Gains

_LARGEST_LABEL = 100  # sums of so large gains are float32 numbers yet


@dataclass(frozen=True, slots=True)
class PaddedLists:
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

    @classmethod
    def of(cls, scores: Tensor, labels: Tensor, mask: Tensor | None) -> PaddedLists:
        """Check a loss's input and blank out the padding, whatever stands there.

        Raises
        ------
        InputError
            If shapes differ, scores are not floating-point numbers, the mask is not boolean, or (on
            the CPU alone, as it would stall another device) a label is negative or not a number.
        """
        _check(scores, labels, mask)
        if mask is None:
            mask = torch.from_numpy(np.ones(scores.shape, bool)).to(scores.device)
        scores, labels = wide(scores.detach()), labels.detach()
        if scores.device.type != "cpu":
            labels = torch.where(mask, labels, 0).to(scores.dtype)
            return cls(torch.where(mask, scores, 0), labels, mask)
        real = mask.numpy()
        label = np.where(real, wide(labels).numpy(), 0)
        if not (label >= 0).all():
            raise InputError(
                "a label is not a number of at least 0",
                value=label[~(label >= 0)][0].item(),
                accepted="0 and up; padding is for the mask",
            )
        score = np.where(real, scores.numpy(), scores.numpy().dtype.type(0))
        return cls(torch.from_numpy(score), torch.from_numpy(label.astype(score.dtype, copy=False)), mask)

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
            largest = float(self.labels.numpy().max(initial=0))
            if largest > _LARGEST_LABEL:
                raise InputError(
                    "a label is too large for gains of 2^y - 1",
                    value=largest,
                    accepted=f"up to {_LARGEST_LABEL}, or gains=linear",
                )
            return torch.from_numpy(np.exp2(self.labels.numpy()) - 1)
        return torch.exp2(self.labels) - 1


def _check(scores: Tensor, labels: Tensor, mask: Tensor | None) -> None:
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
    if mask is not None and mask.dtype != torch.bool:
        raise InputError("the mask is not boolean", value=mask.dtype, accepted="True on real items")


def wide(values: Tensor) -> Tensor:
    """Return half-precision numbers in float32, others as they are."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
