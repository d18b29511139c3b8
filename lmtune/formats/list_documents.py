"""Documents in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from lmtune.errors import InputError
from lmtune.formats.document import Document, cut

_BATCH_BYTES = 1 << 20

Documents = Sequence[Document] | Callable[[], Iterable[Document]]


@dataclass(frozen=True)
class ListBatch:
    """Documents in memory."""

    documents: tuple[Document, ...]
    size: int

    def read(self) -> Iterator[Document]:
        """Yield the documents."""
        yield from self.documents


@dataclass(frozen=True)
class ListDocuments:
    """Documents in memory, or made anew whenever they are read: a DocumentSource.

    Parameters
    ----------
    name : str
        What to call the collection.
    documents : sequence of Document, or callable that returns an iterable of them
        The documents in collection order; a callable must give the same ones every time.
    fields : mapping of str to the same, optional
        The same documents with one field's text alone, by the field's name.
    """

    name: str
    documents: Documents
    fields: Mapping[str, Documents] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of text, as UTF-8; 0 where the documents come from a callable."""
        if callable(self.documents):
            return 0
        return sum(_text_size(document) for document in self.documents)

    def batches(self) -> Iterator[ListBatch]:
        """Yield batches of about 1 MiB of text.

        Raises
        ------
        InputError
            For a docno that is empty or holds white space.
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
        state = hashlib.blake2b(digest_size=16)
        for docno, text in self._all():
            for part in (docno.encode(), text.encode("utf-8", "surrogatepass")):
                state.update(f"{len(part)}\n".encode())
                state.update(part)
        return state.hexdigest()

    def of_field(self, field: str) -> ListDocuments:
        """Return the same documents with one field's text alone."""
        if field not in self.fields:
            known = ", ".join(self.fields) or "documents with fields"
            raise InputError(f"the documents of {self.name} have no such field", value=field, accepted=known)
        return ListDocuments(self.name, self.fields[field])

    def locate(self, docno: str) -> list[tuple[str, int]]:
        """Return (collection name, position from 1) of every document of that name."""
        return [
            (self.name, position)
            for position, document in enumerate(self._all(), 1)
            if document.docno == docno
        ]

    def parts(self, count: int, digest: str) -> list[ListDocuments]:
        """Return at most so many parts of about equally many documents."""
        total = sum(1 for _ in self._all())
        return [
            ListPart(
                self.name,
                _some(self.documents, place),
                {name: _some(documents, place) for name, documents in self.fields.items()},
                f"{digest}/{number}of{count}",
            )
            for number, place in enumerate(cut([1] * total, count), 1)
        ]

    def _all(self) -> Iterable[Document]:
        return self.documents() if callable(self.documents) else self.documents


@dataclass(frozen=True)
class ListPart(ListDocuments):
    """Some consecutive documents of others, which one they are in `own_digest`."""

    own_digest: str = ""

    def digest(self) -> str:
        """Return the part's digest."""
        return self.own_digest


def _some(documents: Documents, place: slice) -> Documents:
    if callable(documents):
        return partial(_read_some, documents, place)
    return documents[place]


def _read_some(documents: Callable[[], Iterable[Document]], place: slice) -> Iterable[Document]:
    return islice(documents(), place.start, place.stop)


def _text_size(document: Document) -> int:
    text = document.text
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
