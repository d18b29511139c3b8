"""Texts of documents by docno, as templates filled with the documents' fields."""

from __future__ import annotations

import dataclasses
import itertools
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lmtune.collections.collection import AnyIndex, Collection
from lmtune.collections.dataset import Dataset
from lmtune.errors import InputError
from lmtune.index.lucene.index import LuceneIndex
from lmtune.index.protocol import CONTENTS
from lmtune.index.sharded import ShardedIndex
from lmtune.index.text_store import keep_texts
from lmtune.io.documents import DocumentSource, check_field_present
from lmtune.io.frames import as_documents
from lmtune.progress import Count, Progress, count_callback, note, silent


class Template(NamedTuple):
    """A text with placeholders for the fields of a document.

    Attributes
    ----------
    pieces : tuple of str
        The text before each field and after the last.
    fields : tuple of str
        The fields; `lmtune.index.protocol.CONTENTS` is the indexed text.
    """

    pieces: tuple[str, ...]
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse a template such as ``{title}. {contents}``; literal braces are doubled.

        Raises
        ------
        InputError
            If the template has no field, or a field is not a name.
        """
        pieces, fields = [""], []
        try:
            for before, field, form, conversion in string.Formatter().parse(text):
                pieces[-1] += before
                if field is not None:
                    if form or conversion or not field.isidentifier():
                        raise ValueError(field)
                    fields.append(field)
                    pieces.append("")
        except ValueError as error:
            raise _bad(text, str(error)) from None
        if not fields:
            raise _bad(text, "no field")
        return cls(tuple(pieces), tuple(fields))

    def check(self, documents: DocumentSource) -> None:
        """Raise `InputError` if no document has one of the fields."""
        for field in self.fields:
            if field != CONTENTS:
                check_field_present(documents, field)

    def fill(self, *texts: Sequence[str]) -> list[str]:
        """Return the documents' texts from the texts of each field, without white space at the ends."""
        first, *rest = self.pieces
        rows = (
            itertools.chain.from_iterable(zip(row, rest, strict=True)) for row in zip(*texts, strict=True)
        )
        return ["".join((first, *row)).strip() for row in rows]


def _bad(text: str, why: str) -> InputError:
    accepted = "names of fields in braces: {title}. {contents}"
    return InputError(f"bad template of text ({why})", value=text, accepted=accepted)


@dataclass(frozen=True)
class Texts:
    """The text of an index's documents, by docno.

    Attributes
    ----------
    index : ColumnarIndex, ShardedIndex or LuceneIndex
        The documents.
    template : Template
        The template of a text.
    empty : set of str
        Documents without text, among those requested so far.
    """

    index: AnyIndex
    template: Template
    empty: set[str] = dataclasses.field(default_factory=set, repr=False, compare=False)

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return the texts of documents in the order of the docnos; "" for a document without text.

        Raises
        ------
        InputError
            If a docno is not in the index.
        """
        names = list(docnos)
        numbers = self.index.doc_numbers(names)
        for at in np.flatnonzero(numbers < 0)[:1].tolist():
            raise InputError(
                f"{self.index.name} has no such document",
                value=names[at],
                accepted="docnos of the collection",
            )
        parts = [self.index.texts(numbers, field) for field in self.template.fields]
        rows = zip(names, zip(*parts, strict=True), strict=True)
        empty = {name for name, row in rows if not any(map(str.strip, row))}
        if empty and not self.empty:
            note(f"{self.index.name}: {min(empty)} has no text; documents without text are read as empty")
        self.empty.update(empty)
        filled = self.template.fill(*parts)
        return [text if name not in empty else "" for name, text in zip(names, filled, strict=True)]


def texts_for(
    index: AnyIndex,
    documents: Any = None,
    template: str = "{contents}",
    *,
    progress: Count | bool | None = None,
) -> Texts:
    """Return the texts of an index's documents; store them in an index of lmtune if necessary.

    Parameters
    ----------
    index : ColumnarIndex, ShardedIndex or LuceneIndex
        The index. Texts cannot be added to Lucene indexes and joined shards.
    documents : DocumentSource, or others, optional
        The indexed documents, in the formats of `lmtune.index_for`; required if the index has no texts.
    template : str
        A template for `Template.parse`.
    progress : callable or bool, optional
        Called with (bytes done, number of bytes) while texts are stored; True draws a progress bar.

    Raises
    ------
    InputError
        If the template is invalid, no document has one of its fields (checked before texts are stored), the
        documents are not those of the index, or the index has no texts.
    """
    parsed = Template.parse(template)
    fields = list(dict.fromkeys(parsed.fields))
    joined = isinstance(index, ShardedIndex) and index.manifest.joined
    writable = None if joined or isinstance(index, LuceneIndex) else index
    if documents is not None and writable is not None:
        source, report = as_documents(documents), count_callback(progress, "storing text")
        parsed.check(source)
        for field in fields:
            if keep_texts(source, writable, field, progress=report):
                note(f"{writable.name}: stored the documents' text ({field}) in {writable.path}")
    for field in fields:
        index.texts((), field)  # raises an error if the index has no texts
    return Texts(index, parsed)


def open_texts(
    collection: Collection,
    dataset: Dataset,
    template: str = "{contents}",
    *,
    index: AnyIndex | None = None,
    progress: Progress = silent,
) -> Texts:
    """Open the texts of a collection.

    Parameters
    ----------
    collection : Collection
        The options for its index and its documents.
    dataset : Dataset
        The loaded collection.
    template : str
        A template for `Template.parse`.
    index : ColumnarIndex, ShardedIndex or LuceneIndex, optional
        The collection's index, if it is already open.
    progress : Progress
        Called while documents are indexed and texts are stored.

    Raises
    ------
    InputError
        As `texts_for`; errors in the template are raised before anything is indexed.
    """
    parsed = Template.parse(template)
    if dataset.documents is not None:
        parsed.check(dataset.documents)
    opened = collection.open_index(dataset, progress=progress) if index is None else index
    documents = dataset.documents or collection.documents_beside()
    stage = f"storing text of {dataset.name}"
    return texts_for(opened, documents, template, progress=partial(progress, stage))
