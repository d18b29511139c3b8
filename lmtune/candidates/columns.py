"""Documents of many topics as columns, one topic after another."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers, Integers32

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
