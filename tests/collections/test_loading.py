from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtune.collections.dataset import Dataset, check_dataset, split_topics
from lmtune.collections.loading import (
    available,
    files_of,
    find_documents,
    find_qrels,
    find_topics,
    is_beir,
    load,
    splits,
    splits_of,
)
from lmtune.errors import InputError


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("<DOC>\n")
    return folder


def names(found: list[Path], folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in found]


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (["docs.jsonl", "topics.tsv", "qrels.txt", "notes.txt"], ["docs.jsonl"]),
        (["docs.jsonl.zst", "corpus.jsonl"], ["docs.jsonl.zst"]),
        (["corpus.jsonl.gz", "queries.jsonl", "README"], ["corpus.jsonl.gz"]),
        (["collection.tsv.gz", "queries.dev.small.tsv", "qrels.dev.small.tsv"], ["collection.tsv.gz"]),
        (["docs/b.gz", "docs/a/2", "docs/a/1", "stray"], ["docs/a/1", "docs/a/2", "docs/b.gz"]),
        (["documents/x", "qrels/qrels.a.txt"], ["documents/x"]),
        (
            ["ap880212", "ap880213.gz", "topics.txt", "qrels.txt", "qrels/test.tsv", "other/deep/x"],
            ["ap880212", "ap880213.gz", "other/deep/x"],
        ),
        (["a/1", "b/2", "topics/x.txt", "qrels.txt"], ["a/1", "b/2"]),
        (["ap880212", "runs/bm25.gz", "dense.run", "fused.run.zst"], ["ap880212"]),
    ],
)
def test_documents(tmp_path: Path, present: list[str], chosen: list[str]) -> None:
    assert names(find_documents(fill(tmp_path, *present)), tmp_path) == chosen


@pytest.mark.parametrize(
    ("present", "told"),
    [
        (["docs/a", "stray"], "documents are docs/; stray are not read"),
        (["docs.jsonl", "corpus.jsonl", "more/1", "more/2", "x"], "corpus.jsonl, more/1, more/2 and 1 more"),
        (["docs.jsonl", "topics.tsv", "qrels/test.tsv", "README.md", "bm25.run", "dense.run.gz"], None),
        (["1", "b/2"], None),
    ],
)
def test_files_that_are_left_out_are_told(
    tmp_path: Path, present: list[str], told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "lmtune"):
        find_documents(fill(tmp_path, *present))
    assert told in caplog.text if told else not caplog.text


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (["topics.tsv"], "topics.tsv"),
        (["topics", "queries.tsv"], "topics"),
        (["topics.jsonl.gz", "topics.dev.txt"], "topics.jsonl.gz"),
        (["queries.jsonl", "topics.a.txt", "topics.b.txt"], "queries.jsonl"),
        (["topics.robust04.txt"], "topics.robust04.txt"),
        (["queries.dev.tsv.bz2"], "queries.dev.tsv.bz2"),
    ],
)
def test_topics(tmp_path: Path, present: list[str], chosen: str) -> None:
    assert find_topics(fill(tmp_path, *present)) == tmp_path / chosen


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (["qrels.binary.txt", "qrels.rawcodes.txt", "qrels.txt", "qrels.tsv"], "qrels.txt"),
        (["qrels", "qrels.a.txt"], "qrels"),
        (["qrels.tsv.gz"], "qrels.tsv.gz"),
        (["qrels.robust04.txt"], "qrels.robust04.txt"),
    ],
)
def test_qrels(tmp_path: Path, present: list[str], chosen: str) -> None:
    assert find_qrels(fill(tmp_path, *present)) == tmp_path / chosen


