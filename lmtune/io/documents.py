"""The interface of document collections, and collections in memory."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from lmtune.errors import InputError, check_least
from lmtune.progress import quantity


class Document(NamedTuple):
    """One document: its identifier in runs and judgments, and its text."""

    docno: str
    text: str


class DocumentBatch(Protocol):
    """A picklable part of a collection that a worker process can read on its own."""

    @property
    def size(self) -> int:
        """Bytes of input, which the progress bar counts."""
        ...

    def read(self) -> Iterator[Document]:
        """Yield the batch's documents in collection order."""
        ...


class DocumentSource(Protocol):
    """A collection of documents that can be read in batches, in a fixed order."""

    @property
    def name(self) -> str:
        """The collection's name in messages."""
        ...

    @property
    def size(self) -> int:
        """Bytes of input over all batches; 0 if unknown in advance."""
        ...

    def batches(self) -> Iterator[DocumentBatch]:
        """Yield the batches in collection order."""
        ...

    def digest(self) -> str:
        """Return a hexadecimal digest of the documents; it differs for other documents."""
        ...

    def locate(self, docno: str) -> list[tuple[str, int]]:
        """Return (file, line) of every document with this docno; slow, for error messages."""
        ...


@runtime_checkable
class Changeable(Protocol):
    """A document source that detects changes without being read in full."""

    def state(self) -> dict[str, object]:
        """Return a value for each file that changes when the file is modified or replaced."""
        ...


@runtime_checkable
class Fielded(Protocol):
    """A document source whose documents consist of named fields."""

    @property
    def fields(self) -> Collection[str]:
        """The names of the fields; for files, those of the first document."""
        ...

    def of_field(self, field: str) -> DocumentSource:
        """Return the same documents with only this field's text; empty for documents without it."""
        ...


@runtime_checkable
class Divisible(Protocol):
    """A document source that can be split into sources of consecutive documents."""

    def parts(self, count: int, digest: str) -> Sequence[DocumentSource]:
        """Split the source into at most `count` parts of about equal size.

        Parameters
        ----------
        count : int
            Number of parts, at least 1. Sources that cannot be split so often return fewer.
        digest : str
            The digest of the whole source; the digests of the parts are derived from it.
        """
        ...


def cut_documents(source: DocumentSource, count: int, digest: str) -> Sequence[DocumentSource]:
    """Split a source into exactly `count` parts of consecutive documents, in order.

    Parameters
    ----------
    source : DocumentSource
        The documents.
    count : int
        Number of parts, at least 1.
    digest : str
        The digest of the source.

    Raises
    ------
    InputError
        If the source cannot be split into `count` parts.
    """
    check_least("bad number of shards", count, 1)
    parts = source.parts(count, digest) if isinstance(source, Divisible) else [source]
    if len(parts) != count:
        raise InputError(
            "the documents cannot be split into so many shards",
            file=source.name,
            value=count,
            accepted=f"at most {len(parts)}; compressed files are not split",
        )
    return parts


def cut_evenly(sizes: Sequence[int], count: int) -> list[slice]:
    """Group consecutive pieces into at most `count` nonempty groups of about equal total size."""
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
    """Raise `InputError` unless field names are distinct and consist of letters, digits and ``_``."""
    for name in fields:
        if not _FIELD.fullmatch(name) or fields.count(name) > 1:
            raise InputError(
                "bad field of documents", value=name, accepted="names such as title,body, each once"
            )


def field_of(source: DocumentSource, field: str) -> DocumentSource:
    """Return the documents of a source with only the text of one field.

    Raises
    ------
    InputError
        If the source has no fields, or not this one.
    """
    check_fields([field])
    if not isinstance(source, Fielded):
        raise InputError(
            f"the documents of {source.name} have no fields",
            value=field,
            accepted="JSON lines, TREC documents",
        )
    return source.of_field(field)


def check_field_present(source: DocumentSource, field: str) -> None:
    """Check that some document has text in this field; reading stops at the first such document.

    Raises
    ------
    InputError
        If no document has text in the field, and as `field_of`.
    """
    view = field_of(source, field)
    if not any(document.text.strip() for batch in view.batches() for document in batch.read()):
        known = ", ".join(source.fields) if isinstance(source, Fielded) else ""
        raise InputError(
            f"no document of {source.name} has text in this field",
            value=field,
            accepted=known or "documents with fields",
        )


