"""Topics, judgments and indexes by name: what a name on the command line stands for."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Literal

from lmtune.errors import InputError, PathLike
from lmtune.io.files import SUFFIXES
from lmtune.io.topics import TOPIC_FORMATS

Role = Literal["topics", "qrels"]
PYDOCS = "pydocs"
"""The collection that every installation has."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PACKED = f"(?:{'|'.join(map(re.escape, SUFFIXES))})?"
"""What compresses a file, as the end of a pattern."""

LINES = "|".join(suffix for one in TOPIC_FORMATS if not one.has_fields for suffix in one.suffixes)
"""Suffixes of formats of lines, as a pattern."""

_FORMATS = rf"\.(?:{LINES}){PACKED}"


def named_files(role: Role, home: PathLike = ".") -> dict[str, list[Path]]:
    """List the files that can be named.

    Parameters
    ----------
    role : {"topics", "qrels"}
        Which folder of `home` to look in: files are called ``ROLE/ROLE.NAME.txt``, or ``.tsv`` or
        ``.jsonl`` instead, all also with ``.gz``, ``.bz2`` or ``.zst``.
    home : path-like
        The folder that holds ``topics/`` and ``qrels/``.

    Returns
    -------
    dict of str to list of pathlib.Path
        The files of each name, names and files sorted; empty where the folder is missing.
    """
    pattern = re.compile(rf"{role}\.(.+?){_FORMATS}")
    found: dict[str, list[Path]] = {}
    folder = Path(home, role)
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in entries:
        name = pattern.fullmatch(path.name)
        if name is not None and path.is_file():
            found.setdefault(name[1], []).append(path)
    return dict(sorted(found.items()))


_SELF = ("arguana", "quora")


def excludes_self(name: PathLike | None) -> bool:
    """Tell whether a topic's own document is usually left out of a collection's rankings.

    BEIR's ArguAna and Quora, whose queries are documents too: a folder of that name in BEIR's layout, or
    the identifier of ir_datasets.
    """
    text = "" if name is None else os.fspath(name)
    if text.startswith("irds:"):
        return text.removeprefix("irds:").lower().startswith(tuple(f"beir/{own}" for own in _SELF))
    return bool(text) and Path(text).resolve().name.lower() in _SELF and any(Path(text).glob("corpus.jsonl*"))


def is_file(name: str) -> bool:
    """Tell whether `name` is a file's path; one that no path can be, such as a long one, is not."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def find_named(role: Role, name: str, home: PathLike = ".") -> Path:
    """Find topics or judgments by name, or else by path.

    Parameters
    ----------
    role : {"topics", "qrels"}
        What to find.
    name : str
        A name as `named_files` lists it, which wins; a path; or a name that pyserini knows, taken
        from its cache or, where pyserini is installed, downloaded.
    home : path-like
        The folder that holds ``topics/`` and ``qrels/``.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If there is neither such a name nor such a file, several files have the name, or it
        cannot be downloaded.
    """
    names = named_files(role, home)
    files = names.get(name, [])
    if len(files) > 1:
        raise InputError(
            f"several {role} files have this name",
            value=name,
            accepted=f"the path of one of {', '.join(map(str, files))}",
        )
    if files:
        return files[0]
    path = Path(name)
    if is_file(name):
        return path
    if _NAME.fullmatch(name) and not re.search(_FORMATS, name) and not path.exists():
        from lmtune.index.lucene.names import fetch_file

        fetched = fetch_file(role, name)
        if fetched is not None:
            return fetched
    known = f"a name ({', '.join(names)})" if names else f"a name with a file {role}/{role}.NAME.txt"
    what = "no such name or file"
    with contextlib.suppress(OSError):  # a name too long for a path is no path
        if path.exists():
            what = "is a folder" if path.is_dir() else "not a regular file"
    raise InputError(f"{role}: {what}", value=name, accepted=f"{known} or the path of a file")


LUCENE, SHARDED = "lucene:", "sharded:"
_SHARDS = "shards.json"


def find_index(name: str) -> str:
    """Find a named index.

    Parameters
    ----------
    name : str
        The folder of an index, of Lucene's with or without ``lucene:``, of shards with or without
        ``sharded:``; or ``lucene:NAME``, one of pyserini's, which is not looked for here.

    Returns
    -------
    str
        The name, with ``lucene:`` where the folder is Lucene's, ``sharded:`` where it is of shards.

    Raises
    ------
    InputError
        Where there is no such folder.
    """
    if name.startswith(LUCENE) and "/" not in name:
        return name
    folder = Path(name.removeprefix(LUCENE).removeprefix(SHARDED))
    if not folder.is_dir():
        raise InputError(
            "there is no index here",
            file=folder,
            accepted="a folder that `lmtune index` or Lucene wrote; or lucene:NAME, one of pyserini",
        )
    if name.startswith(SHARDED) or (folder / _SHARDS).is_file():
        return f"{SHARDED}{folder}"
    return f"{LUCENE}{folder}" if any(folder.glob("segments_*")) else name
