"""All that losses share: options, padded lists, the choice of code, kernels, gradients handed to autograd."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lmtune.devices import autocast
from lmtune.errors import InputError
from lmtune.losses.packing_kernels import ByLabel
from lmtune.options import check, option
from lmtune.progress import note
from lmtune.threads import cores, over_slices

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Each query's loss, and its gradient with regard to the scores (None where nobody asks for it).
LossAndGradient = tuple[Tensor, Tensor | None]


def eager(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have a loss called as it is by what `torch.compile` makes, which cannot look into its kernels."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if torch.compiler.is_compiling():  # torch's compiler, slow to import, is there then
            return cast("_R", torch.compiler.disable(function)(*args, **kwargs))  # type: ignore[no-untyped-call]
        return function(*args, **kwargs)

    return call


def with_gradient(scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return `value` (scalar) such that backward gives `gradient` to `scores`.

    The value is float64 for float64 scores, else float32, and so is the gradient until the backward
    pass has scaled it: as half-precision scores have it, it could be 0 before a large scale is on it.
    """
    kind = torch.float64 if scores.dtype == torch.float64 else torch.float32
    return _differentiable(scores, lambda _wanted: (value.to(kind, copy=True), gradient.to(kind)))


def _differentiable(scores: Tensor, compute: Callable[[bool], LossAndGradient]) -> Tensor:
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


Reduce = Literal["mean", "sum", "none"]
Gains = Literal["exponential", "linear"]
Backend = Literal["auto", "kernels", "torch"]


class Bounds(NamedTuple):
    """The arguments of `lmtune.options.option`, to stand in ``Annotated``."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] | None = None
    read: Callable[[str], Any] | None = None


Positive = Annotated[float, Bounds(above=0)]
Cutoff = Annotated[int | None, Bounds(low=1)]
Share = Annotated[float, Bounds(above=0, high=1)]
Smoothing = Annotated[float, Bounds(low=0, below=1)]

_NOT_BY_NAME = ("reduce", "seed")  # arguments of one call, not options of a training


@functools.cache
def declared_options(called: Any) -> type[Any]:
    """Make a dataclass of the options that a loss's signature declares.

    Parameters
    ----------
    called : callable
        A function or class. The annotation of a keyword argument is a type, ``Literal`` for
        choices, or ``Annotated`` with `Bounds`.
    """
    hints = typing.get_type_hints(vars(called).get("__init__", called), include_extras=True)
    fields = [
        (name, *_declared(name, hints.get(name, type(parameter.default)), parameter.default))
        for name, parameter in inspect.signature(called).parameters.items()
        if parameter.default is not parameter.empty and name not in ("mask", "generator")
    ]
    return dataclasses.make_dataclass(called.__name__, fields, frozen=True)


def _declared(name: str, hint: Any, default: Any) -> tuple[type, Any]:
    bounds = Bounds()
    while (origin := typing.get_origin(hint)) is not None:
        parts = typing.get_args(hint)
        if origin is Annotated:
            bounds = parts[1]
        if origin is Literal:
            bounds, parts = Bounds(choices=parts), (str,)
        hint = parts[0]
    return hint, option(default, "", flag="" if name in _NOT_BY_NAME else None, **bounds._asdict())


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raise InputError where an option is not what a function's signature declares; see `eager`, too."""

    @eager
    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        names = declared_options(call).__dataclass_fields__
        _check_options(call, tuple((name, value) for name, value in kwargs.items() if name in names))
        return function(*args, **kwargs)

    return call


