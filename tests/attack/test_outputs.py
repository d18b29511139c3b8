"""Outputs that cannot be: said in one line before the work, with nothing replaced or half-written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from forked_commands import Commands
from small_world import ORDERS, make_world

pytestmark = pytest.mark.slow

LINES = {order.name: order.line for order in ORDERS if order.is_here and "lucene" not in order.name}
FILES = [name for name in ("search", "fuse", "report", "rerank-apply", "rerank-features") if name in LINES]
FOLDERS = [name for name in ("index", "tune", "rerank-train", "rerank-compare") if name in LINES]

PRINTING = [
    name
    for name in ("search", "fuse", "tune", "rerank-train", "rerank-features", "rerank-compare")
    if name in LINES
]
WRITTEN = {order.name: order.writes[0] for order in ORDERS}


class World(NamedTuple):
    """Where commands run, and what it was when all of them had."""

    home: Path
    copy: Path
    commands: Commands
    whole: dict[str, bytes | None]

    def run(self, line: str, **how: object) -> tuple[int, str]:
        ended = self.commands.run(line.split(" "), cwd=self.home, **how)  # type: ignore[arg-type]
        return ended.status, ended.said

    def refused(self, line: str, *words: str) -> None:
        """Check that a command says one line with these words and changes nothing."""
        before = content(self.home)
        status, said = self.run(line)
        assert status == 2, (line, said)
        [message] = said.splitlines()
        assert message.startswith("lmtune: "), said
        assert all(word in message for word in words), said
        assert content(self.home) == before, line


def content(folder: Path) -> dict[str, bytes | None]:
    """Read all files; None for folders."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> World:
    base = tmp_path_factory.mktemp("outputs")
    home = base / "home"
    make_world(home)
    for name, line in LINES.items():
        if name not in ("plot", "report"):
            ended = commands.run(line.split(" "), cwd=home)
            assert ended.status == 0, ended.said
    (home / "file").write_text("a file")
    (home / "others").mkdir()
    (home / "others/thesis.tex").write_text("a thesis")
    shutil.copytree(home, base / "copy")
    return World(home, base / "copy", commands, content(home))


@pytest.fixture
def world(made: World) -> World:
    if content(made.home) != made.whole:
        shutil.rmtree(made.home)
        shutil.copytree(made.copy, made.home)
    return made


def to(name: str, output: str) -> str:
    """Return a command line with another output."""
    line, _, _ = LINES[name].partition(" --output ")
    return f"{line} --output {output}"


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, world: World) -> None:
    world.refused(to(name, "c"), "a directory")
    world.refused(to(name, "file/out"), "file/out", "cannot write")
    world.refused(to(name, "/proc/out"), "cannot write")
    world.refused(to(name, "x" * 300), "too long")


@pytest.mark.parametrize("name", [*FOLDERS, "plot"])
def test_folders(name: str, world: World) -> None:
    world.refused(to(name, "file"), "file")
    world.refused(to(name, "file/out"), "cannot write")
    world.refused(to(name, "/proc/out"), "cannot write")
    if name != "plot":
        world.refused(to(name, "others"), "will not replace", "others")


@pytest.mark.parametrize("name", FOLDERS)
def test_the_current_folder_and_those_above_it(name: str, world: World) -> None:
    for place in (".", "..", str(world.home), "c/.."):
        world.refused(to(name, place), "the current folder")


@pytest.mark.parametrize("name", FOLDERS)
def test_files_that_are_not_ours(name: str, world: World) -> None:
    place = world.home / WRITTEN[name]
    (place / "runs").mkdir(exist_ok=True)
    (place / "runs/mine.txt").write_text("mine")
    world.refused(LINES[name], "a file that lmtune did not write", "runs/mine.txt")


def test_results_that_were_changed(world: World) -> None:
    with (world.home / "res/table.md").open("a") as table:
        table.write("noted by hand\n")
    world.refused(LINES["tune"], "contains a changed file", "table.md")
    made = json.loads((world.home / "res/made.json").read_text())
    (world.home / "res/made.json").write_text(json.dumps(made | {"command": "another"}))
    world.refused(LINES["tune"], "a file that lmtune did not write")


def test_pictures_and_page_are_ours(world: World) -> None:
    for line in ("report res", "plot res --format png", "plot res", LINES["tune"]):
        status, said = world.run(line)
        assert status == 0, said
    assert not (world.home / "res/pictures").exists()
    assert world.run("plot res --format png")[0] == 0
    (world.home / "res/pictures/mine.png").write_text("mine")
    world.refused(LINES["tune"], "a file that lmtune did not write", "pictures/mine.png")


