"""Learning-to-rank data from LETOR files: training, validation and test queries."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lmtune.errors import InputError
from lmtune.formats.compression import SUFFIXES
from lmtune.formats.files import read_lines
from lmtune.formats.letor import read_letor
from lmtune.reranking.data import RankingData

_NAMES = {"train": ("train",), "validation": ("vali", "valid", "validation", "dev"), "test": ("test",)}
_ENDS = (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat")
_HELD_OUT = "vali_queries.txt"


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set's three parts, of equally many features.

    Attributes
    ----------
    train, validation, test : RankingData
        What to learn from, to choose by, and to report on.
    """

    train: RankingData
    validation: RankingData
    test: RankingData


def read_data(
    path: str | os.PathLike[str],
    *,
    cache: bool | str | os.PathLike[str] = True,
    width: int | None = None,
    repeated: Literal["error", "last"] = "error",
) -> RankingData:
    """Read a LETOR file as ranking data.

    Parameters
    ----------
    path, cache, width, repeated
        As for `lmtune.formats.letor.read_letor`.

    Returns
    -------
    RankingData

    Raises
    ------
    InputError
        As `read_letor`.
    """
    found = read_letor(path, cache=cache, width=width, repeated=repeated)
    return RankingData(found.features, found.labels, found.starts, found.queries, found.docnos)


def read_splits(
    folder: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    repeated: Literal["error", "last"] = "error",
) -> Splits:
    """Read a folder of LETOR files.

    Parameters
    ----------
    folder : path-like
        Holds ``train.txt``, ``test.txt`` and ``vali.txt`` (or ``valid``, ``validation``,
        ``dev``), perhaps with another of the endings `_ENDS` or compressed. Without a validation
        file, ``vali_queries.txt`` lists the training queries that are held out, one a line.
    cache : path-like, optional
        A folder to keep columnar forms in; beside the files, if large, by default.
    repeated : {"error", "last"}
        As for `lmtune.formats.letor.read_letor`.

    Returns
    -------
    Splits

    Raises
    ------
    InputError
        Naming the file that is missing or that comes in two forms; as `read_letor`.
    """
    files = {part: _find(Path(folder), part) for part in _NAMES}
    for part in ("train", "test"):
        if files[part] is None:
            raise InputError(f"no {part} file", file=folder, accepted=f"a folder with {part}.txt")
    held_out = Path(folder, _HELD_OUT)
    if files["validation"] is None and not held_out.is_file():
        raise InputError(
            "no validation file", file=folder, accepted=f"vali.txt, or {_HELD_OUT} with query ids"
        )
    parts = {
        part: read_data(path, cache=True if cache is None else Path(cache, path.name), repeated=repeated)
        for part, path in files.items()
        if path is not None
    }
    width = max(data.features.shape[1] for data in parts.values())
    parts = {part: _widened(data, width) for part, data in parts.items()}
    if "validation" not in parts:
        parts["train"], parts["validation"] = _hold_out(parts["train"], held_out)
    return Splits(parts["train"], parts["validation"], parts["test"])


def _find(folder: Path, part: str) -> Path | None:
    found = [
        path
        for name in _NAMES[part]
        for end in _ENDS
        for suffix in ("", *SUFFIXES)
        if (path := folder / f"{name}{end}{suffix}").is_file()
    ]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise InputError(f"several {part} files", file=folder, value=names, accepted="one")
    return found[0] if found else None


def _widened(data: RankingData, width: int) -> RankingData:
    rows, given = data.features.shape
    if given == width:
        return data
    wider = np.zeros((rows, width), np.float32)
    wider[:, :given] = data.features
    return RankingData(wider, data.labels, data.starts, data.queries, data.docnos)


def _hold_out(data: RankingData, path: Path) -> tuple[RankingData, RankingData]:
    wanted: dict[str, int] = {}
    for number, line in read_lines(path):
        query = line.strip()
        if not query:
            continue
        if query in wanted or query not in data.queries:
            raise InputError(
                "query listed twice" if query in wanted else "no such query in the training file",
                file=path,
                line=number,
                value=query,
                accepted="a training query a line, each once",
            )
        wanted[query] = number
    rest = [query for query in data.queries if query not in wanted]
    if not wanted or not rest:
        raise InputError("no queries left", file=path, accepted="some of the training queries")
    return data.select(rest), data.select(list(wanted))
