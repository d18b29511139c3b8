"""Per-topic columns: all that scoring and measuring need, extracted from an index once.

A pool is built once per (index, topics, judgements); thousands of parameter settings are then
scored and measured on it without touching the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.indexing.index import Index

UNJUDGED = -1
"""The gain of a document that is not judged, or judged with a negative gain."""


@dataclass(frozen=True)
class Columns:
    """Documents of many topics, one after another.

    Topic t's documents are ``start[t]`` to ``start[t + 1]``; its term frequencies are the block
    ``tf[tf_start[t] : tf_start[t + 1]]``, read as (terms, documents).

    Attributes
    ----------
    start, tf_start : numpy.ndarray of int64, shape (topics + 1,)
        Where each topic's documents and term frequencies begin.
    doc : numpy.ndarray of int32, shape (documents,)
        Document numbers in the index.
    length : numpy.ndarray of int32, shape (documents,)
        Document lengths in tokens.
    gain : numpy.ndarray of int32, shape (documents,)
        Judged gains, `UNJUDGED` where there is none.
    tf : numpy.ndarray of int32, shape (sum of terms x documents,)
        Term frequencies.
    """

    start: NDArray[np.int64]
    tf_start: NDArray[np.int64]
    doc: NDArray[np.int32]
    length: NDArray[np.int32]
    gain: NDArray[np.int32]
    tf: NDArray[np.int32]

    def rows(self, t: int) -> slice:
        """Return topic t's slice of the document columns."""
        return slice(int(self.start[t]), int(self.start[t + 1]))


