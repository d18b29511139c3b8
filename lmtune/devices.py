"""Devices: names, asynchronous copies, reproducible computation, and tasks spread over several devices."""

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
from lmtune.io.locks import try_lock
from lmtune.parallel import Task, run_all, width

_T = TypeVar("_T")

# Largest share of a device's free memory for features; the rest is for network, gradients and batches.
_SHARE = 0.6


def parse_devices(text: str) -> list[str]:
    """Parse comma-separated devices; ``cuda`` means all GPUs, as ``cuda:0``, ``cuda:1``, ...

    Raises
    ------
    InputError
        If torch does not have a device.
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
    """Raise InputError unless the text names a single device; ``cuda`` means the current GPU."""
    parse_devices(device)
    if "," in device:
        raise InputError("several devices for one training", value=device, accepted="cpu, cuda, cuda:1 ...")


def fits(size: int, device: torch.device) -> bool:
    """Return whether a data set of `size` bytes fits into a device's memory; always True for the CPU."""
    return device.type != "cuda" or size <= _SHARE * torch.cuda.mem_get_info(device)[0]


def to_device(array: NDArray[Any], device: str | torch.device) -> Tensor:
    """Copy an array to a device; to a GPU asynchronously, from pinned memory."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if torch.device(device).type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def prefetch(items: Iterator[_T], device: str) -> Iterator[_T]:
    """Yield items; for a GPU, a thread prepares the next item while the current one is processed."""
    if torch.device(device).type != "cuda":
        yield from items
        return
    with ThreadPoolExecutor(1) as thread:
        upcoming = thread.submit(next, items, None)
        while (item := upcoming.result()) is not None:
            upcoming = thread.submit(next, items, None)
            yield item


def autocast(device: str | torch.device, *, bf16: bool) -> AbstractContextManager[Any]:
    """Return a context with torch's autocast to bfloat16, or with autocast disabled."""
    kind = torch.device(device).type
    known = torch.amp.is_autocast_available(kind)
    changes = known and (bf16 or torch.is_autocast_enabled(kind))
    return torch.autocast(kind, torch.bfloat16, enabled=bf16) if changes else nullcontext()


def as_current(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which a GPU is torch's current device; without effect for the CPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def set_seed(seed: int, device: str | torch.device) -> None:
    """Seed the generators of the CPU and, for a GPU, of all GPUs, as `torch.manual_seed` does.

    That function also formats the call stack for each kind of device that this process does not use.
    """
    torch.default_generator.manual_seed(seed)
    if torch.device(device).type == "cuda":
        torch.cuda.manual_seed_all(seed)


@contextmanager
def threads_of_torch(number: int | None) -> Iterator[None]:
    """Let torch use this number of threads; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Compute reproducibly, and restore torch's generators and switches afterwards.

    On a GPU, use deterministic kernels, and multiply float32 matrices without TF32, which has 10
    instead of 23 mantissa bits. For speed, use bfloat16 (`autocast`).
    """
    if torch.device(device).type != "cuda":
        with torch.random.fork_rng(devices=[]):
            yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # makes cuBLAS deterministic
    previous = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    switches: Any = torch.utils.deterministic
    fill, precision = switches.fill_uninitialized_memory, torch.get_float32_matmul_precision()
    with torch.cuda.device(device), torch.random.fork_rng(devices=[torch.cuda.current_device()]):
        try:
            torch.use_deterministic_algorithms(True, warn_only=True)
            switches.fill_uninitialized_memory = False  # would add a kernel for each new tensor
            torch.set_float32_matmul_precision("highest")
            yield
        finally:
            torch.use_deterministic_algorithms(previous[0], warn_only=previous[1])
            switches.fill_uninitialized_memory = fill
            torch.set_float32_matmul_precision(precision)


_POLL_SECONDS = 0.2


def is_spread(devices: str) -> bool:
    """Return whether `run_on_devices` uses other processes."""
    return width() > 0 or len(parse_devices(devices)) > 1


def run_on_devices(tasks: Sequence[Task], devices: str, *, shared: Any = None) -> Iterator[tuple[int, Any]]:
    """Call functions with an argument ``device``, in parallel if there are several devices.

    Parameters
    ----------
    tasks : sequence of Task
        Functions and their arguments without ``device``.
    devices : str
        See `parse_devices`. Each of several devices has its own process, unless
        `lmtune.parallel.Workers` sets the number of processes. A device that is listed twice runs two
        tasks at a time.
    shared : object, optional
        See `lmtune.parallel.run_all`.

    Yields
    ------
    tuple of int and object
        A task's index and its result, in order of completion.

    Raises
    ------
    InputError
        If a device is unknown, or there are several devices and workers on other machines.
    """
    known = parse_devices(devices)[: max(1, len(tasks))]
    if len(known) == 1:
        on_one = [(function, {**arguments, "device": known[0]}) for function, arguments in tasks]
        yield from run_all(on_one, shared=shared)
        return
    with tempfile.TemporaryDirectory(prefix="lmtune-") as folder:
        for number in range(len(known)):
            Path(folder, str(number)).touch()
        calls: list[Task] = [
            (_run_on_free_device, {"task": task, "devices": known, "folder": folder}) for task in tasks
        ]
        yield from run_all(calls, None if width() else len(known), shared=shared)


def _run_on_free_device(*shared: Any, task: Task, devices: Sequence[str], folder: str) -> Any:
    function, arguments = task
    with _lock_free_device(devices, Path(folder)) as device:
        return function(*shared, **arguments, device=device)


@contextlib.contextmanager
def _lock_free_device(devices: Sequence[str], folder: Path) -> Iterator[str]:
    """Wait for a device whose lock file no other process has locked, and lock it."""
    while folder.is_dir():
        for number, device in enumerate(devices):
            try:
                lock = try_lock(folder / str(number))
            except OSError:  # the file system has no locks
                yield devices[os.getpid() % len(devices)]
                return
            if lock is not None:
                try:
                    yield device
                finally:
                    os.close(lock)
                return
        time.sleep(_POLL_SECONDS)
    raise InputError(
        "several devices on other machines",
        value=",".join(devices),
        accepted="one device, which each worker has",
    )
