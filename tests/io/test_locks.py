"""Locks: one at a time, gone with their process, without a trace; what they guard is built once."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmtune.io.files import atomic_write
from lmtune.io.locks import StaleError, build_once, locked


def test_one_at_a_time(tmp_path: Path) -> None:
    inside: list[int] = []

    def enter(number: int) -> int:
        with locked(tmp_path / "index"):
            inside.append(number)
            time.sleep(0.002)
            together = len(inside)
            inside.remove(number)
            return together

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(enter, range(40))) == {1}
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_locks_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, time; from lmtune.io.locks import locked\n"
        "with locked(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, tmp_path / "index"], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        holder.wait()
    with locked(tmp_path / "index"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_nobody_waits(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    with locked(blocker / "index"), locked(blocker / "index"):
        pass
    with pytest.raises(KeyError), locked(tmp_path / "index"):
        raise KeyError
    assert list(tmp_path.iterdir()) == [blocker]


def test_what_several_want_is_built_by_one(tmp_path: Path) -> None:
    file, built = tmp_path / "sub" / "kept", []

    def read() -> str:
        if not file.exists():
            raise StaleError("there is none yet")
        return file.read_text()

    def build() -> str:
        time.sleep(0.01)
        with atomic_write(file) as stream:  # others read without the lock
            stream.write("whole")
        return "built"

    def ask(_: int) -> str:
        return build_once(file, read, build, lambda path, reason: built.append((path, reason)))

    with ThreadPoolExecutor(8) as threads:
        answers = sorted(threads.map(ask, range(8)))
    assert answers == ["built", *["whole"] * 7]
    assert built == [(file, "there is none yet")]
    assert list(file.parent.iterdir()) == [file]


def test_what_killed_processes_left_goes_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / ".kept.lock").touch()
    (tmp_path / ".kept.123.0123abcd.tmp").touch()
    assert build_once(tmp_path / "kept", lambda: 1, lambda: 2) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_build_that_fails_frees_the_lock(tmp_path: Path) -> None:
    def read() -> int:
        raise StaleError("none")

    with pytest.raises(ZeroDivisionError):
        build_once(tmp_path / "kept", read, lambda: 1 // 0)
    assert build_once(tmp_path / "kept", read, lambda: 3) == 3
