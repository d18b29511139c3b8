"""Inverting batches in worker processes.

The workers are plain Python processes that read requests from their standard input. Unlike
forked ones they are safe in a process with threads (a progress bar, a Java VM), and unlike
multiprocessing's spawned ones they do not run the caller's script again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lmtune.formats.documents import DocumentBatch
from lmtune.indexing.inversion import Inverter, Run

if TYPE_CHECKING:
    from lmtune.indexing.analysis import Analyzer

_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from lmtune.indexing.workers import serve; serve()"
)
_JOIN_SECONDS = 5.0
_END = object()


def invert_in_processes(
    batches: Iterable[DocumentBatch],
    analyzer: Analyzer,
    folder: Path,
    *,
    workers: int,
    memory_bytes: int,
    task_bytes: int,
    report: Callable[[int], None],
) -> list[Run]:
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
    report : callable
        Called in this thread with the size of each finished batch.

    Returns
    -------
    list of Run
        The runs in collection order.

    Raises
    ------
    Exception
        Whatever reading a batch raised in a worker, and RuntimeError if a worker ended.
    """
    tasks = _Tasks(batches, task_bytes)
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    processes: list[subprocess.Popen[bytes]] = []
    threads: list[threading.Thread] = []
    try:
        for number in range(workers):
            process = _start()
            processes.append(process)
            settings = (analyzer, folder, f"worker{number}", memory_bytes)
            thread = threading.Thread(
                target=_drive, args=(process, settings, tasks, events), daemon=True
            )
            threads.append(thread)
            thread.start()
        return _gather(events, workers, report)
    finally:
        tasks.stop()
        for process in processes:
            process.kill()
            process.wait()
        for thread in threads:
            thread.join(_JOIN_SECONDS)
        for process in processes:
            _close(process)


def _gather(
    events: queue.SimpleQueue[Any], workers: int, report: Callable[[int], None]
) -> list[Run]:
    """Wait for the drivers: batch sizes, (task, runs) pairs, an error, or None at their end."""
    runs: dict[int, list[Run]] = {}
    while workers:
        event = events.get()
        if event is None:
            workers -= 1
        elif isinstance(event, BaseException):
            raise event
        elif isinstance(event, int):
            report(event)
        else:
            task, written = event
            runs[task] = written
    return [run for task in sorted(runs) for run in runs[task]]


class _Tasks:
    """Hands out numbered lists of consecutive batches to several threads."""

    def __init__(self, batches: Iterable[DocumentBatch], task_bytes: int) -> None:
        self._batches = iter(batches)
        self._task_bytes = task_bytes
        self._given = 0
        self._stopped = False
        self._lock = threading.Lock()

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


def _start() -> subprocess.Popen[bytes]:
    # One thread a process: a worker does no linear algebra.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        # Out of reach of the terminal's Ctrl-C, which this process handles for them.
        process_group=0 if os.name == "posix" else None,
    )


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):  # what the killed worker never read
            pipe.close()


def _drive(
    process: subprocess.Popen[bytes],
    settings: tuple[Any, ...],
    tasks: _Tasks,
    events: queue.SimpleQueue[Any],
) -> None:
    """Feed one worker; runs in a thread of its own."""
    try:
        _send(process, sys.path)
        _send(process, settings)
        for task, batches in tasks:
            for batch in batches:
                _ask(process, batch)
                events.put(batch.size)
            events.put((task, _ask(process, None)))
        events.put(None)
    except BaseException as error:
        events.put(error)


def _ask(process: subprocess.Popen[bytes], request: DocumentBatch | None) -> Any:
    _send(process, request)
    assert process.stdout is not None
    try:
        reply = pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError) as error:
        raise _ended(process) from error
    if isinstance(reply, Exception):
        raise reply
    return reply


def _send(process: subprocess.Popen[bytes], request: Any) -> None:
    assert process.stdin is not None
    try:
        pickle.dump(request, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
    except BrokenPipeError as error:
        raise _ended(process) from error


def _ended(process: subprocess.Popen[bytes]) -> RuntimeError:
    status = process.wait()
    reason = f"signal {-status}" if status < 0 else f"status {status}"
    hint = (
        "; was there too little memory for it?" if status == -getattr(signal, "SIGKILL", 9) else ""
    )
    return RuntimeError(f"an indexing worker ended unexpectedly ({reason}){hint}")


def serve() -> None:
    """Be a worker: invert the batches that come through standard input, until it ends."""
    requests = cast("BufferedReader", sys.stdin.buffer)
    # The parent may end, or have heard enough, while a reply is on its way.
    with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # so that a stray print cannot garble the replies
        inverter: Inverter | None = None
        while (request := _receive(requests)) is not _END:
            answer: Any = None
            try:
                if isinstance(request, Exception):
                    raise request
                if inverter is None:
                    inverter = Inverter(*request)
                    continue
                if request is None:
                    answer = inverter.finish()
                else:
                    inverter.add(request.read())
            except Exception as error:
                error.add_note(f"In an indexing worker:\n{traceback.format_exc()}")
                answer = error
            replies.write(_pack(answer))
            replies.flush()


def _receive(requests: BufferedReader) -> Any:
    """Return the next request, an exception if it cannot be unpickled, or _END."""
    if not requests.peek(1):
        return _END
    try:
        return pickle.load(requests)
    except Exception as error:
        return error


def _pack(answer: Any) -> bytes:
    try:
        message = pickle.dumps(answer)
        pickle.loads(message)
        return message
    except Exception:
        if not isinstance(answer, Exception):
            raise
        return pickle.dumps(RuntimeError("".join(traceback.format_exception(answer))))
