"""How kernels of Triton's are started: all of them by one function."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from lmtune.reranking.devices import as_current


def fill(out: Tensor, kernel: Any, programs: tuple[int, ...], *inputs: Tensor, **options: Any) -> Tensor:
    """Let a kernel fill a new tensor from others.

    Kernels reckon places from shapes alone, so that the others are laid out row by row first; and Triton
    starts on the current device, whatever device tensors are on.

    Parameters
    ----------
    out : Tensor
        As the kernel's argument of that name; without elements, nothing is started.
    kernel : triton.JITFunction
    programs : tuple of int
        How many programs, along each axis.
    *inputs : Tensor
        The kernel's first arguments.
    **options
        The rest.

    Returns
    -------
    Tensor
        The one given.
    """
    if out.numel():
        with as_current(out.device):
            kernel[programs](*(own.contiguous() for own in inputs), out=out, **options)
    return out
