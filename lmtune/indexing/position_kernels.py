"""Counting windows of two words, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.indexing.index import Positions


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
