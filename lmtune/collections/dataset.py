"""Test collections: documents, topics and judgments, and the check that they match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.io.qrels import find_judgment
from lmtune.progress import quantity
from lmtune.showing import Shown

if TYPE_CHECKING:
    from lmtune.io.documents import DocumentSource


@dataclass(frozen=True, repr=False)
class Dataset(Shown, by="summaries.dataset"):
    """A test collection.

    Attributes
    ----------
    name : str
        Name for tables: ``pydocs``, the folder's name, or the ``irds:`` identifier.
    documents : DocumentSource or None
        The documents; None if an existing index replaces them.
    topics : dict of str to str
        Query text by topic identifier, in the order of the file.
    qrels : dict of str to dict of str to int
        Gains by topic identifier and docno. As in TREC, documents with gains below 0 count as unjudged.
    topics_file, qrels_file : str or None
        The files of topics and judgments, for messages and for the record of a result.
    split : pair or None
        The usual training and test topics of the collection, as arguments of
        `lmtune.collections.folds.make_folds`.
    index, prebuilt : str or None
        For a collection without documents, the name of its index under ``indexes/``, and of pyserini's
        prebuilt index.
    versions : dict of str to str
        Versions of packages on which the content depends (``pydocs``).
    exclude_self : bool
        Whether each topic excludes the document whose docno is the topic's identifier.
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
    exclude_self: bool = False


class CheckedDataset(NamedTuple):
    """A test collection with matching topics, judgments and documents.

    Attributes
    ----------
    dataset : Dataset
        The collection, with judgments of its own topics only.
    unknown_topics : int
        Number of topics that were removed from the judgments because they are not in the topics.
    unknown_docnos : int
        Number of judged documents outside the collection. They stay in the judgments, so that relevant ones
        count as not retrieved, as in trec_eval.
    """

    dataset: Dataset
    unknown_topics: int
    unknown_docnos: int


class SplitTopics(NamedTuple):
    """Topics with and without relevant documents.

    Attributes
    ----------
    usable, skipped : list of str
        The topics with and without a relevant document (gain 1 or more), in the dataset's order.
    """

    usable: list[str]
    skipped: list[str]


def check_dataset(
    dataset: Dataset,
    *,
    doc_numbers: Callable[[Sequence[str]], NDArray[np.integer]] | None = None,
    ignore_unknown: bool = False,
) -> CheckedDataset:
    """Check that the judgments match the topics and the documents.

    Parameters
    ----------
    dataset : Dataset
        The collection.
    doc_numbers : callable, optional
        The index's method of this name. It returns the numbers of docnos, -1 for unknown ones. Without it
        documents are not checked.
    ignore_unknown : bool
        Remove judgments of unknown topics instead of raising, and allow that all judged documents are
        unknown.

    Returns
    -------
    CheckedDataset

    Raises
    ------
    InputError
        If a judgment has an unknown topic or all judged documents are unknown, unless `ignore_unknown`. The
        message has the line of the first such judgment.
    """
    unknown_topics = [topic for topic in dataset.qrels if topic not in dataset.topics]
    if unknown_topics and not ignore_unknown:
        raise _unknown_topic(dataset, unknown_topics)
    if unknown_topics:
        kept = {topic: dataset.qrels[topic] for topic in dataset.qrels if topic in dataset.topics}
        dataset = replace(dataset, qrels=kept)
    unknown_docnos: list[str] = []
    if doc_numbers is not None:
        docnos = list(dict.fromkeys(docno for judged in dataset.qrels.values() for docno in judged))
        missing = np.flatnonzero(np.asarray(doc_numbers(docnos)) < 0)
        unknown_docnos = [docnos[position] for position in missing]
    if unknown_docnos and len(unknown_docnos) == len(docnos) and not ignore_unknown:
        raise _unknown_docno(dataset, unknown_docnos)
    return CheckedDataset(dataset, len(unknown_topics), len(unknown_docnos))


def split_topics(dataset: Dataset) -> SplitTopics:
    """Separate topics with and without a relevant document.

    Parameters
    ----------
    dataset : Dataset
        The collection; a topic without judgments has no relevant document.

    Returns
    -------
    SplitTopics

    Raises
    ------
    InputError
        If no topic has a relevant document.
    """
    usable: list[str] = []
    skipped: list[str] = []
    for topic in dataset.topics:
        gains = dataset.qrels.get(topic, {}).values()
        (usable if any(gain > 0 for gain in gains) else skipped).append(topic)
    if not usable:
        raise InputError(
            f"no topic of {dataset.topics_file or dataset.name} has a relevant document here",
            file=dataset.qrels_file or dataset.name,
            accepted="judgments with a gain of 1 or more for at least one of the topics",
        )
    return SplitTopics(usable, skipped)


def _unknown_topic(dataset: Dataset, unknown: list[str]) -> InputError:
    lines = sum(len(dataset.qrels[topic]) for topic in unknown)
    return InputError(
        f"judgment of a topic that is not in {dataset.topics_file or 'the topics'}"
        f" ({quantity(len(unknown), 'such topic')} in all, {quantity(lines, 'judgment')})",
        file=dataset.qrels_file or dataset.name,
        line=_line(dataset, unknown[0], None),
        value=unknown[0],
        accepted=f"a topic such as {next(iter(dataset.topics), 'those in the topics file')},"
        " or add --ignore-unknown to ignore such judgments",
    )


def _unknown_docno(dataset: Dataset, unknown: list[str]) -> InputError:
    topic = next(topic for topic, judged in dataset.qrels.items() if unknown[0] in judged)
    return InputError(
        f"no judged document is in the collection ({quantity(len(unknown), 'document')} in all)",
        file=dataset.qrels_file or dataset.name,
        line=_line(dataset, topic, unknown[0]),
        value=unknown[0],
        accepted="a docno of the collection, or add --ignore-unknown to count such documents as"
        " never retrieved, as trec_eval does",
    )


def _line(dataset: Dataset, topic: str, docno: str | None) -> int | None:
    if dataset.qrels_file is None or not Path(dataset.qrels_file).is_file():
        return None
    return find_judgment(dataset.qrels_file, topic, docno)
