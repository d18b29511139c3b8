from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lmtune.datasets.folder import find_documents, find_qrels, find_topics, splits
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
    ],
)
def test_documents(tmp_path: Path, present: list[str], chosen: list[str]) -> None:
    assert names(find_documents(fill(tmp_path, *present)), tmp_path) == chosen


@pytest.mark.parametrize(
    ("present", "told"),
    [
        (["docs/a", "stray"], "documents are docs/; stray are not read"),
        (
            ["docs.jsonl", "corpus.jsonl", "more/1", "more/2", "x"],
            "corpus.jsonl, more/1, more/2 and 1 more are",
        ),
        (["docs.jsonl", "topics.tsv", "qrels/test.tsv", "README.md"], None),
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
def test_a_missing_role_names_the_folder_and_what_is_accepted(
    tmp_path: Path, find: Callable[[Path], object], role: str
) -> None:
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
def test_ambiguous_roles_list_the_candidates(
    tmp_path: Path, find: Callable[[Path], object], present: list[str]
) -> None:
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
def test_judgements_of_a_split(tmp_path: Path, present: list[str], split: str | None, chosen: str) -> None:
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
