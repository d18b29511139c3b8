"""What a step on a GPU may not do: wait for numbers from the device, or copy between it and the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# What reads numbers, or gives tensors whose shape depends on them.
_READS = {"_local_scalar_dense", "is_nonzero", "item", "equal", "nonzero", "masked_select", "_unique2"}
_VIEWS = {"view", "expand", "unsqueeze", "squeeze", "slice", "select", "t", "transpose", "permute", "detach"}
_VIEWS |= {"alias", "_unsafe_view", "as_strided", "unbind", "split", "reshape", "lift_fresh"}


class Launches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations of a step, and refuses those that would wait for a device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition("::")[2].partition(".")[0]
        found = func(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves((args, kwargs, found)) if isinstance(one, torch.Tensor)]
        devices = {one.device.type for one in tensors if one.dim()}
        chosen = name in ("index", "index_put_") and any(
            one.dtype in (torch.bool, torch.uint8) for one in tree_leaves(args[1])
        )
        elsewhere = any(one.device.type != "cpu" for one in tensors)
        assert not (elsewhere and (name in _READS or chosen)), f"{name} waits for the device"
        assert len(devices) < 2, f"{name} copies between {' and '.join(sorted(devices))}"
        self.count += name not in _VIEWS
        return found


def launches(step: Callable[[], Any], device: str) -> int:
    """Run a step on "meta", which has no numbers to read, or on "cuda"; return its number of launches.

    On CUDA the driver itself says where it would wait, kernels of Triton's included.
    """
    if device == "cuda":
        step()  # compiles
        torch.cuda.set_sync_debug_mode("error")
    try:
        counted = Launches()
        with counted:
            step()
    finally:
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    return counted.count


DEVICES = ["meta", *(["cuda"] if torch.cuda.is_available() else [])]
