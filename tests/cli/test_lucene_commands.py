"""Lucene indexes on the command line, each command in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from forked_commands import forked_commands
from made_lucene import require_java, write_index

pytestmark = pytest.mark.slow

WORDS = [f"word{i}" for i in range(40)]


class Done(NamedTuple):
    """What a command printed, what it said, and which of Java and torch it had imported."""

    stdout: str
    stderr: str
    imported: list[str]


Lmtune = Callable[..., Done]


@pytest.fixture(scope="module")
def lmtune(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lmtune]:
    """Give commands in processes of their own, forked from one that has neither Java nor torch."""
    folder = tmp_path_factory.mktemp("prepared")
    write_collection(folder / "one", 0, [1, 2, 3, 4], "d")
    shown = folder / "shown"
    with forked_commands() as commands:
        commands.prepare(["tune", "one", "--grid", "2x2"], cwd=folder)

        def run(*arguments: str, cwd: Path, status: int = 0) -> Done:
            shown.unlink(missing_ok=True)
            ended = commands.run(arguments, cwd=cwd, stdout=str(shown), environment={"HOME": str(cwd)})
            assert ended.status == status, ended.said
            return Done(shown.read_text(), ended.said, ended.imported)

        yield run


def write_collection(folder: Path, seed: int, topics: list[int], docno: str) -> None:
    """Write a folder with documents, and topics and judgments split in TREC's way."""
    rng = np.random.default_rng(seed)
    (folder / "docs").mkdir(parents=True)
    with (folder / "docs" / "docs.jsonl").open("w") as file:
        for d in range(120):
            text = " ".join(rng.choice(WORDS, rng.integers(0, 60)))
            file.write(json.dumps({"id": f"{docno}{d}", "contents": text}) + "\n")
    with (folder / "topics.tsv").open("w") as file:
        file.writelines(f"{topic}\t{' '.join(rng.choice(WORDS, 3))}\n" for topic in topics)
    with (folder / "qrels.txt").open("w") as file:
        for topic in topics:
            for d in rng.permutation(120)[:30]:
                file.write(f"{topic} 0 {docno}{d} {rng.integers(0, 2)}\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, lmtune: Lmtune) -> Path:
    """Make a working folder with a collection and its Lucene index."""
    require_java()
    folder = tmp_path_factory.mktemp("home")
    write_collection(folder / "one", 0, list(range(1, 13)), "d")
    done = lmtune("index", "one", "--engine", "lucene", "--output", "ix/one", "--stemmer", "none", cwd=folder)
    assert "120 documents; use it with --index lucene:ix/one" in done.stderr
    assert done.stdout == ""
    return folder


def test_both_engines_give_one_table_and_the_second_run_starts_no_java(home: Path, lmtune: Lmtune) -> None:
    rest = ["--folds", "3", "--grid", "4x5"]
    embedded = lmtune("tune", "one", "--stemmer", "none", *rest, cwd=home)
    first = lmtune("tune", "one", "--index", "lucene:ix/one", *rest, cwd=home)
    again = lmtune("tune", "one", "--index", "ix/one", *rest, "--output", "kept", cwd=home)
    # The last lines name the index and the folder.
    tables = [done.stdout.partition("Search with this setting")[0] for done in (first, embedded, again)]
    assert tables[0] == tables[1] == tables[2] != ""
    assert embedded.imported == []
    assert first.imported == ["jnius"]
    assert again.imported == []
    made = json.loads((home / "kept" / "made.json").read_text())
    assert made["collections"][0]["analysis"] == {"stemmer": "none", "stopwords": "lucene"}
    searched = [
        lmtune("search", "one", *index, "--run-tag", "x", "--output", "-", cwd=home).stdout
        for index in (["--stemmer", "none"], ["--index", "lucene:ix/one"])
    ]
    assert searched[0] == searched[1] != ""


def test_parts_by_option(home: Path, lmtune: Lmtune) -> None:
    tune = "tune --index lucene:ix/one --topics one/topics.tsv --qrels one/qrels.txt --lengths lucene"
    done = lmtune(*tune.split(), *"--grid 3x3 --train-topics 1-6".split(), cwd=home)
    assert "Direct" in done.stdout


def test_the_papers_collections_by_name(tmp_path: Path, lmtune: Lmtune) -> None:
    require_java()
    adhoc = list(range(51, 201, 10))
    parts = {
        "ap": (adhoc, "AP"),
        "wsj": (adhoc, "WSJ"),
        "robust04": ([*range(301, 451, 15), *range(601, 701, 10)], "FT"),
        "wt10g": ([*range(451, 551, 10)], "WTX"),
    }
    (tmp_path / "topics").mkdir()
    (tmp_path / "qrels").mkdir()
    for seed, (name, (topics, docno)) in enumerate(parts.items()):
        write_collection(tmp_path / "made" / name, seed, topics, docno)
        engine = ["--engine", "lucene"] if name != "wt10g" else []
        lmtune(
            "index", "--documents", f"made/{name}/docs", *engine, "--output", f"indexes/{name}", cwd=tmp_path
        )
    for name in ("robust04", "wt10g"):
        own = "adhoc.451-550" if name == "wt10g" else name
        (tmp_path / "made" / name / "topics.tsv").rename(tmp_path / f"topics/topics.{own}.tsv")
        (tmp_path / "made" / name / "qrels.txt").rename(tmp_path / f"qrels/qrels.{own}.txt")
    # AP and WSJ share TREC's topics and judgments, in pyserini's cache, cut where TREC cut them.
    cache = tmp_path / ".cache" / "pyserini" / "topics-and-qrels"
    cache.mkdir(parents=True)
    lines = (tmp_path / "made/ap/topics.tsv").read_text().splitlines(keepends=True)
    judged = [
        line
        for name in ("ap", "wsj")
        for line in (tmp_path / f"made/{name}/qrels.txt").read_text().splitlines(keepends=True)
    ]
    for first, last in ((51, 100), (101, 150), (151, 200)):
        for role, all_lines in (("topics", lines), ("qrels", judged)):
            kept = [line for line in all_lines if first <= int(line.split()[0]) <= last]
            suffix = "tsv" if role == "topics" else "txt"
            (cache / f"{role}.adhoc.{first}-{last}.{suffix}").write_text("".join(kept))
    done = lmtune(
        "tune", "ap", "wsj", "robust04", "wt10g", "--grid", "3x4", "--no-approx", "--verbose", cwd=tmp_path
    )
    header = next(line for line in done.stdout.splitlines() if line.startswith("Measure"))
    assert header.split()[2:] == list(parts)
    assert "ap: 120 documents, 15 topics, trained on 10 topics, reported on 5" in done.stdout
    assert "robust04: 120 documents, 20 topics, trained on 10 topics, reported on 10" in done.stdout
    assert "wt10g: 120 documents, 10 topics, trained on 5 topics, reported on 5" in done.stdout


def test_failures_are_one_line_each(home: Path, lmtune: Lmtune) -> None:
    def refused(*arguments: str) -> str:
        done = lmtune(*arguments, cwd=home, status=2)
        assert done.stdout == ""
        [line] = done.stderr.splitlines()
        return line

    data = ["--topics", "one/topics.tsv", "--qrels", "one/qrels.txt"]
    assert "neither a folder nor a prebuilt index" in refused("tune", "--index", "lucene:nowhere", *data)
    assert "not a Lucene index: no segments file" in refused("tune", "--index", "lucene:one", *data)
    assert "--lengths without a Lucene index" in refused("tune", "one", "--lengths", "lucene")
    assert "unknown lengths: 'x'; accepted: exact or lucene" in refused(
        "tune", "one", "--index", "lucene:ix/one", "--lengths", "x"
    )
    assert "unknown --engine: 'x'; accepted: embedded, lucene" in refused("index", "one", "--engine", "x")
    assert "--engine lucene needs --output" in refused("index", "one", "--engine", "lucene")
    assert "there is no index of wt10g; accepted" in refused(
        "search", "wt10g", "--topics", "one/topics.tsv"
    ).replace("indexes/wt10g: ", "")
    assert "the file of this name is not here, and it cannot be downloaded" in refused(
        "tune", "--index", "lucene:ix/one", "--topics", "robust04", "--qrels", "one/qrels.txt"
    )
    empty = home / ".cache" / "pyserini" / "topics-and-qrels" / "topics.core17.txt"
    empty.parent.mkdir(parents=True, exist_ok=True)
    empty.touch()
    assert "topics.core17.txt: a cached file is empty; accepted: delete it" in refused(
        "tune", "--index", "lucene:ix/one", "--topics", "core17", "--qrels", "one/qrels.txt"
    )


def test_a_foreign_index_is_read_with_anserinis_default_analysis(tmp_path: Path, lmtune: Lmtune) -> None:
    write_index(tmp_path / "ix", [{"d1": "run dog"}, {"d2": "dog dog"}])
    (tmp_path / "topics.tsv").write_text("1\tThe dogs running\n")
    done = lmtune("search", "--index", "lucene:ix", "--topics", "topics.tsv", "--run-tag", "x", cwd=tmp_path)
    assert [line.split()[2] for line in done.stdout.splitlines()] == ["d1", "d2"]
