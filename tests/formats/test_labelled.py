"""Reading the extreme-classification repository's files."""

from __future__ import annotations

import bz2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_labels import Example, as_lists

from lmtune.errors import InputError
from lmtune.formats.labelled import Lists, read_labelled, read_rows


def test_reads_as_distributed(tmp_path: Path) -> None:
    # Labels in any order, examples without labels (with a blank first or without) or features, an
    # integer value, a byte order mark, and line ends of two kinds.
    path = tmp_path / "eurlex_train.txt"
    text = b"\xef\xbb\xbf6 5 4\r\n3,0 0:0.5 4:1e-2\r\n 1:2\n2:1.25 0:1\n1\n\n0, 2 3:-1 \n"
    path.write_bytes(text)
    expected: list[Example] = [
        ([3, 0], {0: 0.5, 4: np.float32(0.01).item()}),
        ([], {1: 2.0}),
        ([], {2: 1.25, 0: 1.0}),
        ([1], {}),
        ([], {}),
        ([0, 2], {3: -1.0}),
    ]
    found = read_labelled(path)
    assert as_lists(found) == expected
    assert (found.features, found.labels) == (5, 4)
    packed = tmp_path / "eurlex_train.txt.bz2"
    # Blank lines behind the last example are none.
    packed.write_bytes(bz2.compress(text + b"\n\n"))
    assert as_lists(read_labelled(packed)) == expected
    chosen = found.select(np.array([5, 0, 3]))
    assert as_lists(chosen) == [expected[5], expected[0], expected[3]]


def test_reads_the_two_file_form(tmp_path: Path) -> None:
    features, labels = tmp_path / "trn_X_Xf.txt", tmp_path / "trn_X_Y.txt"
    features.write_text("3 4\n0:0.5 3:1.0\n\n1:0.25\n")
    labels.write_text("3 2\n0:1.0 1:1.0\n1:1.0\n\n")
    found = read_labelled(features, labels)
    assert as_lists(found) == [([0, 1], {0: 0.5, 3: 1.0}), ([1], {}), ([], {1: 0.25})]
    labels.write_text("2 2\n0:1\n1:1\n")
    with pytest.raises(InputError, match=r"trn_X_Y.txt:1: another number of examples: 2; accepted: 3"):
        read_labelled(features, labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r":1: no header: ''; accepted: EXAMPLES FEATURES LABELS, each 1 to 2147483647"),
        ("4 5\n0 1:1\n", r":1: no header: '4 5'"),
        ("0 5 3\n", r":1: no header: '0 5 3'"),
        ("2 5 3\n0 1:1\n0,3 1:1\n", r":3: bad label: '3'; accepted: labels from 0 to 2"),
        ("1 5 3\n0,, 1:1\n", r":2: bad label"),
        ("1 5 3\nx:1 1:1\n", r":2: bad label: 'x:1'"),
        ("1 5 3\n1 2 1:1\n", r":2: bad feature: '2'; accepted: ID:VALUE with an ID from 0 to 4"),
        ("1 5 3\n0 5:1\n", r":2: bad feature: '5:1'"),
        ("1 5 3\n0 1:x\n", r":2: bad value: 'x'"),
        ("1 5 3\n0 1:1e99\n", r":2: bad value: '1e99'"),
        ("1 5 3\n0 1:nan\n", r":2: bad value: 'nan'"),
        ("1 5 3\n0 1:1 # c\n", r":2: bad feature: '#'"),
        ("2 5 3\n0 1:1\n", r": another number of examples than in the first line: 1; accepted: 2"),
        ("1 5 3\n0 1:1\n1 1:1\n", r": another number of examples than in the first line: 2; accepted: 1"),
        ("2 5 3\n0 1:1\n2,1,2 1:1\n", r":3: label repeated in an example"),
        ("1 5 3\n0 1:1 3:1 1:2\n", r":2: feature repeated in an example"),
    ],
)
def test_says_where_input_is_bad(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "train.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=r"train\.txt" + message):
        read_labelled(path)


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
examples = st.lists(
    st.tuples(
        st.lists(st.integers(0, 9), unique=True), st.dictionaries(st.integers(0, 99), numbers, max_size=5)
    ),
    min_size=1,
)


@settings(max_examples=50, deadline=None)
@given(examples=examples)
def test_reads_what_was_written(tmp_path_factory: pytest.TempPathFactory, examples: list[Example]) -> None:
    path = tmp_path_factory.mktemp("labelled") / "train.txt"
    lines = [
        " ".join([",".join(map(str, labels)), *(f"{own}:{value!r}" for own, value in bag.items())])
        for labels, bag in examples
    ]
    path.write_text("\n".join([f"{len(lines)} 100 10", *lines, ""]))
    assert as_lists(read_labelled(path)) == examples


def test_reads_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.txt"
    lines = [f"{row % 3} {row}:0.5 {row + 1}:{row}" for row in range(40)]
    path.write_text("\n".join(["40 50 3", *lines[:30], "", *lines[31:], ""]))
    whole = as_lists(read_labelled(path))
    monkeypatch.setattr("lmtune.formats.labelled.BLOCK_BYTES", 64)
    assert as_lists(read_labelled(path)) == whole
    path.write_text("\n".join(["40 50 3", *lines[:30], "7 1:1", *lines[31:], ""]))
    with pytest.raises(InputError, match=r":32: bad label: '7'"):
        read_labelled(path)


def test_reads_a_split(tmp_path: Path) -> None:
    path = tmp_path / "bibtex_trSplit.txt"
    path.write_text("1 3\n2 4\n")
    assert read_rows(path, 4, 2).tolist() == [2, 3]
    for column, line in ((3, 1), (2, 2)):
        with pytest.raises(InputError, match=rf":{line}: bad row of a split: .*1 to 3, in each of {column}"):
            read_rows(path, 3, column)


def test_finds_what_is_repeated() -> None:
    assert Lists(np.array([0, 2, 4]), np.array([1, 0, 1, 0], np.int32)).repeated() is None
    assert Lists(np.array([0, 2, 5]), np.array([1, 0, 2, 1, 2], np.int32)).repeated() == 1
