"""A collection that comes as postings instead of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lmtune.progress import Count


class InvertedCollection(NamedTuple):
    """What an index of a collection holds, in memory.

    Attributes
    ----------
    docnos : sequence of str
        Distinct names, in document order.
    lengths : numpy.ndarray of int32, shape (documents,)
        Document lengths in tokens: the sums of the documents' term frequencies.
    terms : sequence of str
        The vocabulary, in any order.
    postings : sequence of (numpy.ndarray of int32, numpy.ndarray of int), shapes (df,)
        Of each term in that order: document numbers, ascending, and frequencies of at least 1.
    """

    docnos: Sequence[str]
    lengths: NDArray[np.int32]
    terms: Sequence[str]
    postings: Sequence[tuple[NDArray[np.int32], NDArray[Any]]]


@runtime_checkable
class Invertible(Protocol):
    """A document source that can give its postings without going through its text."""

    def invert(self, progress: Count | None = None) -> InvertedCollection:
        """Return the postings of every term.

        Parameters
        ----------
        progress : callable, optional
            Called with (work done, work in all), in units of the source's own.
        """
        ...
