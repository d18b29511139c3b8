"""Worker processes: results, errors and ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.processes import Task, Worker, call_all


def square(x: int) -> int:
    return x * x


def threads() -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


def fail(x: int) -> int:
    raise InputError("no such number", value=x, accepted="another")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def linger(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_result_comes_with_its_place(workers: int) -> None:
    results = dict(call_all([(square, {"x": x}) for x in range(4)], workers=workers))
    assert results == {0: 0, 1: 1, 2: 4, 3: 9}


def test_linear_algebra_has_one_thread() -> None:
    assert list(call_all([(threads, {})], workers=2)) == [(0, "1")]


def test_an_error_comes_back_as_it_was() -> None:
    with pytest.raises(InputError, match="no such number: 3; accepted: another"):
        list(call_all([(square, {"x": 2}), (fail, {"x": 3})], workers=1))


def test_a_killed_process_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"a worker process ended unexpectedly \(signal 9\)"):
        list(call_all([(die, {})], workers=1))


def test_no_process_outlives_its_caller(tmp_path: Path) -> None:
    names = [tmp_path / name for name in "ab"]
    lingering: list[Task] = [(linger, {"path": str(name)}) for name in names]
    calls = call_all([(square, {"x": 1}), *lingering], workers=3)
    assert next(calls) == (0, 1)
    while not all(name.exists() and name.read_text() for name in names):
        time.sleep(0.01)
    calls.close()  # type: ignore[attr-defined]
    for name in names:
        with pytest.raises(ProcessLookupError):
            os.kill(int(name.read_text()), 0)


def test_an_entry_that_is_not_there() -> None:
    worker = Worker("lmtune.processes:nothing", "a test")
    with pytest.raises(RuntimeError, match=r"a test ended unexpectedly \(status 1\)"):
        worker.ask(1)
    worker.close()
