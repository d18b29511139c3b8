"""Parallel loops in threads, for kernels that release the GIL."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import cache
from typing import Any, TypeVar

from lmtune.progress import Count

_T = TypeVar("_T")

# Slices per thread, so that no thread waits long for the others at the end.
_SHARES = 4
# Maximum items of a slice if progress is shown, so that the bar moves and Ctrl-C is handled.
_SHOWN_STEP = 32
# Seconds of work below which threads cost more time than they save.
_SHORT = 1.5e-3


def over_slices(
    work: Callable[[slice], None],
    total: int,
    *,
    threads: int | None = None,
    seconds: float = math.inf,
    progress: Count | None = None,
) -> None:
    """Call `work` for consecutive slices of ``range(total)``, in parallel.

    `work` must write its results by position, so that they do not depend on the number of threads.

    Parameters
    ----------
    work : callable
        Called with a slice.
    total : int
        Number of items.
    threads : int, optional
        Number of threads; the default is the number of cores.
    seconds : float
        Estimated time of the work in one thread; short work is done without threads.
    progress : callable, optional
        Called with (items done, total).
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
            finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_EXCEPTION)
            for future in finished:
                future.result()
                done += futures[future].stop - futures[future].start
            if progress is not None and finished:
                progress(done, total)
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def map_range(work: Callable[[int], _T], total: int, **options: Any) -> list[_T]:
    """Return the results of `work` for each number in ``range(total)``; options as for `over_slices`."""
    results: list[Any] = [None] * total

    def fill(part: slice) -> None:
        for number in range(part.start, part.stop):
            results[number] = work(number)

    over_slices(fill, total, **options)
    return results


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="lmtune")


if hasattr(os, "register_at_fork"):
    # A forked child does not have the threads of its parent.
    os.register_at_fork(after_in_child=_executor.cache_clear)
