"""Documents' text by docno, as a reader of text takes it: fields put into a template."""

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
from lmtune.io.documents import DocumentSource, check_held
from lmtune.io.frames import as_documents
from lmtune.progress import Count, Progress, counted, note, silent


class Template(NamedTuple):
    """What a document's text is made of: fields between pieces of text.

    Attributes
    ----------
    pieces : tuple of str
        The text before each field, and behind the last.
    fields : tuple of str
        The fields; `lmtune.index.protocol.CONTENTS` is the text that is indexed.
    """

    pieces: tuple[str, ...]
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Read a template such as ``{title}. {contents}``; braces of the text itself come twice.

        Raises
        ------
        InputError
            For a template without a field, or one that is no name.
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
        """Raise `InputError` for a field that no document has."""
        for field in self.fields:
            if field != CONTENTS:
                check_held(documents, field)

    def fill(self, *texts: Sequence[str]) -> list[str]:
        """Return documents' texts, given each field's; white space at the ends goes."""
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
        What a text is made of.
    empty : set of str
        The documents that were asked for and have no text.
    """

    index: AnyIndex
    template: Template
    empty: set[str] = dataclasses.field(default_factory=set, repr=False, compare=False)

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return documents' texts, in the order given; of a document without text an empty one.

        Raises
        ------
        InputError
            For a docno that the index lacks.
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
    """Return the texts of an index's documents; an index of lmtune's keeps them from then on.

    Parameters
    ----------
    index : ColumnarIndex, ShardedIndex or LuceneIndex
        The index. Lucene's, and shards that were joined, have the text that they were built with.
    documents : DocumentSource, or others, optional
        What was indexed, as `lmtune.index_for` takes it; needed where the index does not keep the text.
    template : str
        As `Template.parse` takes it.
    progress : callable or bool, optional
        Called with (bytes done, bytes in all) while text is kept; True draws a bar.

    Raises
    ------
    InputError
        For a bad template, a field that no document has, told before any text is kept, documents that
        are not those of the index, and text that is not kept.
    """
    parsed = Template.parse(template)
    fields = list(dict.fromkeys(parsed.fields))
    joined = isinstance(index, ShardedIndex) and index.manifest.joined
    own = None if joined or isinstance(index, LuceneIndex) else index
    if documents is not None and own is not None:
        source, report = as_documents(documents), counted(progress, "keeping text")
        parsed.check(source)
        for field in fields:
            if keep_texts(source, own, field, progress=report):
                note(f"{own.name}: keeps the documents' text ({field}) in {own.path}")
    for field in fields:
        index.texts((), field)  # told now where there is none
    return Texts(index, parsed)


def open_texts(
    collection: Collection,
    dataset: Dataset,
    template: str = "{contents}",
    *,
    index: AnyIndex | None = None,
    progress: Progress = silent,
) -> Texts:
    """Open a collection's texts.

    Parameters
    ----------
    collection : Collection
        What names its index and its documents.
    dataset : Dataset
        As it was loaded.
    template : str
        As `Template.parse` takes it.
    index : ColumnarIndex, ShardedIndex or LuceneIndex, optional
        Its index, where it is open already.
    progress : Progress
        Called while documents are indexed, and their text is kept.

    Raises
    ------
    InputError
        As `texts_for`; what is wrong with the template is told before anything is indexed.
    """
    parsed = Template.parse(template)
    if dataset.documents is not None:
        parsed.check(dataset.documents)
    opened = collection.open_index(dataset, progress=progress) if index is None else index
    documents = dataset.documents or collection.documents_beside()
    stage = f"keeping text of {dataset.name}"
    return texts_for(opened, documents, template, progress=partial(progress, stage))
