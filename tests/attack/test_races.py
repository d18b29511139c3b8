"""Commands that run at once: each gets what it would get alone, and nothing stray is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_folder import write_folder

import lmtune


def collection(folder: Path, word: str) -> None:
    documents = {f"{word}{i}": f"{word} rose {i % 7} {i % 3}" for i in range(90)}
    write_folder(
        folder, documents, {1: f"rose {word}", 2: "rose 2"}, [(1, f"{word}3", 1), (2, f"{word}2", 1)]
    )


def start(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(lmtune.__file__).parents[1])}
    command = [sys.executable, "-m", "lmtune", *arguments]
    return subprocess.Popen(command, cwd=home, env=environment, stderr=subprocess.PIPE)


def finish(*running: subprocess.Popen[bytes]) -> str:
    said = ""
    for process in running:
        said += process.communicate()[1].decode()
        assert process.returncode == 0, said
    return said


@pytest.mark.slow
def test_two_collections_of_one_name_and_one_output_each(tmp_path: Path) -> None:
    for side in "ab":
        collection(tmp_path / side / "coll", side)
    jobs = {
        side: [
            f"search {side}/coll --output {side}/out.run".split(),
            f"tune {side}/coll --grid 2x2 -m AP --no-approx --output {side}/results".split(),
        ]
        for side in "ab"
    }
    orders = [order for side in "ab" for order in (jobs[side][0], *jobs[side])]
    said = finish(*(start(tmp_path, *order) for order in orders))
    assert said.count("indexing to indexes/") == 2
    kept = content(tmp_path)
    assert not [name for name in kept if ".tmp" in name or ".lock" in name]
    finish(start(tmp_path, *jobs["a"][1]))
    assert content(tmp_path) == kept
    for side in "ab":
        run = (tmp_path / side / "out.run").read_text()
        assert {line.split()[2][0] for line in run.splitlines()} == {side}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
