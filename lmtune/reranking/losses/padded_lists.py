"""Lists of items, padded to one length, as all losses take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lmtune.errors import InputError
from lmtune.reranking.losses.declared import Gains

Scores = Tensor | Sequence[Tensor]
Labels = Tensor | ArrayLike | Sequence[Tensor] | Sequence[ArrayLike]
"""What losses take; see `as_padded`."""

_LARGEST_LABEL = 100  # sums of so large gains are float32 numbers yet
_PADDING = -1  # the label of padding, as allRank and TF-Ranking have it


def as_padded(
    scores: Scores, labels: Labels, mask: Tensor | ArrayLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Give lists as they come in anyone's training loop the shape (queries, items).

    Parameters
    ----------
    scores : Tensor of shape (queries, items) or (queries, items, 1); or a sequence of Tensor
        A sequence (or a nested tensor) has a list a query, of shape (items,) or (items, 1), each of
        any length. With labels of shape (items,) there is one list.
    labels : the same, as tensors, arrays or lists
        Without a mask, a label of -1 says that there is no item.
    mask : of the labels' shape, optional
        False on padding; a sequence of lists needs none.

    Returns
    -------
    scores, labels, mask : Tensor
        Autograd goes through the scores to those given.

    Raises
    ------
    InputError
        If there is one kind of lists in one and another in the other, or of other lengths.

    Examples
    --------
    >>> scores, labels, mask = as_padded([torch.ones(2), torch.ones(1)], [[0, 2], [1]], None)
    >>> scores.tolist(), labels.tolist(), mask.tolist()
    ([[1.0, 1.0], [1.0, 0.0]], [[0, 2], [1, -1]], [[True, True], [True, False]])
    """
    if isinstance(scores, Tensor) and not scores.is_nested:
        label = _tensor(labels, scores)
        one_list = label.ndim == 1
        score, label = _lists(scores, one_list), _lists(label, one_list)
        return score, label, _real(label) if mask is None else _lists(_tensor(mask, scores), one_list)
    if mask is not None:
        raise InputError("a mask beside lists of their own lengths", accepted="no mask: nothing is padded")
    lists = [_flat(own, 1) for own in scores]
    labelled = [_flat(_tensor(own, one), 1) for own, one in zip(labels, lists, strict=False)]  # type: ignore[arg-type]
    sizes, given_sizes = ([tuple(own.shape) for own in some] for some in (lists, labelled))
    if sizes != given_sizes or len(lists) != len(labels) or not lists or any(own.ndim != 1 for own in lists):  # type: ignore[arg-type]
        raise InputError(
            "lists of scores and of labels differ",
            value=(sizes, given_sizes),
            accepted="one tensor (items,) of scores a query, and as many labels",
        )
    label = pad_sequence(labelled, batch_first=True, padding_value=_PADDING)
    score = pad_sequence(lists, batch_first=True)
    ends = torch.tensor([own.numel() for own in lists], device=score.device)
    return score, label, torch.arange(score.shape[1], device=score.device) < ends[:, None]


def _flat(values: Tensor, ndim: int) -> Tensor:
    """Drop the last axis of networks with one output."""
    return values[..., 0] if values.ndim == ndim + 1 and values.shape[-1] == 1 else values


def _lists(values: Tensor, one_list: bool) -> Tensor:
    return _flat(values, 1)[None] if one_list else _flat(values, 2)


def _tensor(values: Any, like: Tensor) -> Tensor:
    """Take arrays and lists for tensors beside the scores."""
    if isinstance(values, Tensor):
        return values
    try:
        return torch.as_tensor(np.asarray(values), device=like.device)
    except (TypeError, ValueError) as error:
        raise InputError(
            "labels or a mask are no tensor",
            value=str(error),
            accepted="a tensor or an array; for lists of several lengths, a list of tensors of scores too",
        ) from None


