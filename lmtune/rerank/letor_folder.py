"""Reader of LETOR data sets: folders with training, validation and test files, or folds of these."""

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
    " or Fold1, Fold2 ... with these; FOLDER/set1 for set1.train.txt ...; a collection needs --run"
)
_ROLES = ("qrels", "topics")
"""Prefixes of a collection's files, which are no sets."""


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
        A folder with ``train.txt``, ``test.txt`` and ``vali.txt``, or with folders ``Fold1``, ``Fold2``,
        ... of these.

        - The validation file can also be ``valid``, ``validation`` or ``dev``. LETOR 2's names
          ``trainingset``, ``validationset`` and ``testset`` are accepted.
        - Extensions are ``.txt``, ``.letor``, ``.svm``, ``.svmlight``, ``.libsvm`` and ``.dat``, also
          compressed.
        - Names can have a prefix, such as Yahoo's ``set1.train.txt``. If the folder has several sets,
          use ``FOLDER/set1``.
        - Instead of a validation file, ``vali_queries.txt`` can list held-out training queries, one
          per line.
    validation : str, optional
        Replaces the validation file: a file that lists training queries, or a share of them to draw,
        such as ``0.2``.
    seed : int
        Seed of that draw.
    cache : path-like, optional
        A folder for columnar copies of the files. Default: next to the files, if they are large.
    repeated : {"error", "last"}
        See `lmtune.io.letor.read_letor`.

    Returns
    -------
    list of RankingSplit
        One per fold, by number, or one for the folder. Its parts have the same number of features, and
        their queries are in the files' order.

    Raises
    ------
    InputError
        If a file is missing, ambiguous or invalid, or queries cannot be held out.
    """
    home, prefix = find_letor_home(path)
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
            held_out = parts["validation"].widened(width)
        else:
            train, held_out = _hold_out(train, validation or str(folder / _HELD_OUT), seed)
        splits.append(RankingSplit(name_of(folder if folds else path), train, held_out, test))
    return splits


def _read(
    files: Mapping[str, Path], caches: Mapping[str, bool | Path], repeated: Literal["error", "last"]
) -> dict[str, RankingData]:
    """Read the parts; feature ids count from 0 in all of them if any has a feature 0."""

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


def find_letor_home(path: PathLike) -> tuple[Path, str]:
    """Split a path into the folder and the prefix of its files' names.

    Raises
    ------
    InputError
        If there is no such folder.
    """
    home, prefix = Path(path), ""
    if not home.exists() and any(home.parent.glob(f"{escape(home.name)}.*")):
        home, prefix = home.parent, f"{home.name}."
    if not home.is_dir():
        raise InputError("no such folder", file=path, accepted=_LAYOUT)
    return home, prefix


def _find(folder: Path, prefix: str, validation: str | None) -> dict[str, Path]:
    """Return each part's file; without "validation" if training queries are held out."""
    files = {}
    for part, names in _NAMES.items():
        if part == "validation" and validation is not None:
            continue
        ends = [name + end for name in names for end in _ENDS]
        candidates = [file for end in ends if (file := folder / (prefix + end)).is_file()]
        if not (candidates or prefix):
            among = (path for end in ends for path in sorted(folder.glob(f"[!.]*.{end}")))
            candidates = [path for path in among if path.is_file() and not path.name.startswith(_ROLES)]
        if len(candidates) > 1:
            listed = ", ".join(file.name for file in candidates)
            raise InputError(
                f"several {part} files",
                file=folder,
                value=listed,
                accepted="one file, or FOLDER/SET for SET.train.txt ...",
            )
        if candidates:
            files[part] = candidates[0]
        elif part != "validation" or not (folder / _HELD_OUT).is_file():
            raise InputError(f"no {part} file", file=folder, accepted=_LAYOUT)
    return files


def _hold_out(data: RankingData, wanted: str, seed: int) -> tuple[RankingData, RankingData]:
    """Split training data into the remaining and the held-out queries, both in the data's order.

    Parameters
    ----------
    data : RankingData
        Training data.
    wanted : str
        A share of the queries to draw, or a file with one query per line.
    seed : int
        Seed of the draw.

    Raises
    ------
    InputError
        If the share is outside (0, 1), a query is unknown or listed twice, or either side is empty.
    """
    try:
        share = float(wanted)
    except ValueError:
        held_out = _read_queries(wanted, data.queries)
    else:
        held_out = draw_queries(data.queries, share, seed)
    return (
        data.select([query for query in data.queries if query not in held_out]),
        data.select([query for query in data.queries if query in held_out]),
    )


def _read_queries(path: str, queries: Sequence[str]) -> set[str]:
    known, held_out = set(queries), set[str]()
    for number, line in read_lines(path):
        query = line.strip()
        if not query:
            continue
        if query in held_out or query not in known:
            raise InputError(
                "query listed twice" if query in held_out else "no such training query",
                file=path,
                line=number,
                value=query,
                accepted="one training query per line, each once",
            )
        held_out.add(query)
    if not held_out or held_out == known:
        raise InputError("no query is left", file=path, accepted="some of the training queries")
    return held_out


def draw_queries(queries: Sequence[str], share: float, seed: int) -> set[str]:
    """Draw a share of the queries at random, at least one and not all.

    Raises
    ------
    InputError
        If the share is outside (0, 1), or there are fewer than two queries.
    """
    if not 0.0 < share < 1.0 or len(queries) < 2:
        raise InputError(
            "bad share of validation queries",
            value=share,
            accepted="above 0 and below 1, with at least two queries",
        )
    count = min(max(1, round(share * len(queries))), len(queries) - 1)
    order = np.random.default_rng(seed).permutation(len(queries))
    return {queries[number] for number in order[:count].tolist()}
