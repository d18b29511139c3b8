"""Shared code of the losses: options, padded lists, choice of the backend, kernel calls, autograd."""

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
from lmtune.losses.reduction_kernels import reduce_losses
from lmtune.options import check, option
from lmtune.progress import note
from lmtune.threads import cores, over_slices

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Each query's loss, and its gradient in the scores (None if it was not requested).
LossAndGradient = tuple[Tensor, Tensor | None]
_LossAndScaledGradient = tuple[Tensor, Tensor | None, Tensor | None]


def eager(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Exclude a loss from `torch.compile`, which cannot trace its kernels."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if torch.compiler.is_compiling():  # only then is torch's compiler, slow to import, loaded anyway
            return cast("_R", torch.compiler.disable(function)(*args, **kwargs))  # type: ignore[no-untyped-call]
        return function(*args, **kwargs)

    return call


def with_gradient(scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return the scalar `value`, with `gradient` as its gradient in the scores.

    Value and gradient are float64 for float64 scores, else float32. The gradient is converted to the scores'
    type only after the backward pass has scaled it: in half precision, small values would underflow before
    a large loss scale is applied.
    """
    kind = torch.float64 if scores.dtype == torch.float64 else torch.float32
    return _differentiable(scores, lambda _wanted: (value.to(kind, copy=True), gradient.to(kind), None))


def _differentiable(scores: Tensor, compute: Callable[[bool], _LossAndScaledGradient]) -> Tensor:
    """Return losses computed by `compute`, connected to the scores for autograd.

    A query's loss depends only on its own scores. Therefore `compute` returns the gradient in the forward
    pass, and the backward pass only scales it; nothing else is stored. This also works for a single loss
    of all queries. Second derivatives raise RuntimeError.

    Parameters
    ----------
    scores : Tensor of shape (queries, items)
        The caller's scores.
    compute : callable
        Takes a boolean, whether the gradient is needed. Returns the losses, the gradient and its factors,
        of shape (queries, 1) or (), or None for 1: the backward pass scales the gradient anyway.

    Returns
    -------
    Tensor of shape (queries,), or ()
    """
    return cast("Tensor", _Scaled.apply(scores, compute))  # type: ignore[no-untyped-call]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, compute: Callable[[bool], _LossAndScaledGradient]) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        losses, gradient, factors = compute(wanted)
        if wanted:
            ctx.save_for_backward(scores, gradient, factors)
        return losses

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        scores, gradient, factors = ctx.saved_tensors
        if torch.is_grad_enabled():
            gradient = _Constant.apply(gradient, scores)  # type: ignore[no-untyped-call]
        scale = outer.unsqueeze(-1) if outer.ndim else outer
        product = gradient * (scale if factors is None else scale * factors)
        return product if product.dtype == scores.dtype else product.to(scores.dtype), None


class _Constant(torch.autograd.Function):
    """A gradient that raises when differentiated again, instead of acting as a constant."""

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
    """Arguments of `lmtune.options.option`, for use in ``Annotated``."""

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

_CALL_ARGUMENTS = ("reduce", "seed")  # arguments of a single call, not options of a training


@functools.cache
def declared_options(loss: Any) -> type[Any]:
    """Make a dataclass of the options in a loss's signature.

    Parameters
    ----------
    loss : callable
        A function or class. The annotation of a keyword argument is a type, ``Literal`` for
        choices, or ``Annotated`` with `Bounds`.
    """
    hints = typing.get_type_hints(vars(loss).get("__init__", loss), include_extras=True)
    fields = [
        (name, *_option_field(name, hints.get(name, type(parameter.default)), parameter.default))
        for name, parameter in inspect.signature(loss).parameters.items()
        if parameter.default is not parameter.empty and name not in ("mask", "generator")
    ]
    return dataclasses.make_dataclass(loss.__name__, fields, frozen=True)


def _option_field(name: str, hint: Any, default: Any) -> tuple[type, Any]:
    bounds = Bounds()
    while (origin := typing.get_origin(hint)) is not None:
        parts = typing.get_args(hint)
        if origin is Annotated:
            bounds = parts[1]
        if origin is Literal:
            bounds, parts = Bounds(choices=parts), (str,)
        hint = parts[0]
    return hint, option(default, "", flag="" if name in _CALL_ARGUMENTS else None, **bounds._asdict())


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a loss raise InputError for option values outside its declared types and bounds.

    The loss is also made `eager`.
    """

    @eager
    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if kwargs:
            names = declared_options(call).__dataclass_fields__
            _check_options(call, tuple((name, value) for name, value in kwargs.items() if name in names))
        return function(*args, **kwargs)

    return call


@functools.lru_cache(maxsize=1024)
def _check_options(loss: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> None:
    check(declared_options(loss)(**dict(options)))


Scores = Tensor | Sequence[Tensor]
Labels = Tensor | ArrayLike | Sequence[Tensor] | Sequence[ArrayLike]
"""The types that losses accept; see `as_padded`."""

_LARGEST_LABEL = 100  # sums of gains up to 2^100 - 1 do not overflow float32
PADDING = -1  # the label of padding, as in allRank and TF-Ranking


def as_padded(
    scores: Scores, labels: Labels, mask: Tensor | ArrayLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Convert scores, labels and mask to padded tensors of shape (queries, items).

    Parameters
    ----------
    scores : Tensor of shape (queries, items) or (queries, items, 1); or a sequence of Tensor
        A sequence (or a nested tensor) has one tensor per query, of shape (items,) or (items, 1) and any
        length. If labels have shape (items,), the scores are one list.
    labels : the same, as tensors, arrays or lists
        Without a mask, label -1 marks padding.
    mask : of the labels' shape, optional
        False on padding; not accepted for a sequence of lists, which has no padding.

    Returns
    -------
    scores, labels, mask : Tensor
        The scores stay connected to the input scores for autograd. The mask is None if there is no padding.

    Raises
    ------
    InputError
        If scores and labels have different structures or lengths.

    Examples
    --------
    >>> scores, labels, mask = as_padded([torch.ones(2), torch.ones(1)], [[0, 2], [1]], None)
    >>> scores.tolist(), labels.tolist(), mask.tolist()
    ([[1.0, 1.0], [1.0, 0.0]], [[0, 2], [1, -1]], [[True, True], [True, False]])
    """
    score, label, real = _aligned(scores, labels, mask)
    return score, label, _real(label) if real is None else real


def _aligned(
    scores: Scores, labels: Labels, mask: Tensor | ArrayLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Do the same as `as_padded`, except that labels of padding are not searched for."""
    if isinstance(scores, Tensor) and not scores.is_nested:
        label = _tensor(labels, scores)
        one_list = label.ndim == 1
        score, label = _lists(scores, one_list), _lists(label, one_list)
        return score, label, None if mask is None else _lists(_tensor(mask, scores), one_list)
    if mask is not None:
        raise InputError(
            "a mask was passed with lists of different lengths", accepted="no mask: such lists are not padded"
        )
    lists = [_flat(scored, 1) for scored in scores]
    labelled = [_flat(_tensor(grades, one), 1) for grades, one in zip(labels, lists, strict=False)]  # type: ignore[arg-type]
    sizes, label_sizes = ([tuple(one.shape) for one in some] for some in (lists, labelled))
    if sizes != label_sizes or len(lists) != len(labels) or not lists or any(one.ndim != 1 for one in lists):  # type: ignore[arg-type]
        raise InputError(
            "lists of scores and labels differ in length",
            value=(sizes, label_sizes),
            accepted="for each query, a tensor (items,) of scores and the same number of labels",
        )
    label = pad_sequence(labelled, batch_first=True, padding_value=PADDING)
    score = pad_sequence(lists, batch_first=True)
    ends = torch.tensor([one.numel() for one in lists], device=score.device)
    return score, label, torch.arange(score.shape[1], device=score.device) < ends[:, None]


def _flat(values: Tensor, ndim: int) -> Tensor:
    """Drop the last axis if it has size 1, as the output of a network has."""
    return values[..., 0] if values.ndim == ndim + 1 and values.shape[-1] == 1 else values


def _lists(values: Tensor, one_list: bool) -> Tensor:
    return _flat(values, 1)[None] if one_list else _flat(values, 2)


def _tensor(values: Any, like: Tensor) -> Tensor:
    """Convert arrays and lists to tensors on the device of `like`."""
    if isinstance(values, Tensor):
        return values
    try:
        return torch.as_tensor(np.asarray(values), device=like.device)
    except (TypeError, ValueError) as error:
        raise InputError(
            "labels or mask cannot be converted to a tensor",
            value=str(error),
            accepted="a tensor or an array; for lists of different lengths, scores must be a list of tensors",
        ) from None


def _real(labels: Tensor) -> Tensor | None:
    """Return the mask of labels that are not padding; None if the labels are on the CPU and none is."""
    if not on_cpu(labels):
        return labels != PADDING
    values = wide(labels.detach()).numpy()
    if values.min(initial=0) >= 0:
        return None
    padding = values == PADDING
    return torch.from_numpy(~padding) if padding.any() else None


@dataclass(frozen=True)
class PaddedLists:
    """The items of some queries, padded to one length, contiguous and detached from autograd.

    On the CPU, NumPy makes them: torch would start its threads, which then spin and compete with the
    threads that compute the loss.

    Parameters
    ----------
    scores : Tensor of shape (queries, items)
        float32 or float64; 0 on padding.
    labels : Tensor of shape (queries, items)
        Of the scores' type; at least 0, or -1 for an invalid label (see `wrong`); 0 on padding.
    real : bool Tensor of shape (queries, items), optional
        False on padding; None if there is no padding.
    """

    scores: Tensor
    labels: Tensor
    real: Tensor | None

    @classmethod
    def of(cls, scores: Tensor, labels: Tensor, mask: Tensor | None) -> PaddedLists:
        """Check the input of a loss and set scores and labels to 0 on padding.

        Without a mask, label -1 marks padding.

        Raises
        ------
        InputError
            If shapes differ, scores are not floating-point numbers, or the mask is not boolean. Also if
            a label is negative or NaN, on the CPU only; see `wrong`.
        """
        check_lists(scores, labels, mask)
        scores, labels = wide(scores.detach()).contiguous(), labels.detach().contiguous()
        if not on_cpu(scores):
            mask = labels != PADDING if mask is None else mask.contiguous()
            labels = torch.where(mask, labels, 0).to(scores.dtype)
            labels = torch.where(labels >= 0, labels, -1)  # also replaces NaN, which cannot be sorted
            return cls(torch.where(mask, scores, 0), labels, mask)
        label = wide(labels).numpy()
        lowest = label.min(initial=0)
        if mask is None and not lowest >= 0:
            mask = _real(labels)
        if mask is not None:
            mask = mask.contiguous()
            real, score = mask.numpy(), scores.numpy()
            scores = torch.from_numpy(np.where(real, score, score.dtype.type(0)))
            label = np.where(real, label, 0)
            lowest = label.min(initial=0)
        if not lowest >= 0:
            raise InputError(
                "a label is negative or NaN",
                value=label[~(label >= 0)][0].item(),
                accepted="0 or more; without a mask, -1 marks padding",
            )
        return cls(scores, torch.from_numpy(label).to(scores.dtype), mask)

    @functools.cached_property
    def mask(self) -> Tensor:
        """The mask `real`, made if there is no padding; bool, shape (queries, items)."""
        if self.real is not None:
            return self.real
        if self.on_cpu:
            return torch.from_numpy(np.ones(self.scores.shape, bool))
        return torch.ones_like(self.scores, dtype=torch.bool)

    @functools.cached_property
    def lengths(self) -> Tensor:
        """Numbers of items, at least 1, of the scores' type; shape (queries, 1), or () without padding."""
        if self.real is None:
            return self.scores.new_tensor(max(self.scores.shape[1], 1))
        return self.real.sum(dim=1, keepdim=True, dtype=self.scores.dtype).clamp(min=1)

    @property
    def on_cpu(self) -> bool:
        """Whether the tensors are on the CPU, where reading values does not synchronise a device."""
        return on_cpu(self.scores)

    @property
    def wrong(self) -> Tensor:
        """Mask of queries with an invalid label, bool, shape (queries,).

        On the CPU an invalid label raises. On other devices raising would need a synchronisation, so the
        query's loss is NaN instead.
        """
        return (self.labels < 0).any(dim=1)

    @property
    def relevant(self) -> Tensor:
        """Mask of queries with a label above 0, bool, shape (queries,)."""
        if self.on_cpu:
            return torch.from_numpy(self.labels.numpy().any(axis=1))
        return (self.labels > 0).any(dim=1)

    def by_label(self, order: NDArray[np.int64] | None = None) -> ByLabel:
        """Sort each query's items by falling label, or use the given order; CPU only."""
        scores, labels, mask = self.arrays()
        order = self._falling_order(labels) if order is None else order
        return ByLabel(scores, labels, order, mask.sum(axis=1))

    def by_score(self) -> NDArray[np.int64]:
        """Return each query's items by falling score, padding last; CPU only."""
        return self._falling_order(self.scores.numpy())

    def _falling_order(self, values: NDArray[Any]) -> NDArray[np.int64]:
        return np.argsort(np.where(self.mask.numpy(), -values, values.dtype.type(np.inf)), axis=1)

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        """Return scores, labels and mask as arrays; CPU only."""
        return self.scores.numpy(), self.labels.numpy(), self.mask.numpy()

    def number(self, value: float) -> Any:
        """Convert a number to the scores' NumPy type; CPU only."""
        return self.scores.numpy().dtype.type(value)

    def gains(self, gains: Gains | Literal["binary"]) -> Tensor:
        """Return the gains of the labels: 2^y - 1 (exponential), y (linear) or [y > 0] (binary).

        Gains are 0 on padding. Labels too large for exponential gains raise InputError on the CPU; on other
        devices their gain is NaN.
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
    """Raise InputError if the shapes of padded lists differ or a type is wrong."""
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
                f"{name} and scores differ in shape",
                value=tuple(other.shape),
                accepted=f"the scores' shape, {tuple(scores.shape)}",
            )
    if mask is not None and mask.dtype != torch.bool:
        raise InputError("the mask is not boolean", value=mask.dtype, accepted="True on real items")


def on_cpu(values: Tensor) -> bool:
    """Return whether a tensor is on the CPU, where reading values does not synchronise a device."""
    return values.is_cpu


def wide(values: Tensor) -> Tensor:
    """Convert half-precision numbers to float32; return others unchanged."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


# With fewer pairs of items, a second thread costs more than it saves.
_MANY_PAIRS = 1 << 20


def run_kernel(
    lists: PaddedLists, kernel: Callable[..., None], *inputs: Any, double: bool = False
) -> LossAndGradient:
    """Run a Numba kernel over slices of the queries, in at most as many threads as torch uses.

    Parameters
    ----------
    lists : PaddedLists
        On the CPU.
    kernel : callable
        Its arguments are the first query, the end of the range of queries, `inputs`, and two arrays to fill:
        losses, shape (queries,), and gradients, shape (queries, items), initially 0.
    *inputs
        Further arguments of the kernel.
    double : bool
        Whether the arrays to fill are float64 for any type of scores.

    Returns
    -------
    losses, gradients : Tensor
        Of the scores' type.
    """
    scores = lists.scores.numpy()
    queries, items = scores.shape
    kind = np.float64 if double else scores.dtype
    out = np.empty(queries, kind), np.zeros(scores.shape, kind)
    if queries * items**2 < _MANY_PAIRS:
        kernel(0, queries, *inputs, *out)
    else:
        threads = min(cores(), torch.get_num_threads())
        over_slices(lambda part: kernel(part.start, part.stop, *inputs, *out), queries, threads=threads)
    losses, gradients = (torch.from_numpy(array.astype(scores.dtype, copy=False)) for array in out)
    return losses, gradients


def is_fused(scores: Tensor) -> bool:
    """Return whether Triton kernels can run on the scores: on a CUDA device, or in Triton's interpreter."""
    return (scores.is_cuda or (_INTERPRETED and scores.device.type == "cpu")) and _triton_runs(scores.device)


_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def _triton_runs(device: torch.device) -> bool:
    """Test Triton once: it needs a C compiler, a writable cache folder and a device it supports."""
    if find_spec("triton") is None:
        return False
    try:
        from lmtune.losses.fused import pair_costs

        one = torch.ones(1, 1, device=device)
        pair_costs(one, one, one > 0, sigma=1.0)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # compilers and drivers raise many types
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        note(f"Triton cannot be used on {device} ({reason}); losses run in plain PyTorch, which is slower")
        return False
    return True


# A loss's formula: (lists, whether the gradient is needed) -> each query's loss, and its gradient.
_QueryLosses = Callable[[PaddedLists, bool], LossAndGradient]


class LossCall(NamedTuple):
    """The arguments that all losses have in common; see `lmtune.losses.ranknet`."""

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
    """Compute a loss with kernels if the backend allows and they can run, else in plain PyTorch.

    Parameters
    ----------
    batch : LossCall
    in_torch : callable
        The loss in plain PyTorch.
    in_kernels : callable, optional
        The loss in Numba kernels, which always return the gradient too.
    in_triton : tuple of str and mapping, optional
        The loss in Triton: the function's name and its options; see `by_triton`.

    Returns
    -------
    Tensor
        A scalar, 0 if no query has a relevant item; or shape (queries,) with ``reduce="none"``. Queries
        without a relevant item contribute 0 and are left out of the mean.

    Raises
    ------
    InputError
        If the lists are invalid, or ``backend="kernels"`` and the scores are not on the CPU. On other
        devices a query with an invalid label has loss NaN instead, which needs no synchronisation.
    """
    scores, labels, mask = _aligned(batch.scores, batch.labels, batch.mask)
    elsewhere = batch.backend == "torch" or (batch.backend == "auto" and not on_cpu(scores))
    if in_triton is not None and elsewhere and scores.numel() and is_fused(scores):
        return by_triton(scores, labels, _real(labels) if mask is None else mask, batch.reduce, *in_triton)
    lists = PaddedLists.of(scores, labels, mask)
    if batch.backend == "kernels" and not (lists.on_cpu and in_kernels):
        wrong = "no kernel supports these options" if lists.on_cpu else "the kernels run only on the CPU"
        raise InputError(wrong, value=str(lists.scores.device), accepted="torch")

    def compute(gradient_wanted: bool) -> _LossAndScaledGradient:
        if in_kernels and lists.on_cpu and batch.backend != "torch":
            losses, gradient = in_kernels(lists)
        else:
            with autocast(scores.device, bf16=False):
                losses, gradient = in_torch(lists, gradient_wanted)
        losses, share = _reduced(lists, losses, batch.reduce)
        return losses, gradient, share

    return _differentiable(scores, compute)


def _reduced(lists: PaddedLists, losses: Tensor, reduce: Reduce) -> tuple[Tensor, Tensor]:
    """Reduce losses of queries to what a loss returns; return also each query's share in it, (queries, 1)."""
    if lists.on_cpu:
        values = losses.numpy()
        kept, shares, total = np.empty_like(values), np.empty_like(values), np.empty(1, values.dtype)
        reduce_losses(lists.labels.numpy(), values, reduce == "mean", kept, shares, total)
        return torch.from_numpy(kept if reduce == "none" else total.reshape(())), torch.from_numpy(
            shares[:, None]
        )
    counted = lists.relevant
    losses = torch.where(counted, losses, 0).masked_fill(lists.wrong, torch.nan)
    share = counted.to(losses.dtype)
    if reduce != "none":
        losses = losses.sum()
    if reduce == "mean":
        count = counted.sum().clamp(min=1)
        losses, share = losses / count, share / count
    return losses, share[:, None]


def by_triton(
    scores: Tensor, labels: Tensor, mask: Tensor | None, reduce: Reduce, name: str, options: Mapping[str, Any]
) -> Tensor:
    """Compute a loss with Triton kernels, which handle invalid labels and padding themselves.

    `name` is "module.function" in `lmtune.losses`; the module is imported here.
    """
    module, _, function = name.rpartition(".")
    kernels = getattr(importlib.import_module(f"lmtune.losses.{module}"), function)
    check_lists(scores, labels, mask)

    def compute(gradient_wanted: bool) -> _LossAndScaledGradient:
        del gradient_wanted  # always computed, together with the losses
        real = scores.new_ones((1,), dtype=torch.bool).expand_as(scores) if mask is None else mask
        with autocast(scores.device, bf16=False):
            losses, gradient, counted = kernels(scores.detach(), labels.detach(), real, **options)
        if reduce != "mean":
            return losses if reduce == "none" else losses.sum(), gradient, None
        share = counted.sum().clamp(min=1).reciprocal()
        return losses.sum() * share, gradient, share

    return _differentiable(scores, compute)