@dataclass(frozen=True)
class CandidatePool:
    """The candidate and judged documents of every topic, with their term statistics.

    Attributes
    ----------
    name : str
        The collection's name, for tables.
    index : Index
        Where the columns came from; only asked for docnos afterwards.
    topics : tuple of str
        Topic identifiers.
    terms : tuple of tuple of str
        Each topic's distinct query terms that the collection holds.
    term_start : numpy.ndarray of int64, shape (topics + 1,)
        Where each topic's terms begin in `p` and `count`.
    p : numpy.ndarray of float64
        P(w|C) of each topic's terms.
    count : numpy.ndarray of int64
        How often each term occurs in its query.
    candidates : Columns
        The documents that hold a query term, in tie order: length ascending, summed term
        frequency descending, docno descending. Documents of equal score rank in this order.
    judged : Columns
        Judged documents (gain 0 or more) that the collection holds, whether or not they match.
    judgement_start : numpy.ndarray of int64, shape (topics + 1,)
        Where each topic's judgements begin in `judgements`.
    judgements : numpy.ndarray of int32
        All gains of 0 or more, also those of documents that the collection lacks: what trec_eval
        counts relevant and nonrelevant documents from.
    unknown_terms : dict of str to int
        Query terms that the collection lacks, with the number of topics that hold each.
    unknown_documents : int
        Judgements whose document the collection lacks.
    """

    name: str
    index: Index
    topics: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]
    term_start: NDArray[np.int64]
    p: NDArray[np.float64]
    count: NDArray[np.int64]
    candidates: Columns
    judged: Columns
    judgement_start: NDArray[np.int64]
    judgements: NDArray[np.int32]
    unknown_terms: dict[str, int]
    unknown_documents: int

    @classmethod
    def build(
        cls,
        index: Index,
        topics: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        *,
        name: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> CandidatePool:
        """Extract a pool from an index.

        Parameters
        ----------
        index : Index
            Any index; it also analyses the query text.
        topics : mapping of str to str
            Query text by topic identifier.
        qrels : mapping of str to mapping of str to int, optional
            Judgements; a topic without an entry has no judged documents.
        name : str, optional
            The collection's name; the index's by default.
        progress : callable, optional
            Called with (topics done, topics in all).

        Returns
        -------
        CandidatePool

        Raises
        ------
        InputError
            Where there are no topics.
        """
        if not topics:
            raise InputError("no topics", accepted="at least one topic")
        builder = _Builder(index, qrels or {})
        for done, (topic, text) in enumerate(topics.items(), 1):
            builder.add(topic, text)
            if progress is not None:
                progress(done, len(topics))
        return builder.finish(index.name if name is None else name)

    def term_rows(self, t: int) -> slice:
        """Return topic t's slice of `p` and `count`."""
        return slice(int(self.term_start[t]), int(self.term_start[t + 1]))

    def tf_block(self, columns: Columns, t: int) -> NDArray[np.int32]:
        """Return topic t's term frequencies in `columns`, shape (terms, documents)."""
        block = columns.tf[columns.tf_start[t] : columns.tf_start[t + 1]]
        return block.reshape(len(self.terms[t]), int(columns.start[t + 1] - columns.start[t]))

    def positions(self, topics: Sequence[str] | None = None) -> NDArray[np.int64]:
        """Return the places of topics in this pool; all of them by default.

        Raises
        ------
        InputError
            Naming the first topic that the pool lacks.
        """
        if topics is None:
            return np.arange(len(self.topics), dtype=np.int64)
        for topic in topics:
            if topic not in self._places:
                raise InputError(
                    f"topic is not among the {len(self.topics)} of {self.name}", value=topic
                )
        return np.array([self._places[topic] for topic in topics], dtype=np.int64)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {topic: place for place, topic in enumerate(self.topics)}

    def judged_counts(self, min_gain: int = 1) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count relevant and nonrelevant judged documents.

        Parameters
        ----------
        min_gain : int
            The smallest gain that is relevant; gains from 0 to below it are nonrelevant.

        Returns
        -------
        relevant, nonrelevant : numpy.ndarray of int64, shape (topics,)
        """
        relevant = np.concatenate(([0], np.cumsum(self.judgements >= min_gain)))
        relevant = np.diff(relevant[self.judgement_start])
        return relevant, np.diff(self.judgement_start) - relevant


class ColumnLists:
    """`Columns` in the making, a topic at a time."""

    def __init__(self) -> None:
        self.doc: list[NDArray[np.int32]] = []
        self.length: list[NDArray[np.int32]] = []
        self.gain: list[NDArray[np.int32]] = []
        self.tf: list[NDArray[np.int32]] = []

    def append(
        self,
        *,
        doc: NDArray[np.int32],
        length: NDArray[np.int32],
        gain: NDArray[np.int32],
        tf: NDArray[np.int32],
    ) -> None:
        """Add one topic: documents' columns, and tf of shape (terms, documents)."""
        self.doc.append(doc)
        self.length.append(length)
        self.gain.append(gain)
        self.tf.append(np.ascontiguousarray(tf).ravel())

    def join(self) -> Columns:
        """Put the topics one after another."""
        return Columns(
            start=_starts(self.doc),
            tf_start=_starts(self.tf),
            doc=np.concatenate(self.doc).astype(np.int32),
            length=np.concatenate(self.length).astype(np.int32),
            gain=np.concatenate(self.gain).astype(np.int32),
            tf=np.concatenate(self.tf).astype(np.int32),
        )


class _Builder:
    """Collects topics' columns in lists, then joins them."""

    def __init__(self, index: Index, qrels: Mapping[str, Mapping[str, int]]) -> None:
        self.index = index
        self.qrels = qrels
        self.lengths = np.asarray(index.lengths)
        self.docno_rank = np.asarray(index.docno_rank)
        # Scratch by document number, put back to its resting state after each topic.
        self.place = np.full(index.num_docs, -1, np.int32)
        self.gain = np.full(index.num_docs, UNJUDGED, np.int32)
        self.topics: list[str] = []
        self.terms: list[tuple[str, ...]] = []
        self.p: list[float] = []
        self.count: list[int] = []
        self.candidates = ColumnLists()
        self.judged = ColumnLists()
        self.judgements: list[NDArray[np.int32]] = []
        self.unknown_terms: dict[str, int] = {}
        self.unknown_documents = 0

    def add(self, topic: str, text: str) -> None:
        counts: dict[str, int] = {}
        for term in self.index.analyze(text):
            counts[term] = counts.get(term, 0) + 1
        postings = []
        terms = []
        for term, count in counts.items():
            found = self.index.postings(term)
            if found is None:
                self.unknown_terms[term] = self.unknown_terms.get(term, 0) + 1
                continue
            postings.append(found)
            terms.append(term)
            self.count.append(count)
            self.p.append(float(found.tfs.sum(dtype=np.int64)) / self.index.total_terms)

        judgements = self.qrels.get(topic, {})
        gains = np.fromiter(judgements.values(), np.int32, len(judgements))
        docs = self.index.doc_numbers(list(judgements)) if judgements else gains
        usable = gains >= 0
        self.judgements.append(gains[usable])
        self.unknown_documents += int((docs[usable] < 0).sum())
        usable &= docs >= 0
        judged = docs[usable].astype(np.int32)
        self.gain[judged] = gains[usable]

        matching = np.unique(np.concatenate([x.docs for x in postings])) if postings else judged[:0]
        tf = np.zeros((len(terms), matching.size), np.int32)
        self.place[matching] = np.arange(matching.size, dtype=np.int32)
        for row, found in zip(tf, postings, strict=True):
            row[self.place[found.docs]] = found.tfs

        order = np.lexsort((-self.docno_rank[matching], -tf.sum(axis=0), self.lengths[matching]))
        self._append(self.candidates, matching[order], tf[:, order])

        order = np.argsort(self.docno_rank[judged])
        judged = judged[order]
        places = self.place[judged]
        judged_tf = np.zeros((len(terms), judged.size), np.int32)
        judged_tf[:, places >= 0] = tf[:, places[places >= 0]]
        self._append(self.judged, judged, judged_tf)

        self.place[matching] = -1
        self.gain[judged] = UNJUDGED
        self.topics.append(topic)
        self.terms.append(tuple(terms))

    def _append(self, to: ColumnLists, docs: NDArray[np.int32], tf: NDArray[np.int32]) -> None:
        to.append(doc=docs, length=self.lengths[docs], gain=self.gain[docs], tf=tf)

    def finish(self, name: str) -> CandidatePool:
        return CandidatePool(
            name=name,
            index=self.index,
            topics=tuple(self.topics),
            terms=tuple(self.terms),
            term_start=_starts(self.terms),
            p=np.array(self.p, np.float64),
            count=np.array(self.count, np.int64),
            candidates=self.candidates.join(),
            judged=self.judged.join(),
            judgement_start=_starts(self.judgements),
            judgements=np.concatenate(self.judgements),
            unknown_terms=self.unknown_terms,
            unknown_documents=self.unknown_documents,
        )


def _starts(parts: Sequence[Sequence[object]] | Sequence[NDArray[np.int32]]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64)
