"""Reading ratings in the forms that MovieLens and the Netflix Prize have."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.formats import ratings as reader
from lmtune.formats.ratings import Ratings, read_ratings

LINES = "7\t30\t5\t100\n7\t10\t3\t200\n7\t20\t4\t200\n2\t10\t1\t50\n7\t40\t2.5\t10\n"
DAT = LINES.replace("\t", "::")
CSV = "userId,movieId,rating,timestamp\n" + LINES.replace("\t", ",").replace(",5,", ",5.0,")
# Days since 1970 of times: as seconds they are 86,400 times as many.
NETFLIX = (
    "30:\n7,5,1970-04-11\n10:\n7,3,1970-07-20\n2,1,1970-02-20\n20:\n7,4,1970-07-20\n40:\n7,2.5,1970-01-11\n"
)


def rows(ratings: Ratings) -> list[tuple[int, int, float, int]]:
    ids = ratings.user_ids[ratings.users], ratings.item_ids[ratings.items]
    return sorted(zip(*(column.tolist() for column in (*ids, ratings.values, ratings.times)), strict=True))


EXPECTED = [(2, 10, 1.0, 50), (7, 10, 3.0, 200), (7, 20, 4.0, 200), (7, 30, 5.0, 100), (7, 40, 2.5, 10)]


@pytest.mark.parametrize("text", [LINES, DAT, CSV, CSV.partition("\n")[2]])
@pytest.mark.parametrize("changed", ["", "crlf", "mark", "blank", "no end"])
def test_movielens(tmp_path: Path, text: str, changed: str) -> None:
    text = {
        "": text,
        "crlf": text.replace("\n", "\r\n"),
        "mark": f"\ufeff{text}",
        "blank": f"{text}\n\r\n",
        "no end": text.rstrip("\n"),
    }[changed]
    file = tmp_path / "any.name"
    file.write_bytes(text.encode())
    found = read_ratings(file)
    assert rows(found) == EXPECTED
    assert found.user_ids.tolist() == [2, 7] and found.item_ids.tolist() == [10, 20, 30, 40]
    assert [own.dtype for own in (found.users, found.items, found.values)] == [np.int32, np.int32, np.float32]


def test_blocks_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_BLOCK_BYTES", 7)
    for text in (LINES, DAT, CSV):
        (tmp_path / "r").write_text(text)
        assert rows(read_ratings(tmp_path / "r")) == EXPECTED
    (tmp_path / "r").write_text(NETFLIX.replace("40:", "\n40:"))
    assert [(*own[:3], own[3] // 86_400) for own in rows(read_ratings(tmp_path / "r"))] == EXPECTED
    (tmp_path / "r").write_text(LINES + "1\t2\t3\n")
    with pytest.raises(InputError, match=":6: not a rating"):
        read_ratings(tmp_path / "r")


def test_netflix(tmp_path: Path) -> None:
    """One file an item, or several with many items; titles and the qualifying set are no ratings."""
    folder = tmp_path / "training_set"
    folder.mkdir()
    (tmp_path / "combined_data_1.txt").write_text(NETFLIX[: NETFLIX.index("20:")])
    (tmp_path / "combined_data_2.txt").write_text(NETFLIX[NETFLIX.index("20:") :].replace("\n", "\r\n"))
    (tmp_path / "qualifying.txt").write_text("1:\n2,2005-01-01\n")
    for piece in NETFLIX.replace("0:\n", "0:").split("\n")[:-1]:
        if ":" in piece:
            item = int(piece.partition(":")[0])
        with (folder / f"mv_{item:07}.txt").open("a") as stream:
            stream.write(piece.replace(":", ":\n") + "\n")
    (folder / "mv_0000050.txt").write_text("50:\n")  # nobody has rated it
    for path in (tmp_path, folder):
        assert [(*own[:3], own[3] // 86_400) for own in rows(read_ratings(path))] == EXPECTED


def test_folders_and_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n")
    assert rows(read_ratings(tmp_path)) == EXPECTED
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"no ratings in the folder; accepted: ratings\.csv"):
        read_ratings(empty)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no ratings"),
        ("\n\n", "no ratings"),
        ("1\t2\t3\n", ":1: not a rating: '1\\\\t2\\\\t3'; accepted: user TAB item TAB rating TAB time"),
        ("1\t2\t3\t4\n1\tx\t3\t4\n", ":2: not a rating"),
        ("1\t2\t0\t4\n", ":1: not a rating"),
        ("1::2::0.0::4\n", ":1: not a rating.*above 0"),
        ("1\t2\tnan\t4\n", ":1: not a rating"),
        ("1\t2\t-1\t4\n", ":1: not a rating"),
        ("1\t2\t3\t4\t5\n", ":1: not a rating"),
        ("1::2::3::4\n1::2::3:4\n", ":2: not a rating.*accepted: user::item::rating::time"),
        ("userId,movieId,rating,timestamp\n1,2,5,4\n1,3,5\n", ":3: not a rating"),
        ("movieId,userId,rating,timestamp\n1,2,5,4\n", ":1: not a rating"),
        ("1\t1234567890123456789\t3\t4\n", ":1: not a rating"),
        ("1:\n5,3,2005-13-01\n", ":2: not a rating.*YYYY-MM-DD"),
        ("1:\n5,3\n", ":2: not a rating"),
        ("1\t2\t3\t4\n1\t2\t5\t9\n", r"an item rated twice by one user: \(1, 2\)"),
        ("1\t2\t3\t\xff\n", ":1: not a rating"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=words):
        read_ratings(tmp_path / "r")


def test_ids_of_any_size(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("987654321012345678,1,3.5,1112486027\n3,99999999999,0.5,1112486028\n")
    assert rows(read_ratings(tmp_path / "r")) == [
        (3, 99999999999, 0.5, 1112486028),
        (987654321012345678, 1, 3.5, 1112486027),
    ]
