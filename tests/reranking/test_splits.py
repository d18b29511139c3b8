"""Folders of LETOR files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.formats.letor import write_letor
from lmtune.reranking.data import RankingData
from lmtune.reranking.splits import read_data, read_splits

ROWS = "1 qid:1 1:0.5\n0 qid:2 2:1\n0 qid:2 1:1\n1 qid:3 1:1\n"


def test_three_files_of_one_width(tmp_path: Path) -> None:
    (tmp_path / "train.svm").write_text(ROWS)
    (tmp_path / "valid.txt").write_text("1 qid:9 5:1\n")
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(b"1 qid:8 1:1\n"))
    splits = read_splits(tmp_path, cache=tmp_path / "cache")
    assert splits.train.features.tolist()[1] == [0, 1, 0, 0, 0]
    assert splits.validation.features.tolist() == [[0, 0, 0, 0, 1]]
    assert splits.test.features.tolist() == [[1, 0, 0, 0, 0]]
    kept = sorted(path.name for path in (tmp_path / "cache").iterdir())
    assert kept == ["test.txt.gz", "train.svm", "valid.txt"]


def test_queries_held_out(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(ROWS)
    (tmp_path / "test.txt").write_text(ROWS)
    (tmp_path / "vali_queries.txt").write_text("2\r\n")
    splits = read_splits(tmp_path)
    assert splits.train.queries == ("1", "3")
    assert splits.validation.queries == ("2",)
    assert splits.test.queries == ("1", "2", "3")
    for text, message in [
        ("2\n\n2\n", ":3: query listed twice: '2'"),
        ("7\n", ":1: no such query in the training file: '7'"),
        ("", "no queries left"),
        ("1\n2\n3\n", "no queries left"),
    ]:
        (tmp_path / "vali_queries.txt").write_text(text)
        with pytest.raises(InputError, match=message):
            read_splits(tmp_path)


def test_what_is_missing_or_doubled(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no train file; accepted: a folder with train\.txt"):
        read_splits(tmp_path)
    (tmp_path / "train.txt").write_text(ROWS)
    with pytest.raises(InputError, match="no test file"):
        read_splits(tmp_path)
    (tmp_path / "test.txt").write_text(ROWS)
    with pytest.raises(InputError, match="no validation file"):
        read_splits(tmp_path)
    (tmp_path / "vali.txt").write_text(ROWS)
    (tmp_path / "dev.txt").write_text(ROWS)
    with pytest.raises(InputError, match=r"several validation files: 'vali\.txt, dev\.txt'"):
        read_splits(tmp_path)


def test_data_are_written_and_read(tmp_path: Path) -> None:
    data = RankingData.from_lengths(
        np.random.default_rng(0).normal(size=(3, 4)), [0, 1, 2], [2, 1], docnos=["a", "b", "a"]
    )
    write_letor(tmp_path / "some.txt", data)
    again = read_data(tmp_path / "some.txt")
    assert (again.features == data.features).all()
    assert (again.queries, again.docnos) == (data.queries, data.docnos)


def test_real_sets(shared_data: Path, tmp_path: Path) -> None:
    small = read_splits(shared_data / "ltr" / "lightgbm")
    assert [len(part.queries) for part in vars(small).values()] == [161, 40, 50]
    fold = read_splits(shared_data / "ltr" / "mq2008" / "Fold1", cache=tmp_path)
    assert [len(part.queries) for part in vars(fold).values()] == [471, 157, 156]
    assert {part.features.shape[1] for part in vars(fold).values()} == {46}
