"""Trainings spread over devices."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune import devices as spreading
from lmtune.devices import is_spread, run_on_devices
from lmtune.errors import InputError
from lmtune.parallel import Workers


def called(number: int, device: str) -> tuple[int, str, int]:
    return number, device, os.getpid()


TASKS = [(called, {"number": number}) for number in range(6)]


def test_one_device_needs_no_other_process() -> None:
    found = dict(run_on_devices(TASKS, "cpu"))
    assert found == {number: (number, "cpu", os.getpid()) for number in range(6)}
    assert not is_spread("cpu")


@pytest.mark.slow
def test_several_have_a_process_each() -> None:
    found = dict(run_on_devices(TASKS, "cpu,cpu"))
    assert [found[number][:2] for number in range(6)] == [(number, "cpu") for number in range(6)]
    assert os.getpid() not in {process for _, _, process in found.values()}
    assert is_spread("cpu,cpu")
    with Workers(1).engaged():
        assert len({process for *_, process in dict(run_on_devices(TASKS, "cpu,cpu")).values()}) == 1
    with pytest.raises(InputError, match="no such device: 'gpu'"):
        next(run_on_devices(TASKS, "cpu,gpu"))


@pytest.mark.skipif(os.name != "posix", reason="there are no locks here")
def test_no_two_have_one_device(tmp_path: Path) -> None:
    for place in range(2):
        (tmp_path / str(place)).touch()
    third: list[str] = []

    def wait() -> None:
        with spreading._lock_free_device(["a", "b"], tmp_path) as own:
            third.append(own)

    waiting = threading.Thread(target=wait)
    with spreading._lock_free_device(["a", "b"], tmp_path) as one:
        with spreading._lock_free_device(["a", "b"], tmp_path) as other:
            assert [one, other] == ["a", "b"]
            waiting.start()
            waiting.join(0.3)
            assert not third
        waiting.join()
    assert third == ["b"]
    with (
        pytest.raises(InputError, match="several devices on other machines"),
        spreading._lock_free_device(["a", "b"], tmp_path / "none"),
    ):
        pass
