"""Compiled parts of positions: their coding in bytes, and counting windows of two words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.indexing.index import Positions


@compiled()
def encode(
    positions: NDArray[np.int32], tfs: NDArray[np.integer], dfs: NDArray[np.int32]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Code positions as the gaps between them, in 7 bits a byte, the lowest first.

    Parameters
    ----------
    positions : array of int32
        Ascending within a posting, from 0 on; posting by posting.
    tfs, dfs : arrays of int
        How many each posting has, and how many postings each term has.

    Returns
    -------
    coded : array of uint8
    sizes : array of int64, shape (terms,)
        The bytes of each term's positions.
    """
    coded = np.empty(5 * positions.size, np.uint8)
    sizes = np.empty(dfs.size, np.int64)
    filled = at = posting = 0
    for term in range(dfs.size):
        begin = filled
        for _ in range(dfs[term]):
            last = -1
            for _ in range(tfs[posting]):
                gap = positions[at] - last - 1
                last = positions[at]
                at += 1
                while gap > 127:
                    coded[filled] = (gap & 127) | 128
                    filled += 1
                    gap >>= 7
                coded[filled] = gap
                filled += 1
            posting += 1
        sizes[term] = filled - begin
    return coded[:filled].copy(), sizes


@compiled()
def decode(coded: NDArray[np.uint8], tfs: NDArray[np.int32]) -> NDArray[np.int32]:
    """Undo `encode` for one term."""
    positions = np.empty(tfs.astype(np.int64).sum(), np.int32)
    at = filled = 0
    for tf in tfs:
        last = np.int64(-1)
        for _ in range(tf):
            gap, shift = np.int64(0), 0
            while coded[at] > 127:
                gap |= (np.int64(coded[at]) & 127) << shift
                shift += 7
                at += 1
            last += 1 + (gap | np.int64(coded[at]) << shift)
            at += 1
            positions[filled] = last
            filled += 1
    return positions


@compiled()
def count_windows(
    first: Positions, second: Positions, same: bool, ordered: bool, width: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Count the windows of two words, as `lmtune.indexing.windows` says, in each document with some.

    Parameters
    ----------
    first, second : Positions
        Where the two words are.
    same : bool
        Whether they are one word.
    ordered : bool
        Whether the first must come first.
    width : int
        How many positions a window spans, at most.

    Returns
    -------
    docs, counts : arrays of int32
    """
    docs = np.empty(min(first.docs.size, second.docs.size), np.int32)
    counts = np.empty(docs.size, np.int32)
    found = a = b = begin = other = 0
    while a < first.docs.size and b < second.docs.size:
        if first.docs[a] != second.docs[b]:
            if first.docs[a] < second.docs[b]:
                begin += first.tfs[a]
                a += 1
            else:
                other += second.tfs[b]
                b += 1
            continue
        i, j = begin, other + (1 if same else 0)
        begin, other = begin + first.tfs[a], other + second.tfs[b]
        count = 0
        while i < begin and j < other:
            gap = second.positions[j] - first.positions[i]
            count += abs(gap) < width and (gap > 0 or not ordered)
            # One word's next occurrence is both the other's and its own.
            i += gap > 0
            j += gap < 0 or same
        if count:
            docs[found], counts[found] = first.docs[a], count
            found += 1
        a += 1
        b += 1
    return docs[:found].copy(), counts[:found].copy()
