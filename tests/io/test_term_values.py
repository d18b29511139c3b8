"""A user's values of topics' words: what is read, and what is refused with file, line and value."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.io.term_values import read_document_values, read_term_values


def test_values_are_by_topic_and_word(tmp_path: Path) -> None:
    file = tmp_path / "tags.tsv.gz"
    file.write_bytes(gzip.compress("\ufeff1\tFish\t2.5\r\n\n2\tFish\t-1e-3\n1\toil\t0\n".encode()))
    assert read_term_values(file) == {"1": {"Fish": 2.5, "oil": 0.0}, "2": {"Fish": -0.001}}


@pytest.mark.parametrize(
    ("text", "line", "value"),
    [
        ("1\tfish\t2\n1 oil 3\n", 2, "1 oil 3"),
        ("1\tfish\t2\t\n", 1, "1\tfish\t2\t"),
        ("1\t \t2\n", 1, "1\t \t2"),
        ("1\tfish\ttwo\n", 1, "two"),
        ("1\tfish\tnan\n", 1, "nan"),
        ("1\tfish\t1_0\n", 1, "1_0"),
        ("1\tfish\t2\n\n1\tfish\t2\n", 3, "fish"),
        ("\n", None, None),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, text: str, line: int | None, value: str | None) -> None:
    file = tmp_path / "tags.tsv"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_term_values(file)
    assert (error.value.file, error.value.line, error.value.value) == (str(file), line, value)


class TestDocumentValues:
    def test_read(self, tmp_path: Path) -> None:
        (tmp_path / "prior.tsv").write_text("d1\t-0.5\n\nd2\t0\n")
        assert read_document_values(tmp_path / "prior.tsv") == {"d1": -0.5, "d2": 0.0}

    @pytest.mark.parametrize(
        ("line", "problem"), [("d1\t1", "a second value"), ("d2\tnan", "bad value"), ("d2", "bad value")]
    )
    def test_refuse(self, tmp_path: Path, line: str, problem: str) -> None:
        (tmp_path / "prior.tsv").write_text(f"d1\t1\n{line}\n")
        with pytest.raises(InputError, match=f"prior.tsv:2: {problem} of a document"):
            read_document_values(tmp_path / "prior.tsv")
