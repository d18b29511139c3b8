"""Folders of examples with several labels, in the layouts they come in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_labels import as_lists

from lmtune.errors import InputError
from lmtune.reranking.long_lists.labels import read_label_folder

TRAIN, TEST = "2 3 2\n0 0:1\n1 1:0.5\n", "1 3 2\n1 2:1\n"
ROWS = [([0], {0: 1.0}), ([1], {1: 0.5})], [([1], {2: 1.0})]

LAYOUTS = [
    {"eurlex_train.txt": TRAIN, "eurlex_test.txt": TEST},
    {"train.txt": TRAIN, "test.txt": TEST, "README.txt": "EUR-Lex"},
    {
        "trn_X_Xf.txt": "2 3\n0:1\n1:0.5\n",
        "trn_X_Y.txt": "2 2\n0:1\n1:1\n",
        "tst_X_Xf.txt": "1 3\n2:1\n",
        "tst_X_Y.txt": "1 2\n1:1\n",
    },
    {
        "Bibtex_data.txt": "3 3 2\n1 2:1\n0 0:1\n1 1:0.5\n",
        "bibtex_trSplit.txt": "1 2\n2 3\n",
        "bibtex_tstSplit.txt": "3 1\n",
    },
]


@pytest.mark.parametrize("files", LAYOUTS)
def test_reads_layouts(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    train, test = read_label_folder(tmp_path, split=2)
    assert (as_lists(train), as_lists(test)) == ROWS


def test_draws_a_test_from_a_single_file(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("20 1 2\n" + "".join(f"1 0:{row + 1}\n" for row in range(20)))
    train, test = read_label_folder(path, share=0.25, seed=3)
    assert (len(train), len(test)) == (15, 5)
    assert sorted([*train.values, *test.values]) == list(range(1, 21))
    assert (np.diff(train.values) > 0).all()
    assert not np.array_equal(test.values, read_label_folder(path, share=0.25, seed=4)[1].values)
    with pytest.raises(InputError, match=r"bad share of examples: 0.01; accepted: some of the 20"):
        read_label_folder(path, share=0.01)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no examples to learn from and to test on; accepted: a folder with X_train.txt"),
        ({"train.txt": TRAIN}, "no examples to learn from"),
        (
            {"train.txt": TRAIN, "a_train.txt": TRAIN, "test.txt": TEST},
            "several train files: 'a_train.txt, train",
        ),
        ({"train.txt": TRAIN, "test.txt": "1 4 2\n1 2:1\n"}, r"of \(3, 2\), test data of \(4, 2\)"),
        (
            {**LAYOUTS[3], "bibtex_tstSplit.txt": "2 1\n"},
            r"Split.txt: an example in both parts of a split: 2",
        ),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_label_folder(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        read_label_folder(tmp_path / "nowhere")
