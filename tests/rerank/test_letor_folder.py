"""Folders of LETOR files: every ending, layout and way of holding queries out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from made_lists import made_lists

from lmtune.errors import InputError
from lmtune.io.files import SUFFIXES, atomic_write
from lmtune.io.letor import write_letor
from lmtune.rerank.data import RankingData
from lmtune.rerank.letor_folder import draw_queries, read_letor_folder

ROWS = "1 qid:1 1:0.5\n0 qid:2 2:1\n0 qid:2 1:1\n1 qid:3 1:1\n"
VALIDATION, TEST = "1 qid:9 5:1\n", "1 qid:8 1:1\n"
ENDINGS = (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat")


def made(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / name) as stream:
            stream.write(text)
    return folder


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
@pytest.mark.parametrize("fold", ["", "Fold1/"])
def test_every_ending_layout_and_validation(tmp_path: Path, ending: str, suffix: str, fold: str) -> None:
    end = ending + suffix
    home = made(tmp_path / "data", {f"{fold}train{end}": ROWS, f"{fold}test{end}": TEST})
    (tmp_path / "held.txt").write_text("2\n")
    for validation, (rest, chosen) in {
        "0.4": (("2", "3"), ("1",)),
        str(tmp_path / "held.txt"): (("1", "3"), ("2",)),
    }.items():
        [split] = read_letor_folder(home, validation=validation, seed=1)
        assert (split.train.queries, split.validation.queries) == (rest, chosen)
        assert {data.features.shape[1] for data in (split.train, split.validation, split.test)} == {2}
    made(home, {f"{fold}vali_queries.txt": "3\r\n\n1\r\n"})
    [split] = read_letor_folder(home)
    assert (split.train.queries, split.validation.queries) == (("2",), ("1", "3"))
    for name in ("vali", "valid", "validation", "dev"):
        made(home, {f"{fold}{name}{end}": VALIDATION})
        [split] = read_letor_folder(home)
        assert split.name == ("Fold1" if fold else "data")
        assert split.train.features.tolist()[1] == [0, 1, 0, 0, 0]
        assert split.validation.features.tolist() == [[0, 0, 0, 0, 1]]
        assert split.test.features.tolist() == [[1, 0, 0, 0, 0]]
        [split] = read_letor_folder(home, validation="0.4", seed=1)
        assert split.validation.queries == ("1",)
        (home / f"{fold}{name}{end}").unlink()


def test_folds_come_by_number(tmp_path: Path) -> None:
    numbers = [10, 2, 1]
    for number in numbers:
        made(tmp_path / f"Fold{number}", {"train.txt": ROWS, "vali.txt": VALIDATION, "test.txt": TEST})
    made(tmp_path / "Folder", {"other.txt": ""})
    assert [split.name for split in read_letor_folder(tmp_path)] == ["Fold1", "Fold2", "Fold10"]


def test_columnar_forms_are_kept_by_name(tmp_path: Path) -> None:
    flat = made(tmp_path / "flat", {"train.svm": ROWS, "valid.txt": VALIDATION, "test.txt.gz": TEST})
    folds = made(tmp_path / "folds", {f"Fold1/{p}.txt": ROWS for p in ("train", "vali", "test")})
    for _ in range(2):
        read_letor_folder(flat, cache=tmp_path / "cache")
        read_letor_folder(folds, cache=tmp_path / "cache")
    kept = {str(path.parent.relative_to(tmp_path / "cache")) for path in tmp_path.rglob("features.npy")}
    assert kept == {"train.svm", "valid.txt", "test.txt.gz"} | {
        f"Fold1/{part}.txt" for part in ("train", "vali", "test")
    }


def test_repeated_features(tmp_path: Path) -> None:
    made(tmp_path, {"train.txt": ROWS, "vali.txt": VALIDATION, "test.txt": "1 qid:1 1:2 1:3\n"})
    with pytest.raises(InputError, match="feature repeated"):
        read_letor_folder(tmp_path)
    [split] = read_letor_folder(tmp_path, repeated="last")
    assert split.test.features[0, 0] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2\n\n2\n", r"held\.txt:3: query listed twice: '2'"),
        ("7\n", r"held\.txt:1: no such training query: '7'; accepted: one training query per line, each"),
        ("", r"held\.txt: no query is left"),
        ("1\n2\n3\n", r"held\.txt: no query is left; accepted: some of the training queries"),
    ],
)
def test_lists_of_queries_that_cannot_be_held_out(tmp_path: Path, text: str, message: str) -> None:
    home = made(tmp_path / "data", {"train.txt": ROWS, "test.txt": TEST, "vali_queries.txt": text})
    with pytest.raises(InputError, match=message.replace("held", "vali_queries")):
        read_letor_folder(home)
    with pytest.raises(InputError, match=message):
        read_letor_folder(home, validation=str(made(tmp_path, {"held.txt": text}) / "held.txt"))


@pytest.mark.parametrize("share", ["0", "1", "-0.5", "nan", "2"])
def test_shares_that_cannot_be_held_out(tmp_path: Path, share: str) -> None:
    made(tmp_path, {"train.txt": ROWS, "test.txt": TEST})
    with pytest.raises(InputError, match="bad share of validation queries"):
        read_letor_folder(tmp_path, validation=share)


def test_shares_are_drawn_by_seed() -> None:
    queries = made_lists(0).queries
    drawn = [draw_queries(queries, 0.25, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {len(held) for held in drawn} == {6}
    assert len(draw_queries(queries, 0.001, 0)) == 1
    assert len(draw_queries(queries, 0.999, 0)) == len(queries) - 1
    with pytest.raises(InputError, match="with at least two queries"):
        draw_queries(["1"], 0.5, 0)


def test_what_is_missing_or_doubled(tmp_path: Path) -> None:
    for place, message in [(tmp_path / "none", "no such folder"), (tmp_path, "the folder is empty")]:
        with pytest.raises(InputError, match=f"{message}; accepted: a folder with train"):
            read_letor_folder(place)
    made(tmp_path, {"notes.md": "", "qrels.train.txt": "1 0 a 1\n", "topics.train.txt": "1\tx\n"})
    with pytest.raises(InputError, match=r"no train file; accepted: a folder with train\.txt"):
        read_letor_folder(tmp_path)
    made(tmp_path, {"train.txt": ROWS})
    with pytest.raises(InputError, match="no validation file"):
        read_letor_folder(tmp_path)
    with pytest.raises(InputError, match="no test file"):
        read_letor_folder(tmp_path, validation="0.5")
    made(tmp_path, {"test.txt": ROWS, "vali.txt": ROWS, "dev.txt": ROWS})
    with pytest.raises(InputError, match=r"several validation files: 'vali\.txt, dev\.txt'"):
        read_letor_folder(tmp_path)
    made(tmp_path, {"train.svm.gz": ROWS})
    for validation, seed in itertools.product([None, "0.5"], [0, 1]):
        with pytest.raises(InputError, match=r"several train files: 'train\.txt, train\.svm\.gz'"):
            read_letor_folder(tmp_path, validation=validation, seed=seed)


def test_data_are_written_and_read(tmp_path: Path) -> None:
    data = RankingData.from_lengths(
        np.random.default_rng(0).normal(size=(3, 4)), [0, 1, 2], [2, 1], docnos=["a", "b", "a"]
    )
    write_letor(tmp_path / "some.txt", data)
    again = RankingData.read(tmp_path / "some.txt")
    assert (again.features == data.features).all()
    assert (again.queries, again.docnos) == (data.queries, data.docnos)


def test_real_sets(shared_data: Path, tmp_path: Path) -> None:
    [small] = read_letor_folder(shared_data / "ltr" / "lightgbm")
    assert [len(part.queries) for part in (small.train, small.validation, small.test)] == [161, 40, 50]
    [fold] = read_letor_folder(shared_data / "ltr" / "mq2008", cache=tmp_path)
    parts = (fold.train, fold.validation, fold.test)
    assert [len(part.queries) for part in parts] == [471, 157, 156]
    assert {part.features.shape[1] for part in parts} == {46}


def test_ids_from_0_in_one_file_count_for_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = {"train.txt": "1 qid:1 1:3\n", "vali.txt": "1 qid:2 0:2 1:3\n", "test.txt": "1 qid:3 2:5\n"}
    with caplog.at_level("INFO", logger="lmtune"):
        [split] = read_letor_folder(made(tmp_path / "data", files))
    assert split.train.features.tolist() == [[0, 3, 0]]
    assert split.validation.features.tolist() == [[2, 3, 0]]
    assert split.test.features.tolist() == [[0, 0, 5]]
    assert caplog.text.count("feature ids count from 0") == 1
