"""LETOR files, as SVMlight, RankLib and LightGBM write them, and arrays kept of large ones."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.io.files import atomic_write, unreadable
from lmtune.io.folders import FolderKind, atomic_directory
from lmtune.io.letor_rows import HIGHEST_ID, Letor, ZeroIdError, read_rows
from lmtune.io.locks import StaleError, build_once
from lmtune.progress import note

_LETOR_FORMAT = "lmtune letor 5"
"""Raised whenever the files' content changes its meaning."""

WORTH_KEEPING_BYTES = 1 << 24
"""Of files from this size on, the arrays are kept beside them."""

FROM_ZERO = "features' ids count from 0: feature 0 is read as feature 1, and so on"
"""A note."""

# All arrays are in one file; the other names are those of former versions.
_FILE = "features.npy"
_KIND = FolderKind(_FILE, (_FILE, "letor.json", "labels.npy", "starts.npy"))


def _cache_folder(path: PathLike, cache: bool | PathLike, size: int) -> Path | None:
    """Return where a file's arrays are kept, None for nowhere."""
    if cache is False or not Path(path).is_file():
        return None
    if cache is not True:
        return Path(cache)
    folder = Path(os.path.realpath(path)).parent
    large = size >= WORTH_KEEPING_BYTES
    return folder / f".{Path(path).name}.letor" if large and os.access(folder, os.W_OK) else None


def _load(folder: Path, key: str) -> Letor:
    """Map the arrays that were kept under this key; raise StaleError where they are others or damaged."""
    try:
        # Damage may show in any way before the checksum is known.
        features = np.load(folder / _FILE, mmap_mode="r", allow_pickle=False)
        with (folder / _FILE).open("rb") as stream:
            stream.seek(features.offset + features.nbytes)
            labels, starts, names, expected = (np.load(stream, allow_pickle=False) for _ in range(4))
    except Exception as error:
        raise StaleError("missing or damaged") from error
    if int(expected) != _checksum(key, features, labels, starts, names):
        raise StaleError("damaged or of another file")
    queries, docnos = json.loads(names.tobytes())
    return Letor(features, labels, starts, tuple(queries), tuple(docnos) or None)


def _build(folder: Path, key: str, path: Path, **read: Any) -> Letor:
    """Read the file and keep its arrays in the folder."""
    with atomic_directory(folder, _KIND) as made:
        data = read_rows(path, **read)
        names = np.frombuffer(json.dumps([data.queries, data.docnos or ()]).encode(), np.uint8)
        arrays = (data.features, data.labels, data.starts, names)
        with (made / _FILE).open("wb") as stream:
            for array in (*arrays, np.array(_checksum(key, *arrays))):
                np.save(stream, array)
        if _key(path, read) != key:
            raise InputError("the file changed while it was read", file=path)
    return data


def _key(path: Path, read: Mapping[str, Any]) -> str:
    status = path.stat()
    return repr((_LETOR_FORMAT, status.st_size, status.st_mtime_ns, sorted(read.items())))


def _checksum(key: str, *arrays: NDArray[Any]) -> int:
    checksum = zlib.crc32(repr((key, [(array.dtype, array.shape) for array in arrays])).encode())
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return checksum


