"""LETOR files, as SVMlight, RankLib and LightGBM write them, and their columnar form on disk."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats.letor_rows import HIGHEST_ID, Letor, ZeroIdError, collect
from lmtune.progress import note
from lmtune.storage.digests import digest, read_whole, sealed_text, unsealed
from lmtune.storage.files import atomic_write, unreadable
from lmtune.storage.folders import FolderKind, atomic_directory
from lmtune.storage.locks import StaleError, build_once
from lmtune.threads import over_slices

FORMAT = "lmtune letor 3"
"""Raised whenever the files' content changes its meaning."""

WORTH_KEEPING_BYTES = 1 << 24
"""Files from this size on are kept in columnar form beside themselves."""

FROM_ZERO = "features' ids count from 0: feature 0 is read as feature 1, and so on"
"""A note."""

_KINDS = {
    "options": dict,
    "size": int,
    "changed": int,
    "sha256": str,
    "rows": int,
    "width": int,
    "named": bool,
    "digests": dict[str, int],
    "blocks": list[int],
}
# Of a digest each of the features, which are read by several threads.
_BLOCK_BYTES = 1 << 22

_MARKER = "letor.json"
_KIND = FolderKind(_MARKER, (_MARKER, "features", "labels", "starts", "queries", "docids"))


def cached(
    path: PathLike, cache: bool | PathLike, *, repeated: str, docids: bool, zero_based: bool
) -> Letor | None:
    """Read a file through its columnar form, made where there is none that is current.

    Parameters
    ----------
    path, cache, repeated, docids, zero_based
        As for `lmtune.formats.letor.read_letor`.

    Returns
    -------
    Letor or None
        None where nothing is to be kept.

    Raises
    ------
    InputError
        As `read_letor`; if a folder given for the columnar form holds other files, or cannot be
        written; if the file changes while it is read.
    """
    if cache is False:
        return None
    try:
        status = Path(path).stat()
    except OSError as error:
        raise unreadable(path, error) from error
    folder = Path(os.path.realpath(path)).parent / f".{Path(path).name}.letor"
    if cache is not True:
        folder = Path(cache)
    elif status.st_size < WORTH_KEEPING_BYTES or not os.access(folder.parent, os.W_OK):
        return None
    if not Path(path).is_file():
        return None
    options = {"format": FORMAT, "repeated": repeated, "docids": docids, "zero_based": zero_based}
    arguments = (folder, Path(path), status, options)
    return build_once(folder, partial(_read, *arguments), partial(_build, *arguments))


def _read(folder: Path, path: Path, status: os.stat_result, options: dict[str, Any]) -> Letor:
    """Return the folder's content if it stands for the file and is whole."""
    try:
        header = unsealed((folder / _MARKER).read_bytes(), kinds=_KINDS)
        if header["options"] != options or header["size"] != status.st_size:
            raise StaleError("of another file")
        if header["changed"] != status.st_mtime_ns and header["sha256"] != _digest(path):
            raise StaleError("of another file")
        rows, width, digests = header["rows"], header["width"], header["digests"]
        features = _mapped(folder / "features", rows, width)
        if _block_digests(features) != header["blocks"]:
            raise StaleError("damaged")
        read = {name: read_whole(folder / name, digest) for name, digest in digests.items()}
        labels = np.frombuffer(read["labels"], "<f4").astype(np.float32)
        starts = np.frombuffer(read["starts"], "<i8").astype(np.int64)
        docnos = _names(read["docids"]) if header["named"] else None
        return Letor(features, labels, starts, _names(read["queries"]), docnos)
    except (OSError, ValueError, LookupError) as error:
        raise StaleError("damaged") from error


def _build(folder: Path, path: Path, status: os.stat_result, options: dict[str, Any]) -> Letor:
    with atomic_directory(folder, _KIND) as made:
        features = _OnDisk(made / "features")
        try:
            how = {name: options[name] for name in ("repeated", "docids", "zero_based")}
            rest = collect(path, features.append, **how)
        finally:
            features.close()
        features.finish(rest.width)
        if rest.missing:
            rest.complete(_mapped(made / "features", rest.labels.size, rest.width, "r+"), path)
        small = {
            "labels": rest.labels.astype("<f4").tobytes(),
            "starts": rest.starts.astype("<i8").tobytes(),
            "queries": "\n".join(rest.queries).encode(),
        }
        if rest.docnos is not None:
            small["docids"] = "\n".join(rest.docnos).encode()
        for name, content in small.items():
            (made / name).write_bytes(content)
        header = {
            "options": options,
            "size": status.st_size,
            "changed": status.st_mtime_ns,
            "sha256": _digest(path),
            "rows": rest.labels.size,
            "width": rest.width,
            "named": rest.docnos is not None,
            "digests": {name: digest(content) for name, content in small.items()},
            "blocks": _block_digests(_mapped(made / "features", rest.labels.size, rest.width)),
        }
        now = path.stat()
        if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            raise InputError("the file changed while it was read", file=path)
        (made / _MARKER).write_text(sealed_text(header), encoding="utf-8")
    try:
        return _read(folder, path, status, options)
    except StaleError:
        raise InputError("cannot read back what was just written", file=folder) from None


