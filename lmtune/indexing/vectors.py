"""The terms of documents, counted: an inverted index read the other way round."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.indexing.index import Index
from lmtune.indexing.sharded import shards_of


def document_vectors(index: Index, docs: NDArray[np.integer]) -> list[dict[str, int]]:
    """Return how often each term occurs in documents.

    Parameters
    ----------
    index : Index
        One that lists its terms is read through once; another must keep its documents' texts, which are
        analysed anew.
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
