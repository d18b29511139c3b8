"""LETOR files, in the format of SVMlight, RankLib and LightGBM, with a cache for large files."""

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
from lmtune.strict_json import parse_json

_LETOR_FORMAT = "lmtune letor 5"
"""The version of the cached arrays, increased when their format changes."""

CACHED_BYTES = 1 << 24
"""The arrays of files of at least this size are cached beside them."""

FROM_ZERO = "feature ids count from 0: feature 0 is read as feature 1, and so on"
"""The note for such files."""

# All arrays are in one file; earlier versions wrote the other names.
_FILE = "features.npy"
_KIND = FolderKind(_FILE, (_FILE, "letor.json", "labels.npy", "starts.npy"))


def _cache_folder(path: PathLike, cache: bool | PathLike, size: int) -> Path | None:
    """Return the folder for the cached arrays of a file; None if they are not cached."""
    if cache is False or not Path(path).is_file():
        return None
    if cache is not True:
        return Path(cache)
    folder = Path(os.path.realpath(path)).parent
    large = size >= CACHED_BYTES
    return folder / f".{Path(path).name}.letor" if large and os.access(folder, os.W_OK) else None


def _load(folder: Path, key: str) -> Letor:
    """Map the cached arrays of a key; raise `StaleError` if they are missing, damaged or of another key."""
    try:
        # A damaged file can raise any exception before its checksum is read.
        features = np.load(folder / _FILE, mmap_mode="r", allow_pickle=False)
        with (folder / _FILE).open("rb") as stream:
            stream.seek(features.offset + features.nbytes)
            labels, starts, names, expected = (np.load(stream, allow_pickle=False) for _ in range(4))
    except Exception as error:
        raise StaleError("missing or damaged") from error
    if int(expected) != _checksum(key, features, labels, starts, names):
        raise StaleError("damaged or of another file")
    queries, docnos = parse_json(names.tobytes())
    return Letor(features, labels, starts, tuple(queries), tuple(docnos) or None)


def _build(folder: Path, key: str, path: Path, **read: Any) -> Letor:
    """Read a file, and store its arrays in the folder."""
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

    A row is ``LABEL qid:QUERY ID:VALUE ... # COMMENT``, separated by spaces or tabs. Feature ids count from
    1, or from 0 (scikit-learn's default), in any order. Features that are not in a row are 0. Decimals are
    rounded to the nearest float32. Blank lines and comment lines are skipped.

    The values ``NULL`` (LETOR's NULL files) and 1.79769313486231e+308, the largest double (Istella's sets),
    mean a missing value. It is replaced by the lowest value of the feature in the query, as in LETOR's MIN
    files, or by 0 if the query has none.

    A comment that begins with ``docid = X`` names the document of the row. ``docno``, ``doc_id``, upper case
    and a colon are accepted too. Without such a comment in the file, the first words of comments (``# X``, as
    in Elasticsearch's learning to rank) are the names if each row has one and they differ within each query.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed. A byte order mark and CRLF line ends are accepted.
    cache : bool or path-like
        Where to cache the arrays, which the next call maps instead of parsing the file. A path names the
        folder, which is made if missing. True caches files of 16 MiB or more in a folder beside the file, if
        that is writable. False does not cache. The cache is used while the size and modification time of the
        file agree.
    width : int, optional
        Minimum number of features, for files without the last ones.
    repeated : {"error", "last"}
        How to treat a feature that is repeated in a row: raise an error, or use the last value, as TF-Ranking
        does.
    docids : bool
        Whether to read the names of documents.
    zero_based : bool, optional
        Whether feature ids count from 0. By default they do, with a note, if the file has a feature 0.

    Returns
    -------
    Letor

    Raises
    ------
    InputError
        With file and line:

        - a label that is not a number or is below 0;
        - a row without a query;
        - a feature id that is not a number from 1 to 65,536, or is repeated in a row;
        - a value that is not a finite float32;
        - invalid UTF-8 in a query or docid;
        - a query with rows that are not consecutive;
        - a docid that is repeated in a query, or that only some rows have.

        Without line: a file without rows, and as `open_bytes`.
    """
    if repeated not in ("error", "last"):
        raise InputError("unknown value of repeated", value=repeated, accepted="error, last")
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
    """Read a file, or its cached arrays."""
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
    """Write a LETOR file atomically; `read_letor` returns exactly the same data.

    Every feature is written, including zeros. Names of documents are written as comments, ``#docid = X``.
    RankLib accepts any query identifiers; scikit-learn and most other programs require integers.

    Parameters
    ----------
    path : path-like
        The file, compressed if its suffix names a compression.
    data : Letor
        The rows, for example a `lmtune.rerank.data.RankingData`.

    Raises
    ------
    InputError
        If a query or docno is empty or contains white space, a query contains ``#``, or a feature is not
        finite; and as `atomic_write`.
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
            # numpy writes the shortest decimals that are read as the same float32.
            written = features.astype("U16").tolist()
            labels = [f"{label:.9g} qid:{query}" for label in data.labels[begin:end].tolist()]
            docnos = [""] * (end - begin)
            if data.docnos is not None:
                docnos = [f" #docid = {docno}" for docno in data.docnos[begin:end]]
            for label, values, docno in zip(labels, written, docnos, strict=True):
                pairs = "".join([a + b for a, b in zip(ids, values, strict=True)])
                stream.write(f"{label}{pairs}{docno}\n")
