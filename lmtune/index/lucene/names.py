"""Find prebuilt indexes, topics and judgments by their names in pyserini and Anserini.

Anserini 1, in pyserini 1, has the names of topics and judgments in enumerations. Anserini 2, in pyserini 2,
downloads the lists of all names.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any, Literal

from lmtune.errors import InputError
from lmtune.index.lucene import java
from lmtune.progress import note

_Role = Literal["topics", "qrels"]

_CLASSES = {"topics": "io.anserini.search.topicreader.Topics", "qrels": "io.anserini.eval.Qrels"}
_READER = "io.anserini.search.topicreader.TopicReader"
_SUFFIX = re.compile(r"\.(?:txt|tsv|jsonl)(?:\.gz)?")


def index_folder() -> Path:
    """Return the folder of pyserini's downloaded indexes."""
    # pyserini reads this variable; Anserini 1, which downloads topics and judgments, does not.
    cache = os.environ.get("PYSERINI_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "pyserini") / "indexes"


def _file_folders(role: _Role) -> tuple[Path, Path]:
    """Return the folders of topics or judgments that Anserini 1 and 2 downloaded."""
    cache = Path.home() / ".cache" / "pyserini"
    return cache / "topics-and-qrels", cache / role


def cached_file(role: _Role, name: str) -> Path | None:
    """Return the file of topics or judgments in pyserini's cache, or None if it is not there.

    Raises
    ------
    InputError
        If the file is empty, for example after a broken download.
    """
    start = f"{role}.{name}"
    for path in (path for folder in _file_folders(role) for path in sorted(folder.glob(f"{role}.*"))):
        if path.name.startswith(start) and _SUFFIX.fullmatch(path.name.removeprefix(start)):
            if path.stat().st_size == 0:
                raise InputError(
                    "a cached file is empty", file=path, accepted="delete it, or put a whole one there"
                )
            return path
    return None


def fetch_file(role: _Role, name: str) -> Path | None:
    """Return the file of topics or judgments; Anserini downloads it if it is not cached.

    Parameters
    ----------
    role : {"topics", "qrels"}
        Topics or judgments.
    name : str
        The name in the file name (``robust04`` of ``topics.robust04.txt``), or Anserini's name (``wt10g``,
        ``trec1-adhoc``). Of Anserini 2 its names only.

    Returns
    -------
    pathlib.Path or None
        The file; None if Anserini does not know the name, or pyserini is not installed.

    Raises
    ------
    InputError
        If the file cannot be downloaded; the message has the path where it is expected.
    """
    cached = cached_file(role, name)
    if cached is not None or not java.is_installed():
        return cached
    known = java.start().autoclass(_CLASSES[role])
    if not hasattr(known, "values"):
        return _registered_file(role, name, known)
    file = _anserini_file(role, name, known)
    if file is None:
        return None
    path = _file_folders(role)[0] / file
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _download(role, name, path)
    if path.stat().st_size == 0:
        path.unlink()
        raise _unavailable(role, name, path, "the download is empty")
    return path


def _registered_file(role: _Role, name: str, registry: Any) -> Path | None:
    """Return the file of a name of Anserini 2, which downloads it and its list of names if needed.

    None if the name is unknown or the list cannot be downloaded, which a note says.
    """
    jnius = java.start()
    try:
        path = registry.resolveQrelsPath(name) if role == "qrels" else registry.get(name)
    except jnius.JavaException as error:
        if error.classname != "java.lang.IllegalArgumentException":
            note(f"{name} is not looked for among Anserini's {role}: they cannot be downloaded")
        return None
    if role == "topics" and path is not None:
        load = jnius.autoclass
        try:
            path = load(_READER).getTopicPath(load("java.nio.file.Paths").get(path.path))
        except jnius.JavaException:
            place = _file_folders(role)[1] / f"{role}.{name}.txt"
            raise _unavailable(role, name, place, "it cannot be downloaded") from None
    file = Path(path.toString()) if path else None
    return file if file is not None and file.is_file() else None  # Anserini returns unknown names


def _anserini_file(role: _Role, name: str, enumeration: Any) -> str | None:
    for known in enumeration.values():
        file = str(known.path)
        anserini_name = str(known.toString()).lower().replace("_", "-")
        if name == anserini_name or _SUFFIX.sub("", file.removeprefix(f"{role}.")) == name:
            return file
    return None


def _download(role: _Role, name: str, path: Path) -> None:
    jnius = java.start()
    paths = jnius.autoclass("java.nio.file.Paths")
    try:
        if role == "topics":
            reader = jnius.autoclass(_READER)
            reader.downloadTopics(paths.get(path.name))
        else:
            judgments = jnius.autoclass("io.anserini.eval.RelevanceJudgments")
            judgments.downloadQrels(paths.get(path.name))
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, jnius.JavaException):
            raise _unavailable(role, name, path, "it cannot be downloaded") from None
        raise
    if not path.exists():
        raise _unavailable(role, name, path, "it cannot be downloaded")


