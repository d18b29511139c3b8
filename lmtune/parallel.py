"""Parallel tasks in processes of this machine, on a Dask cluster, or in the active backend of joblib.

The processes are those of joblib (loky). Unlike forked processes they are safe with threads (a progress bar,
a Java VM). Unlike the spawned processes of multiprocessing they do not import the main script again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pickle
import platform
import re
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lmtune.errors import InputError, LostWorkerError, MissingExtraError
from lmtune.options import option, usual
from lmtune.strict_json import parse_json

_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Workers use one thread for matrix products, because the number of threads can change results."""

_CONNECT_SECONDS, _JOIN_SECONDS, _IDLE_SECONDS = 10, 60, 30
_TASKS_PER_WORKER = 2  # submitted tasks per worker, so that no worker waits for its next task
_POLL_SECONDS = 0.2
_LIBRARIES = ("lmtune", "numpy", "scipy", "numba")

Task = tuple[Callable[..., Any], dict[str, Any]]
"""A module-level function and its keyword arguments, which must be picklable."""


class _Sender(NamedTuple):
    """The current folder of the process that sends a task, and its versions if workers must check them."""

    folder: str
    versions: dict[str, str] | None


_chosen: ContextVar[Any] = ContextVar("workers", default=None)
_turn = threading.Lock()


@dataclass(frozen=True)
class Workers:
    """Parallel work: processes, or a Dask cluster.

    Attributes
    ----------
    workers : int or None
        Number of processes on this machine.
    cluster : str or None
        The address of a Dask scheduler, or its scheduler file (``--scheduler-file``).

    Raises
    ------
    InputError
        If both are set.
    """

    workers: int | None = usual(
        None, "Number of processes; results do not depend on it. Default: one per core (rerank: 1).", low=1
    )
    cluster: str | None = option(
        None, "Use a Dask cluster: address of its scheduler, or scheduler file.", metavar="ADDRESS|FILE"
    )

    def __post_init__(self) -> None:
        if self.workers is not None and self.cluster is not None:
            raise InputError("both --workers and --cluster", accepted="one of them")

    @contextlib.contextmanager
    def engaged(self, default: int = 0) -> Iterator[None]:
        """Make `run_all` use these workers in the ``with`` block.

        Parameters
        ----------
        default : int
            Number of processes if none is set; 0 works in this process.

        Raises
        ------
        InputError
            If the cluster cannot be reached, has no workers, or has workers with other versions.
        """
        with contextlib.ExitStack() as stack:
            chosen: Any = self.workers or default
            if self.cluster is not None:
                chosen = stack.enter_context(_connected(self.cluster))
            stack.callback(_chosen.reset, _chosen.set(chosen))
            yield


def width(workers: int | None = None) -> int:
    """Return the number of tasks that `run_all` runs at a time; 0 if it runs them in this process."""
    backend = _backend(workers)
    if isinstance(backend, int):
        return backend
    client = getattr(backend, "client", backend)
    if hasattr(client, "nthreads"):
        return sum(client.nthreads().values())
    from joblib import effective_n_jobs

    return int(effective_n_jobs())


def run_all(
    tasks: Iterable[Task], workers: int | None = None, *, shared: Any = None
) -> Iterator[tuple[int, Any]]:
    """Call functions in parallel, each with one thread for linear algebra.

    Parameters
    ----------
    tasks : iterable of Task
        Iterated as workers become free; two tasks per worker are submitted at a time.
    workers : int, optional
        Number of processes on this machine, 0 for this process. The default is that of `Workers.engaged`,
        else that of `joblib.parallel_config`, else this process.
    shared : object, optional
        The first argument of every call. Each worker receives it once, not with every task.

    Yields
    ------
    tuple of int and object
        The number of a task and its result, as soon as it is finished, in any order.

    Raises
    ------
    Exception
        The first exception of a task. All workers stop at the end in any case.
    LostWorkerError
        If a process was killed, or a cluster repeatedly lost the workers of a task.
    """
    backend, sender = _backend(workers), _Sender(str(Path.cwd()), None)
    if isinstance(backend, int) and isinstance(tasks, Sized):
        backend = min(backend, len(tasks))
    if backend == 0:
        return ((number, _do(task, shared)) for number, task in enumerate(tasks))
    sent: Iterable[Any] = tasks if getattr(backend, "uses_threads", False) else map(_Packed, tasks)
    if isinstance(backend, int):
        return _in_processes(_calls(sent, sender), backend, shared)
    client = getattr(backend, "client", backend)
    if hasattr(client, "get_executor"):
        sender = sender._replace(versions=versions())
        return _on_cluster(_calls(sent, sender), client, shared)
    from joblib import Parallel, delayed

    as_done = "generator_unordered" if backend.supports_return_generator else "list"
    parallel = Parallel(return_as=as_done, batch_size=1, max_nbytes=None)
    return _raising(parallel(delayed(_try)(*call, shared) for call in _calls(sent, sender)))