def _real(labels: Tensor) -> Tensor | None:
    """Say which labels are not padding; None where all are items, as far as the CPU can say."""
    if not on_cpu(labels):
        return labels != _PADDING
    padding = wide(labels.detach()).numpy() == _PADDING
    return torch.from_numpy(~padding) if padding.any() else None


@dataclass(frozen=True, slots=True)
class PaddedLists:
    """Items of some queries, padded to one length, row by row, cut off from autograd.

    On the CPU they are made by NumPy: torch would wake its threads, which then spin for a while
    beside those that compute the loss.

    Parameters
    ----------
    scores : Tensor of shape (queries, items)
        float32 or float64; 0 on padding.
    labels : Tensor of shape (queries, items)
        The same type; at least 0, but -1 for what is `wrong`; 0 on padding.
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
            the CPU alone: see `wrong`) a label is negative or not a number.
        """
        _check(scores, labels, mask)
        padded = mask is not None
        if mask is None:
            mask = torch.from_numpy(np.ones(scores.shape, bool)).to(scores.device)
        scores, labels, mask = (
            wide(scores.detach()).contiguous(),
            labels.detach().contiguous(),
            mask.contiguous(),
        )
        if not on_cpu(scores):
            labels = torch.where(mask, labels, 0).to(scores.dtype)
            labels = torch.where(labels >= 0, labels, -1)  # sorts, which a label that is no number would not
            return cls(torch.where(mask, scores, 0), labels, mask)
        real, score, label = mask.numpy(), scores.numpy(), wide(labels).numpy()
        if padded:
            score, label = np.where(real, score, score.dtype.type(0)), np.where(real, label, 0)
        if not (label >= 0).all():
            raise InputError(
                "a label is not a number of at least 0",
                value=label[~(label >= 0)][0].item(),
                accepted="0 and up; -1 on padding where there is no mask",
            )
        return cls(torch.from_numpy(score), torch.from_numpy(label.astype(score.dtype, copy=False)), mask)

    @property
    def on_cpu(self) -> bool:
        """Whether the items can be looked at without a wait."""
        return on_cpu(self.scores)

    @property
    def wrong(self) -> Tensor:
        """Tell which queries have a label that the CPU would refuse; bool, of shape (queries,).

        Another device would have to be waited for to raise at once: there such a query's loss is NaN.
        """
        return (self.labels < 0).any(dim=1)

    @property
    def relevant(self) -> Tensor:
        """Tell which queries have an item with a label above 0; bool, of shape (queries,)."""
        if self.on_cpu:
            return torch.from_numpy((self.labels.numpy() > 0).any(axis=1))
        return (self.labels > 0).any(dim=1)

    def gains(self, gains: Gains) -> Tensor:
        """Return 2^y - 1 (exponential) or y (linear) of each label; 0 on padding.

        Labels too large for it raise InputError on the CPU, and give NaN elsewhere.
        """
        if gains == "linear":
            return self.labels
        if self.on_cpu:
            largest = float(self.labels.numpy().max(initial=0))
            if largest > _LARGEST_LABEL:
                raise InputError(
                    "a label is too large for gains of 2^y - 1",
                    value=largest,
                    accepted=f"up to {_LARGEST_LABEL}, or gains=linear",
                )
            return torch.from_numpy(np.exp2(self.labels.numpy()) - 1)
        return (torch.exp2(self.labels) - 1).masked_fill(self.labels > _LARGEST_LABEL, torch.nan)


def _check(scores: Tensor, labels: Tensor, mask: Tensor | None) -> None:
    if scores.ndim != 2:
        raise InputError(
            "scores have the wrong shape",
            value=tuple(scores.shape),
            accepted="(queries, items), (queries, items, 1), or a list of tensors (items,)",
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


def on_cpu(values: Tensor) -> bool:
    """Tell whether numbers can be looked at without waiting for a device."""
    return values.device.type == "cpu"


def wide(values: Tensor) -> Tensor:
    """Return half-precision numbers in float32, others as they are."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
