"""Folders replaced whole: put back after a kill, and nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.io.folders import FolderKind, atomic_directory, check_directory, is_folder
from lmtune.io.locks import try_lock

KIND = FolderKind("made.json", ("made.json", "*.txt", "parts/*.txt"))

KILLED = """
import os, signal, sys
from pathlib import Path
from lmtune.io import folders
seen = []
def watch(event, arguments):
    if event == "os.rename":
        seen.append(event)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
with folders.atomic_directory(sys.argv[1], folders.FolderKind("made.json")) as folder:
    (folder / "made.json").write_text("new")
"""


def write(path: Path, text: str) -> None:
    with atomic_directory(path, KIND) as folder:
        (folder / "made.json").write_text(text)


def test_a_folder_that_a_killed_process_moved_aside_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "results"
    write(path, "old")
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert killed.returncode < 0
    assert not path.exists()
    assert len(list(tmp_path.iterdir())) == 2
    assert is_folder(path)
    assert (path / "made.json").read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_living_process_has_stays(tmp_path: Path) -> None:
    path = tmp_path / "results"
    held, left = (tmp_path / f".results.{pid}.0123abcd.tmp" for pid in (1, os.getpid()))
    for folder in (held, left):
        folder.mkdir()
        (folder / "part").touch()
    lock = try_lock(held)
    assert lock is not None
    write(path, "new")
    assert sorted(tmp_path.iterdir()) == [held, path]
    os.close(lock)
    write(path, "newer")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["thesis.tex", "parts/deep/a.txt", "more/a.txt"])
def test_files_of_others(name: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    write(path, "ours")
    (path / "a.txt").touch()
    check_directory(path, KIND)
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).touch()
    with pytest.raises(InputError, match=f"a file that lmtune did not write: '{name}'"):
        check_directory(path, KIND)
    with pytest.raises(InputError, match="a file that lmtune did not write"), atomic_directory(path, KIND):
        pass


def test_files_that_others_put_there_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "results"
    write(path, "old")
    with pytest.raises(InputError, match="a file that lmtune did not write"), atomic_directory(path, KIND):
        (path / "mine").write_text("put there during the work")
    assert (path / "mine").exists()
    assert list(tmp_path.iterdir()) == [path]