def in_task_order(results: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Yield the results of `run_all` in the order of the tasks, each once all earlier ones are finished."""
    pending: dict[int, Any] = {}
    following = 0
    for number, result in results:
        pending[number] = result
        while following in pending:
            yield pending.pop(following)
            following += 1


def _backend(workers: int | None) -> Any:
    """Return the number of processes, a Dask client, or a backend of joblib."""
    if workers is not None:
        return workers
    if _chosen.get() is not None:
        return _chosen.get()
    from joblib.parallel import get_active_backend

    backend, jobs = get_active_backend()
    jobs = backend.effective_n_jobs(jobs)
    if jobs == 1:
        return 0
    return jobs if type(backend).__name__ == "LokyBackend" else backend


def _calls(tasks: Iterable[Any], sender: _Sender) -> Iterator[tuple[int, Any, _Sender]]:
    return ((number, task, sender) for number, task in enumerate(tasks))


def _in_processes(calls: Iterator[Any], workers: int, shared: Any) -> Iterator[tuple[int, Any]]:
    from joblib.externals.loky import get_reusable_executor

    executor = get_reusable_executor(
        workers, timeout=_IDLE_SECONDS, initializer=_begin, initargs=(os.getpid(),), env=_ONE_THREAD
    )
    ended = False
    try:
        with _stored(shared) as stored:
            yield from _results(executor, calls, _TASKS_PER_WORKER * workers, stored)
        ended = True
    except BrokenExecutor as error:
        codes = re.search(r"exit codes of the workers are \{(.*?)\}", str(error))
        reason = f" ({codes[1]})" if codes else f" ({error or error.__cause__!r})"
        raise LostWorkerError(
            f"a worker process ended unexpectedly{reason}; it may have run out of memory"
        ) from error
    finally:
        if not ended:
            executor.shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def _stored(shared: Any) -> Iterator[Any]:
    """Store the shared argument in a temporary file, and yield an object that loads it."""
    if shared is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="lmtune-") as folder:
        path = Path(folder, "shared")
        with path.open("wb") as file:
            pickle.dump(shared, file, pickle.HIGHEST_PROTOCOL)
        yield _StoredFile(str(path))


class _StoredFile(NamedTuple):
    path: str

    def load(self) -> Any:
        with Path(self.path).open("rb") as file:
            return pickle.load(file)


class _Packed:
    """A pickled object that workers load in the folder of the sender, so that relative paths are valid."""

    def __init__(self, content: Any) -> None:
        from joblib.externals.loky.backend.reduction import dumps

        self._content = bytes(dumps(content))

    def load(self) -> Any:
        return pickle.loads(self._content)


@lru_cache(maxsize=1)
def _load_once(shared: _StoredFile | _Packed) -> Any:
    return shared.load()


def _on_cluster(calls: Iterator[Any], client: Any, shared: Any) -> Iterator[tuple[int, Any]]:
    from distributed import KilledWorker

    executor = client.get_executor(pure=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Dask warns about the size of `shared`
            # Dask recomputes the result of a task if the workers that store it end.
            sent = None if shared is None else client.submit(_identity, _Packed(shared), pure=False)
        ahead = _TASKS_PER_WORKER * max(1, sum(client.nthreads().values()))
        yield from _results(executor, calls, ahead, sent)
    except KilledWorker as error:
        raise LostWorkerError(
            f"the cluster gave up on a task: {error.allowed_failures + 1} workers ended during it"
        ) from error
    except CancelledError as error:
        message = f"lost the connection to the scheduler at {client.scheduler.address}"
        raise LostWorkerError(message) from error
    finally:
        executor.shutdown(wait=False)


def _identity(shared: Any) -> Any:
    return shared


def _results(executor: Executor, calls: Iterator[Any], ahead: int, shared: Any) -> Iterator[tuple[int, Any]]:
    waiting: set[Future[tuple[int, Any]]] = set()
    while True:
        for number, task, sender in islice(calls, ahead - len(waiting)):
            with _blocked_interrupts():
                waiting.add(executor.submit(_call, number, task, sender, shared))
        if not waiting:
            return
        # A time-out lets the main thread see Ctrl-C on every platform.
        finished, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()


@contextlib.contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Block Ctrl-C for processes that start in the ``with`` block; the parent handles it for them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int) -> None:
    """Initialise a worker process on this machine; it exits when its parent has ended."""
    os.dup2(2, 1)  # prints of a worker are not part of the command's output

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


def _do(task: Task, shared: Any) -> Any:
    function, arguments = task
    return function(**arguments) if shared is None else function(shared, **arguments)


def _call(number: int, task: Task | _Packed, sender: _Sender, shared: Any) -> tuple[int, Any]:
    """Run a task in a worker, one at a time, because tasks share its current folder and random state."""
    if sender.versions is not None:
        _check_versions(versions(), sender.versions, f"process {os.getpid()} on {platform.node()}")
    with _turn, contextlib.chdir(sender.folder):
        try:
            task = task.load() if isinstance(task, _Packed) else task
            loaded = _load_once(shared) if isinstance(shared, _StoredFile | _Packed) else shared
            return number, _do(task, loaded)
        except Exception as error:
            try:
                pickle.loads(pickle.dumps(error))
            except Exception:
                raise RuntimeError("".join(traceback.format_exception(error))) from None
            raise


class _Failure(NamedTuple):
    error: Exception


def _try(number: int, *call: Any) -> tuple[int, Any]:
    """Run a task; return its exception as a result, because joblib's backend for Spark loses exceptions."""
    try:
        return _call(number, *call)
    except Exception as error:
        return number, _Failure(error)


def _raising(results: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield results; raise the first exception among them and end the other tasks."""
    try:
        for number, result in results:
            if isinstance(result, _Failure):
                raise result.error
            yield number, result
    finally:
        if isinstance(results, Generator):
            results.close()


@contextlib.contextmanager
def _connected(cluster: str) -> Iterator[Any]:
    """Yield a client of a Dask cluster, after checking that its workers have the versions of this process."""
    if find_spec("distributed") is None:
        raise MissingExtraError("--cluster", "cluster")
    from distributed import Client

    file = Path(cluster)
    try:
        address = parse_json(file.read_bytes())["address"] if file.is_file() else cluster
        asyncio.run(_check_reachable(address))
    except (OSError, ValueError, LookupError, TypeError):
        accepted = "its address, such as tcp://HOST:8786, or the file that `dask scheduler` wrote"
        raise InputError("no Dask scheduler there", value=cluster, accepted=accepted) from None
    with Client(address, timeout=_CONNECT_SECONDS, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        try:
            client.wait_for_workers(1, timeout=_JOIN_SECONDS)
        except TimeoutError:
            raise InputError("the cluster has no worker", value=cluster, accepted="one or more") from None
        for name, result in client.run(versions, on_error="return").items():
            if isinstance(result, OSError):
                continue  # this worker has just ended; its replacement is checked at its first task
            if isinstance(result, Exception):
                raise InputError(f"worker {name} cannot run lmtune: {result}", accepted="lmtune installed")
            _check_versions(result, versions(), f"worker {name}")
        yield client


async def _check_reachable(address: str) -> None:
    """Raise OSError if nothing answers; a client that fails to connect would print further messages."""
    from distributed.comm.core import connect
    from distributed.security import Security

    safety = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    comm = await connect(address, timeout=_CONNECT_SECONDS, **safety)  # type: ignore[no-untyped-call]
    comm.abort()


def _check_versions(actual: dict[str, str], wanted: dict[str, str], worker: str) -> None:
    """Raise `InputError` for the first library with another version than in the process that sends tasks."""
    for library, expected in wanted.items():
        if actual.get(library) != expected:
            message = f"{worker} has another version of {library}"
            raise InputError(message, value=actual.get(library), accepted=expected)


@cache
def versions() -> dict[str, str]:
    """Return the versions that results can depend on, and a digest of the sources of this package."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"Python": platform.python_version(), **libraries, "lmtune's source": sources_digest()}


@cache
def sources_digest() -> str:
    """Return a digest of the sources of this package."""
    home, state = Path(__file__).parent, hashlib.blake2b(digest_size=16)
    for file in sorted(home.rglob("*.py")):
        state.update(file.read_bytes())
    return state.hexdigest()
