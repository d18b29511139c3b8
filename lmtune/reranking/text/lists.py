"""Lists of documents with their texts, and a run's documents as such."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.datasets.collection import Collection
from lmtune.datasets.dataset import Dataset
from lmtune.datasets.texts import open_texts
from lmtune.errors import InputError, check_least
from lmtune.progress import Progress, silent
from lmtune.reranking.data import RankingData
from lmtune.reranking.sources import RunFeatures, in_order
from lmtune.reranking.text.options import TextOptions

_AT_A_TIME = 1024


class Texts(Protocol):
    """Documents' texts by docno."""

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return documents' texts, as a model is to read them.

        Raises
        ------
        InputError
            For a document without text.
        """


@dataclass(frozen=True)
class GivenTexts:
    """Documents' texts in memory.

    Attributes
    ----------
    by_docno : mapping of str to str
    """

    by_docno: Mapping[str, str]

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return documents' texts; see `Texts`."""
        try:
            return [self.by_docno[docno] for docno in docnos]
        except KeyError as error:
            raise InputError("a document without text", value=error.args[0]) from None


@dataclass(frozen=True, eq=False)
class TextLists(RankingData):
    """Queries, each with a list of documents, as `RankingData`, and all their texts.

    There are no features: their shape is (rows, 0).

    Attributes
    ----------
    topics : mapping of str to str
        The text of each query, by identifier.
    texts : Texts
        Those of the documents, by docno.
    options : TextOptions
        How they are cut.
    """

    topics: Mapping[str, str] = field(default_factory=dict)
    texts: Texts = field(default_factory=lambda: GivenTexts({}))
    options: TextOptions = field(default_factory=TextOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        for query in self.queries:
            if query not in self.topics:
                raise InputError("a query without text", value=query)

    @classmethod
    def of(
        cls,
        topics: Mapping[str, str],
        run: Mapping[str, Mapping[str, float]],
        texts: Texts | Mapping[str, str],
        options: TextOptions | None = None,
    ) -> TextLists:
        """Make lists of documents with labels.

        Parameters
        ----------
        topics : mapping of str to str
            Query texts by identifier.
        run : mapping of str to mapping of str to float
            The label of each query's documents, by docno, in the order that ties keep.
        texts : Texts, or mapping of str to str
            Those of the documents.
        options : TextOptions, optional
            The defaults by default.

        Raises
        ------
        InputError
            For a query without text or documents, and a label out of range.
        """
        labels = [label for documents in run.values() for label in documents.values()]
        return cls(
            np.empty((len(labels), 0), np.float32),
            np.asarray(labels, np.float32),
            np.cumsum([0, *map(len, run.values())], dtype=np.int64),
            tuple(run),
            tuple(docno for documents in run.values() for docno in documents),
            topics=topics,
            texts=GivenTexts(texts) if isinstance(texts, Mapping) else texts,
            options=options or TextOptions(),
        )

    def pairs(self, rows: ArrayLike) -> tuple[list[str], list[str]]:
        """Return the texts of rows' queries and documents.

        Raises
        ------
        InputError
            For a document without text.
        """
        chosen = np.asarray(rows, np.int64)
        queries = [self.topics[self.queries[q]] for q in self.query_of_row[chosen].tolist()]
        docnos = self.docnos or ()
        return queries, self.texts.of([docnos[row] for row in chosen.tolist()])

    def blocks(self, rows: int = _AT_A_TIME) -> Iterator[NDArray[np.int64]]:
        """Yield all rows, some at a time."""
        every = np.arange(self.labels.size)
        for first in range(0, every.size, rows):
            yield every[first : first + rows]

    def text_digest(self) -> str:
        """Return what tells these texts from others; every document is read.

        Raises
        ------
        InputError
            For a document without text.
        """
        digest = hashlib.blake2b(repr(self.options).encode(), digest_size=16)
        for rows in self.blocks():
            for texts in self.pairs(rows):
                for text in texts:
                    digest.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def check_texts(lists: Any) -> TextLists:
    """Return lists with texts as such; raise InputError for others."""
    if not isinstance(lists, TextLists):
        raise InputError("no texts to read", accepted="lists of a run, whose documents have text")
    return lists


@dataclass(frozen=True)
class TextSource:
    """Texts of a run's documents, as `lmtune.reranking.sources.ListSource` has it.

    Attributes
    ----------
    options : TextOptions
    depth : int
        Documents of a topic, from the top.
    """

    options: TextOptions
    depth: int

    def lists(
        self,
        run: Mapping[str, Mapping[str, float]],
        dataset: Dataset,
        collection: Collection,
        progress: Progress = silent,
    ) -> RunFeatures:
        """Take the best documents of a run's topics; labels are gains, as in `run_data`.

        Raises
        ------
        InputError
            For a bad depth, an empty run, a topic without text, or texts that cannot be had.
        """
        check_least("bad depth", self.depth, 1)
        texts = open_texts(collection, dataset, self.options.template, progress=progress)
        taken = {
            topic: {
                docno: max(0, dataset.qrels.get(topic, {}).get(docno, 0))
                for docno in in_order(scores)[: self.depth]
            }
            for topic, scores in run.items()
            if scores
        }
        if not taken:
            raise InputError("the run is empty", accepted="at least one topic")
        return RunFeatures(TextLists.of(dataset.topics, taken, texts, self.options), dataset, texts.index)

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return none: there are no features."""
        del fields
        return ()

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return what a model must remember."""
        del fields
        return {"text": asdict(self.options), "depth": self.depth}
