"""Files, collections and indexes in object storage: fsspec's file system in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lmtune
from lmtune.cli.main import run
from lmtune.errors import InputError, MissingExtraError
from lmtune.io.files import read_bytes
from lmtune.io.remote import local_copy

fsspec = pytest.importorskip("fsspec", reason="the extra 'cloud' is not installed")
COLLECTION = {
    "docs.jsonl": "".join(
        f"{json.dumps({'id': f'd{n}', 'contents': f'word{n % 3} word{n % 5} end'})}\n" for n in range(20)
    ),
    "topics.tsv": "1\tword1 end\n2\tword2\n",
    "qrels.txt": "1 0 d1 1\n1 0 d2 0\n2 0 d2 1\n2 0 d3 0\n",
    "a.run": "1 Q0 d1 1 2.5 a\n1 Q0 d2 2 1.5 a\n2 Q0 d3 1 2.5 a\n",
}


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Put a collection and a run into memory://bucket/c; the copies go to a new home."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")  # the kernels' cache stays where it is
    monkeypatch.chdir(tmp_path)
    memory = fsspec.filesystem("memory")
    for name, content in COLLECTION.items():
        memory.pipe(f"/bucket/c/{name}", content.encode())
    yield memory
    memory.rm("/bucket", recursive=True)


def command(monkeypatch: pytest.MonkeyPatch, line: str) -> int:
    monkeypatch.setattr("sys.argv", ["lmtune", *line.split()])
    return run()


def test_a_copy_is_made_once_and_again_after_a_change(storage: Any, tmp_path: Path) -> None:
    first = local_copy("memory://bucket/c/a.run")
    assert Path(first).read_text() == COLLECTION["a.run"]
    assert local_copy(Path("memory://bucket/c/a.run")) == first  # pathlib writes memory:/bucket
    storage.pipe("/bucket/c/a.run", b"1 Q0 d1 1 2.5 a\n")
    assert read_bytes("memory://bucket/c/a.run") == b"1 Q0 d1 1 2.5 a\n"
    folder = Path(local_copy("memory://bucket/c"))
    assert {path.name for path in folder.iterdir()} == {*COLLECTION}
    assert folder.is_relative_to(tmp_path / "home/.cache/lmtune/remote")
    for path in ("plain.txt", "lucene:robust04", "irds:beir/x", "C:/x", tmp_path / "a:/b"):
        assert local_copy(path) == path


@pytest.mark.usefixtures("storage")
def test_runs_and_judgments_are_evaluated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, content in COLLECTION.items():
        (tmp_path / name).write_text(content)
    outputs = []
    for home in ("memory://bucket/c/", ""):
        assert command(monkeypatch, f"evaluate {home}qrels.txt {home}a.run") == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""


@pytest.mark.slow
def test_collections_and_shards(storage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = lmtune.load("memory://bucket/c")
    assert (data.name, len(data.topics), len(data.qrels)) == ("c", 2, 2)
    build = "index --documents memory://bucket/c/docs.jsonl --output built --shards 2"
    assert command(monkeypatch, build) == 0
    storage.put("built", "/bucket/built", recursive=True)
    for index in ("memory://bucket/built", "sharded:memory://bucket/built", "built"):
        search = f"search memory://bucket/c --index {index} --output {len(index)}.run"
        assert command(monkeypatch, search) == 0
    runs = {path.read_text() for path in tmp_path.glob("*.run")}
    assert len(runs) == 1 and "1 Q0 d16 1 " in runs.pop()


@pytest.mark.usefixtures("storage")
def test_refusals_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"^memory://bucket/none: cannot read: there is nothing here"):
        read_bytes("memory://bucket/none")
    with pytest.raises(InputError, match=r"^nowhere://x: cannot read: Protocol not known: nowhere"):
        lmtune.load("nowhere://x")
    assert command(monkeypatch, "search memory://bucket/c --output memory://bucket/x.run") == 2
    assert "object storage is only read; accepted: a local path" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"memory://bucket/c needs the 'cloud' extra"):
        lmtune.load("memory://bucket/c")
