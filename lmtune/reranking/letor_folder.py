"""Folders of LETOR files as they are handed out: train, validation, test; also in folds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lmtune.errors import InputError
from lmtune.formats.files import read_lines
from lmtune.formats.letor import Letor, read_letor
from lmtune.reranking.data import RankingData

_NAMES = {
    "train": ("train",),
    "validation": ("vali", "valid", "validation"),
    "test": ("test",),
}
_SUFFIXES = ("", ".gz", ".bz2", ".zst")
LAYOUT = "train.txt, vali.txt (or --validation) and test.txt, plain or compressed; or Fold1/ ..."


@dataclass(frozen=True)
class Fold:
    """One split of the queries.

    Attributes
    ----------
    name : str
        The folder's name.
    train, validation, test : RankingData
        With the same number of features.
    """

    name: str
    train: RankingData
    validation: RankingData
    test: RankingData | None


def read_folds(
    path: str | os.PathLike[str],
    *,
    validation: str | None = None,
    test: bool = True,
    seed: int = 0,
) -> list[Fold]:
    """Read a folder of LETOR files, or the folds in it.

    Parameters
    ----------
    path : path-like
        Holds ``train.txt``, ``vali.txt`` and ``test.txt``, or folders ``Fold1``, ``Fold2``, ...
        that do.
    validation : str, optional
        Where there is no ``vali.txt``: a file with one training query a line, or a share of the
        training queries, such as ``0.2``, to be drawn.
    test : bool
        Whether test queries are needed.
    seed : int
        Of that draw.

    Raises
    ------
    InputError
        Where files are missing; as `lmtune.formats.letor.read_letor`.
    """
    home = Path(path)
    if not home.is_dir():
        raise InputError("no such folder", file=path, accepted=f"a folder with {LAYOUT}")
    if _find(home, "train") is not None:
        return [_read(home, validation, test, seed)]
    folds = sorted(
        (entry for entry in home.glob("Fold*") if entry.is_dir()),
        key=lambda entry: (len(entry.name), entry.name),
    )
    if not folds:
        raise InputError("no LETOR files", file=path, accepted=f"a folder with {LAYOUT}")
    return [_read(fold, validation, test, seed) for fold in folds]


def _find(home: Path, part: str) -> Path | None:
    for name in _NAMES[part]:
        for suffix in _SUFFIXES:
            found = home / f"{name}.txt{suffix}"
            if found.is_file():
                return found
    return None


def _read(home: Path, validation: str | None, test: bool, seed: int) -> Fold:
    files = {part: _find(home, part) for part in _NAMES if part != "test" or test}
    needed = {"train", "test"} & files.keys()
    if validation is None:
        needed |= {"validation"}
    else:
        files.pop("validation", None)
    for part in sorted(needed):
        if files[part] is None:
            raise InputError(f"no {part} file", file=home, accepted=f"a folder with {LAYOUT}")
    read = {part: read_letor(file) for part, file in files.items() if file is not None}
    width = max(letor.features.shape[1] for letor in read.values())
    data = {part: _data(letor, width) for part, letor in read.items()}
    train = data["train"]
    if validation is None:
        chosen = data["validation"]
    else:
        held = _held(validation, train.queries, seed)
        chosen = train.select([query for query in train.queries if query in held])
        train = train.select([query for query in train.queries if query not in held])
    return Fold(home.name, train, chosen, data.get("test"))


def _data(letor: Letor, width: int) -> RankingData:
    features = letor.features
    if features.shape[1] < width:  # files of sparse features may lack the last ones
        features = np.pad(features, ((0, 0), (0, width - features.shape[1])))
    return RankingData(features, letor.labels, letor.starts, letor.queries, letor.docnos)


def _held(validation: str, queries: Sequence[str], seed: int) -> set[str]:
    try:
        share = float(validation)
    except ValueError:
        held = [line.strip() for _, line in read_lines(validation)]
        names = [query for query in held if query]
        for query in names:
            if query not in queries:
                raise InputError(
                    "no such training query", file=validation, value=query, accepted="one a line"
                ) from None
        if not names or len(set(names)) == len(queries):
            raise InputError(
                "no query is left", file=validation, accepted="some of the training queries"
            ) from None
        return set(names)
    return draw_share(queries, share, seed)


def draw_share(queries: Sequence[str], share: float, seed: int) -> set[str]:
    """Draw a share of the queries, at least one, leaving at least one.

    Raises
    ------
    InputError
        For a share that leaves nothing, or fewer than two queries.
    """
    if not 0.0 < share < 1.0 or len(queries) < 2:
        raise InputError(
            "bad share of validation queries", value=share,
            accepted="above 0 and below 1, of two queries or more",
        )  # fmt: skip
    count = min(max(1, round(share * len(queries))), len(queries) - 1)
    order = np.random.default_rng(seed).permutation(len(queries))
    return {queries[place] for place in order[:count].tolist()}