@functools.lru_cache(maxsize=1024)
def _check_options(called: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> None:
    check(declared_options(called)(**dict(options)))


Scores = Tensor | Sequence[Tensor]
Labels = Tensor | ArrayLike | Sequence[Tensor] | Sequence[ArrayLike]
"""The types that losses take; see `as_padded`."""

_LARGEST_LABEL = 100  # sums of so large gains are float32 numbers yet
PADDING = -1  # the label of padding, as allRank and TF-Ranking have it


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
    lists = [_flat(scored, 1) for scored in scores]
    labelled = [_flat(_tensor(grades, one), 1) for grades, one in zip(labels, lists, strict=False)]  # type: ignore[arg-type]
    sizes, label_sizes = ([tuple(one.shape) for one in some] for some in (lists, labelled))
    if sizes != label_sizes or len(lists) != len(labels) or not lists or any(one.ndim != 1 for one in lists):  # type: ignore[arg-type]
        raise InputError(
            "lists of scores and of labels differ",
            value=(sizes, label_sizes),
            accepted="one tensor (items,) of scores a query, and as many labels",
        )
    label = pad_sequence(labelled, batch_first=True, padding_value=PADDING)
    score = pad_sequence(lists, batch_first=True)
    ends = torch.tensor([one.numel() for one in lists], device=score.device)
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
        return labels != PADDING
    padding = wide(labels.detach()).numpy() == PADDING
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
        check_lists(scores, labels, mask)
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

    def by_label(self, order: NDArray[np.int64] | None = None) -> ByLabel:
        """Take each query's items by falling label, or in an order that is given; on the CPU."""
        scores, labels, mask = self.scores.numpy(), self.labels.numpy(), self.mask.numpy()
        order = self._falling(labels) if order is None else order
        return ByLabel(scores, labels, order, mask.sum(axis=1))

    def by_score(self) -> NDArray[np.int64]:
        """Return each query's items by falling score, padding last; on the CPU."""
        return self._falling(self.scores.numpy())

    def _falling(self, values: NDArray[Any]) -> NDArray[np.int64]:
        return np.argsort(np.where(self.mask.numpy(), -values, values.dtype.type(np.inf)), axis=1)

    def number(self, value: float) -> Any:
        """Return a number of the scores' type; on the CPU."""
        return self.scores.numpy().dtype.type(value)

    def gains(self, gains: Gains | Literal["binary"]) -> Tensor:
        """Return 2^y - 1 (exponential), y (linear) or whether y > 0 (binary) of each label; 0 on padding.

        Labels too large for it raise InputError on the CPU, and give NaN elsewhere.
        """
        if gains != "exponential":
            return self.labels if gains == "linear" else (self.labels > 0).to(self.labels.dtype)
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


def check_lists(scores: Tensor, labels: Tensor, mask: Tensor | None) -> None:
    """Raise InputError for padded lists of which shapes differ or types do not fit."""
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


# Pairs of items below which a second thread costs more than it brings.
_MANY_PAIRS = 1 << 20


def run_kernel(
    lists: PaddedLists, kernel: Callable[..., None], *inputs: Any, double: bool = False
) -> LossAndGradient:
    """Run a kernel over the queries, in as many threads as torch would take.

    Parameters
    ----------
    lists : PaddedLists
        On the CPU.
    kernel : callable
        Takes the first query and the one after the last, `inputs`, and the arrays to fill: losses, of shape
        (queries,), and gradients, of shape (queries, items), which are 0.
    *inputs
    double : bool
        Whether the kernel fills arrays of float64, whatever the scores' type.

    Returns
    -------
    losses, gradients : Tensor
        Of the scores' type.
    """
    scores = lists.scores.numpy()
    queries, items = scores.shape
    kind = np.float64 if double else scores.dtype
    out = np.empty(queries, kind), np.zeros(scores.shape, kind)
    many = queries * items**2 >= _MANY_PAIRS
    over_slices(
        lambda part: kernel(part.start, part.stop, *inputs, *out),
        queries,
        threads=min(cores(), torch.get_num_threads()) if many else 1,
    )
    losses, gradients = (torch.from_numpy(array.astype(scores.dtype, copy=False)) for array in out)
    return losses, gradients


def is_fused(scores: Tensor) -> bool:
    """Tell whether kernels of Triton's can take scores: on a CUDA device, or in its interpreter."""
    return (scores.is_cuda or (_INTERPRETED and scores.device.type == "cpu")) and _triton_runs(scores.device)


_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def _triton_runs(device: torch.device) -> bool:
    """Try Triton once: it needs a C compiler, a folder to write to, and a device that is not too old."""
    if find_spec("triton") is None:
        return False
    try:
        from lmtune.losses.fused import pair_costs

        one = torch.ones(1, 1, device=device)
        pair_costs(one, one, one > 0, sigma=1.0)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever compilers and drivers bring
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        note(
            f"losses are computed in plain PyTorch on {device}, more slowly: Triton cannot be used ({reason})"
        )
        return False
    return True


# A loss's formula: each query's loss of padded lists, and its gradient if it is wanted.
_QueryLosses = Callable[[PaddedLists, bool], LossAndGradient]


class LossCall(NamedTuple):
    """The arguments of each loss besides its own options; see `lmtune.losses.ranknet`."""

    scores: Scores
    labels: Labels
    mask: Tensor | None
    reduce: Reduce
    backend: Backend


def evaluate(
    batch: LossCall,
    in_torch: _QueryLosses,
    in_kernels: Callable[[PaddedLists], LossAndGradient] | None = None,
    in_triton: tuple[str, Mapping[str, Any]] | None = None,
) -> Tensor:
    """Compute a loss by its kernels where they can run, and are wanted, else in plain PyTorch.

    Parameters
    ----------
    batch : LossCall
    in_torch, in_kernels : callable
        The same formula; the kernels, if there are any, give the gradient in any case.
    in_triton : tuple of str and mapping, optional
        The same, as a function by name, and its options; see `by_triton`.

    Returns
    -------
    Tensor
        A scalar, 0 where no query counts, or of shape (queries,) with ``reduce="none"``. Queries
        without a relevant item contribute 0, and the mean is not taken over them.

    Raises
    ------
    InputError
        If the lists do not fit, or kernels are asked for on another device than the CPU. There
        nothing waits for a device: a query with a wrong label has the loss NaN.
    """
    scores, labels, mask = as_padded(batch.scores, batch.labels, batch.mask)
    elsewhere = batch.backend == "torch" or (batch.backend == "auto" and not on_cpu(scores))
    if in_triton is not None and elsewhere and scores.numel() and is_fused(scores):
        return by_triton(scores, labels, mask, batch.reduce, *in_triton)
    lists = PaddedLists.of(scores, labels, mask)
    if batch.backend == "kernels" and not (lists.on_cpu and in_kernels):
        wrong = "no kernels compute this" if lists.on_cpu else "the kernels run on the CPU alone"
        raise InputError(wrong, value=str(lists.scores.device), accepted="torch")

    def compute(gradient_wanted: bool) -> LossAndGradient:
        if in_kernels and lists.on_cpu and batch.backend != "torch":
            return in_kernels(lists)
        return in_torch(lists, gradient_wanted)

    counted = lists.relevant
    losses = torch.where(counted, _differentiable(scores, compute), 0)
    if not lists.on_cpu:
        losses = losses.masked_fill(lists.wrong, torch.nan)
    if batch.reduce == "none":
        return losses
    total = losses.sum()
    return total / counted.sum().clamp(min=1) if batch.reduce == "mean" else total


def by_triton(
    scores: Tensor, labels: Tensor, mask: Tensor | None, reduce: Reduce, name: str, options: Mapping[str, Any]
) -> Tensor:
    """Compute a loss by Triton's kernels, which look at labels and padding themselves.

    `name` is a function's in the modules of `lmtune.losses`, imported when first used.
    """
    module, _, function = name.rpartition(".")
    kernels = getattr(importlib.import_module(f"lmtune.losses.{module}"), function)
    check_lists(scores, labels, mask)

    def compute(gradient_wanted: bool) -> LossAndGradient:
        del gradient_wanted  # it comes with the losses
        real = scores.new_ones((1,), dtype=torch.bool).expand_as(scores) if mask is None else mask
        losses, gradient, counted = kernels(scores.detach(), labels.detach(), real, **options)
        if reduce == "none":
            return losses, gradient
        share = counted.sum().clamp(min=1).reciprocal() if reduce == "mean" else counted.new_ones(())
        return losses.sum() * share, gradient * share

    return _differentiable(scores, compute)
