"""Flat arrays of many topics' documents, and the look-up of judged documents in an index.

Judgments are looked up separately from the candidates, so that they can change alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers, Integers32
from lmtune.index.protocol import Index, Postings
from lmtune.index.sharded import over_shards
from lmtune.models.formula import Formula, QueryColumn

UNJUDGED = -1
"""The gain of a document without a judgment, or with a negative one."""


@dataclass(frozen=True)
class Columns:
    """Documents of many topics in flat arrays, topic by topic.

    Topic t's documents are ``start[t]`` to ``start[t + 1]``. Its term frequencies are the block
    ``tf[tf_start[t] : tf_start[t + 1]]`` of shape (terms, documents).

    Attributes
    ----------
    start, tf_start : numpy.ndarray of int64, shape (topics + 1,)
        Offsets of each topic's documents and term frequencies.
    doc : numpy.ndarray of int32, shape (documents,)
        Document numbers in the index.
    length : numpy.ndarray of int32, shape (documents,)
        Document lengths in tokens.
    gain : numpy.ndarray of int32, shape (documents,)
        Gains of the judgments, or `UNJUDGED`.
    tf : numpy.ndarray of int32, shape (sum of terms x documents,)
        Term frequencies.
    """

    start: Integers
    tf_start: Integers
    doc: Integers32
    length: Integers32
    gain: Integers32
    tf: Integers32

    def rows(self, t: int) -> slice:
        """Return topic t's slice of the document columns."""
        return slice(int(self.start[t]), int(self.start[t + 1]))

    def block(self, t: int) -> Integers32:
        """Return topic t's term frequencies, shape (terms, documents), for at least one document."""
        block = self.tf[self.tf_start[t] : self.tf_start[t + 1]]
        return block.reshape(-1, int(self.start[t + 1] - self.start[t]))

    def take(self, kept: Sequence[NDArray[np.integer]]) -> Columns:
        """Return selected documents of each topic, in the order of the selection.

        Parameters
        ----------
        kept : sequence of arrays of int
            Positions of the selected documents among the topic's documents, for each topic.
        """
        start = starts(kept)
        terms = np.diff(self.tf_start) // np.maximum(np.diff(self.start), 1)
        tf_start = np.concatenate(([0], np.cumsum(terms * np.diff(start))))
        tf = np.empty(int(tf_start[-1]), np.int32)
        position = np.empty(int(start[-1]), np.int64)
        for t, at in enumerate(kept):
            position[start[t] : start[t + 1]] = at + self.start[t]
            if len(at):
                np.take(
                    self.block(t),
                    at,
                    axis=1,
                    out=tf[tf_start[t] : tf_start[t + 1]].reshape(-1, len(at)),
                    mode="clip",
                )
        columns = self.doc[position], self.length[position], self.gain[position]
        return Columns(start, tf_start, *columns, tf)


def topic_columns(doc: Integers32, length: Integers32, gain: Integers32, tf: Integers32) -> Columns:
    """Return the documents of one topic; `tf` has shape (terms, documents)."""
    return Columns(starts([doc]), np.array([0, tf.size]), doc, length, gain, np.ascontiguousarray(tf).ravel())


def starts(parts: Sequence[Sized]) -> Integers:
    """Return the offset of each part in their concatenation, and the total length."""
    return np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64)


def join_columns(parts: Sequence[Columns]) -> Columns:
    """Concatenate the topics of several column sets."""
    sizes = np.concatenate([np.diff(part.start) for part in parts])
    tf_sizes = np.concatenate([np.diff(part.tf_start) for part in parts])
    columns = zip(*((part.doc, part.length, part.gain, part.tf) for part in parts), strict=True)
    joined = (np.concatenate(column).astype(np.int32, copy=False) for column in columns)
    return Columns(
        np.concatenate(([0], np.cumsum(sizes))), np.concatenate(([0], np.cumsum(tf_sizes))), *joined
    )


class PoolJudgments(NamedTuple):
    """The judgments of a pool's topics, as in the attributes of `CandidatePool`.

    Attributes
    ----------
    judged : Columns
        Judged documents in the collection.
    judgment_start : numpy.ndarray of int64, shape (topics + 1,)
        Offset of each topic's judgments in `judgments`.
    judgments : numpy.ndarray of int32
        All gains of 0 or more.
    unknown_documents : int
        Number of judgments of documents outside the collection.
    """

    judged: Columns
    judgment_start: Integers
    judgments: Integers32
    unknown_documents: int


