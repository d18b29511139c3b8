"""Inverting batches in worker processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtune.formats.documents import DocumentBatch
from lmtune.indexing.inversion import Inverter, SortedRun
from lmtune.processes import Unanswered, Worker, drive

if TYPE_CHECKING:
    from lmtune.indexing.analysis import Analyzer


def invert_in_processes(
    batches: Iterable[DocumentBatch],
    analyzer: Analyzer,
    folder: Path,
    *,
    workers: int,
    memory_bytes: int,
    task_bytes: int,
    positions: bool,
    report: Callable[[int], None],
) -> list[SortedRun]:
    """Invert batches in worker processes.

    A worker takes consecutive batches of about ``task_bytes`` at a time, so that every run holds
    consecutive documents.

    Parameters
    ----------
    batches : iterable of DocumentBatch
        The collection; batches and analyzer travel to the workers by pickle.
    analyzer : Analyzer
        Turns text into terms.
    folder : pathlib.Path
        Where the runs go.
    workers : int
        How many processes.
    memory_bytes : int
        The memory budget of each.
    task_bytes : int
        How much input a worker takes at a time.
    positions : bool
        Whether to keep where tokens stand.
    report : callable
        Called in this thread with the size of each finished batch.

    Returns
    -------
    list of SortedRun
        The runs in collection order.

    Raises
    ------
    Exception
        Whatever reading a batch raised in a worker, and RuntimeError if a worker ended.
    """
    tasks = _Tasks(batches, task_bytes)

    def work(worker: Worker) -> Iterator[int | tuple[int, list[SortedRun]]]:
        """Feed one worker: batch sizes, then (task, runs)."""
        worker.tell((analyzer, folder, f"worker{tasks.number()}", memory_bytes, positions))
        for task, part in tasks:
            for batch in part:
                worker.ask(batch)
                yield batch.size
            yield task, worker.ask(None)

    runs: dict[int, list[SortedRun]] = {}
    try:
        events = drive("lmtune.indexing.workers:make_inverter", "an indexing worker", workers, work)
        for event in events:
            if isinstance(event, int):
                report(event)
            else:
                task, written = event
                runs[task] = written
    finally:
        tasks.stop()
    return [run for task in sorted(runs) for run in runs[task]]


class _Tasks:
    """Hands out numbered lists of consecutive batches to several threads."""

    def __init__(self, batches: Iterable[DocumentBatch], task_bytes: int) -> None:
        self._batches = iter(batches)
        self._task_bytes = task_bytes
        self._given = 0
        self._workers = 0
        self._stopped = False
        self._lock = threading.Lock()

    def number(self) -> int:
        """Give the caller a number."""
        with self._lock:
            self._workers += 1
            return self._workers - 1

    def stop(self) -> None:
        self._stopped = True

    def __iter__(self) -> Iterator[tuple[int, list[DocumentBatch]]]:
        while task := self._take():
            yield task

    def _take(self) -> tuple[int, list[DocumentBatch]] | None:
        with self._lock:
            batches: list[DocumentBatch] = []
            size = 0
            while size < self._task_bytes and not self._stopped:
                batch = next(self._batches, None)
                if batch is None:
                    break
                batches.append(batch)
                size += batch.size
            self._given += 1
            return (self._given, batches) if batches and not self._stopped else None


def make_inverter() -> Callable[[Any], Any]:
    """Be a worker: settings first, then batches, and None for the runs of those before it."""
    inverter: Inverter | None = None

    def answer(request: Any) -> Any:
        nonlocal inverter
        if inverter is None:
            inverter = Inverter(*request)
            return Unanswered()
        if request is None:
            return inverter.finish()
        inverter.add(request.read())
        return None

    return answer
