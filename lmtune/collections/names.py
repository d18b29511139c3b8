"""Look-up of topics, judgments and indexes by the names of the command line."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Literal

from lmtune.errors import InputError, PathLike
from lmtune.io.files import SUFFIXES, read_bytes
from lmtune.io.remote import is_remote, local_copy
from lmtune.io.topics import TOPIC_FORMATS
from lmtune.strict_json import parse_json

Role = Literal["topics", "qrels"]
PYDOCS = "pydocs"
"""Name of the embedded collection."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PACKED = f"(?:{'|'.join(map(re.escape, SUFFIXES))})?"
"""Regular expression of the optional suffix of a compressed file."""

LINES = "|".join(suffix for one in TOPIC_FORMATS if not one.has_fields for suffix in one.suffixes)
"""Regular expression of the suffixes of line formats."""

_FORMATS = rf"\.(?:{LINES}){PACKED}"


def named_files(role: Role, home: PathLike = ".") -> dict[str, list[Path]]:
    """List the files of topics or judgments that have a name.

    Parameters
    ----------
    role : {"topics", "qrels"}
        The kind of files, ``ROLE/ROLE.NAME.txt``, also with ``.tsv`` or ``.jsonl``, and compressed with
        ``.gz``, ``.bz2`` or ``.zst``.
    home : path-like
        The folder with ``topics/`` and ``qrels/``.

    Returns
    -------
    dict of str to list of pathlib.Path
        The files of each name, names and files sorted; empty if the folder is missing.
    """
    pattern = re.compile(rf"{role}\.(.+?){_FORMATS}")
    files: dict[str, list[Path]] = {}
    folder = Path(home, role)
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in entries:
        name = pattern.fullmatch(path.name)
        if name is not None and path.is_file():
            files.setdefault(name[1], []).append(path)
    return dict(sorted(files.items()))


_SELF = ("arguana", "quora")


def excludes_self(name: PathLike | None) -> bool:
    """Return whether a collection's topics usually exclude the document with their identifier as docno.

    These are ArguAna and Quora of BEIR, whose queries are also documents. They are recognised by the name of
    a folder in BEIR's layout, or by the identifier of ir_datasets.
    """
    text = "" if name is None else os.fspath(name)
    if text.startswith("irds:"):
        return text.removeprefix("irds:").lower().startswith(tuple(f"beir/{each}" for each in _SELF))
    return bool(text) and Path(text).resolve().name.lower() in _SELF and any(Path(text).glob("corpus.jsonl*"))


def is_file(name: str) -> bool:
    """Return whether `name` is the path of a file; False for a text that cannot be a path."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def find_named(role: Role, name: str, home: PathLike = ".") -> Path:
    """Find a file of topics or judgments by name or path.

    Parameters
    ----------
    role : {"topics", "qrels"}
        The kind of file.
    name : str
        In this order: a name of `named_files`, a name or alias of Castorini, a path or URL, or a name in
        pyserini. Files of pyserini come from its cache, or are downloaded if pyserini is installed.
    home : path-like
        The folder with ``topics/`` and ``qrels/``; a clone of ``castorini/eval`` also has lists of names.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If neither the name nor the file exists, several files have the name, or the download fails.
    """
    names = named_files(role, home)
    files = names.get(name) or _registered(role, name, home)
    if len(files) > 1:
        raise InputError(
            f"several {role} files have this name",
            value=name,
            accepted=f"the path of one of {', '.join(map(str, files))}",
        )
    if files:
        return files[0]
    path = Path(name)
    if is_remote(name):
        return Path(local_copy(name))
    if is_file(name):
        return path
    if _NAME.fullmatch(name) and not re.search(_FORMATS, name) and not path.exists():
        from lmtune.index.lucene.names import fetch_file

        fetched = fetch_file(role, name)
        if fetched is not None:
            return fetched
    known = f"a name ({', '.join(names)})" if names else f"a name with a file {role}/{role}.NAME.txt"
    what = "no such name or file"
    with contextlib.suppress(OSError):  # the name may be too long for a path
        if path.exists():
            what = "is a folder" if path.is_dir() else "not a regular file"
    raise InputError(f"{role}: {what}", value=name, accepted=f"{known} or the path of a file")


def _registered(role: Role, name: str, home: PathLike) -> list[Path]:
    """Return the file that has a name or an alias in the lists of a clone of ``castorini/eval``."""
    known, aliases = (Path(home, f"{role}{end}.json") for end in ("", "-aliases"))
    if not (known.is_file() and aliases.is_file()):
        return []
    try:
        files, others = (parse_json(read_bytes(path)) for path in (known, aliases))
        canonical = next((one for one, also in others.items() if name in also), name)
        entry = files.get(canonical, "")
        file = Path(home, role, entry if isinstance(entry, str) else entry["path"])
    except (ValueError, TypeError, AttributeError, KeyError):  # other files of these names
        return []
    return [file] if file.is_file() else []


LUCENE, SHARDED = "lucene:", "sharded:"
_SHARDS = "shards.json"


def find_index(name: str) -> str:
    """Return the name of an index with the prefix of its kind.

    Parameters
    ----------
    name : str
        The folder of an index, or its URL; the prefixes ``lucene:`` and ``sharded:`` are optional.
        ``lucene:NAME`` is an index of pyserini, which is not checked here.

    Returns
    -------
    str
        The name, with ``lucene:`` for a Lucene index and ``sharded:`` for an index of shards.

    Raises
    ------
    InputError
        If the folder does not exist.
    """
    if name.startswith(LUCENE) and "/" not in name:
        return name
    prefix = next((kind for kind in (LUCENE, SHARDED) if name.startswith(kind)), "")
    folder = Path(local_copy(name.removeprefix(prefix)))
    name = f"{prefix}{folder}"
    if not folder.is_dir():
        raise InputError(
            "there is no index here",
            file=folder,
            accepted="a folder that `lmtune index` or Lucene wrote, or lucene:NAME, an index of pyserini",
        )
    if name.startswith(SHARDED) or (folder / _SHARDS).is_file():
        return f"{SHARDED}{folder}"
    return f"{LUCENE}{folder}" if any(folder.glob("segments_*")) else name
