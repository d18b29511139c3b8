"""Folders of LETOR files as they are handed out: train, validation, test; also in folds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lmtune.errors import InputError
from lmtune.formats.compression import SUFFIXES
from lmtune.formats.files import read_lines
from lmtune.reranking.data import RankingData
from lmtune.reranking.splits import read_data, read_splits

LAYOUT = (
    "train.txt, test.txt and vali.txt (or vali_queries.txt, or --validation), plain or compressed;"
    " or Fold1, Fold2 ... with these"
)


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
    test: RankingData


def read_folds(path: str | os.PathLike[str], *, validation: str | None = None, seed: int = 0) -> list[Fold]:
    """Read a folder of LETOR files, or the folds in it.

    Parameters
    ----------
    path : path-like
        Holds what `lmtune.reranking.splits.read_splits` takes, or folders ``Fold1``, ``Fold2``,
        ... that do.
    validation : str, optional
        Instead of ``vali.txt`` or ``vali_queries.txt``: a file with one training query a line, or
        a share of the training queries, such as ``0.2``, to be drawn.
    seed : int
        Of that draw.

    Returns
    -------
    list of Fold

    Raises
    ------
    InputError
        Where files are missing; as `lmtune.reranking.splits.read_splits`.
    """
    home = Path(path)
    if not home.is_dir():
        raise InputError("no such folder", file=path, accepted=f"a folder with {LAYOUT}")
    folds = sorted(
        (entry for entry in home.glob("Fold*") if entry.is_dir()),
        key=lambda entry: (len(entry.name), entry.name),
    )
    if not folds and not any(home.iterdir()):
        raise InputError("the folder is empty", file=path, accepted=f"a folder with {LAYOUT}")
    return [_read(fold, validation, seed) for fold in folds or [home]]


def _read(home: Path, validation: str | None, seed: int) -> Fold:
    if validation is None:
        splits = read_splits(home)
        return Fold(home.resolve().name, splits.train, splits.validation, splits.test)
    parts = [read_data(_find(home, part)) for part in ("train", "test")]
    width = max(data.features.shape[1] for data in parts)
    # Files of sparse features may lack the last ones.
    train, test = (
        replace(data, features=np.pad(data.features, ((0, 0), (0, width - data.features.shape[1]))))
        for data in parts
    )
    held = held_out(validation, train.queries, seed)
    return Fold(
        home.resolve().name,
        train.select([query for query in train.queries if query not in held]),
        train.select([query for query in train.queries if query in held]),
        test,
    )


def _find(home: Path, part: str) -> Path:
    for suffix in ("", *SUFFIXES):
        found = home / f"{part}.txt{suffix}"
        if found.is_file():
            return found
    raise InputError(f"no {part} file", file=home, accepted=f"a folder with {LAYOUT}")


def held_out(validation: str, queries: Sequence[str], seed: int) -> set[str]:
    """Choose the queries to hold out: those of a file, or a share of them, drawn.

    Raises
    ------
    InputError
        For an unknown query, or where none would be left on either side.
    """
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
    return _draw(queries, share, seed)


def _draw(queries: Sequence[str], share: float, seed: int) -> set[str]:
    if not 0.0 < share < 1.0 or len(queries) < 2:
        raise InputError(
            "bad share of validation queries",
            value=share,
            accepted="above 0 and below 1, of two queries or more",
        )
    count = min(max(1, round(share * len(queries))), len(queries) - 1)
    order = np.random.default_rng(seed).permutation(len(queries))
    return {queries[place] for place in order[:count].tolist()}
