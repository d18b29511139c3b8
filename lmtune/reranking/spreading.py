"""Trainings spread over devices, each on one that no other training has."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lmtune.errors import InputError
from lmtune.parallel import Task, run_all, width
from lmtune.reranking.devices import parse_devices
from lmtune.storage.temporaries import hold

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
        As `lmtune.reranking.devices.parse_devices` takes. Several have a process each, unless
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
        yield from run_all([(own, {**given, "device": known[0]}) for own, given in tasks], shared=shared)
        return
    with tempfile.TemporaryDirectory(prefix="lmtune-") as folder:
        for place in range(len(known)):
            Path(folder, str(place)).touch()
        calls: list[Task] = [(_on_one, {"task": task, "known": known, "folder": folder}) for task in tasks]
        yield from run_all(calls, None if width() else len(known), shared=shared)


def _on_one(*shared: Any, task: Task, known: Sequence[str], folder: str) -> Any:
    function, given = task
    with _taken(known, Path(folder)) as device:
        return function(*shared, **given, device=device)


@contextlib.contextmanager
def _taken(known: Sequence[str], folder: Path) -> Iterator[str]:
    """Wait for a device that no other process has, each of which holds the file of its device."""
    while folder.is_dir():
        for place, device in enumerate(known):
            try:
                held = hold(folder / str(place))
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
