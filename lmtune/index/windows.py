"""Words in documents: windows of two, how often they stand together; and a document's terms, counted.

An ordered window, Indri's ``#1``, is the first word at a position with the second at the next. An
unordered one, ``#uw8``, begins at an occurrence of either word and ends at the other's next
occurrence, no more than 8 positions in all: windows may overlap, and each occurrence begins one
at most. So count Indri's UnorderedWindowNode and Lucene's SpanNearQuery; for a word with itself
the two occurrences must differ, which they do not ask.

Positions are those of Lucene's index: every token of the text has one, also a stopword, which is
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
"""Positions that an unordered window spans, at most."""

WINDOW_KINDS = {"#1": True, "#uw8": False}
"""Kinds of windows by Indri's names: whether they are ordered."""


class Window(NamedTuple):
    """Two words together, the first at once before the second where it is ordered."""

    first: str
    second: str
    ordered: bool


def windows_of(query: Sequence[str], *, ordered: bool) -> Counter[Window]:
    """Return the windows of an analysed query's neighbours, unordered ones in one order alone."""
    pairs = (pair if ordered else sorted(pair) for pair in pairwise(query))
    return Counter(Window(first, second, ordered) for first, second in pairs)


def count_windows(index: Index, windows: Sequence[Window]) -> list[Postings | None]:
    """Count windows in all documents.

    Parameters
    ----------
    index : Index
        One with positions.
    windows : sequence of Window
        What to count.

    Returns
    -------
    list of Postings or None
        The documents that hold each window, and how many; None where none does.

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
    held: dict[str, Positions | None] = {word: index.positions(word) for word in words}
    counted: list[Postings | None] = []
    for window in windows:
        first, second = held[window.first], held[window.second]
        if first is None or second is None:
            counted.append(None)
            continue
        same, width = window.first == window.second, 2 if window.ordered else WIDTH
        found = Postings(*kernels.count_window_documents(first, second, same, window.ordered, width))
        counted.append(found if found.docs.size else None)
    return counted


def document_vectors(index: Index, docs: NDArray[np.integer]) -> list[dict[str, int]]:
    """Return how often each term occurs in documents.

    Parameters
    ----------
    index : Index
        One that lists its terms is read through once, a small one (`ColumnarIndex.is_small`) for all calls;
        another must keep its documents' texts, which are analysed anew.
    docs : numpy.ndarray of int, shape (documents,)
        Document numbers; each may come again.

    Returns
    -------
    list of dict of str to int
        A document each.

    Raises
    ------
    InputError
        Where an index has neither.
    """
    wanted, inverse = np.unique(docs, return_inverse=True)
    vectors: list[dict[str, int]] = []
    base = 0
    for shard in shards_of(index):
        held = wanted[(wanted >= base) & (wanted < base + shard.num_docs)] - base
        vectors += _vectors(shard, held)
        base += shard.num_docs
    return [vectors[at] for at in inverse.tolist()]


def _vectors(index: Any, docs: NDArray[np.integer]) -> list[dict[str, int]]:
    if not hasattr(index, "terms"):
        return [dict(Counter(index.analyze(text))) for text in index.texts(docs)]
    if getattr(index, "is_small", False):
        return [index.vector(doc) for doc in docs.tolist()]
    vectors: list[dict[str, int]] = [{} for _ in docs]
    place = np.full(index.num_docs, -1, np.int64)
    place[docs] = np.arange(docs.size)
    for term in index.terms() if docs.size else ():
        postings = index.postings(term)
        at = place[postings.docs]
        held = at >= 0
        for document, tf in zip(at[held].tolist(), postings.tfs[held].tolist(), strict=True):
            vectors[document][term] = tf
    return vectors
