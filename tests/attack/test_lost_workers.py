"""Workers killed in the middle: told in one line, or done again by another; nothing lost, the same bytes.

`make attack`, which sets ``LMTUNE_KILLS``, does this to each command; `make check` to one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from small_world import make_world

pytestmark = pytest.mark.slow
psutil = pytest.importorskip("psutil", reason="the extra 'cluster' is not installed")

COMMANDS = {
    "index": "index big --shards 3 --output out",
    "tune": "tune c --train-topics 1-4 --grid 3x3 -m AP --output out",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lost")
    make_world(home)
    (home / "big").mkdir()
    draw = random.Random(0)
    words = [f"w{number}" for number in range(5000)]
    with (home / "big" / "docs.jsonl").open("w") as file:
        for number in range(6000):
            text = " ".join(draw.choices(words, k=300))
            file.write(json.dumps({"id": f"d{number}", "contents": text}) + "\n")
    return home


def start(command: str, home: Path, *more: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "lmtune", *COMMANDS[command].split(), *more]
    return subprocess.Popen(arguments, cwd=home, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def take(home: Path) -> dict[str, bytes]:
    """Return what a command has written, and remove it."""
    found = content(home / "out")
    shutil.rmtree(home / "out")
    return found


@pytest.fixture(scope="module", params=COMMANDS if "LMTUNE_KILLS" in os.environ else ["tune"])
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def expected(command: str, world: Path) -> dict[str, bytes]:
    """Give what the command writes undisturbed."""
    ran = start(command, world, "--workers", "2")
    _, said = ran.communicate()
    assert ran.returncode == 0, said
    return take(world)


def test_a_killed_process_is_reported(command: str, world: Path, expected: dict[str, bytes]) -> None:
    ran = start(command, world, "--workers", "2")
    caller = psutil.Process(ran.pid)
    workers: list[Any] = []
    while not workers and ran.poll() is None:
        workers = [one for one in caller.children() if "popen_loky" in " ".join(one.cmdline())]
    time.sleep(random.Random(command).random())
    workers[0].kill()
    _, said = ran.communicate()
    assert ran.returncode == 1, said
    [line] = [line for line in said.splitlines() if line.startswith("lmtune:")]
    assert "a worker process ended unexpectedly (SIGKILL(-9))" in line
    assert "Traceback" not in said
    assert not any(one.is_running() for one in workers)
    again = start(command, world, "--workers", "2")
    _, said = again.communicate()
    assert again.returncode == 0, said
    assert take(world) == expected


def test_what_a_killed_worker_of_a_cluster_did_is_done_again(
    command: str, world: Path, expected: dict[str, bytes], own_cluster: str
) -> None:
    from distributed import Client

    with Client(own_cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        client.wait_for_workers(2)
        ran = start(command, world, "--cluster", own_cluster)
        while ran.poll() is None and not any(client.processing().values()):
            time.sleep(0.02)
        pids = client.run(os.getpid)
        [busy, *_] = [name for name, tasks in client.processing().items() if tasks] or list(pids)
        os.kill(pids[busy], signal.SIGKILL)
        _, said = ran.communicate()
    assert ran.returncode == 0, said
    assert take(world) == expected
