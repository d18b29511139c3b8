"""Learning-to-rank data by name: artificial, or a folder of LETOR files."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from lmtune.laboratory.artificial import DOCUMENTS, artificial_fold
from lmtune.reranking.data import RankingSplit
from lmtune.reranking.letor_folder import letor_home, read_letor_folder
from lmtune.reranking.normalisation import Normalisation

HELP = "artificial:QUERIES[xDOCUMENTS], or a folder of LETOR files"
"""What a name of data may be, for options."""


_ARTIFICIAL = re.compile(r"artificial:([1-9][0-9]{0,6})(?:x([1-9][0-9]{0,6}))?")


@lru_cache(maxsize=2)
def load(
    name: str, seed: int = 0, normalisation: Normalisation | None = None, validation: str | None = None
) -> RankingSplit:
    """Return training, validation and test queries, with features ready for a network.

    Parameters
    ----------
    name : str
        ``artificial:1000`` or ``artificial:100x1000``: so many training queries and documents a
        query (50 by default), see `lmtune.laboratory.artificial`; else a folder of LETOR files,
        of whose folds the first is taken.
    seed : int
        Draws artificial data, and validation queries.
    normalisation : Normalisation, optional
        Of a folder's features; by default z-scores of their logarithms.
    validation : str, optional
        As for `lmtune.reranking.letor_folder.read_letor_folder`.

    Returns
    -------
    RankingSplit
        The same object for the same arguments, not to be changed.

    Raises
    ------
    InputError
        As `lmtune.reranking.letor_folder.read_letor_folder`.
    """
    match = _ARTIFICIAL.fullmatch(name)
    if match is not None:
        return artificial_fold(int(match[1]), documents=int(match[2] or DOCUMENTS), seed=seed)
    fold = read_letor_folder(name, validation=validation, seed=seed)[0]
    return fold.map((normalisation or Normalisation()).fit(fold.train).transform)


def check_name(name: str) -> None:
    """Raise InputError for a name that `load` cannot take, before it reads anything."""
    if _ARTIFICIAL.fullmatch(name) is None:
        letor_home(name)


def digest(path: str) -> str:
    """Identify a file's or a folder's content: names and bytes, hidden files left out."""
    home = Path(path)
    files = [home] if home.is_file() else sorted(home.rglob("*"))
    whole = hashlib.blake2b(digest_size=16)
    for file in files:
        inner = file.relative_to(home) if file != home else Path(file.name)
        if file.is_file() and not any(part.startswith(".") for part in inner.parts):
            with file.open("rb") as stream:
                content = hashlib.file_digest(stream, "blake2b").hexdigest()
            whole.update(f"{inner.as_posix()}\0{content}\n".encode())
    return whole.hexdigest()
