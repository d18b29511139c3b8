"""Count windows of two words in documents, and the terms of documents.

An ordered window (Indri's ``#1``) is the first word followed immediately by the second. An unordered
window (``#uw8``) begins at an occurrence of either word and ends at the next occurrence of the other, and
spans at most 8 positions. Windows may overlap; each occurrence begins at most one. Indri's
UnorderedWindowNode and Lucene's SpanNearQuery count in the same way, except for a word with itself: here
the two occurrences must differ.

Positions are those of Lucene's index: every token of the text has a position, also stopwords, which are
not indexed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.index.protocol import Index, PositionalIndex, Positions, Postings
from lmtune.index.sharded import shards_of

WIDTH = 8
"""Largest number of positions that an unordered window spans."""

WINDOW_KINDS = {"#1": True, "#uw8": False}
"""Indri's names of the kinds of windows, each with whether it is ordered."""


class Window(NamedTuple):
    """A pair of words: adjacent and in this order if ordered, else near each other."""

    first: str
    second: str
    ordered: bool


def windows_of(query: Sequence[str], *, ordered: bool) -> Counter[Window]:
    """Count the windows of adjacent query terms; unordered windows have their words sorted."""
    pairs = (pair if ordered else sorted(pair) for pair in pairwise(query))
    return Counter(Window(first, second, ordered) for first, second in pairs)


def count_windows(index: Index, windows: Sequence[Window]) -> list[Postings | None]:
    """Count windows in all documents.

    Parameters
    ----------
    index : Index
        An index with positions.
    windows : sequence of Window
        The windows to count.

    Returns
    -------
    list of Postings or None
        For each window, its documents and counts; None if no document contains it.

    Raises
    ------
    InputError
        For an index without positions.
    """
    from lmtune.index import posting_kernels as kernels

    if not windows:
        return []
    if not isinstance(index, PositionalIndex):
        raise InputError(f"the index of {index.name} has no positions", accepted="lmtune index --positions")
    words = {word for window in windows for word in window[:2]}
    positions: dict[str, Positions | None] = {word: index.positions(word) for word in words}
    counted: list[Postings | None] = []
    for window in windows:
        first, second = positions[window.first], positions[window.second]
        if first is None or second is None:
            counted.append(None)
            continue
        same, width = window.first == window.second, 2 if window.ordered else WIDTH
        postings = Postings(*kernels.count_window_documents(first, second, same, window.ordered, width))
        counted.append(postings if postings.docs.size else None)
    return counted


def document_vectors(index: Index, docs: NDArray[np.integer]) -> list[dict[str, int]]:
    """Return the term frequencies of documents.

    Parameters
    ----------
    index : Index
        If the index lists its terms, all its postings are read, once for all calls if the index is small
        (`ColumnarIndex.is_small`). Otherwise the index must store the texts, which are analysed again.
    docs : numpy.ndarray of int, shape (documents,)
        Document numbers; may have duplicates.

    Returns
    -------
    list of dict of str to int
        Frequencies by term, for each document.

    Raises
    ------
    InputError
        If an index has neither terms nor texts.
    """
    wanted, inverse = np.unique(docs, return_inverse=True)
    vectors: list[dict[str, int]] = []
    base = 0
    for shard in shards_of(index):
        in_shard = wanted[(wanted >= base) & (wanted < base + shard.num_docs)] - base
        vectors += _vectors(shard, in_shard)
        base += shard.num_docs
    return [vectors[at] for at in inverse.tolist()]


def _vectors(index: Any, docs: NDArray[np.integer]) -> list[dict[str, int]]:
    if not hasattr(index, "terms"):
        return [dict(Counter(index.analyze(text))) for text in index.texts(docs)]
    if getattr(index, "is_small", False):
        return [index.vector(doc) for doc in docs.tolist()]
    vectors: list[dict[str, int]] = [{} for _ in docs]
    row = np.full(index.num_docs, -1, np.int64)
    row[docs] = np.arange(docs.size)
    for term in index.terms() if docs.size else ():
        postings = index.postings(term)
        rows = row[postings.docs]
        wanted = rows >= 0
        for document, tf in zip(rows[wanted].tolist(), postings.tfs[wanted].tolist(), strict=True):
            vectors[document][term] = tf
    return vectors
