"""Locks: one at a time, gone with their process, without a trace."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmtune.formats.locks import locked


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
        "import sys, time; from lmtune.formats.locks import locked\n"
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
