"""Files to fill in: read, filled, refused."""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.measures.judges.selection import Entry, put_label, read_sheet, start_sheet, write_sheet


def test_a_label_is_put_and_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    write_sheet(path, [Entry("1", "a"), Entry("1", "b", 2), Entry("2", "a")])
    assert path.read_text() == "1 0 a ?\n1 0 b 2\n2 0 a ?\n"
    assert put_label(path, "2", "a", 3) == read_sheet(path)
    assert path.read_text() == "1 0 a ?\n1 0 b 2\n2 0 a 3\n"
    put_label(path, "1", "b", None)
    assert path.read_text() == "1 0 a ?\n1 0 b ?\n2 0 a 3\n"
    with pytest.raises(InputError, match="no such pair"):
        put_label(path, "2", "b", 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no pairs to judge"),
        ("1 0 a\n", "pairs.txt:1: .*not a pair to judge"),
        ("1 0 a ?\n1 0 b x\n", "pairs.txt:2: .*not a pair to judge"),
        ("1 0 a ?\n1 0 a 1\n", "pairs.txt:2: .*repeated"),
    ],
)
def test_other_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text(text)
    with pytest.raises(InputError, match=said):
        read_sheet(tmp_path / "pairs.txt")


def _label_own(path: Path, topic: str, count: int) -> None:
    for n in range(count):
        put_label(path, topic, f"d{n}", 1)


@pytest.mark.slow
def test_processes_that_label_one_file_lose_nothing(tmp_path: Path) -> None:
    path, count = tmp_path / "pairs.txt", 40
    write_sheet(path, [Entry(topic, f"d{n}") for topic in "1234" for n in range(count)])
    workers = [get_context("fork").Process(target=_label_own, args=(path, t, count)) for t in "1234"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [entry.label for entry in read_sheet(path)] == [1] * 4 * count


def test_a_file_with_labels_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.touch()
    start_sheet(path, [Entry("1", "a"), Entry("1", "b")])
    start_sheet(path, [Entry("1", "c"), Entry("1", "b")])
    assert path.read_text() == "1 0 c ?\n1 0 b ?\n"
    for text, message in [
        ("1 0 c ?\n1 0 b 0\n", "the file has labels for 1 of 2 pairs"),
        ("1 0 c ?\n1 0 b yes\n", "pairs.txt:2: not a pair to judge"),
    ]:
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            start_sheet(path, [Entry("1", "a")])
        assert path.read_text() == text
