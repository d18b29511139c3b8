"""Folders of examples with several labels as they are handed out: what to learn from, what to test on."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats.labelled import LabelledExamples, read_labelled, read_rows
from lmtune.storage.compression import SUFFIXES

_PARTS = {part: rf"(.*[-_.])?{part}\.(txt|svm)" for part in ("train", "test")}
_TWO_FILES = {f"{part}_X_{kind}": rf"{part}_X_{kind}\.txt" for part in ("trn", "tst") for kind in ("Xf", "Y")}
_SPLITS = {"data": r".*_data\.txt", "train": r".*_trSplit\.txt", "test": r".*_tstSplit\.txt"}
_LAYOUT = (
    "a folder with X_train.txt and X_test.txt; trn_X_Xf.txt, trn_X_Y.txt, tst_X_Xf.txt and"
    " tst_X_Y.txt; or X_data.txt, X_trSplit.txt and X_tstSplit.txt; plain or compressed"
)


def read_label_folder(
    path: PathLike, *, split: int = 1, share: float = 0.3, seed: int = 0
) -> tuple[LabelledExamples, LabelledExamples]:
    """Read examples to learn from and to test on.

    Parameters
    ----------
    path : path-like
        A folder of the extreme-classification repository: ``eurlex_train.txt`` and
        ``eurlex_test.txt`` (also ``train.txt`` and ``test.txt``); the two-file form,
        ``trn_X_Xf.txt``, ``trn_X_Y.txt`` and ``tst_...``; or ``Bibtex_data.txt`` with columns of
        rows in ``bibtex_trSplit.txt`` and ``bibtex_tstSplit.txt``. Or a single file, of which some
        examples are drawn for the test. Case does not matter; files may be compressed.
    split : int
        Which column of split files, from 1.
    share : float
        Of a single file: how many of its examples are for the test, in (0, 1).
    seed : int
        Of that draw.

    Raises
    ------
    InputError
        Naming what is missing or comes several times; where the two parts differ in features or
        labels; as `read_labelled`.
    """
    home = Path(path)
    if home.is_file():
        return hold_out(read_labelled(home), share, seed)
    if not home.is_dir():
        raise InputError("no such file or folder", file=path, accepted=_LAYOUT)
    if found := _find(home, _SPLITS):
        every = read_labelled(found["data"])
        own, held = (read_rows(found[part], len(every), split) for part in ("train", "test"))
        if (both := np.intersect1d(own, held)).size:
            value = int(both[0]) + 1
            raise InputError("an example in both parts of a split", file=found["test"], value=value)
        return every.select(own), every.select(held)
    if found := _find(home, _TWO_FILES):
        train, test = (read_labelled(found[f"{part}_X_Xf"], found[f"{part}_X_Y"]) for part in ("trn", "tst"))
    elif found := _find(home, _PARTS):
        train, test = read_labelled(found["train"]), read_labelled(found["test"])
    else:
        raise InputError("no examples to learn from and to test on", file=path, accepted=_LAYOUT)
    sizes, other = (train.features, train.labels), (test.features, test.labels)
    if sizes != other:
        accepted = "the same number of features and labels"
        raise InputError(f"training data of {sizes}, test data of {other}", file=path, accepted=accepted)
    return train, test


def hold_out(
    examples: LabelledExamples, share: float, seed: int
) -> tuple[LabelledExamples, LabelledExamples]:
    """Part examples at random: what stays, and the share that is held out; either in their order.

    Raises
    ------
    InputError
        For a share that leaves no example on one side.
    """
    order: NDArray[np.int64] = np.random.default_rng(seed).permutation(len(examples))
    count = round(share * len(examples))
    if not 0 < count < len(examples):
        raise InputError("bad share of examples", value=share, accepted=f"some of the {len(examples)}")
    return examples.select(np.sort(order[count:])), examples.select(np.sort(order[:count]))


def _find(folder: Path, wanted: dict[str, str]) -> dict[str, Path]:
    """Return the files of a layout; none where it is another."""
    ends = "|".join(re.escape(end) for end in SUFFIXES)
    names = sorted(folder.iterdir())
    found = {}
    for part, pattern in wanted.items():
        files = [own for own in names if re.fullmatch(rf"{pattern}({ends})?", own.name, re.IGNORECASE)]
        if not files:
            return {}
        if len(files) > 1:
            listed = ", ".join(own.name for own in files)
            raise InputError(f"several {part} files", file=folder, value=listed, accepted="one")
        [found[part]] = files
    return found
