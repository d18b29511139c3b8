"""Documents' text by docno, as a reader of text takes it: fields put into a template."""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from lmtune.datasets.collection import AnyIndex, Collection
from lmtune.datasets.dataset import Dataset
from lmtune.errors import InputError
from lmtune.formats.documents import DocumentSource, check_held
from lmtune.indexing.index import CONTENTS
from lmtune.indexing.lucene.index import LuceneIndex
from lmtune.indexing.sharded import ShardedIndex
from lmtune.indexing.text_store import keep_texts
from lmtune.progress import Progress, note, silent


class Template(NamedTuple):
    """What a document's text is made of: fields between pieces of text.

    Attributes
    ----------
    pieces : tuple of str
        The text before each field, and behind the last.
    fields : tuple of str
        The fields; `lmtune.indexing.index.CONTENTS` is the text that is indexed.
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
    """

    index: AnyIndex
    template: Template

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return documents' texts, in the order given; an empty field is an empty one.

        Raises
        ------
        InputError
            For a docno that the index lacks, and a document none of whose fields has text.
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
        for name, row in zip(names, zip(*parts, strict=True), strict=True):
            if not any(map(str.strip, row)):
                raise InputError(
                    f"a document of {self.index.name} has no text",
                    value=name,
                    accepted=f"a word in one of: {', '.join(self.template.fields)}",
                )
        return self.template.fill(*parts)


def open_texts(
    collection: Collection,
    dataset: Dataset,
    template: str = "{contents}",
    *,
    index: AnyIndex | None = None,
    progress: Progress = silent,
) -> Texts:
    """Open a collection's texts; an index of lmtune's keeps them from then on.

    Parameters
    ----------
    collection : Collection
        What names its index and its documents.
    dataset : Dataset
        As it was loaded.
    template : str
        As `Template.parse` takes it.
    index : ColumnarIndex or LuceneIndex, optional
        Its index, where it is open already.
    progress : Progress
        Called while documents are indexed, and their text is kept.

    Returns
    -------
    Texts

    Raises
    ------
    InputError
        For a bad template, a field that no document has, told before any text is kept, and an index
        that has kept no text and stands alone.
    """
    parsed = Template.parse(template)
    fields = list(dict.fromkeys(parsed.fields))
    _check_held(dataset.documents, fields)
    opened = collection.open_index(dataset, progress=progress) if index is None else index
    _keep(collection, dataset, opened, fields, progress)
    for field in fields:
        opened.texts((), field)  # told now where there is none
    return Texts(opened, parsed)


def _keep(
    collection: Collection, dataset: Dataset, index: AnyIndex, fields: Sequence[str], progress: Progress
) -> None:
    """Keep the text of fields where the documents are here; Lucene and joined shards have their own."""
    if isinstance(index, LuceneIndex) or (isinstance(index, ShardedIndex) and index.manifest.joined):
        return
    source = dataset.documents or collection.documents_beside()
    if source is None:
        return
    if dataset.documents is None:
        _check_held(source, fields)
    for field in fields:
        report = partial(progress, f"keeping text of {dataset.name}")
        if keep_texts(source, index, field, progress=report):
            note(f"{dataset.name}: keeps the documents' text ({field}) in {index.path}")


def _check_held(source: DocumentSource | None, fields: Sequence[str]) -> None:
    for field in fields:
        if source is not None and field != CONTENTS:
            check_held(source, field)
