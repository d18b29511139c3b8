"""A document, and what a collection of them must offer."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from lmtune.errors import InputError, check_least


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


@runtime_checkable
class Changeable(Protocol):
    """A document source that can tell, without reading it all, whether it has changed."""

    def state(self) -> dict[str, object]:
        """Return by file what differs as soon as the file is written to, or replaced."""
        ...


@runtime_checkable
class Fielded(Protocol):
    """A document source whose documents have fields, parts with names of their own."""

    @property
    def fields(self) -> Collection[str]:
        """The fields' names, of files those of the first document."""
        ...

    def of_field(self, field: str) -> DocumentSource:
        """Return the same documents with this field's text alone, empty where one lacks it."""
        ...


@runtime_checkable
class Divisible(Protocol):
    """A document source that can be cut into sources of consecutive documents."""

    def parts(self, count: int, digest: str) -> Sequence[DocumentSource]:
        """Return parts of about equal size: `count`, or as many as there can be.

        Parameters
        ----------
        count : int
            How many, at least 1.
        digest : str
            The source's own `digest`, from which those of the parts follow.
        """
        ...


def parts_of(source: DocumentSource, count: int, digest: str) -> Sequence[DocumentSource]:
    """Cut a source into so many parts of consecutive documents, in order.

    Raises
    ------
    InputError
        Where it cannot be cut, or not into so many.
    """
    check_least("bad number of shards", count, 1)
    parts = source.parts(count, digest) if isinstance(source, Divisible) else [source]
    if len(parts) != count:
        raise InputError(
            "the documents cannot be cut into so many shards",
            file=source.name,
            value=count,
            accepted=f"at most {len(parts)}; a compressed file is one piece",
        )
    return parts


def cut(sizes: Sequence[int], count: int) -> list[slice]:
    """Cut pieces of some sizes into at most `count` runs of about equal size, each of one piece or more."""
    count = min(count, len(sizes))
    begins = np.cumsum([0, *sizes[:-1]]) if len(sizes) else np.zeros(0)
    bounds = np.searchsorted(begins, np.arange(1, count) * (sum(sizes) / max(count, 1)))
    for at in range(count - 1):
        least = bounds[at - 1] + 1 if at else 1
        bounds[at] = min(max(bounds[at], least), len(sizes) - count + at + 1)
    ends = [0, *bounds.tolist(), len(sizes)]
    return [slice(begin, end) for begin, end in pairwise(ends) if end > begin]


_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def check_fields(fields: Sequence[str]) -> None:
    """Raise `InputError` unless fields have names, of letters, digits and ``_``, each once."""
    for field in fields:
        if not _FIELD.fullmatch(field) or fields.count(field) > 1:
            raise InputError(
                "bad field of documents", value=field, accepted="names such as title,body, each once"
            )


def field_of(source: DocumentSource, field: str) -> DocumentSource:
    """Return a source's documents with one field's text alone.

    Raises
    ------
    InputError
        Where the source knows no fields, or not this one.
    """
    check_fields([field])
    if not isinstance(source, Fielded):
        raise InputError(
            f"the documents of {source.name} have no fields",
            value=field,
            accepted="JSON lines, TREC documents",
        )
    return source.of_field(field)


def check_held(source: DocumentSource, field: str) -> None:
    """Raise `InputError` unless a document has this field: they are read up to the first that has.

    Raises
    ------
    InputError
        Also as `field_of`.
    """
    view = field_of(source, field)
    if not any(document.text.strip() for batch in view.batches() for document in batch.read()):
        known = ", ".join(source.fields) if isinstance(source, Fielded) else ""
        raise InputError(
            f"no document of {source.name} has this field, or a word in it",
            value=field,
            accepted=known or "documents with fields",
        )


@contextlib.contextmanager
def unchanged(source: DocumentSource) -> Iterator[None]:
    """Read documents that must be the same at the end.

    Raises
    ------
    InputError
        At the end, if a `Changeable` source has changed meanwhile, naming the file.
    """
    before = source.state() if isinstance(source, Changeable) else {}
    yield
    after = source.state() if isinstance(source, Changeable) else {}
    changed = [file for file in before if after.get(file) != before[file]]
    if changed:
        raise InputError(
            "the file changed while it was indexed",
            file=changed[0],
            accepted="documents left alone meanwhile",
        )
