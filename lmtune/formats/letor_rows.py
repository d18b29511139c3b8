"""The rows of a LETOR file, put together from its blocks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats.letor_kernels import fill_missing
from lmtune.formats.letor_parsing import read_blocks
from lmtune.progress import note


@dataclass(frozen=True, eq=False)
class Letor:
    """What a LETOR file holds.

    Attributes
    ----------
    features : numpy.ndarray of float32, shape (rows, F)
        Column f has the feature with id f + 1; 0 where a row lacks it. Perhaps a memory map, which
        is then read-only.
    labels : numpy.ndarray of float32, shape (rows,)
        Grades, 0 or more.
    starts : numpy.ndarray of int64, shape (queries + 1,)
        Where each query's rows begin.
    queries : tuple of str
        Query identifiers, in the file's order.
    docnos : tuple of str or None
        The rows' docids; None where the file has none.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.float32]
    starts: NDArray[np.int64]
    queries: tuple[str, ...]
    docnos: tuple[str, ...] | None = None

    def widened(self, width: int) -> Self:
        """Return the same with `width` features at least: those that come to it are 0."""
        missing = width - self.features.shape[1]
        if missing <= 0:
            return self
        return replace(self, features=np.pad(self.features, ((0, 0), (0, missing))))


class Rest(NamedTuple):
    """All but the features, which are `width`, and of which some, `missing`, are NaN."""

    labels: NDArray[np.float32]
    starts: NDArray[np.int64]
    queries: tuple[str, ...]
    docnos: tuple[str, ...] | None
    width: int
    missing: int

    def complete(self, features: NDArray[np.float32], path: PathLike) -> None:
        """Fill in what is missing, and say so."""
        if self.missing:
            fill_missing(self.starts, features)
            how = "their feature's lowest in the query stands in, as in LETOR's MIN files"
            note(f"{os.fspath(path)}: {self.missing:,} values are missing; {how}")


def collect(
    path: PathLike, keep: Callable[[NDArray[np.float32]], object], *, repeated: str, docids: bool
) -> Rest:
    """Read a file, giving its features to `keep` block by block, none narrower than that before."""
    labels: list[NDArray[np.float32]] = []
    docnos: list[str | None] = []
    queries: dict[str, int] = {}
    starts: list[int] = []
    lines: list[NDArray[np.int64]] = []
    width = rows = missing = 0
    current = None
    for block in read_blocks(path, repeated=repeated):
        for first, query in zip(block.query_rows.tolist(), block.queries, strict=True):
            if query == current:
                continue
            if query in queries:
                raise InputError(
                    "a query's rows do not stand together",
                    file=path,
                    line=int(block.lines[first]),
                    value=query,
                    accepted=f"rows sorted by query (it first came in line {queries[query]})",
                )
            queries[query] = int(block.lines[first])
            starts.append(rows + first)
            current = query
        width = max(width, block.width)
        keep(block.dense(width))
        labels.append(block.labels)
        lines.append(block.lines)
        if docids:
            docnos += block.docids
        rows += len(block.labels)
        missing += block.missing
    if not rows:
        raise InputError("the file has no rows", file=path, accepted="LABEL qid:QUERY ID:VALUE ...")
    starts.append(rows)
    named = _named(path, docnos, starts, np.concatenate(lines))
    return Rest(np.concatenate(labels), np.array(starts, np.int64), tuple(queries), named, width, missing)


def _named(
    path: PathLike, docids: Sequence[str | None], starts: Sequence[int], lines: NDArray[np.int64]
) -> tuple[str, ...] | None:
    """Return the docids, None where there are none; each must come once in its query."""
    named = tuple(docid for docid in docids if docid is not None)
    if not named:
        return None
    if len(named) < len(docids):
        missing = docids[0] is None
        row = next(row for row, docid in enumerate(docids) if (docid is None) != missing)
        raise InputError(
            "a docid, where the first row has none" if missing else "no docid, as the first row has",
            file=path,
            line=int(lines[row]),
            value=docids[row],
            accepted=f"one on each row or on none (the first row is line {int(lines[0])}), or docids=False",
        )
    for begin, end in itertools.pairwise(starts):
        if len(set(named[begin:end])) == end - begin:
            continue
        seen: dict[str, int] = {}
        row = next(row for row in range(begin, end) if seen.setdefault(named[row], row) != row)
        raise InputError(
            "a docid comes twice in its query",
            file=path,
            line=int(lines[row]),
            value=named[row],
            accepted=f"each once (first in line {int(lines[seen[named[row]]])}), or docids=False",
        )
    return named
