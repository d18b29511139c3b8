"""Commands on sharded indexes: the bytes are those of one index, whatever the number of shards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from scripts import run_command
from small_world import make_world

from lmtune.candidates.storage import stored_pool
from lmtune.collections.loading import load
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.sharded import ShardedIndex

SHARDS = (1, 2, 3, 5)


def command(line: str, cwd: Path, status: int = 0) -> str:
    return "".join(run_command(line, cwd=cwd, status=status))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one index of a collection, and sharded ones."""
    home = tmp_path_factory.mktemp("home")
    make_world(home)
    command("index c --positions --output idx", home)
    for shards in SHARDS:
        told = command(f"index c --positions --shards {shards} --output big{shards}", home)
        assert f", {shards} shard" in told
    return home


def results(home: Path, index: str, out: str) -> dict[str, bytes]:
    """Search and tune, and return the files, but for the command line in what says how they were made."""
    workers = "--workers 2" if index.endswith("5") else ""
    command(f"search c --index {index} --set mu=30 {workers} --output {out}.txt", home)
    command(f"search c --index {index} --model sdm --output {out}-sdm.txt", home)
    options = "--train-topics 1-4 --grid 3x3 -m AP --no-approx"
    command(f"tune c --index {index} {options} --output {out}", home)
    found = {path.name: path.read_bytes() for path in home.glob(f"{out}*.txt")}
    found |= {str(path): path.read_bytes() for path in (home / out).rglob("*") if path.is_file()}
    whole = {
        name.replace(out, "out"): content for name, content in found.items() if not name.endswith("made.json")
    }
    assert len(whole) > 8
    return whole


@pytest.mark.first_case
@pytest.mark.parametrize("shards", SHARDS)
def test_runs_and_tables_are_the_same_bytes(home: Path, shards: int) -> None:
    assert results(home, f"sharded:big{shards}", "many") == results(home, "idx", "once")


@pytest.mark.parametrize("shards", SHARDS)
def test_pools_are_the_same_bytes(home: Path, shards: int) -> None:
    data = load(home / "c")
    written = []
    for index in (ColumnarIndex.open(home / "idx"), ShardedIndex.open(home / f"big{shards}")):
        for model in ("two-stage", "bm25", "sdm"):
            stored_pool(index.candidates_path, index, data.topics, data.qrels, model=model, depth=7)
        files = sorted(index.candidates_path.iterdir())
        written.append([(path.name, path.read_bytes()) for path in files])
    assert written[0] == written[1]
    assert len(written[0]) == 3


def test_joining_and_a_lost_shard(home: Path) -> None:
    command("index --join big5/shard-0,big5/shard-1 --output joined", home)
    told = command("index --join sharded:joined,big5/shard-2,big5/shard-3,big5/shard-4 --output again", home)
    assert "60 documents in 5 shards" in told
    for index in ("idx", "again"):
        command(f"search c --index {index} --output {index}.run", home)
    assert (home / "idx.run").read_bytes() == (home / "again.run").read_bytes()
    shutil.move(home / "big5/shard-3", home / "lost")
    for name in ("again", "big5"):
        told = command(f"search c --index sharded:{name}", home, status=2)
        assert "big5/shard-3" in told.replace("\n", "")
        assert "a shard is missing" in told
    shutil.move(home / "lost", home / "big5/shard-3")


def test_bad_options(home: Path) -> None:
    for line, said in (
        ("index c --shards 3", "--shards needs --output"),
        ("index c --shards 3 --engine lucene --output new", "--shards with --engine lucene"),
        ("index c --join idx --output new", "--join with documents"),
        ("index c --shards 200 --output new", "cannot be split into so many shards"),
        ("index c --shards 2 --output l", "will not replace"),
        ("search c --index sharded:idx", "no sharded index here"),
        ("search c --index sharded:nowhere", "there is no index here"),
        ("search c --index sharded:big2 --stemmer none", "has its own analysis"),
    ):
        assert said in command(line, home, status=2).replace("\n", " ")
    assert not (home / "new").exists()
