"""What an index must offer: everything that a candidate pool is built from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers32
from lmtune.errors import InputError


class Postings(NamedTuple):
    """The documents that hold one term.

    Attributes
    ----------
    docs : numpy.ndarray of int32, shape (df,)
        Document numbers, ascending.
    tfs : numpy.ndarray of int32, shape (df,)
        How often the term occurs in each; at least 1.
    """

    docs: Integers32
    tfs: Integers32


class Positions(NamedTuple):
    """Where a term stands in the documents that hold it.

    Attributes
    ----------
    docs, tfs : numpy.ndarray of int32, shape (df,)
        As of `Postings`.
    positions : numpy.ndarray of int32, shape (cf,)
        Its places among a document's tokens, from 0 on, ascending; document by document.
    """

    docs: Integers32
    tfs: Integers32
    positions: Integers32


class CollectionSize(NamedTuple):
    """How large a collection is.

    Attributes
    ----------
    terms : int
        Its tokens, |C|.
    documents : int
        Its documents that hold a token; Lucene counts no others.
    """

    terms: int
    documents: int

    @classmethod
    def of(cls, index: Index) -> CollectionSize:
        """Count an index's."""
        return cls(index.total_terms, int(np.count_nonzero(index.lengths)))

    def plus(self, other: CollectionSize) -> CollectionSize:
        """Return that of two collections together."""
        return CollectionSize(self.terms + other.terms, self.documents + other.documents)

    @property
    def mean_length(self) -> float:
        """The mean length of those documents, in tokens."""
        return self.terms / max(self.documents, 1)


class Extent(NamedTuple):
    """What scoring takes of all documents together.

    Attributes
    ----------
    longest : int
        The length of the longest, in tokens, as the model takes it; at least 1.
    mean_length : float
        The mean length of those that hold a token, in tokens.
    field_means : tuple of float
        The same of each field that a formula takes.
    """

    longest: int
    mean_length: float
    field_means: tuple[float, ...] = ()


class TermCounts(NamedTuple):
    """How often a term occurs.

    Attributes
    ----------
    cf : int
        Its occurrences in the collection.
    df : int
        The documents that hold it.
    size : CollectionSize
        How large the collection is.
    """

    cf: int
    df: int
    size: CollectionSize


class Index(Protocol):
    """An inverted index over numbered documents.

    Documents are numbered from 0 to ``num_docs - 1``. A document's length is its number of
    indexed tokens, so that the lengths add up to ``total_terms``.
    """

    @property
    def name(self) -> str:
        """What to call the index in messages."""
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
        """Each document's place among the docnos in ascending code-point order, (num_docs,)."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest of the documents and of the analysis that made the index."""
        ...

    def analyze(self, text: str) -> list[str]:
        """Turn query text into index terms, in order, repeats kept."""
        ...

    def postings(self, term: str) -> Postings | None:
        """Return the term's postings, or None where the collection lacks the term."""
        ...

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers."""
        ...

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos, -1 where the index lacks one."""
        ...


class StoredIndex(Index, Protocol):
    """An index in a folder, beside which more can be kept."""

    @property
    def path(self) -> Path:
        """The folder."""


@runtime_checkable
class FieldedIndex(Protocol):
    """An index that can have fields of its documents too."""

    def field(self, name: str) -> Index:
        """Return the index of one field: its documents have the same numbers there.

        Raises
        ------
        InputError
            Where it was not built; the message says which command does.
        """
        ...


def field_index(index: Index, name: str) -> Index:
    """Return the index of one field of an index's documents.

    Raises
    ------
    InputError
        Where the index has none.
    """
    if not isinstance(index, FieldedIndex):
        raise InputError(
            f"the index of {index.name} has no fields", value=name, accepted="one that `lmtune index` built"
        )
    return index.field(name)


@runtime_checkable
class PositionalIndex(Protocol):
    """An index that can have kept where terms stand."""

    def positions(self, term: str) -> Positions | None:
        """Return where a term stands, or None where the collection lacks the term.

        Raises
        ------
        InputError
            Where it was not kept; the message says which command does.
        """
        ...


CONTENTS = "contents"
"""What the text that is indexed is called among the fields of documents."""
