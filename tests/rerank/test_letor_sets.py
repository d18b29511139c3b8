"""Learning-to-rank sets as they are handed out: small files made in their exact form, oddities included."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from scripts import run_command

from lmtune.errors import InputError
from lmtune.io.letor import read_letor
from lmtune.rerank.letor_folder import read_letor_folder

LARGEST = "1.79769313486231e+308"


def rows(random: np.random.Generator, query: str, count: int, pairs: str, end: str = "\n") -> str:
    """Write a query's rows: grades 0 to 4, the pairs of `pairs`, whose values are drawn."""
    lines = []
    for grade in random.integers(0, 5, count):
        drawn = [f"{value:.6g}" for value in random.gamma(1.0, 30.0, pairs.count("{}"))]
        lines.append(f"{grade} qid:{query} {pairs.format(*drawn)}{end}")
    return "".join(lines)


def write(folder: Path, files: dict[str, list[str]], pairs: str, end: str = "\n") -> Path:
    random = np.random.default_rng(0)
    for name, queries in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = "".join(rows(random, query, 6, pairs, end) for query in queries)
        (folder / name).write_bytes(text.encode())
    return folder


def test_mslr_web10k(tmp_path: Path) -> None:
    pairs = " ".join(f"{number}:{{}}" for number in range(1, 137))
    files = {
        f"Fold{fold}/{part}.txt": [f"{fold}{place}{query}" for query in range(1, 3)]
        for fold in range(1, 6)
        for place, part in enumerate(("train", "vali", "test"), 1)
    }
    # Each line ends in a blank.
    home = write(tmp_path / "MSLR-WEB10K", files, pairs, " \n")
    folds = read_letor_folder(home)
    assert [fold.name for fold in folds] == [f"Fold{fold}" for fold in range(1, 6)]
    assert folds[2].test.queries == ("331", "332")
    assert folds[4].train.features.shape == (12, 136)
    first = (home / "Fold1/train.txt").read_text().split("\n")[0].split()
    np.testing.assert_array_equal(
        folds[0].train.features[0], [np.float32(pair.partition(":")[2]) for pair in first[2:]]
    )


def test_yahoo(tmp_path: Path) -> None:
    # Features by number, most absent; set 1 goes up to 699, and its parts need not.
    home = write(
        tmp_path / "yahoo",
        {f"set1.{part}.txt": [str(10 * part_number)] for part_number, part in enumerate(PARTS, 1)},
        "10:{} 11:{} 54:0.00027 699:{}",
    )
    write(home, {f"set2.{part}.txt": ["7"] for part in PARTS}, "3:{} 700:{}")
    with pytest.raises(InputError, match=r"several train files: 'set1\.train\.txt, set2\.train\.txt'"):
        read_letor_folder(home)
    [one], [two] = (read_letor_folder(home / name) for name in ("set1", "set2"))
    assert (one.name, two.name) == ("set1", "set2")
    assert one.train.queries == ("10",)
    assert one.validation.queries == ("20",)
    assert one.test.features.shape == (6, 699)
    assert two.test.features.shape == (6, 700)
    assert np.flatnonzero(one.test.features.any(axis=0)).tolist() == [9, 10, 53, 698]
    for file in home.glob("set2.*"):
        file.unlink()
    [alone] = read_letor_folder(home)
    np.testing.assert_array_equal(alone.train.features, one.train.features)


PARTS = ("train", "valid", "test")


