"""Threads over slices, for kernels that release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait


def over_slices(
    work: Callable[[slice], None],
    total: int,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Run `work` over consecutive slices of ``range(total)``.

    Slices are small, so that Ctrl-C is answered soon and no thread idles for long. `work` must
    write its results by position: then they do not depend on the number of threads.

    Parameters
    ----------
    work : callable
        Takes a slice.
    total : int
        Items in all.
    threads : int, optional
        The number of cores by default.
    progress : callable, optional
        Called with (items done, items in all).
    """
    threads = threads or os.cpu_count() or 1
    step = max(1, min(32, -(-total // (4 * threads))))
    chunks = [slice(first, min(first + step, total)) for first in range(0, total, step)]
    if threads == 1 or len(chunks) <= 1:
        for chunk in chunks:
            work(chunk)
            if progress is not None:
                progress(chunk.stop, total)
        return
    done = 0
    with ThreadPoolExecutor(threads) as executor:
        try:
            futures = {executor.submit(work, chunk): chunk for chunk in chunks}
            waiting = set(futures)
            while waiting:
                ready, waiting = wait(waiting, timeout=0.2, return_when=FIRST_EXCEPTION)
                for future in ready:
                    future.result()
                    done += futures[future].stop - futures[future].start
                if progress is not None and ready:
                    progress(done, total)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
