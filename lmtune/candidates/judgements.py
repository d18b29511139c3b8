"""Judgements of a pool's topics, read apart from the candidates: they may change alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.columns import UNJUDGED, ColumnLists, Columns, starts
from lmtune.indexing.index import Index, Postings
from lmtune.models.formula import Formula, QueryColumn


@dataclass(frozen=True)
class Judgements:
    """What a pool knows of its topics' judgements; the attributes are `CandidatePool`'s.

    Attributes
    ----------
    gain : numpy.ndarray of int32
        The gain of each candidate, `UNJUDGED` where there is none.
    judged : Columns
        Judged documents that the collection holds.
    start : numpy.ndarray of int64, shape (topics + 1,)
        Where each topic's judgements begin in `gains`.
    gains : numpy.ndarray of int32
        All gains of 0 or more.
    unknown_documents : int
        Judgements whose document the collection lacks.
    """

    gain: NDArray[np.int32]
    judged: Columns
    start: NDArray[np.int64]
    gains: NDArray[np.int32]
    unknown_documents: int


def read_judgements(
    index: Index,
    formula: Formula,
    topics: Sequence[str],
    columns: Sequence[Sequence[QueryColumn]],
    candidates: Columns,
    qrels: Mapping[str, Mapping[str, int]],
) -> Judgements:
    """Look judgements up in an index.

    Parameters
    ----------
    index : Index
        Any index.
    formula : Formula
        What looks the columns up, and takes the documents' lengths.
    topics, columns : sequences
        Topic identifiers, and each topic's columns that the collection holds.
    candidates : Columns
        Their candidates; the gains in it are not looked at.
    qrels : mapping of str to mapping of str to int
        Judgements; a topic without an entry has no judged documents.

    Returns
    -------
    Judgements
    """
    docno_rank, lengths = np.asarray(index.docno_rank), formula.lengths(index)
    # By document number, put back to its resting state after each topic.
    gain_of = np.full(index.num_docs, UNJUDGED, np.int32)
    gain = np.empty(candidates.doc.size, np.int32)
    judged = ColumnLists()
    all_gains = []
    unknown = 0
    docnos = list(dict.fromkeys(docno for topic in topics for docno in qrels.get(topic, {})))
    numbers = dict(zip(docnos, index.doc_numbers(docnos).tolist(), strict=True))
    for t, topic in enumerate(topics):
        entries = qrels.get(topic, {})
        gains = np.fromiter(entries.values(), np.int32, len(entries))
        docs = np.fromiter(map(numbers.__getitem__, entries), np.int32, len(entries))
        usable = gains >= 0
        all_gains.append(gains[usable])
        unknown += int((docs[usable] < 0).sum())
        usable &= docs >= 0
        gain_of[docs[usable]] = gains[usable]
        gain[candidates.rows(t)] = gain_of[candidates.doc[candidates.rows(t)]]
        docs = docs[usable]
        docs = docs[np.argsort(docno_rank[docs])]
        postings = formula.look_up(index, columns[t]) if docs.size else [None] * len(columns[t])
        tf = frequencies(postings, docs)
        judged.append(doc=docs, length=lengths[docs], gain=gain_of[docs], tf=tf)
        gain_of[docs] = UNJUDGED
    return Judgements(gain, judged.join(), starts(all_gains), np.concatenate(all_gains), unknown)


def frequencies(postings: Sequence[Postings | None], docs: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return how often each of some columns occurs in documents, shape (columns, documents)."""
    tf = np.zeros((len(postings), docs.size), np.int32)
    for row, found in zip(tf, postings, strict=True):
        if found is not None and found.docs.size:
            at = np.minimum(np.searchsorted(found.docs, docs), found.docs.size - 1)
            row[:] = np.where(found.docs[at] == docs, found.tfs[at], 0)
    return tf
