"""Data parallel training: each process scores a part of every batch, all see the whole loss.

The scores of a batch's parts are gathered, so that each process computes the loss of the whole
batch, SONG's state and all, and sends the gradient of its own part back through its own network;
the parts' gradients are then added up. So a loss need not know that it is computed in parts, and
the result is that of one process, whatever the loss averages over, up to rounding. (With batch norm
and features that hardly vary within a batch, rounding grows: weights agree to 1e-7 after three
epochs on a real set without batch norm, to 2e-3 with it.)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from lmtune.errors import InputError


def world_size() -> int:
    """Return how many processes train together; 1 outside of `process_group`."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return this process's number among them, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


@contextlib.contextmanager
def process_group(device: str = "cpu") -> Iterator[str]:
    """Join the processes that ``torchrun`` started, if it did; give the device to train on.

    Parameters
    ----------
    device : str
        ``"cpu"`` communicates by gloo, ``"cuda"`` by NCCL with one device a process.

    Yields
    ------
    str
        The device: ``cuda`` gets this process's number, as in ``cuda:1``.

    Raises
    ------
    InputError
        If the processes cannot find each other.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or world_size() > 1:
        yield device
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    backend = "gloo"
    if device == "cuda":
        backend, device = "nccl", f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(device)
    try:
        dist.init_process_group(backend)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"cannot join the other processes ({error})", accepted="torchrun --nproc-per-node N"
        ) from error
    try:
        yield device
        # No process may leave while another still talks to it.
        dist.barrier()
    finally:
        dist.destroy_process_group()


def part_of(rows: int) -> slice:
    """Return this process's part of a batch of so many queries; the last parts may be shorter."""
    each = -(-rows // world_size())
    return slice(min(rank() * each, rows), min((rank() + 1) * each, rows))


def gather_parts(own: Tensor, rows: int) -> Tensor:
    """Join the parts of a batch; gradients flow through this process's own part only.

    Parameters
    ----------
    own : Tensor, shape (part's queries, items)
        This process's scores, those of `part_of`.
    rows : int
        Queries in the whole batch.

    Returns
    -------
    Tensor, shape (rows, items)
        The same in every process.
    """
    if world_size() == 1:
        return own
    each = -(-rows // world_size())
    padded = own.new_zeros((each, own.shape[1]))
    padded[: own.shape[0]] = own.detach()
    parts = [torch.empty_like(padded) for _ in range(world_size())]
    dist.all_gather(parts, padded)
    joined = torch.cat(parts)[:rows]
    place = part_of(rows)
    return torch.cat([joined[: place.start], own, joined[place.stop :]])


def add_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Add the processes' gradients up, in place, in one message."""
    if world_size() == 1:
        return
    listed = list(parameters)
    for parameter in listed:
        if parameter.grad is None:  # no item of this part reached it
            parameter.grad = torch.zeros_like(parameter)
    grads = [p.grad for p in listed if p.grad is not None]
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    dist.all_reduce(flat)
    for grad, total in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
        grad.copy_(total.view_as(grad))


class _SumOverProcesses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, values: Tensor) -> Tensor:  # noqa: ARG004
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: object, *grads: Tensor) -> Tensor:  # noqa: ARG004
        # Each process holds the derivative of its own part of the loss by the common sum.
        total = grads[0].clone()
        dist.all_reduce(total)
        return total


def sum_over_processes(values: Tensor) -> Tensor:
    """Add a tensor up over all processes, differentiably."""
    if world_size() == 1:
        return values
    total: Tensor = _SumOverProcesses.apply(values)  # type: ignore[no-untyped-call]
    return total


def barrier() -> None:
    """Wait for the other processes."""
    if world_size() > 1:
        dist.barrier()
