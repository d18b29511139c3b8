"""Worker processes: plain Python processes that read requests from their standard input.

Unlike forked ones they are safe in a process with threads (a progress bar, a Java VM), and unlike
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
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from typing import Any, cast

_START = (
    "import importlib, pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from lmtune.processes import serve; serve(*sys.argv[1:])"
)
_JOIN_SECONDS = 5.0
_END = object()
# Results must not depend on how a matrix product is split among threads.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Task = tuple[Callable[..., Any], dict[str, Any]]
"""A module's function and its keyword arguments."""


class Worker:
    """A process that answers requests one after the other.

    Parameters
    ----------
    entry : str
        ``MODULE:FUNCTION``, called once in the process: it returns what answers a request.
    title : str
        What to call it where it ends unexpectedly.
    """

    def __init__(self, entry: str, title: str) -> None:
        self._title = title
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *entry.split(":")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _ONE_THREAD,
            # Out of reach of the terminal's Ctrl-C, which this process handles for them.
            process_group=0 if os.name == "posix" else None,
        )
        self._started = False

    def tell(self, request: Any) -> None:
        """Send a request that gets no answer.

        Raises
        ------
        RuntimeError
            Where the process has ended.
        """
        assert self._process.stdin is not None
        try:
            if not self._started:
                self._started = True
                pickle.dump(sys.path, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            pickle.dump(request, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error

    def ask(self, request: Any) -> Any:
        """Send a request and wait for the answer.

        Raises
        ------
        Exception
            What answering raised; RuntimeError where the process has ended.
        """
        self.tell(request)
        assert self._process.stdout is not None
        try:
            reply = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise self._ended() from error
        if isinstance(reply, Exception):
            raise reply
        return reply

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes; nobody may be waiting for an answer."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # what the killed worker never read
                pipe.close()

    def _ended(self) -> RuntimeError:
        status = self._process.wait()
        reason = f"signal {-status}" if status < 0 else f"status {status}"
        killed = status == -getattr(signal, "SIGKILL", 9)
        hint = "; was there too little memory for it?" if killed else ""
        return RuntimeError(f"{self._title} ended unexpectedly ({reason}){hint}")


class Unanswered:
    """What an entry returns for a request that was sent by `Worker.tell`."""


def drive(entry: str, title: str, workers: int, work: Callable[[Worker], Iterator[Any]]) -> Iterator[Any]:
    """Start workers and yield, in this thread, what a function makes of each in its own thread.

    Parameters
    ----------
    entry, title : str
        As for `Worker`.
    workers : int
        How many processes.
    work : callable
        Called with each worker in a thread of its own; what it yields is passed on.

    Yields
    ------
    object
        As soon as it is there, in no order.

    Raises
    ------
    Exception
        The first that `work` raised. However this ends, the processes end as well.
    """
    events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    running: list[Worker] = []
    threads: list[threading.Thread] = []

    def run(worker: Worker) -> None:
        try:
            for event in work(worker):
                events.put(("event", event))
            events.put(("end", None))
        except BaseException as error:
            events.put(("error", error))

    try:
        for _ in range(workers):
            running.append(Worker(entry, title))
            threads.append(threading.Thread(target=run, args=(running[-1],), daemon=True))
            threads[-1].start()
        left = workers
        while left:
            kind, event = events.get()
            if kind == "error":
                raise event
            if kind == "end":
                left -= 1
            else:
                yield event
    finally:
        for worker in running:
            worker.kill()
        for thread in threads:
            thread.join(_JOIN_SECONDS)
        for worker in running:
            worker.close()


def call_all(tasks: Sequence[Task], *, workers: int) -> Iterator[tuple[int, Any]]:
    """Call functions in worker processes, each with one thread for linear algebra.

    Parameters
    ----------
    tasks : sequence of Task
        They travel by pickle.
    workers : int
        Processes, 1 or more.

    Yields
    ------
    tuple of int and object
        A task's place and its result, as soon as it is there.

    Raises
    ------
    Exception
        The first that a function raised; RuntimeError if a process ended.
    """
    places = iter(range(len(tasks)))
    lock = threading.Lock()

    def work(worker: Worker) -> Iterator[tuple[int, Any]]:
        while True:
            with lock:
                place = next(places, None)
            if place is None:
                return
            yield place, worker.ask(tasks[place])

    yield from drive("lmtune.processes:make_caller", "a worker process", min(workers, len(tasks)), work)


def make_caller() -> Callable[[Task], Any]:
    """Be a process of `call_all`."""
    return lambda task: task[0](**task[1])


def serve(module: str, function: str) -> None:
    """Be a worker: answer the requests that come through standard input, until it ends."""
    import importlib

    requests = cast("BufferedReader", sys.stdin.buffer)
    # The parent may end, or have heard enough, while a reply is on its way.
    with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # so that a stray print cannot garble the replies
        answer_to = getattr(importlib.import_module(module), function)()
        while (request := _receive(requests)) is not _END:
            try:
                if isinstance(request, Exception):
                    raise request
                answer = answer_to(request)
            except Exception as error:
                error.add_note(f"In a worker process:\n{traceback.format_exc()}")
                answer = error
            if not isinstance(answer, Unanswered):
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
