"""Work in parallel: in processes of this machine, on a Dask cluster, or as joblib is told to.

The processes are joblib's (loky): unlike forked ones they are safe beside threads (a progress bar, a
Java VM), and unlike multiprocessing's spawned ones they do not run the caller's script again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
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
from collections.abc import Callable, Iterable, Iterator, Sized
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

_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Results must not depend on how a matrix product is split among threads."""

_CONNECT_SECONDS, _JOIN_SECONDS, _IDLE_SECONDS = 10, 60, 30
_AHEAD = 2  # tasks given out for each worker: none waits for its next one
_LOOK_SECONDS = 0.2
_LIBRARIES = ("lmtune", "numpy", "scipy", "numba")

Task = tuple[Callable[..., Any], dict[str, Any]]
"""A module's function and its keyword arguments, which travel by pickle."""


class _Here(NamedTuple):
    """What a worker needs to know of the process that sends a task."""

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
        How many processes of this machine.
    cluster : str or None
        The address of a Dask scheduler, or the file that it wrote (``--scheduler-file``).

    Raises
    ------
    InputError
        For both.
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
        """Have `run_all` work here: with a default number of processes, 0 for this one.

        Raises
        ------
        InputError
            For a cluster that cannot be reached, has no workers, or workers of other versions.
        """
        with contextlib.ExitStack() as stack:
            chosen: Any = self.workers or default
            if self.cluster is not None:
                chosen = stack.enter_context(_connected(self.cluster))
            stack.callback(_chosen.reset, _chosen.set(chosen))
            yield


def width(workers: int | None = None) -> int:
    """Return how many tasks `run_all` works on at a time; 0 where this process does them."""
    where = _place(workers)
    if isinstance(where, int):
        return where
    client = getattr(where, "client", where)
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
        Asked for when their turn comes: two for each worker wait.
    workers : int, optional
        Processes of this machine, 0 for this process; by default what `Workers.engaged` has set, or
        `joblib.parallel_config`, or this process.
    shared : object, optional
        What every function takes as its first argument: it travels to a worker once, not with each task.

    Yields
    ------
    tuple of int and object
        A task's place and its result, as soon as it is there, in no order.

    Raises
    ------
    Exception
        The first that a function raised. However this ends, no process works on.
    LostWorkerError
        Where a process was killed, or a cluster's workers were again and again.
    """
    where, here = _place(workers), _Here(str(Path.cwd()), None)
    if isinstance(where, int) and isinstance(tasks, Sized):
        where = min(where, len(tasks))
    if where == 0:
        return ((place, _do(task, shared)) for place, task in enumerate(tasks))
    sent: Iterable[Any] = tasks if getattr(where, "uses_threads", False) else map(_Packed, tasks)
    if isinstance(where, int):
        return _in_processes(_calls(sent, here), where, shared)
    client = getattr(where, "client", where)
    if hasattr(client, "get_executor"):
        here = here._replace(versions=versions())
        return _on_cluster(_calls(sent, here), client, shared)
    from joblib import Parallel, delayed

    as_done = "generator_unordered" if where.supports_return_generator else "list"
    parallel = Parallel(return_as=as_done, batch_size=1, max_nbytes=None)
    return iter(parallel(delayed(_call)(*call, shared) for call in _calls(sent, here)))


def in_task_order(found: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Yield results of `run_all` in the order of their tasks, each as soon as those before it are there."""
    held: dict[int, Any] = {}
    following = 0
    for place, result in found:
        held[place] = result
        while following in held:
            yield held.pop(following)
            following += 1


def _place(workers: int | None) -> Any:
    """Return where to work: a number of processes, a Dask client, or a backend of joblib."""
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


def _calls(tasks: Iterable[Any], here: _Here) -> Iterator[tuple[int, Any, _Here]]:
    return ((place, task, here) for place, task in enumerate(tasks))


def _in_processes(calls: Iterator[Any], workers: int, shared: Any) -> Iterator[tuple[int, Any]]:
    from joblib.externals.loky import get_reusable_executor

    executor = get_reusable_executor(
        workers, timeout=_IDLE_SECONDS, initializer=_begin, initargs=(os.getpid(),), env=_ONE_THREAD
    )
    ended = False
    try:
        with _in_file(shared) as stored:
            yield from _results(executor, calls, _AHEAD * workers, stored)
        ended = True
    except BrokenExecutor as error:
        codes = re.search(r"exit codes of the workers are \{(.*?)\}", str(error))
        how = f" ({codes[1]})" if codes else f" ({error or error.__cause__!r})"
        raise LostWorkerError(
            f"a worker process ended unexpectedly{how}; was there too little memory for it?"
        ) from error
    finally:
        if not ended:
            executor.shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def _in_file(shared: Any) -> Iterator[Any]:
    """Put what tasks share in a file, and give its name."""
    if shared is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="lmtune-") as folder:
        path = Path(folder, "shared")
        with path.open("wb") as file:
            pickle.dump(shared, file, pickle.HIGHEST_PROTOCOL)
        yield _Stored(str(path))


class _Stored(NamedTuple):
    path: str

    def load(self) -> Any:
        with Path(self.path).open("rb") as file:
            return pickle.load(file)


