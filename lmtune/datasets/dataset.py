"""The triple that every job starts from: documents, topics and judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lmtune.showing import Shown

if TYPE_CHECKING:
    from lmtune.formats.documents import DocumentSource


@dataclass(frozen=True, repr=False)
class Dataset(Shown):
    """A test collection.

    Attributes
    ----------
    name : str
        What to call it in tables: ``pydocs``, the folder's name, the ``irds:`` identifier.
    documents : DocumentSource or None
        The documents; None where an existing index stands for them.
    topics : dict of str to str
        Query text by topic identifier, in the file's order.
    qrels : dict of str to dict of str to int
        Judgements: topic identifier to docno to gain. Gains below 0 mean "judged, but to be
        ignored as if unjudged"; see TREC conventions.
    topics_file, qrels_file : str or None
        Where they were read from, for messages and for the record of how a result was made.
    split : pair or None
        Topics to train and to test on where the collection is usually so split, as
        `lmtune.datasets.folds.make_folds` takes them.
    index, prebuilt : str or None
        Where there are no documents, the index under ``indexes/`` that stands for them, and
        pyserini's index of them.
    versions : dict of str to str
        What the content depends on beside the files (package versions of ``pydocs``).
    """

    name: str
    documents: DocumentSource | None
    topics: dict[str, str]
    qrels: dict[str, dict[str, int]]
    topics_file: str | None = None
    qrels_file: str | None = None
    split: tuple[str | Sequence[str], str | Sequence[str]] | None = None
    index: str | None = None
    prebuilt: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
