"""Protocols of an index: the data from which candidate pools are built."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers32
from lmtune.errors import InputError


class Postings(NamedTuple):
    """The documents that contain one term.

    Attributes
    ----------
    docs : numpy.ndarray of int32, shape (df,)
        Document numbers, ascending.
    tfs : numpy.ndarray of int32, shape (df,)
        Term frequency in each document, at least 1.
    """

    docs: Integers32
    tfs: Integers32


class Positions(NamedTuple):
    """The postings of a term with the positions of its occurrences.

    Attributes
    ----------
    docs, tfs : numpy.ndarray of int32, shape (df,)
        As in `Postings`.
    positions : numpy.ndarray of int32, shape (cf,)
        Token positions of the occurrences, from 0, ascending within each document; documents in the order
        of `docs`.
    """

    docs: Integers32
    tfs: Integers32
    positions: Integers32


class CollectionSize(NamedTuple):
    """The size of a collection.

    Attributes
    ----------
    terms : int
        Number of tokens, |C|.
    documents : int
        Number of non-empty documents; Lucene also counts only these.
    """

    terms: int
    documents: int

    @classmethod
    def of(cls, index: Index) -> CollectionSize:
        """Return the size of an index's collection."""
        return cls(index.total_terms, int(np.count_nonzero(index.lengths)))

    def plus(self, other: CollectionSize) -> CollectionSize:
        """Return the size of two collections together."""
        return CollectionSize(self.terms + other.terms, self.documents + other.documents)

    @property
    def mean_length(self) -> float:
        """Mean length of the non-empty documents, in tokens."""
        return self.terms / max(self.documents, 1)


class Extent(NamedTuple):
    """Length statistics of the collection that scoring needs.

    Attributes
    ----------
    longest : int
        Length of the longest document, in tokens, as the model counts it; at least 1.
    mean_length : float
        Mean length of the non-empty documents, in tokens.
    field_means : tuple of float
        Mean length of each field that the formula uses.
    """

    longest: int
    mean_length: float
    field_means: tuple[float, ...] = ()


class TermCounts(NamedTuple):
    """Collection statistics of a term.

    Attributes
    ----------
    cf : int
        Collection frequency: number of occurrences.
    df : int
        Document frequency: number of documents with the term.
    size : CollectionSize
        The size of the collection.
    """

    cf: int
    df: int
    size: CollectionSize


class Index(Protocol):
    """An inverted index of numbered documents.

    Documents are numbered from 0 to ``num_docs - 1``. The length of a document is its number of indexed
    tokens; the lengths sum to ``total_terms``.
    """

    @property
    def name(self) -> str:
        """The index's name in messages."""
        ...

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        ...

    @property
    def total_terms(self) -> int:
        """The number of tokens in the collection, |C|."""
        ...

    @property
    def lengths(self) -> Integers32:
        """Document lengths |D| in tokens, shape (num_docs,)."""
        ...

    @property
    def docno_rank(self) -> Integers32:
        """Each document's rank among the docnos in ascending code-point order, shape (num_docs,)."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest of the documents and of the analysis that made the index."""
        ...

    def analyze(self, text: str) -> list[str]:
        """Return the index terms of a query text in order, with repetitions."""
        ...

    def postings(self, term: str) -> Postings | None:
        """Return a term's postings, or None if the collection does not contain the term."""
        ...

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers."""
        ...

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos; -1 for a docno that the index does not have."""
        ...


class StoredIndex(Index, Protocol):
    """An index in a folder, to which further files can be added."""

    @property
    def path(self) -> Path:
        """The folder of the index."""


@runtime_checkable
class FieldedIndex(Protocol):
    """An index that can also have indexes of single fields."""

    def field(self, name: str) -> Index:
        """Return the index of one field, with the same document numbers.

        Raises
        ------
        InputError
            If the field was not indexed; the message has the command that does it.
        """
        ...


def field_index(index: Index, name: str) -> Index:
    """Return the index of one field of the documents.

    Raises
    ------
    InputError
        If the index does not have the field.
    """
    if not isinstance(index, FieldedIndex):
        raise InputError(
            f"the index of {index.name} has no fields", value=name, accepted="one that `lmtune index` built"
        )
    return index.field(name)


@runtime_checkable
class PositionalIndex(Protocol):
    """An index that can store term positions."""

    def positions(self, term: str) -> Positions | None:
        """Return a term's positions, or None if the collection does not contain the term.

        Raises
        ------
        InputError
            If positions were not stored; the message has the command that stores them.
        """
        ...


CONTENTS = "contents"
"""Name of the whole indexed text among the fields of documents."""