def _unavailable(role: _Role, name: str, path: Path, why: str) -> InputError:
    return InputError(
        f"{role}: the file of this name is not here, and {why}",
        value=name,
        accepted=f"the file as {role}/{role}.{name}.txt or {path}",
    )


def find_prebuilt(name: str) -> Path:
    """Return the folder of a prebuilt index; pyserini downloads it if it is not cached.

    Raises
    ------
    InputError
        If pyserini does not know the index, or cannot download it (the message has the expected path).
    MissingExtraError
        If pyserini is not installed.
    """
    java.start()  # before pyserini starts Java with other options
    try:
        from pyserini.prebuilt_index_info import TF_INDEX_INFO

        known = TF_INDEX_INFO.get(name)
    except OSError:  # pyserini 2 downloads the list
        return _unlisted(name)
    if known is None:
        raise InputError(
            "neither a folder nor a prebuilt index of pyserini",
            value=f"lucene:{name}",
            accepted=f"lucene:PATH, or one of {len(TF_INDEX_INFO)} names such as "
            + ", ".join(known for known in _KNOWN if known in TF_INDEX_INFO),
        )
    path = index_folder() / _folder(known)
    if path.is_dir():
        return path
    return _download_index(name, path, known)


_KNOWN = ("robust04", "robust05", "core17", "core18", "cacm")


def _unlisted(name: str) -> Path:
    """Return the folder of a cached index without the list of indexes."""
    pattern = re.compile(rf"lucene-[a-z]+\.{re.escape(name)}(?:\.[0-9]{{8}}\.[0-9a-f]+)?\.[0-9a-f]{{32}}")
    for path in sorted(index_folder().glob("lucene-*")):
        if pattern.fullmatch(path.name):
            return path
    raise InputError(
        "neither a folder nor a prebuilt index in the cache, and pyserini's list cannot be downloaded",
        value=f"lucene:{name}",
        accepted=f"lucene:PATH, or the unpacked folder of the index in {index_folder()}",
    )


def _folder(known: dict[str, Any]) -> str:
    file = str(known.get("filename") or known["urls"][0].rpartition("/")[2])
    return f"{file.partition('.tar.gz')[0]}.{known['md5']}"


def _download_index(name: str, path: Path, known: dict[str, Any]) -> Path:
    from pyserini.util import download_prebuilt_index

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return Path(download_prebuilt_index(name, verbose=False))
    except Exception:  # pyserini raises assertions, network and archive errors
        size = f"{(known.get('size compressed (bytes)') or known['size']) / 1e6:,.0f} MB"
        raise InputError(
            f"the prebuilt index ({size}) cannot be downloaded",
            value=f"lucene:{name}",
            accepted=f"its unpacked folder as {path}, or lucene:PATH of one elsewhere",
        ) from None