class _Packed:
    """What is to be unpickled in the sender's folder, where its paths begin: not before a task does."""

    def __init__(self, given: Any) -> None:
        from joblib.externals.loky.backend.reduction import dumps

        self._content = bytes(dumps(given))

    def load(self) -> Any:
        return pickle.loads(self._content)


@lru_cache(maxsize=1)
def _load_once(shared: _Stored | _Packed) -> Any:
    return shared.load()


def _on_cluster(calls: Iterator[Any], client: Any, shared: Any) -> Iterator[tuple[int, Any]]:
    from distributed import KilledWorker

    executor = client.get_executor(pure=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Dask's, of its size
            # As a result of a task it is made again where the workers that hold it end.
            sent = None if shared is None else client.submit(_same, _Packed(shared), pure=False)
        yield from _results(executor, calls, _AHEAD * max(1, sum(client.nthreads().values())), sent)
    except KilledWorker as error:
        raise LostWorkerError(
            f"the cluster gave up on a task: {error.allowed_failures + 1} workers ended while they did it"
        ) from error
    except CancelledError as error:
        raise LostWorkerError(f"the scheduler at {client.scheduler.address} has gone") from error
    finally:
        executor.shutdown(wait=False)


def _same(shared: Any) -> Any:
    return shared


def _results(executor: Executor, calls: Iterator[Any], ahead: int, shared: Any) -> Iterator[tuple[int, Any]]:
    waiting: set[Future[tuple[int, Any]]] = set()
    while True:
        for place, task, here in islice(calls, ahead - len(waiting)):
            with _out_of_reach():
                waiting.add(executor.submit(_call, place, task, here, shared))
        if not waiting:
            return
        # A time-out lets the main thread see Ctrl-C everywhere.
        ready, waiting = wait(waiting, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in ready:
            yield future.result()


@contextlib.contextmanager
def _out_of_reach() -> Iterator[None]:
    """Start processes that the terminal's Ctrl-C, which this one handles for them, does not reach."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int) -> None:
    """Be a worker process of this machine."""
    os.dup2(2, 1)  # a stray print is none of the command's output

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


def _do(task: Task, shared: Any) -> Any:
    function, arguments = task
    return function(**arguments) if shared is None else function(shared, **arguments)


def _call(place: int, task: Task | _Packed, here: _Here, shared: Any) -> tuple[int, Any]:
    """Do a task in a worker; one at a time, as folders and random states belong to the process."""
    if here.versions is not None:
        _check_versions(versions(), here.versions, f"process {os.getpid()} on {platform.node()}")
    with _turn, contextlib.chdir(here.folder):
        try:
            task = task.load() if isinstance(task, _Packed) else task
            return place, _do(task, _load_once(shared) if isinstance(shared, _Stored | _Packed) else shared)
        except Exception as error:
            try:
                pickle.loads(pickle.dumps(error))
            except Exception:
                raise RuntimeError("".join(traceback.format_exception(error))) from None
            raise


@contextlib.contextmanager
def _connected(cluster: str) -> Iterator[Any]:
    """Give a client of a Dask cluster whose workers are like this process."""
    if find_spec("distributed") is None:
        raise MissingExtraError("--cluster", "cluster")
    from distributed import Client

    file = Path(cluster)
    try:
        address = json.loads(file.read_bytes())["address"] if file.is_file() else cluster
        asyncio.run(_reach(address))
    except (OSError, ValueError, LookupError, TypeError):
        accepted = "its address, such as tcp://HOST:8786, or the file that `dask scheduler` wrote"
        raise InputError("no Dask scheduler there", value=cluster, accepted=accepted) from None
    with Client(address, timeout=_CONNECT_SECONDS, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        try:
            client.wait_for_workers(1, timeout=_JOIN_SECONDS)
        except TimeoutError:
            raise InputError("the cluster has no worker", value=cluster, accepted="one or more") from None
        for name, found in client.run(versions, on_error="return").items():
            if isinstance(found, OSError):
                continue  # it has just ended; what comes in its place is looked at with its first task
            if isinstance(found, Exception):
                raise InputError(f"worker {name} cannot run lmtune: {found}", accepted="lmtune installed")
            _check_versions(found, versions(), f"worker {name}")
        yield client


async def _reach(address: str) -> None:
    """Raise OSError where nothing answers, which a client that fails goes on to talk about."""
    from distributed.comm.core import connect
    from distributed.security import Security

    safety = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    comm = await connect(address, timeout=_CONNECT_SECONDS, **safety)  # type: ignore[no-untyped-call]
    comm.abort()


def _check_versions(found: dict[str, str], wanted: dict[str, str], worker: str) -> None:
    """Raise InputError for the first library that differs from that of the process that sends tasks."""
    for library, expected in wanted.items():
        if found.get(library) != expected:
            raise InputError(f"{worker} has another {library}", value=found.get(library), accepted=expected)


@cache
def versions() -> dict[str, str]:
    """Return what results may depend on: versions, and a digest of this package's sources."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"Python": platform.python_version(), **libraries, "lmtune's source": sources_digest()}


@cache
def sources_digest() -> str:
    """Identify this package's sources."""
    home, whole = Path(__file__).parent, hashlib.blake2b(digest_size=16)
    for file in sorted(home.rglob("*.py")):
        whole.update(file.read_bytes())
    return whole.hexdigest()
