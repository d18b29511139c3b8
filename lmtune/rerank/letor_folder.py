"""Folders of LETOR files as they are handed out: train, validation and test, once or in folds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Literal

import numpy as np

from lmtune.errors import InputError, PathLike, name_of
from lmtune.io.files import SUFFIXES, read_lines
from lmtune.io.letor import FROM_ZERO
from lmtune.io.letor_rows import ZeroIdError
from lmtune.progress import note
from lmtune.rerank.data import RankingData, RankingSplit

_NAMES = {
    "train": ("train", "trainingset"),
    "validation": ("vali", "valid", "validation", "dev", "validationset"),
    "test": ("test", "testset"),
}
_ENDS = tuple(
    end + suffix
    for end in (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat")
    for suffix in ("", *SUFFIXES)
)
_HELD_OUT = "vali_queries.txt"
_LAYOUT = (
    f"a folder with train.txt, test.txt and vali.txt (or {_HELD_OUT}, or --validation), plain or compressed;"
    " or Fold1, Fold2 ... with these; FOLDER/set1 for set1.train.txt ..."
)


def read_letor_folder(
    path: PathLike,
    *,
    validation: str | None = None,
    seed: int = 0,
    cache: PathLike | None = None,
    repeated: Literal["error", "last"] = "error",
) -> list[RankingSplit]:
    """Read a folder of LETOR files, or the folds in it.

    Parameters
    ----------
    path : path-like
        Holds ``train.txt``, ``test.txt`` and ``vali.txt`` (or ``valid``, ``validation``, ``dev``; or
        LETOR 2's ``trainingset``, ``validationset``, ``testset``), or folders ``Fold1``, ``Fold2``,
        ... that do. Names may begin with a set's, as Yahoo's ``set1.train.txt`` do; where there are
        several sets, the path goes on with one's name, ``FOLDER/set1``. Files may end in ``.letor``,
        ``.svm``, ``.svmlight``, ``.libsvm`` or ``.dat`` as well, and may be compressed. Instead of a
        validation file ``vali_queries.txt`` may list the training queries that are held out, one a
        line.
    validation : str, optional
        Instead of either: another file of training queries, or a share of them, such as ``0.2``,
        to be drawn.
    seed : int
        Of that draw.
    cache : path-like, optional
        A folder to keep columnar forms in; beside the files, if large, by default.
    repeated : {"error", "last"}
        As for `lmtune.io.letor.read_letor`.

    Returns
    -------
    list of RankingSplit
        One for each fold, by number, or one for the folder; with equally many features in its
        three parts, whose queries stand as in the files.

    Raises
    ------
    InputError
        Naming what is missing, comes in two forms or cannot be held out; as `read_letor`.
    """
    home, prefix = _letor_home(path)
    folds = [folder for folder in home.iterdir() if folder.is_dir() and re.fullmatch(r"Fold\d+", folder.name)]
    if not folds and not any(home.iterdir()):
        raise InputError("the folder is empty", file=path, accepted=_LAYOUT)
    folds.sort(key=lambda folder: int(folder.name[4:]))
    splits = []
    for folder in folds or [home]:
        files = _find(folder, prefix, validation)
        caches = {
            part: True if cache is None else Path(cache, file.relative_to(home))
            for part, file in files.items()
        }
        parts = _read(files, caches, repeated)
        width = max(data.features.shape[1] for data in parts.values())
        train, test = parts["train"].widened(width), parts["test"].widened(width)
        if "validation" in parts:
            chosen = parts["validation"].widened(width)
        else:
            train, chosen = _hold_out(train, validation or str(folder / _HELD_OUT), seed)
        splits.append(RankingSplit(name_of(folder if folds else path), train, chosen, test))
    return splits


def _read(
    files: Mapping[str, Path], caches: Mapping[str, bool | Path], repeated: Literal["error", "last"]
) -> dict[str, RankingData]:
    """Read the parts, whose features' ids count from 0 if any of them has a feature 0."""

    def read(*, zero_based: bool) -> dict[str, RankingData]:
        return {
            part: RankingData.read(file, cache=caches[part], repeated=repeated, zero_based=zero_based)
            for part, file in files.items()
        }

    try:
        return read(zero_based=False)
    except ZeroIdError as error:
        note(f"{error.file}: {FROM_ZERO}")
        return read(zero_based=True)


def _letor_home(path: PathLike) -> tuple[Path, str]:
    """Return the folder that a path means, and what the names of its files begin with.

    Raises
    ------
    InputError
        Where there is none.
    """
    home, prefix = Path(path), ""
    if not home.exists() and any(home.parent.glob(f"{escape(home.name)}.*")):
        home, prefix = home.parent, f"{home.name}."
    if not home.is_dir():
        raise InputError("no such folder", file=path, accepted=_LAYOUT)
    return home, prefix


def _find(folder: Path, prefix: str, validation: str | None) -> dict[str, Path]:
    """Return each part's file; none for validation where training queries are to be held out."""
    files = {}
    for part, names in _NAMES.items():
        if part == "validation" and validation is not None:
            continue
        ends = [name + end for name in names for end in _ENDS]
        candidates = [file for end in ends if (file := folder / (prefix + end)).is_file()]
        if not (candidates or prefix):
            among = (path for end in ends for path in sorted(folder.glob(f"[!.]*.{end}")))
            candidates = [path for path in among if path.is_file()]
        if len(candidates) > 1:
            listed = ", ".join(file.name for file in candidates)
            raise InputError(
                f"several {part} files",
                file=folder,
                value=listed,
                accepted="one; or FOLDER/SET, of SET.train.txt ...",
            )
        if candidates:
            files[part] = candidates[0]
        elif part != "validation" or not (folder / _HELD_OUT).is_file():
            raise InputError(f"no {part} file", file=folder, accepted=_LAYOUT)
    return files


def _hold_out(data: RankingData, wanted: str, seed: int) -> tuple[RankingData, RankingData]:
    """Part data by query: what stays, and what is held out; either in the data's order.

    Parameters
    ----------
    data : RankingData
        Training data.
    wanted : str
        A share of the queries, to be drawn, or a file with one of them a line.
    seed : int
        Of the draw.

    Raises
    ------
    InputError
        For a share outside (0, 1), an unknown query, one listed twice, or where no query would be
        left on either side.
    """
    try:
        share = float(wanted)
    except ValueError:
        held = _listed(wanted, data.queries)
    else:
        held = draw_queries(data.queries, share, seed)
    return (
        data.select([query for query in data.queries if query not in held]),
        data.select([query for query in data.queries if query in held]),
    )


def _listed(path: str, queries: Sequence[str]) -> set[str]:
    known, held = set(queries), set[str]()
    for number, line in read_lines(path):
        query = line.strip()
        if not query:
            continue
        if query in held or query not in known:
            raise InputError(
                "query listed twice" if query in held else "no such training query",
                file=path,
                line=number,
                value=query,
                accepted="a training query a line, each once",
            )
        held.add(query)
    if not held or held == known:
        raise InputError("no query is left", file=path, accepted="some of the training queries")
    return held


def draw_queries(queries: Sequence[str], share: float, seed: int) -> set[str]:
    """Draw a share of queries, one at least, leaving one at least.

    Raises
    ------
    InputError
        For a share outside (0, 1), or fewer than two queries.
    """
    if not 0.0 < share < 1.0 or len(queries) < 2:
        raise InputError(
            "bad share of validation queries",
            value=share,
            accepted="above 0 and below 1, of two queries or more",
        )
    count = min(max(1, round(share * len(queries))), len(queries) - 1)
    order = np.random.default_rng(seed).permutation(len(queries))
    return {queries[number] for number in order[:count].tolist()}