def look_up_judgments(
    index: Index,
    formula: Formula,
    topics: Sequence[str],
    columns: Sequence[Sequence[QueryColumn]],
    candidates: Columns,
    qrels: Mapping[str, Mapping[str, int]],
    *,
    exclude_self: bool = False,
) -> tuple[Integers32, PoolJudgments]:
    """Look up the judged documents in an index.

    Parameters
    ----------
    index : Index
        Any index.
    formula : Formula
        The formula that looks up the columns and defines the documents' lengths.
    topics, columns : sequences
        Topic identifiers, and each topic's columns that occur in the collection.
    candidates : Columns
        The topics' candidates; their gains are ignored.
    qrels : mapping of str to mapping of str to int
        Judgments; a topic without an entry has no judged documents.
    exclude_self : bool
        Treat the document whose docno is the topic's identifier as outside the collection, because it is
        never retrieved.

    Returns
    -------
    gain : numpy.ndarray of int32
        The gain of each candidate, or `UNJUDGED`.
    judgments : PoolJudgments
        The judgments and the judged documents.
    """
    usable = [{docno: gain for docno, gain in qrels.get(topic, {}).items() if gain >= 0} for topic in topics]
    parts: list[list[FoundDocuments]] = [[] for _ in topics]
    if any(usable):
        docnos = [list(judgments) for judgments in usable]
        excluded = list(topics) if exclude_self else None
        arguments = {"formula": formula, "columns": columns, "docnos": docnos, "excluded": excluded}
        for base, by_topic in over_shards(index, find_judged, **arguments):
            for topic_parts, part in zip(parts, by_topic, strict=True):
                topic_parts.append(part._replace(docs=part.docs + np.int32(base)))
    # Gains by document number, offset so that 0 means unjudged: pages of zeros that are never written take
    # no memory. The array is reset to 0 after each topic.
    gain_of = np.zeros(index.num_docs, np.int32)
    gain = np.empty(candidates.doc.size, np.int32)
    judged, all_gains = [], []
    known = 0
    for t, judgments in enumerate(usable):
        documents = _in_docno_order(list(judgments), parts[t], len(columns[t]))
        gains = np.fromiter(judgments.values(), np.int32, len(judgments))
        all_gains.append(gains)
        known += documents.docs.size
        known_gains = gains[documents.places]
        gain_of[documents.docs] = known_gains - UNJUDGED
        gain[candidates.rows(t)] = gain_of[candidates.doc[candidates.rows(t)]] + UNJUDGED
        gain_of[documents.docs] = 0
        judged.append(topic_columns(documents.docs, documents.lengths, known_gains, documents.tf))
    unknown = sum(map(len, usable)) - known
    return gain, PoolJudgments(join_columns(judged), starts(all_gains), np.concatenate(all_gains), unknown)


class FoundDocuments(NamedTuple):
    """The judged documents of one topic that are in an index.

    Attributes
    ----------
    places : numpy.ndarray of int64, shape (documents,)
        Their positions among all judged documents of the topic.
    docs, lengths : numpy.ndarray of int32, shape (documents,)
        Their document numbers and lengths.
    tf : numpy.ndarray of int32, shape (columns, documents)
        The frequencies of the columns in them.
    """

    places: Integers
    docs: Integers32
    lengths: Integers32
    tf: Integers32


def find_judged(
    shard: Index,
    formula: Formula,
    columns: Sequence[Sequence[QueryColumn]],
    docnos: Sequence[Sequence[str]],
    excluded: Sequence[str] | None,
) -> list[FoundDocuments]:
    """Look up each topic's judged documents in an index; see `look_up_judgments`."""
    lengths = formula.lengths(shard)
    distinct = list(dict.fromkeys(docno for judged in docnos for docno in judged))
    numbers = dict(zip(distinct, shard.doc_numbers(distinct).tolist(), strict=True))
    by_topic = []
    for t, (query_columns, judged) in enumerate(zip(columns, docnos, strict=True)):
        docs = np.fromiter(map(numbers.__getitem__, judged), np.int32, len(judged))
        if excluded is not None and excluded[t] in judged:
            docs[judged.index(excluded[t])] = -1
        places = np.flatnonzero(docs >= 0)
        docs = docs[places]
        postings = formula.look_up(shard, query_columns) if docs.size else [None] * len(query_columns)
        by_topic.append(FoundDocuments(places, docs, lengths[docs], frequencies(postings, docs)))
    return by_topic


def _in_docno_order(docnos: Sequence[str], parts: Sequence[FoundDocuments], columns: int) -> FoundDocuments:
    """Join the documents of several shards, by increasing docno."""
    none = np.empty(0, np.int32)
    parts = parts or [FoundDocuments(np.empty(0, np.int64), none, none, np.empty((columns, 0), np.int32))]
    places, docs, lengths = (np.concatenate(arrays) for arrays in list(zip(*parts, strict=True))[:3])
    tf = np.concatenate([part.tf for part in parts], axis=1)
    names = [docnos[place] for place in places.tolist()]
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    return FoundDocuments(places[order], docs[order], lengths[order], tf[:, order])


def frequencies(postings: Sequence[Postings | None], docs: Integers32) -> Integers32:
    """Return the frequencies of columns in documents, shape (columns, documents)."""
    tf = np.zeros((len(postings), docs.size), np.int32)
    for row, each in zip(tf, postings, strict=True):
        if each is not None and each.docs.size:
            at = np.minimum(np.searchsorted(each.docs, docs), each.docs.size - 1)
            row[:] = np.where(each.docs[at] == docs, each.tfs[at], 0)
    return tf