def test_istella(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    head = f"1:{{}} 2:{{}} 3:{LARGEST} 4:{{}} 220:{{}}"
    home = write(tmp_path / "full", {"train.txt": ["1", "2", "3", "4"], "test.txt": ["5"]}, head)
    # In the last query feature 2 is missing but of two documents; either spelling of the largest double.
    text = (home / "test.txt").read_text().splitlines()
    values = [LARGEST, "7.5", "1.79769313486232e+308", "2.5", "1.7976931348623157E+308", LARGEST]
    mended = [
        " ".join([*line.split()[:3], f"2:{value}", *line.split()[4:]])
        for line, value in zip(text, values, strict=True)
    ]
    (home / "test.txt").write_text("\n".join(mended) + "\n")
    with pytest.raises(InputError, match=r"no validation file.*--validation"):
        read_letor_folder(home)
    with caplog.at_level(logging.INFO, "lmtune"):
        [split] = read_letor_folder(home, validation="0.25")
    assert len(split.train.queries) == 3
    assert not split.train.features[:, 2].any()
    assert split.test.features[:, 1].tolist() == [2.5, 7.5, 2.5, 2.5, 2.5, 2.5]
    assert "10 values are missing" in caplog.text
    # Istella-S has a validation part, and is read likewise.
    sample = write(tmp_path / "sample", {"train.txt": ["1"], "vali.txt": ["2"], "test.txt": ["3"]}, head)
    assert np.isfinite(read_letor_folder(sample)[0].validation.features).all()


def test_letor4_null_min_and_comments(tmp_path: Path) -> None:
    # Feature 2 of the second row, and of the whole second query, is NULL.
    null = (
        "2 qid:10032 1:0.056537 2:-5.5 #docid = GX029-35-5894638 inc = 0.0119881192468859 prob = 0.1\r\n"
        "0 qid:10032 1:0.279152 2:NULL 46:0.0 #docid = GX030-77-6315042 inc = 1 prob = 0.341364\r\n"
        "1 qid:10032 1:0.130742 2:-9.25 46:1 #docid = GX140-98-13566007 inc = 1 prob = 0.0701303\r\n"
        "0 qid:10039 1:1.000000 2:NULL 46:0.0 #docid = GX029-35-5894638 inc = 1 prob = 0.1\r\n"
    )
    for part in ("train", "vali", "test"):
        (tmp_path / "null" / "Fold1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "null" / "Fold1" / f"{part}.txt").write_text(null, newline="")
    [split] = read_letor_folder(tmp_path / "null")
    # What LETOR's MIN files have instead: the lowest of the query.
    assert split.train.features[:, 1].tolist() == [-5.5, -9.25, -9.25, 0.0]
    assert split.train.docnos is not None
    assert split.train.docnos[2] == "GX140-98-13566007"
    least = tmp_path / "min.txt"
    least.write_text(null.replace("2:NULL", "2:-9.25", 1).replace("2:NULL", "2:0"), newline="")
    kept = read_letor(tmp_path / "null/Fold1/train.txt", cache=tmp_path / "cache")
    again = read_letor(tmp_path / "null/Fold1/train.txt", cache=tmp_path / "cache")
    for own in (kept, again):
        np.testing.assert_array_equal(own.features, read_letor(least).features)


def test_letor2_and_3_ohsumed(tmp_path: Path) -> None:
    pairs = " ".join(f"{number}:{{}}" for number in range(1, 46)) + " #docid = 40626"
    names = ("trainingset", "validationset", "testset")
    home = write(tmp_path / "OHSUMED", {f"Fold1/{name}.txt": [] for name in names}, pairs)
    random = np.random.default_rng(1)
    for name in names:
        text = "".join(
            rows(random, str(query), 1, pairs.replace("40626", str(40626 + row)))
            for query in (1, 2)
            for row in range(3)
        )
        (home / f"Fold1/{name}.txt").write_text(text)
    [split] = read_letor_folder(home)
    assert split.validation.features.shape == (6, 45)
    assert split.test.docnos is not None
    assert split.test.docnos[:3] == ("40626", "40627", "40628")


@pytest.mark.parametrize("value", ["NULLS", "null", "NUL", "1.8e308", "1.7976e308", "17976931348623.1e308"])
def test_other_values_are_not_missing(tmp_path: Path, value: str) -> None:
    (tmp_path / "a.txt").write_text(f"1 qid:1 1:{value}\n")
    with pytest.raises(InputError, match="bad value of a feature"):
        read_letor(tmp_path / "a.txt")


@pytest.mark.parametrize("label", ["NULL", LARGEST])
def test_labels_cannot_be_missing(tmp_path: Path, label: str) -> None:
    (tmp_path / "a.txt").write_text(f"{label} qid:1 1:2\n")
    with pytest.raises(InputError, match="bad label"):
        read_letor(tmp_path / "a.txt")


def test_the_command_takes_a_set_of_several(tmp_path: Path) -> None:
    home = write(tmp_path, {f"set{n}.{part}.txt": ["1", "2"] for n in (1, 2) for part in PARTS}, "1:{} 9:{}")
    compare = "rerank compare --losses ranknet --trials 1 --epochs 1 --net linear"
    assert "ranknet" in run_command(compare, home / "set2").out
