"""Stopword lists, built in and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.indexing.stopwords import load_stopwords


def test_built_in_lists() -> None:
    assert len(load_stopwords("lucene")) == 33
    assert {"the", "such", "a"} < load_stopwords("lucene")
    assert "from" not in load_stopwords("lucene")
    assert load_stopwords("none") == frozenset()


def test_file_with_bom_crlf_comments_capitals_and_repeats(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(b"\xef\xbb\xbf# mine\r\nThe\r\n\r\n  of \r\nthe\r\n\xc3\x9cber")
    assert load_stopwords(str(path)) == {"the", "of", "über"}


def test_empty_file_drops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.touch()
    assert load_stopwords(str(path)) == frozenset()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the\nof and\n", r"words.txt:2: several words on a line: 'of and'"),
        (b"the\n\xff\n", r"words.txt:2: not UTF-8"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_stopwords(str(path))


@pytest.mark.parametrize("name", ["", "smart", "/no/such/file"])
def test_unknown_name_lists_what_is_accepted(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown stopword list.*accepted: lucene, none, or"):
        load_stopwords(name)
