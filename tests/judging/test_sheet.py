"""Files to fill in: read, filled, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.judging.selection import Entry, put_label, read_sheet, write_sheet


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
        ("1 0 a\n", "pairs.txt:1: .*no pair to judge"),
        ("1 0 a ?\n1 0 b x\n", "pairs.txt:2: .*no pair to judge"),
        ("1 0 a ?\n1 0 a 1\n", "pairs.txt:2: .*twice"),
    ],
)
def test_other_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text(text)
    with pytest.raises(InputError, match=said):
        read_sheet(tmp_path / "pairs.txt")