@contextlib.contextmanager
def unchanged(source: DocumentSource) -> Iterator[None]:
    """Check that the documents do not change while the ``with`` block reads them.

    Raises
    ------
    InputError
        At the end of the block, if a `Changeable` source has changed; names the first changed file.
    """
    before = source.state() if isinstance(source, Changeable) else {}
    yield
    after = source.state() if isinstance(source, Changeable) else {}
    changed = [file for file in before if after.get(file) != before[file]]
    if changed:
        raise InputError(
            "the file changed while it was indexed",
            file=changed[0],
            accepted="files that do not change during indexing",
        )


_BATCH_BYTES = 1 << 20

_Documents = Sequence[Document] | Callable[[], Iterable[Document]]


@dataclass(frozen=True)
class ListBatch:
    """Documents in memory."""

    documents: tuple[Document, ...]
    size: int

    def read(self) -> Iterator[Document]:
        """Yield the documents."""
        yield from self.documents


@dataclass(frozen=True, repr=False)
class ListDocuments:
    """Documents in memory, or made anew whenever they are read: a DocumentSource.

    Parameters
    ----------
    name : str
        Name of the collection, for messages.
    documents : sequence of Document, or callable that returns an iterable of Document
        The documents in collection order; a callable must return the same documents at every call.
    fields : mapping of str to the same, optional
        For each field, the same documents with only that field's text.
    known_digest : str
        The digest of the documents, if already known; computed by default.
    """

    name: str
    documents: _Documents
    fields: Mapping[str, _Documents] = field(default_factory=dict)
    known_digest: str = ""

    def __repr__(self) -> str:
        """Show the name, and the number of documents in memory."""
        size = "" if callable(self.documents) else f", {quantity(len(self.documents), 'document')}"
        return f"ListDocuments({self.name!r}{size})"

    @property
    def size(self) -> int:
        """Bytes of text, as UTF-8; 0 if the documents come from a callable."""
        if callable(self.documents):
            return 0
        return sum(_text_size(document) for document in self.documents)

    def batches(self) -> Iterator[ListBatch]:
        """Yield batches of about 1 MiB of text.

        Raises
        ------
        InputError
            For a docno that is empty or contains white space.
        """
        batch: list[Document] = []
        size = 0
        for position, document in enumerate(self._all(), 1):
            if document.docno.split() != [document.docno]:
                raise InputError(
                    "bad document identifier",
                    file=self.name,
                    line=position,
                    value=document.docno,
                    accepted="a name without white space",
                )
            batch.append(document)
            size += _text_size(document)
            if size >= _BATCH_BYTES:
                yield ListBatch(tuple(batch), size)
                batch, size = [], 0
        if batch:
            yield ListBatch(tuple(batch), size)

    def digest(self) -> str:
        """Return a digest (BLAKE2b, 128 bits) of the docnos and texts."""
        if self.known_digest:
            return self.known_digest
        state = hashlib.blake2b(digest_size=16)
        for docno, text in self._all():
            for part in (docno.encode(), text.encode("utf-8", "surrogatepass")):
                state.update(f"{len(part)}\n".encode())
                state.update(part)
        return state.hexdigest()

    def of_field(self, field: str) -> ListDocuments:
        """Return the same documents with only this field's text."""
        if field not in self.fields:
            known = ", ".join(self.fields) or "documents with fields"
            raise InputError(f"the documents of {self.name} have no such field", value=field, accepted=known)
        return ListDocuments(self.name, self.fields[field])

    def locate(self, docno: str) -> list[tuple[str, int]]:
        """Return (collection name, position from 1) of every document with this docno."""
        return [
            (self.name, position)
            for position, document in enumerate(self._all(), 1)
            if document.docno == docno
        ]

    def parts(self, count: int, digest: str) -> list[ListDocuments]:
        """Return at most `count` parts with about equally many documents."""
        total = sum(1 for _ in self._all())
        return [
            ListDocuments(
                self.name,
                _slice(self.documents, part),
                {name: _slice(documents, part) for name, documents in self.fields.items()},
                f"{digest}/{number}of{count}",
            )
            for number, part in enumerate(cut_evenly([1] * total, count), 1)
        ]

    def _all(self) -> Iterable[Document]:
        return self.documents() if callable(self.documents) else self.documents


def _slice(documents: _Documents, part: slice) -> _Documents:
    if callable(documents):
        return partial(_read_slice, documents, part)
    return documents[part]


def _read_slice(documents: Callable[[], Iterable[Document]], part: slice) -> Iterable[Document]:
    return islice(documents(), part.start, part.stop)


def _text_size(document: Document) -> int:
    text = document.text
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
