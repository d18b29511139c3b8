"""Documents of many topics as columns, one topic after another; judged documents looked up in an index.

Judgments are looked up apart from the candidates: they may change alone.
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
        """Return topic t's term frequencies, shape (terms, documents); documents at least one."""
        block = self.tf[self.tf_start[t] : self.tf_start[t + 1]]
        return block.reshape(-1, int(self.start[t + 1] - self.start[t]))

    def take(self, kept: Sequence[NDArray[np.integer]]) -> Columns:
        """Return the documents at the places given for each topic, in that order.

        Parameters
        ----------
        kept : sequence of arrays of int
            Per topic, places among its documents.
        """
        start = starts(kept)
        terms = np.diff(self.tf_start) // np.maximum(np.diff(self.start), 1)
        tf_start = np.concatenate(([0], np.cumsum(terms * np.diff(start))))
        tf = np.empty(int(tf_start[-1]), np.int32)
        place = np.empty(int(start[-1]), np.int64)
        for t, at in enumerate(kept):
            place[start[t] : start[t + 1]] = at + self.start[t]
            if len(at):
                np.take(
                    self.block(t),
                    at,
                    axis=1,
                    out=tf[tf_start[t] : tf_start[t + 1]].reshape(-1, len(at)),
                    mode="clip",
                )
        columns = self.doc[place], self.length[place], self.gain[place]
        return Columns(start, tf_start, *columns, tf)


def topic_columns(doc: Integers32, length: Integers32, gain: Integers32, tf: Integers32) -> Columns:
    """Return one topic's documents; tf has shape (terms, documents)."""
    return Columns(starts([doc]), np.array([0, tf.size]), doc, length, gain, np.ascontiguousarray(tf).ravel())


def starts(parts: Sequence[Sized]) -> Integers:
    """Return where each part begins when they stand one after another, and where the last ends."""
    return np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64)


def join_columns(parts: Sequence[Columns]) -> Columns:
    """Put the topics of several one after another."""
    sizes = np.concatenate([np.diff(part.start) for part in parts])
    tf_sizes = np.concatenate([np.diff(part.tf_start) for part in parts])
    own = zip(*((part.doc, part.length, part.gain, part.tf) for part in parts), strict=True)
    joined = (np.concatenate(column).astype(np.int32, copy=False) for column in own)
    return Columns(
        np.concatenate(([0], np.cumsum(sizes))), np.concatenate(([0], np.cumsum(tf_sizes))), *joined
    )


class PoolJudgments(NamedTuple):
    """What a pool knows of its topics' judgments; the attributes are `CandidatePool`'s.

    Attributes
    ----------
    judged : Columns
        Judged documents that the collection holds.
    judgment_start : numpy.ndarray of int64, shape (topics + 1,)
        Where each topic's judgments begin in `judgments`.
    judgments : numpy.ndarray of int32
        All gains of 0 or more.
    unknown_documents : int
        Judgments whose document the collection lacks.
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
    """Look judgments up in an index.

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
        Judgments; a topic without an entry has no judged documents.
    exclude_self : bool
        Treat a topic's own document as one that the collection lacks, which is never retrieved.

    Returns
    -------
    numpy.ndarray of int32, Judgments
        The gain of each candidate, `UNJUDGED` where there is none; and all else.
    """
    usable = [{docno: gain for docno, gain in qrels.get(topic, {}).items() if gain >= 0} for topic in topics]
    parts: list[list[Found]] = [[] for _ in topics]
    if any(usable):
        docnos = [list(own) for own in usable]
        excluded = list(topics) if exclude_self else None
        given = {"formula": formula, "columns": columns, "docnos": docnos, "excluded": excluded}
        for base, found in over_shards(index, find_judged, **given):
            for own, part in zip(parts, found, strict=True):
                own.append(part._replace(docs=part.docs + np.int32(base)))
    # By document number, put back to its resting state after each topic: 0, as what is never written
    # takes no memory.
    gain_of = np.zeros(index.num_docs, np.int32)
    gain = np.empty(candidates.doc.size, np.int32)
    judged, all_gains = [], []
    known = 0
    for t, wanted in enumerate(usable):
        found_here = _in_docno_order(list(wanted), parts[t], len(columns[t]))
        gains = np.fromiter(wanted.values(), np.int32, len(wanted))
        all_gains.append(gains)
        known += found_here.docs.size
        own_gains = gains[found_here.places]
        gain_of[found_here.docs] = own_gains - UNJUDGED
        gain[candidates.rows(t)] = gain_of[candidates.doc[candidates.rows(t)]] + UNJUDGED
        gain_of[found_here.docs] = 0
        judged.append(topic_columns(found_here.docs, found_here.lengths, own_gains, found_here.tf))
    unknown = sum(map(len, usable)) - known
    return gain, PoolJudgments(join_columns(judged), starts(all_gains), np.concatenate(all_gains), unknown)


class Found(NamedTuple):
    """Those of one topic's judged documents that an index holds.

    Attributes
    ----------
    places : numpy.ndarray of int64, shape (documents,)
        Their places among all of the topic's.
    docs, lengths : numpy.ndarray of int32, shape (documents,)
        Their numbers and lengths.
    tf : numpy.ndarray of int32, shape (columns, documents)
        How often each column occurs in them.
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
) -> list[Found]:
    """Look each topic's documents up in an index, but for an excluded one; see `look_up_judgments`."""
    lengths = formula.lengths(shard)
    distinct = list(dict.fromkeys(docno for own in docnos for docno in own))
    numbers = dict(zip(distinct, shard.doc_numbers(distinct).tolist(), strict=True))
    found = []
    for t, (own_columns, own) in enumerate(zip(columns, docnos, strict=True)):
        docs = np.fromiter(map(numbers.__getitem__, own), np.int32, len(own))
        if excluded is not None and excluded[t] in own:
            docs[own.index(excluded[t])] = -1
        places = np.flatnonzero(docs >= 0)
        docs = docs[places]
        postings = formula.look_up(shard, own_columns) if docs.size else [None] * len(own_columns)
        found.append(Found(places, docs, lengths[docs], frequencies(postings, docs)))
    return found


def _in_docno_order(docnos: Sequence[str], parts: Sequence[Found], columns: int) -> Found:
    """Put the documents of several shards together, docnos ascending."""
    none = np.empty(0, np.int32)
    parts = parts or [Found(np.empty(0, np.int64), none, none, np.empty((columns, 0), np.int32))]
    places, docs, lengths = (np.concatenate(own) for own in list(zip(*parts, strict=True))[:3])
    tf = np.concatenate([own.tf for own in parts], axis=1)
    names = [docnos[place] for place in places.tolist()]
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    return Found(places[order], docs[order], lengths[order], tf[:, order])


def frequencies(postings: Sequence[Postings | None], docs: Integers32) -> Integers32:
    """Return how often each of some columns occurs in documents, shape (columns, documents)."""
    tf = np.zeros((len(postings), docs.size), np.int32)
    for row, found in zip(tf, postings, strict=True):
        if found is not None and found.docs.size:
            at = np.minimum(np.searchsorted(found.docs, docs), found.docs.size - 1)
            row[:] = np.where(found.docs[at] == docs, found.tfs[at], 0)
    return tf
