"""The documents that a run ranks for a topic, with what an index says about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.indexing.index import CollectionSize, Index, Postings, field_index
from lmtune.indexing.windows import KINDS, count_windows, windows_of


@dataclass(frozen=True, eq=False)
class RankedDocuments:
    """One topic's ranked documents as columns, named as in `CandidatePool`.

    Attributes
    ----------
    tf : numpy.ndarray of int32, shape (terms, documents)
        How often each distinct query term of the collection occurs in each document.
    length : numpy.ndarray of int32, shape (documents,)
        Document lengths in tokens; 0 for documents that the index lacks.
    p : numpy.ndarray of float64, shape (terms,)
        P(w|C), each term's share of the collection's tokens.
    df : numpy.ndarray of int64, shape (terms,)
        How many documents of the collection hold each term.
    count : numpy.ndarray of int64, shape (terms,)
        How often each term occurs in the query.
    score : numpy.ndarray of float64, shape (documents,)
        The run's scores, best first.
    num_docs : int
        Documents in the collection.
    size : CollectionSize
        Its tokens, and its documents that hold one.
    lambda_, mu : float
        The tuned parameters of two-stage smoothing.
    fields : dict of str to RankedDocuments
        The same of fields of the documents, by their names, and of windows of neighbouring query terms,
        by `lmtune.indexing.windows.KINDS`: windows stand for terms, and lengths are the documents'.
    """

    tf: NDArray[np.int32]
    length: NDArray[np.int32]
    p: NDArray[np.float64]
    df: NDArray[np.int64]
    count: NDArray[np.int64]
    score: NDArray[np.float64]
    num_docs: int
    size: CollectionSize
    lambda_: float
    mu: float
    fields: dict[str, RankedDocuments]

    @cached_property
    def held(self) -> NDArray[np.bool_]:
        """Whether each document holds each term, shape (terms, documents)."""
        return self.tf > 0

    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequencies, ln(N / df), shape (terms, 1)."""
        return np.log(self.num_docs / self.df)[:, None]

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """Occurrences in the query, shape (terms, 1)."""
        return self.count.astype(np.float64)[:, None]

    @cached_property
    def tf_idf(self) -> NDArray[np.float64]:
        """Frequency times inverse document frequency, shape (terms, documents)."""
        return self.tf * self.idf

    @cached_property
    def relative_tf(self) -> NDArray[np.float64]:
        """Frequency over document length, shape (terms, documents)."""
        return self.tf / np.maximum(self.length, 1)


def look_up(
    index: Index,
    query: str,
    docs: NDArray[np.int32],
    scores: NDArray[np.float64],
    *,
    lambda_: float,
    mu: float,
    fields: Sequence[str] = (),
) -> RankedDocuments:
    """Return what an index says of one topic's ranked documents.

    Parameters
    ----------
    index : Index
        The collection; it also analyses the query.
    query : str
        The topic's text.
    docs : numpy.ndarray of int32, shape (documents,)
        Document numbers, distinct, best first; -1 for a document that the index lacks.
    scores : numpy.ndarray of float64, shape (documents,)
        The run's scores.
    lambda_, mu : float
        The tuned parameters of two-stage smoothing.
    fields : sequence of str
        Fields of the documents that the index has, and kinds of windows, to look up too.
    """

    def table(index: Index, counts: Counter[Any], postings: Sequence[Postings | None]) -> RankedDocuments:
        held = [(own, times) for own, times in zip(postings, counts.values(), strict=True) if own]
        tf = np.zeros((len(held), docs.size), np.int32)
        for row, (own, _) in zip(tf, held, strict=True):
            place = np.searchsorted(own.docs, docs)
            place[place == own.docs.size] = 0
            row[:] = np.where(own.docs[place] == docs, own.tfs[place], 0)
        cf = [int(own.tfs.sum(dtype=np.int64)) for own, _ in held]
        return RankedDocuments(
            tf=tf,
            length=np.where(docs >= 0, np.asarray(index.lengths)[docs], 0).astype(np.int32),
            p=np.array(cf, np.float64) / index.total_terms,
            df=np.array([own.docs.size for own, _ in held], np.int64),
            count=np.array([times for _, times in held], np.int64),
            score=scores,
            num_docs=index.num_docs,
            size=CollectionSize.of(index),
            lambda_=lambda_,
            mu=mu,
            fields={},
        )

    def of_terms(index: Index) -> RankedDocuments:
        counts = Counter(index.analyze(query))
        return table(index, counts, [index.postings(term) for term in counts])

    def of_windows(kind: str) -> RankedDocuments:
        counts = windows_of(index.analyze(query), ordered=KINDS[kind])
        return table(index, counts, count_windows(index, list(counts)))

    within = {
        name: of_windows(name) if name in KINDS else of_terms(field_index(index, name)) for name in fields
    }
    return replace(of_terms(index), fields=within)