READ = {
    "c/docs.jsonl": ["search c", "rerank apply model c --run run.txt", "rerank features c --run run.txt"],
    "c/topics.tsv": ["search c", "search --index idx --topics c/topics.tsv"],
    "c/qrels.txt": ["rerank features c --run run.txt", "fuse c/qrels.txt run.txt other.run"],
    "run.txt": [
        "fuse c/qrels.txt run.txt other.run",
        "rerank apply model c --run run.txt",
        "rerank features c --run run.txt",
    ],
    "idx/docnos": ["search c --index idx"],
    "idx/new.run": ["search c --index idx"],
    "model/model.json": ["rerank apply model c --run run.txt"],
    "res/topics.csv": ["report res"],
    "res/made.json": ["report res"],
}


@pytest.mark.parametrize("name", READ)
def test_files_that_are_read(name: str, world: World) -> None:
    target = world.home / name
    places = [name, f"others/../{name}", str(target)]
    if target.exists():
        (world.home / "link").symlink_to(target)
        places.append("link")
    if name.startswith("c/"):  # what is read by its own name
        (world.home / "hard").hardlink_to(target)
        places.append("hard")
    for line in READ[name]:
        if line.startswith("rerank") and "rerank-apply" not in LINES:
            continue
        for place in places:
            world.refused(f"{line} --output {place}", "would replace what the command reads")


def test_records_beside_what_is_read(world: World) -> None:
    (world.home / "c/topics.tsv").rename(world.home / "new.made.json")
    world.refused("search c --topics new.made.json --output new", "would replace what the command reads")
    (world.home / "other.made.json").mkdir()
    world.refused("search c --topics new.made.json --output other", "a directory")


@pytest.mark.parametrize(
    "line",
    [
        "tune c --folds res/folds.json --output res",
        "tune c --indexes res/indexes --output res",
        "tune c --output indexes",
        "tune c --index idx --output idx",
        "index --documents res/topics.csv --output res",
        "rerank train c --run model/history.csv --loss ranknet --output model",
        "rerank train l --loss ranknet --checkpoint model/state --output model",
        "rerank train l --loss ranknet --output l",
        "rerank compare l --losses ranknet --trials 1 --output l",
    ],
)
def test_folders_that_hold_what_is_read_or_written(line: str, world: World) -> None:
    if "rerank-train" not in LINES and line.startswith("rerank"):
        pytest.skip("the extra 'neural' is not installed")
    world.refused(line, "would replace what the command reads")


@pytest.mark.parametrize("how", [{"closed": [1]}, {"stdout": "/dev/full"}], ids=["closed", "full"])
@pytest.mark.parametrize("name", PRINTING)
def test_standard_output_that_is_closed_or_full(name: str, how: dict[str, object], world: World) -> None:
    status, said = world.run(LINES[name] if name != "search" else "search c", **how)
    assert status == 1, said
    [failed] = [line for line in said.splitlines() if line.startswith("lmtune: ")]
    assert failed.startswith("lmtune: standard output: ")
    assert "Traceback" not in said
    assert (world.home / WRITTEN[name]).exists()


@pytest.mark.parametrize("name", FILES)
def test_files_on_full_and_on_no_devices(name: str, world: World) -> None:
    status, said = world.run(to(name, "/dev/full"))
    assert status == 1
    assert [line for line in said.splitlines() if line.startswith("lmtune: ")] == [
        "lmtune: /dev/full: No space left on device"
    ]
    assert name == "report" or world.run(to(name, "/dev/null"))[0] == 0
    assert not Path("/dev/null.made.json").exists()


def test_names_that_are_no_utf8(world: World) -> None:
    odd = "caf\udce9"
    (world.home / "c").rename(world.home / odd)
    for line in (LINES["tune"], "report res", "plot res --format png", LINES["search"], LINES["index"]):
        if line.startswith(("tune", "search", "index")):
            line = line.replace(" c ", f" {odd} ")
        line = line.replace("res", f"r{odd}").replace("run.txt", f"{odd}.txt")
        status, said = world.run(line)
        assert status == 0, said
    for path in (world.home / f"r{odd}").rglob("*"):
        if path.suffix in (".json", ".csv", ".txt", ".md", ".tex", ".html"):
            path.read_bytes().decode()


def test_names_as_long_as_can_be(world: World) -> None:
    assert world.run(to("search", "y" * 245))[0] == 0
    assert world.run(to("tune", "z" * 255))[0] == 0
    world.refused(to("search", "y" * 250), "too long", ".made.json")