@pytest.mark.parametrize(
    ("find", "role"), [(find_documents, "documents"), (find_topics, "topics"), (find_qrels, "qrels")]
)
def test_a_missing_role_names_the_folder(tmp_path: Path, find: Callable[[Path], object], role: str) -> None:
    fill(tmp_path, "README.md", ".hidden")
    with pytest.raises(InputError) as caught:
        find(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: the folder has no {role}; accepted: ")
    assert {"documents": "docs.jsonl"}.get(role, f"{role}.txt") in str(caught.value)
    assert f"--{role} FILE" in str(caught.value)


@pytest.mark.parametrize(
    ("find", "present"),
    [
        (find_topics, ["topics.tsv", "topics.txt"]),
        (find_topics, ["topics.a.txt", "topics.b.txt"]),
        (find_qrels, ["qrels.binary.txt", "qrels.rawcodes.txt"]),
        (find_qrels, ["qrels.txt", "qrels.txt.gz"]),
        (find_documents, ["docs.jsonl", "docs.jsonl.gz"]),
        (find_documents, ["docs/", "documents/"]),
    ],
)
def test_ambiguous_roles(tmp_path: Path, find: Callable[[Path], object], present: list[str]) -> None:
    fill(tmp_path, *(name + "x" if name.endswith("/") else name for name in present))
    with pytest.raises(InputError) as caught:
        find(tmp_path)
    assert caught.value.value == ", ".join(present)
    assert "several files" in str(caught.value)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the folder"):
        find_topics(tmp_path / "nowhere")


def test_an_empty_documents_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    with pytest.raises(InputError, match="no document files"):
        find_documents(tmp_path)


@pytest.mark.parametrize(
    ("present", "split", "chosen"),
    [
        (["qrels/test.tsv", "qrels/train.tsv"], None, "qrels/test.tsv"),
        (["qrels/test.tsv", "qrels/train.tsv"], "train", "qrels/train.tsv"),
        (["qrels/dev.tsv"], None, "qrels/dev.tsv"),
        (["qrels.dev.txt", "qrels.test.txt"], "dev", "qrels.dev.txt"),
        (["qrels.txt", "qrels.pool.txt.gz"], "pool", "qrels.pool.txt.gz"),
        (["qrels.txt", "qrels/test.tsv"], None, "qrels.txt"),
    ],
)
def test_judgments_of_a_split(tmp_path: Path, present: list[str], split: str | None, chosen: str) -> None:
    assert find_qrels(fill(tmp_path, *present), split) == tmp_path / chosen


def test_splits(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "qrels/test.tsv",
        "qrels/train.tsv.gz",
        "qrels.pool.txt",
        "qrels.txt",
        "topics.dev.tsv",
        "topics.tsv",
    )
    fill(tmp_path, "topics.dev.tsv", "topics.tsv")
    assert splits(tmp_path) == ["pool", "test", "train"]
    with pytest.raises(InputError, match=r"no such split: 'dev'; accepted: pool, test, train"):
        find_qrels(tmp_path, "dev")
    assert find_topics(tmp_path, "dev") == tmp_path / "topics.dev.tsv"
    assert find_topics(tmp_path, "test") == tmp_path / "topics.tsv"
    (tmp_path / "qrels/test.tsv").unlink()
    (tmp_path / "qrels/dev.tsv").touch()
    (tmp_path / "qrels.txt").unlink()
    (tmp_path / "qrels.pool.txt").unlink()
    with pytest.raises(InputError, match=r"several files could be the qrels.*FILE or --split NAME"):
        find_qrels(tmp_path)


SGML = """<top>
<num> Number: 051
<title> wing flutter
<desc> Description:
Flutter of wings.
</top>
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "docs.jsonl").write_text(json.dumps({"id": "a", "contents": "wing"}) + "\n")
    (folder / "topics.tsv").write_text("51\tflutter\n")
    (folder / "qrels.txt").write_text("51 0 a 1\n")
    for role, text in (("topics", SGML), ("qrels", "51 0 a 2\n")):
        (tmp_path / role).mkdir()
        (tmp_path / role / f"{role}.named.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def docnos(dataset: Dataset) -> list[str]:
    assert dataset.documents is not None
    return [document.docno for batch in dataset.documents.batches() for document in batch.read()]


def test_a_folder(home: Path) -> None:
    dataset = load(home / "tiny")
    assert (dataset.name, docnos(dataset)) == ("tiny", ["a"])
    assert (dataset.topics, dataset.qrels) == ({"51": "flutter"}, {"51": {"a": 1}})
    assert dataset.topics_file == str(home / "tiny" / "topics.tsv")
    assert load("tiny/.").name == "tiny"


def test_options_override_each_role(home: Path) -> None:
    (home / "more.jsonl").write_text(json.dumps({"id": "b", "contents": "tail"}) + "\n")
    dataset = load("tiny", documents="more.jsonl", topics="named", topic_fields=("title", "desc"))
    assert docnos(dataset) == ["b"]
    assert dataset.topics == {"51": "wing flutter Flutter of wings."}
    assert dataset.qrels == {"51": {"a": 1}}
    assert load("tiny", qrels="named").qrels == {"51": {"a": 2}}


def test_names_in_the_folder_of_the_collection(home: Path) -> None:
    pool = home / "tiny" / "qrels.pool.txt"
    pool.write_text("51 0 a 3\n")
    (home / "tiny" / "qrels.named.txt").write_text("51 0 a 4\n")
    (home / "tiny" / "topics.pool.tsv").write_text("51\ttail\n")
    dataset = load("tiny", topics="pool", qrels="pool")
    assert (dataset.topics, dataset.qrels) == ({"51": "tail"}, {"51": {"a": 3}})
    assert files_of("tiny", qrels="pool")[-1].resolve() == pool
    assert load("tiny", qrels="named").qrels == {"51": {"a": 2}}  # qrels/ comes first
    with pytest.raises(InputError, match="other"):
        load("tiny", qrels="other")


def test_files_that_are_left_out_are_told_once(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    (home / "tiny" / "stray").write_text("")
    with caplog.at_level("INFO", "lmtune"):
        assert home / "tiny" / "docs.jsonl" in files_of(home / "tiny")
        load("tiny")
    assert caplog.text.count("stray are not read") == 1


@pytest.mark.usefixtures("home")
def test_explicit_files_alone() -> None:
    dataset = load(documents="tiny/docs.jsonl", topics="tiny/topics.tsv", qrels="named")
    assert (dataset.name, docnos(dataset)) == ("docs", ["a"])
    indexed = load(topics="named", qrels="named", need=("topics", "qrels"))
    assert (indexed.name, indexed.documents) == ("named", None)


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_pydocs_with_other_topics() -> None:
    dataset = load("pydocs", topics="named", qrels="named", documents="tiny/docs.jsonl")
    assert (dataset.name, docnos(dataset)) == ("pydocs", ["a"])
    assert dataset.topics == {"51": "wing flutter"}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nowhere", {}, "no such collection: 'nowhere'; accepted: pydocs, FOLDER, irds:ID"),
        ("tinny", {}, "no such collection: 'tinny'; accepted: tiny, pydocs"),
        (None, {}, "no documents and no topics and no qrels"),
        (None, {"need": []}, "no documents and no topics and no qrels"),
        (None, {"topics": "named"}, "no documents and no qrels"),
        (None, {"topics": "named", "need": ["topics", "qrels"]}, "no qrels"),
        ("tiny", {"topics": "nope"}, "topics: no such name or file: 'nope'"),
        ("tiny", {"documents": "nope"}, "nope: no such file or folder"),
        ("tiny", {"topic_fields": ("desc",)}, "topic fields other than the title"),
        ("pydocs", {"topic_fields": ("desc",)}, "pydocs have only a title: 'desc'"),
        ("topics", {}, "topics: the folder has no qrels"),
    ],
)
@pytest.mark.usefixtures("home")
def test_bad_names_are_one_line(name: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_documents_serves_an_index(home: Path) -> None:
    (home / "tiny" / "docs.jsonl").unlink()
    with pytest.raises(InputError, match="the folder has no documents"):
        load("tiny")
    assert load("tiny", need=("topics", "qrels")).documents is None


def test_what_is_available() -> None:
    assert [name for name, _ in available()] == "pydocs FOLDER irds:ID ap wsj robust04 wt10g".split()
    assert all(description for _, description in available())


@pytest.mark.parametrize(
    ("name", "documents", "topics", "judged", "judgments"),
    [
        ("cranfield", 1400, 225, 225, 1837),
        ("cacm", 3204, 64, 52, 796),
        ("npl", 11429, 93, 93, 2083),
        ("med", 1033, 30, 30, 696),
    ],
)
def test_the_classics(
    shared_data: Path, name: Any, documents: int, topics: int, judged: int, judgments: int
) -> None:
    dataset = load(shared_data / name)
    found = docnos(dataset)
    numbers = {docno: number for number, docno in enumerate(found)}
    checked = check_dataset(
        dataset, doc_numbers=lambda judged: np.array([numbers.get(docno, -1) for docno in judged])
    )
    assert (len(found), len(dataset.topics)) == (documents, topics)
    assert checked[1:] == (0, 0)
    assert sum(map(len, dataset.qrels.values())) == judgments
    assert len(split_topics(dataset).usable) == judged


def test_a_folder_as_ms_marco_distributes_it(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "collection.tsv.gz", "wt") as stream:
        stream.writelines(f"{n}\tpassage {n}\n" for n in range(9))
    for name, first in {"train": 10, "dev.small": 20}.items():
        queries = "".join(f"{first + n}\tquery {first + n}\n" for n in range(4))
        (tmp_path / f"queries.{name}.tsv").write_text(queries)
        (tmp_path / f"qrels.{name}.tsv").write_text(f"{first}\t0\t3\t1\n{first + 1}\t0\t5\t1\n")
    dataset = load(tmp_path, split="dev.small")
    assert docnos(dataset) == [str(n) for n in range(9)]
    assert dataset.topics == {"20": "query 20", "21": "query 21"}
    assert dataset.qrels == {"20": {"3": 1}, "21": {"5": 1}}
    with pytest.raises(InputError, match=r"could be the topics.*--split NAME"):
        load(tmp_path)


def test_a_folder_as_beir_distributes_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "A", "text": "text", "metadata": {}}\n')
    lines = [f'{{"_id": "q{i}", "text": "query {i}", "metadata": {{}}}}\n' for i in (1, 2)]
    (tmp_path / "queries.jsonl").write_text("".join(lines))
    for name, topic in (("train", "q1"), ("test", "q2")):
        (tmp_path / f"qrels/{name}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{topic}\td1\t2\n")
    found = load(tmp_path)
    assert (found.topics, found.qrels) == ({"q2": "query 2"}, {"q2": {"d1": 2}})
    assert found.documents is not None
    assert [Path(path).name for path in found.documents.files] == ["corpus.jsonl"]  # type: ignore[attr-defined]
    assert "qrels/test.tsv; other splits, for --split: train" in caplog.text
    assert load(tmp_path, split="train").topics == {"q1": "query 1"}
    assert load(tmp_path, split="train", need=["topics"]).topics == {"q1": "query 1"}
    assert list(load(tmp_path, need=["topics"]).topics) == ["q1", "q2"]
    assert splits_of(tmp_path) == ["test", "train"]
    assert is_beir(tmp_path)
    (tmp_path / "corpus.jsonl").rename(tmp_path / "docs.jsonl")
    assert not is_beir(tmp_path)
    assert splits_of("pydocs") == splits_of(None) == splits_of("irds:a/b") == []
    for options in ({"name": "pydocs"}, {"name": tmp_path, "qrels": tmp_path / "qrels/test.tsv"}):
        with pytest.raises(InputError, match="--split requires a folder, without --qrels"):
            load(**options, split="train")
