"""Devices by name, copies to them that nobody waits for, trainings spread over several of them."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmtune.errors import InputError
from lmtune.io.locks import hold
from lmtune.parallel import Task, run_all, width

_T = TypeVar("_T")

# Of a device's free memory, what features may take: the rest is for the network, its gradients and batches.
_SHARE = 0.6


def parse_devices(text: str) -> list[str]:
    """Read devices, with commas between; ``cuda`` is all that there are, each by its number.

    Raises
    ------
    InputError
        For a device that torch does not have.
    """
    count = torch.cuda.device_count()
    numbered = [f"cuda:{number}" for number in range(count)]
    devices = []
    for name in text.split(","):
        if name not in ("cpu", *numbered) and not (name == "cuda" and count):
            known = ["cpu", "cuda", *numbered] if count else ["cpu (torch sees no CUDA device)"]
            raise InputError("no such device", value=name, accepted=", ".join(known))
        devices += numbered if name == "cuda" else [name]
    return devices


def check_device(device: str) -> None:
    """Raise InputError for what is not one device that torch has; ``cuda`` is the first."""
    parse_devices(device)
    if "," in device:
        raise InputError("several devices for one training", value=device, accepted="cpu, cuda, cuda:1 ...")


def fits(size: int, device: torch.device) -> bool:
    """Tell whether a data set of so many bytes may live in a device's memory."""
    return device.type != "cuda" or size <= _SHARE * torch.cuda.mem_get_info(device)[0]


def to_device(array: NDArray[Any], device: str | torch.device) -> Tensor:
    """Copy an array to a device; to a GPU from pinned memory, so that nobody waits for the copy."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if torch.device(device).type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def prefetch(items: Iterator[_T], device: str) -> Iterator[_T]:
    """Yield items; for a GPU, each is made by a thread while the one before it is worked on."""
    if torch.device(device).type != "cuda":
        yield from items
        return
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def autocast(device: str | torch.device, *, bf16: bool) -> AbstractContextManager[Any]:
    """Let torch compute in bfloat16 where that serves, or in the tensors' own precision whoever lets it."""
    kind = torch.device(device).type
    known = torch.amp.is_autocast_available(kind)
    return torch.autocast(kind, torch.bfloat16, enabled=bf16) if known else nullcontext()


def as_current(device: torch.device) -> AbstractContextManager[Any]:
    """Make a GPU the current device meanwhile; on the CPU, do nothing."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Leave torch's generators and switches as they were; on a GPU take repeatable kernels, and no TF32.

    Matrices of float32 numbers are multiplied in float32: a GPU's shorter TensorFloat32 has 10 of
    its 23 bits. What is asked to be quicker computes in bfloat16.
    """
    if torch.device(device).type != "cuda":
        with torch.random.fork_rng(devices=[]):
            yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS may vary
    kept = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filling: Any = torch.utils.deterministic
    filled, precision = filling.fill_uninitialized_memory, torch.get_float32_matmul_precision()
    with torch.cuda.device(device), torch.random.fork_rng(devices=[torch.cuda.current_device()]):
        try:
            torch.use_deterministic_algorithms(True, warn_only=True)
            filling.fill_uninitialized_memory = False  # a kernel for each new tensor
            torch.set_float32_matmul_precision("highest")
            yield
        finally:
            torch.use_deterministic_algorithms(kept[0], warn_only=kept[1])
            filling.fill_uninitialized_memory = filled
            torch.set_float32_matmul_precision(precision)


_LOOK_SECONDS = 0.2


def is_spread(devices: str) -> bool:
    """Tell whether `run_on_devices` works in other processes than this one."""
    return width() > 0 or len(parse_devices(devices)) > 1


def run_on_devices(tasks: Sequence[Task], devices: str, *, shared: Any = None) -> Iterator[tuple[int, Any]]:
    """Call functions that take a device, several at a time where there are several.

    Parameters
    ----------
    tasks : sequence of Task
        Each function's arguments but ``device``.
    devices : str
        As `lmtune.devices.parse_devices` takes. Several have a process each, unless
        `lmtune.parallel.Workers` says how many; one that is named twice has two calls at a time.
    shared : object, optional
        As for `lmtune.parallel.run_all`.

    Yields
    ------
    tuple of int and object
        A task's place and its result, as soon as it is there.

    Raises
    ------
    InputError
        For unknown devices, and several where workers are on another machine.
    """
    known = parse_devices(devices)[: max(1, len(tasks))]
    if len(known) == 1:
        on_one = [(function, {**arguments, "device": known[0]}) for function, arguments in tasks]
        yield from run_all(on_one, shared=shared)
        return
    with tempfile.TemporaryDirectory(prefix="lmtune-") as folder:
        for number in range(len(known)):
            Path(folder, str(number)).touch()
        calls: list[Task] = [(_on_one, {"task": task, "known": known, "folder": folder}) for task in tasks]
        yield from run_all(calls, None if width() else len(known), shared=shared)


def _on_one(*shared: Any, task: Task, known: Sequence[str], folder: str) -> Any:
    function, arguments = task
    with _taken(known, Path(folder)) as device:
        return function(*shared, **arguments, device=device)


@contextlib.contextmanager
def _taken(known: Sequence[str], folder: Path) -> Iterator[str]:
    """Wait for a device that no other process has, each of which holds the file of its device."""
    while folder.is_dir():
        for number, device in enumerate(known):
            try:
                held = hold(folder / str(number))
            except OSError:  # there are no locks here
                yield known[os.getpid() % len(known)]
                return
            if held is not None:
                try:
                    yield device
                finally:
                    os.close(held)
                return
        time.sleep(_LOOK_SECONDS)
    raise InputError(
        "several devices on other machines", value=",".join(known), accepted="one, such as each worker has"
    )