def read_letor(
    path: PathLike,
    *,
    cache: bool | PathLike = True,
    width: int | None = None,
    repeated: Literal["error", "last"] = "error",
    docids: bool = True,
    zero_based: bool | None = None,
) -> Letor:
    """Read a LETOR file.

    A row is ``LABEL qid:QUERY ID:VALUE ... # COMMENT``, separated by spaces or tabs. Ids count
    from 1, or from 0 (scikit-learn's default), in any order; features that a row lacks are 0. A value
    ``NULL`` (LETOR's NULL files) or 1.79769313486231e+308, the largest double (Istella's sets), is
    missing: the feature's lowest value among the query's rows stands in, as in LETOR's MIN files, or 0
    where it has none. Blank lines and lines of comment alone are passed over. A comment that begins with
    ``docid = X`` (or ``docno``, ``doc_id``, in either case, also with a colon) names the row's document.
    Decimals become the nearest float32.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed. A byte order mark and CRLF line ends are accepted.
    cache : bool or path-like
        Where to keep the arrays, which the next call maps instead of parsing the file: a folder,
        made if missing; True, a folder beside the file, if the file is large (16 MiB) and its
        folder can be written; False, nowhere. They are used as long as the file's size and time of
        change agree.
    width : int, optional
        How many features there are at least, for files that lack the last ones.
    repeated : {"error", "last"}
        What to do where a row has a feature twice: refuse it, or take the last, as TF-Ranking
        does.
    docids : bool
        Whether to read documents' names.
    zero_based : bool, optional
        Whether ids count from 0. By default they do where the file has a feature 0, which is noted.

    Returns
    -------
    Letor

    Raises
    ------
    InputError
        With file and line: at a label that is no number or below 0; a row without a query; an id
        that is no number from 1 to 65,536, or repeated; a value that is no finite float32;
        invalid UTF-8 in a query or docid; a query whose rows do not stand together; a docid that
        comes twice in a query, or on some rows only. If there are no rows; as `open_bytes`.
    """
    if repeated not in ("error", "last"):
        raise InputError("unknown way with repeats", value=repeated, accepted="error, last")
    if width is not None and not 0 <= width <= HIGHEST_ID:
        raise InputError("bad number of features", value=width, accepted=f"0 to {HIGHEST_ID}")
    read = partial(_read, path, cache, repeated=repeated, docids=docids)
    try:
        data = read(zero_based=bool(zero_based))
    except ZeroIdError:
        if zero_based is not None:
            raise
        note(f"{os.fspath(path)}: {FROM_ZERO}")
        data = read(zero_based=True)
    return data.widened(width or 0)


def _read(path: PathLike, cache: bool | PathLike, **read: Any) -> Letor:
    """Read a file, or the arrays that were kept of it."""
    try:
        size = Path(path).stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error
    folder = _cache_folder(path, cache, size)
    if folder is None:
        return read_rows(path, **read)
    key = _key(Path(path), read)
    return build_once(folder, partial(_load, folder, key), partial(_build, folder, key, Path(path), **read))


def write_letor(path: PathLike, data: Letor) -> None:
    """Write a LETOR file, whole or not at all, that `read_letor` reads back to the last bit.

    Every feature is written, also where it is 0; documents' names become comments, ``#docid = X``.
    RankLib takes queries of any name; scikit-learn and most others want whole numbers.

    Parameters
    ----------
    path : path-like
        The file, compressed by its suffix.
    data : Letor
        The rows, such as a `lmtune.rerank.data.RankingData`.

    Raises
    ------
    InputError
        If a query or docno is empty or holds white space, a query holds ``#``, or a feature is
        not finite; as `atomic_write`.
    """
    for name in (*data.queries, *(data.docnos or ())):
        if name.split() != [name]:
            raise InputError("cannot write a name", file=path, value=name, accepted="no white space in it")
    for query in data.queries:
        if "#" in query:
            raise InputError("cannot write a query", file=path, value=query, accepted="no #")
    ids = [f" {number}:" for number in range(1, data.features.shape[1] + 1)]
    with atomic_write(path) as stream:
        for q, query in enumerate(data.queries):
            begin, end = int(data.starts[q]), int(data.starts[q + 1])
            features = np.asarray(data.features[begin:end])
            if not np.isfinite(features).all():
                raise InputError(f"a feature of query {query} is not finite", file=path)
            # numpy gives the shortest decimals that are read as the same float32.
            written = features.astype("U16").tolist()
            labels = [f"{label:.9g} qid:{query}" for label in data.labels[begin:end].tolist()]
            docnos = [""] * (end - begin)
            if data.docnos is not None:
                docnos = [f" #docid = {docno}" for docno in data.docnos[begin:end]]
            for label, values, docno in zip(labels, written, docnos, strict=True):
                pairs = "".join([a + b for a, b in zip(ids, values, strict=True)])
                stream.write(f"{label}{pairs}{docno}\n")