def _mapped(path: Path, rows: int, width: int, mode: Literal["r", "r+"] = "r") -> NDArray[np.float32]:
    return np.memmap(path, "<f4", mode, shape=(rows, width)) if width else np.empty((rows, 0), np.float32)


def _block_digests(features: NDArray[np.float32]) -> list[int]:
    raw = features.reshape(-1).view(np.uint8)
    digests = [0] * -(-raw.size // _BLOCK_BYTES)

    def work(part: slice) -> None:
        for block in range(part.start, part.stop):
            digests[block] = digest(raw[block * _BLOCK_BYTES : (block + 1) * _BLOCK_BYTES].data)

    over_slices(work, len(digests))
    return digests


def _names(content: bytes) -> tuple[str, ...]:
    # Names hold no white space.
    return tuple(content.decode().split("\n"))


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _OnDisk:
    """Rows in a file: each block as wide as those before it had to be, in the end all alike."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._shapes: list[tuple[int, int]] = []

    def append(self, rows: NDArray[np.float32]) -> None:
        rows.astype("<f4", copy=False).tofile(self._file)
        self._shapes.append((rows.shape[0], rows.shape[1]))

    def close(self) -> None:
        self._file.close()

    def finish(self, width: int) -> None:
        if all(shape[1] == width for shape in self._shapes):
            return
        narrow = self._path.with_suffix(".narrow")
        self._path.rename(narrow)
        with narrow.open("rb") as source, self._path.open("wb") as target:
            for rows, columns in self._shapes:
                wide = np.zeros((rows, width), "<f4")
                wide[:, :columns] = np.fromfile(source, "<f4", rows * columns).reshape(rows, columns)
                wide.tofile(target)
        narrow.unlink()


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
        Where to keep the columnar form, from which the next call reads at once, without holding
        the features in memory: a folder for it, made if missing; True, a folder beside the file,
        if the file is large enough (16 MiB) and its folder can be written; False, nowhere. It
        stands for the file as long as size and time of change agree, or the SHA-256 digest does.
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
    read = partial(_whole, path, cache, repeated=repeated, docids=docids)
    try:
        data = read(zero_based=bool(zero_based))
    except ZeroIdError:
        if zero_based is not None:
            raise
        note(f"{os.fspath(path)}: {FROM_ZERO}")
        data = read(zero_based=True)
    return data.widened(width or 0)


def _whole(path: PathLike, cache: bool | PathLike, *, repeated: str, docids: bool, zero_based: bool) -> Letor:
    """Read a file, through its columnar form where it has one."""
    data = cached(path, cache, repeated=repeated, docids=docids, zero_based=zero_based)
    if data is not None:
        return data
    blocks: list[NDArray[np.float32]] = []
    rest = collect(path, blocks.append, repeated=repeated, docids=docids, zero_based=zero_based)
    features = _stacked(blocks, rest.width)
    rest.complete(features, path)
    return Letor(features, rest.labels, rest.starts, rest.queries, rest.docnos)


def _stacked(blocks: list[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
    """Return all rows, (rows, width), 0 where a block is narrower; each block goes when it is copied."""
    out = np.zeros((sum(map(len, blocks)), width), np.float32)
    end = len(out)
    while blocks:
        block = blocks.pop()
        out[end - len(block) : end, : block.shape[1]] = block
        end -= len(block)
    return out


def write_letor(path: PathLike, data: Letor) -> None:
    """Write a LETOR file, whole or not at all, that `read_letor` reads back to the last bit.

    Every feature is written, also where it is 0; documents' names become comments, ``#docid = X``.
    RankLib takes queries of any name; scikit-learn and most others want whole numbers.

    Parameters
    ----------
    path : path-like
        The file, compressed by its suffix.
    data : Letor
        The rows, such as a `lmtune.reranking.data.RankingData`.

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
