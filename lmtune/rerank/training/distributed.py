"""Data parallel training: each process computes the loss of a part of every batch.

A part's loss is weighted by its share of the queries in the batch's mean, and gradients are summed over
processes. SONG's estimates of a part's queries are sent to the other processes. The result is that of one
process up to rounding, except for dropout and random draws on a GPU.

Batch norm uses the items of all processes. It increases rounding differences if features hardly vary within
a batch: after three epochs on real data, weights agreed to 1e-7 without batch norm and to 2e-3 with it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from lmtune.devices import parse_devices
from lmtune.errors import InputError


def world_size() -> int:
    """Return the number of processes that train together; 1 outside of `process_group`."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def process_number() -> int:
    """Return this process's rank, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


@contextlib.contextmanager
def process_group(device: str = "cpu") -> Iterator[str]:
    """Join the processes that ``torchrun`` started, if any, and yield this process's device.

    Parameters
    ----------
    device : str
        ``"cpu"`` communicates by gloo. ``"cuda"``, or ``"cuda:0,cuda:2"`` with one device for each process
        on this machine, communicates by NCCL.

    Yields
    ------
    str
        This process's device, such as ``cuda:1``.

    Raises
    ------
    InputError
        If the processes cannot connect, or there are too few devices.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or world_size() > 1:
        yield device
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    backend = "gloo"
    if device != "cpu":
        backend, device = "nccl", _device_of_process(device, int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    try:
        dist.init_process_group(backend)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"cannot join the other processes ({error})", accepted="torchrun --nproc-per-node N"
        ) from error
    try:
        yield device
        # A process must not exit while another still communicates with it.
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _device_of_process(devices: str, number: int) -> str:
    """Return the device of a process; each device has at most one process."""
    parsed = parse_devices(devices)
    if number >= len(parsed) or len(set(parsed)) < len(parsed):
        raise InputError(
            "each process needs its own device", value=devices, accepted="cuda, or one device per process"
        )
    return parsed[number]


def process_part(rows: int) -> slice:
    """Return the slice of a batch's queries for this process; the last parts may be shorter."""
    each = -(-rows // world_size())
    return slice(min(process_number() * each, rows), min((process_number() + 1) * each, rows))


def add_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Sum gradients over processes, in place, in one message.

    The gradient stays None if no process has one, so that the optimizer does not apply weight decay.
    """
    if world_size() == 1:
        return
    listed = [parameter for parameter in parameters if parameter.requires_grad]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in listed]
    has_grad = grads[0].new_tensor([p.grad is not None for p in listed])
    flat = torch.cat([*(grad.reshape(-1) for grad in grads), has_grad])
    dist.all_reduce(flat)
    *totals, counts = torch.split(flat, [*(grad.numel() for grad in grads), len(listed)])
    for parameter, grad, total, count in zip(listed, grads, totals, counts.tolist(), strict=True):
        if count:
            parameter.grad = grad.copy_(total.view_as(grad))


def sum_over_processes(values: Tensor) -> Tensor:
    """Sum a tensor over all processes, differentiably."""
    if world_size() == 1:
        return values
    from torch.distributed.nn.functional import all_reduce

    total: Tensor = all_reduce(values)  # type: ignore[no-untyped-call]
    return total
