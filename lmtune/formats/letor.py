"""LETOR files: labels, queries and features, as SVMlight, RankLib and LightGBM write them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats.letor_cache import cached
from lmtune.formats.letor_parsing import HIGHEST_ID
from lmtune.formats.letor_rows import Letor, collect
from lmtune.storage.files import atomic_write


def read_letor(
    path: PathLike,
    *,
    cache: bool | PathLike = True,
    width: int | None = None,
    repeated: Literal["error", "last"] = "error",
    docids: bool = True,
) -> Letor:
    """Read a LETOR file.

    A row is ``LABEL qid:QUERY ID:VALUE ... # COMMENT``, separated by spaces or tabs. Ids count
    from 1, in any order; features that a row lacks are 0. A value ``NULL`` (LETOR's NULL files) or
    1.79769313486231e+308, the largest double (Istella's sets), is missing: the feature's lowest value
    among the query's rows stands in, as in LETOR's MIN files, or 0 where it has none. Blank lines and
    lines of comment alone are passed over. A comment that begins with ``docid = X`` (or ``docno``,
    ``doc_id``, in either case, also with a colon) names the row's document. Decimals become the
    nearest float32.

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
    found = cached(path, cache, repeated=repeated, docids=docids)
    if found is None:
        blocks: list[NDArray[np.float32]] = []
        rest = collect(path, blocks.append, repeated=repeated, docids=docids)
        features = _stacked(blocks, rest.width)
        rest.complete(features, path)
        found = Letor(features, rest.labels, rest.starts, rest.queries, rest.docnos)
    return found.widened(width or 0)


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
