"""Functions for workers, for the tests of work in parallel; processes import them from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from lmtune.errors import InputError


class OddError(Exception):
    """An error that does not survive its travel."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def square(x: int) -> int:
    return x * x


def spectrum(seed: int, folder: str) -> bytes:
    """Linear algebra whose last bits depend on how it is split, and the folder where it is done."""
    a = np.random.default_rng(seed).normal(size=(200, 300))
    assert str(Path.cwd()) == folder
    return np.linalg.svd(a @ a.T)[1].tobytes()


def threads() -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


def fail(x: int) -> int:
    raise InputError("no such number", value=x, accepted="another")


def fail_oddly() -> None:
    raise OddError("one", "other")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(path: str, x: int) -> int:
    """Kill the worker that is asked first; the one asked next does the work."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return x
    os.kill(os.getpid(), signal.SIGKILL)
    return -1


def linger(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def await_file(path: str) -> str:
    for _ in range(600):
        if Path(path).exists():
            return "seen"
        time.sleep(0.05)
    return "not seen"


def speak() -> None:
    print("not for standard output", flush=True)


def add(shared: list[int], x: int) -> tuple[int, int]:
    """Show what is shared, and how often this process has got it."""
    shared.append(x)
    return shared[0] + x, os.getpid()


class Relative:
    """What is there only where its path begins, as an index that is sent by its path."""

    def __init__(self, path: str) -> None:
        self.path, self.text = path, Path(path).read_text()

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return Relative, (self.path,)


def text_of(held: Relative) -> str:
    return held.text
