"""Documents that misbehave on demand, for the tests of index building."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from lmtune.errors import InputError
from lmtune.io.documents import Document


@dataclass(frozen=True)
class MadeBatch:
    """Documents, then perhaps a misfortune; it claims a size that makes workers worth while."""

    documents: tuple[Document, ...]
    fate: str = ""
    size: int = 5 << 20

    def read(self) -> Iterator[Document]:
        yield from self.documents
        if self.fate == "input error":
            raise InputError("bad line", file="made.jsonl", line=7, value="x", accepted="y")
        if self.fate == "bug":
            raise ZeroDivisionError("made to fail")
        if self.fate == "unpicklable":
            raise type("LocalError", (Exception,), {})("made to fail oddly")
        if self.fate == "end":
            os._exit(3)
        if self.fate == "print":
            os.write(1, b"not a reply\n")
            print("neither", flush=True)
        if self.fate == "sleep":
            time.sleep(600)


@dataclass(frozen=True)
class MadeDocuments:
    """A DocumentSource of such batches."""

    made: tuple[MadeBatch, ...]
    name: str = "made"

    @property
    def size(self) -> int:
        return sum(batch.size for batch in self.made)

    def batches(self) -> Iterator[MadeBatch]:
        yield from self.made

    def digest(self) -> str:
        return hashlib.blake2b(repr(self.made).encode()).hexdigest()

    def locate(self, docno: str) -> list[tuple[str, int]]:
        everything = [document for batch in self.made for document in batch.documents]
        return [(self.name, at) for at, doc in enumerate(everything, 1) if doc.docno == docno]


def made_documents(count: int, *, per_batch: int, fate: str = "") -> MadeDocuments:
    """Make documents of which the last batch has a fate."""
    words = ["apple", "Berries", "the", "cherry", "dates", "élan"]
    documents = [
        Document(f"d{number * 7919 % 10007}", " ".join(words[: number % 7] * (1 + number % 3)))
        for number in range(count)
    ]
    batches = [MadeBatch(tuple(documents[at : at + per_batch])) for at in range(0, count, per_batch)]
    batches[-1] = MadeBatch(batches[-1].documents, fate)
    return MadeDocuments(tuple(batches))
