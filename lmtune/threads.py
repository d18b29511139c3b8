"""Threads over slices, for kernels that release the GIL."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import cache
from typing import Any, TypeVar

from lmtune.progress import Count

_T = TypeVar("_T")

# Slices a thread: enough that none idles while another finishes a long one.
_SHARES = 4
# Items in a slice whose progress is shown, so that the bar moves and Ctrl-C is answered.
_SHOWN_STEP = 32
# Seconds of work below which handing it to threads takes longer than it saves.
_SHORT = 1.5e-3


def over_slices(
    work: Callable[[slice], None],
    total: int,
    *,
    threads: int | None = None,
    seconds: float = math.inf,
    progress: Count | None = None,
) -> None:
    """Run `work` over consecutive slices of ``range(total)``.

    `work` must write its results by position: then they do not depend on the number of threads.

    Parameters
    ----------
    work : callable
        Takes a slice.
    total : int
        Items in all.
    threads : int, optional
        The number of cores by default.
    seconds : float
        About how long the work would take one thread, where that is known: what is short is done at once.
    progress : callable, optional
        Called with (items done, items in all).
    """
    if seconds < _SHORT:
        work(slice(0, total))
        if progress is not None:
            progress(total, total)
        return
    threads = threads or cores()
    step = max(1, -(-total // (_SHARES * threads)))
    if progress is not None:
        step = min(step, _SHOWN_STEP)
    slices = [slice(first, min(first + step, total)) for first in range(0, total, step)]
    if threads == 1 or len(slices) <= 1:
        for part in slices:
            work(part)
            if progress is not None:
                progress(part.stop, total)
        return
    futures = {_executor(threads).submit(work, part): part for part in slices}
    waiting = set(futures)
    done = 0
    try:
        while waiting:
            # A time-out lets the main thread see Ctrl-C.
            ready, waiting = wait(waiting, timeout=0.2, return_when=FIRST_EXCEPTION)
            for future in ready:
                future.result()
                done += futures[future].stop - futures[future].start
            if progress is not None and ready:
                progress(done, total)
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def over_places(work: Callable[[int], _T], total: int, **how: Any) -> list[_T]:
    """Return what `work` makes of each number below `total`, as `over_slices` runs it."""
    made: list[Any] = [None] * total

    def fill(part: slice) -> None:
        for place in range(part.start, part.stop):
            made[place] = work(place)

    over_slices(fill, total, **how)
    return made


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="lmtune")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_executor.cache_clear)
