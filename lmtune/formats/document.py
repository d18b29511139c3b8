"""A document, and what a collection of them must offer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Document(NamedTuple):
    """One document: its name in runs and judgements, and its text."""

    docno: str
    text: str


class DocumentBatch(Protocol):
    """A picklable piece of a collection that a worker process reads by itself."""

    @property
    def size(self) -> int:
        """How much work the batch is, in bytes of input (for the progress bar)."""
        ...

    def read(self) -> Iterator[Document]:
        """Yield the batch's documents in collection order."""
        ...


class DocumentSource(Protocol):
    """A collection of documents that can be read in batches, in a fixed order."""

    @property
    def name(self) -> str:
        """What to call the collection in messages."""
        ...

    @property
    def size(self) -> int:
        """Bytes of input over all batches, or 0 where that is not known beforehand."""
        ...

    def batches(self) -> Iterator[DocumentBatch]:
        """Yield the batches in collection order."""
        ...

    def digest(self) -> str:
        """Return a hexadecimal digest that changes whenever the documents do."""
        ...

    def locate(self, docno: str) -> list[tuple[str, int]]:
        """Return (file, line) of every document of that name: slow, for error messages."""
        ...
