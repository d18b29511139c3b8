"""Folders whose judgments come in splits: tuned on one, reported on another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts import run_command
from support import read_answer

from lmtune.collections.collection import Collection
from lmtune.errors import InputError
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import prepare

QUICK = "--grid 3x3 --restarts 0 --ranknet-starts 1 --no-approx"
SPLITS = {"train": range(1, 7), "dev": range(7, 9), "test": range(9, 13)}


def write_beir(home: Path) -> None:
    """Write 30 documents, 12 queries, and their judgments in three splits."""
    Path(home, "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{n}", "text": f"w{n % 12 + 1} w{n % 5 + 1} filler"} for n in range(30)]
    queries = [{"_id": f"q{n}", "text": f"w{n} w{n % 5 + 1}"} for n in range(1, 13)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        Path(home, f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name, numbers in SPLITS.items():
        lines = [f"q{n}\td{(n - 1) % 12 + 12 * k}\t1\n" for n in numbers for k in (0, 1)]
        Path(home, f"qrels/{name}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_beir(tmp_path / "c")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("split", "train", "test"),
    [
        (Split(), "train", "test"),
        (Split(train_split="dev"), "dev", "test"),
        (Split(train_split="train", test_split="dev"), "train", "dev"),
    ],
)
def test_each_split_is_for_one_of_the_two(split: Split, train: str, test: str) -> None:
    ready = prepare(Collection("c"), split, Plan(grid=(3, 3)))
    [fold] = ready.folds
    assert fold.train == tuple(f"q{n}" for n in SPLITS[train])
    assert fold.test == tuple(f"q{n}" for n in SPLITS[test])
    assert set(ready.dataset.qrels) == {*fold.train, *fold.test}


def test_other_ways_take_one_split_as_before() -> None:
    for collection, split in (
        (Collection("c"), Split(folds="2")),
        (Collection("c"), Split(train_topics="q9,q10")),
        (Collection("c", split="test"), Split()),
    ):
        ready = prepare(collection, split, Plan(grid=(3, 3)))
        assert {*ready.dataset.qrels} == {f"q{n}" for n in SPLITS["test"]}


@pytest.mark.parametrize(
    ("collection", "split"),
    [
        (Collection("c"), Split(train_split="test")),
        (Collection("c"), Split(folds="2", train_split="train")),
        (Collection("c"), Split(train_topics="q1", test_split="test")),
        (Collection("c", split="dev"), Split(test_split="test")),
        (Collection("c", qrels="c/qrels/dev.tsv"), Split(test_split="test")),
        (Collection("c"), Split(train_split="none")),
        (Collection("pydocs"), Split(train_split="train")),
    ],
)
def test_splits_that_are_none(collection: Collection, split: Split) -> None:
    with pytest.raises(InputError, match="split"):
        prepare(collection, split, Plan(grid=(3, 3)))


def test_a_topic_in_both_is_refused() -> None:
    with Path("c/qrels/test.tsv").open("a") as stream:
        stream.write("q1\td1\t1\n")
    with pytest.raises(InputError, match=r"judged in both splits.*q1"):
        prepare(Collection("c"), Split(), Plan(grid=(3, 3)))


def test_beirs_folder_is_tuned_by_beirs_measures() -> None:
    out, said = run_command(f"tune c {QUICK}")
    assert "c/qrels/train.tsv" in said
    assert "c/qrels/test.tsv" in said
    assert "nDCG@10" in read_answer(out)[1]
    assert "R@100" in out
    assert "MAP" not in out
    out = run_command(f"tune c {QUICK} -m AP").out
    assert "MAP" in out
    assert "nDCG" not in out
