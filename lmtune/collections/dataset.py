"""The triple that every job starts from: documents, topics and judgments; whether they belong together."""

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
        What to call it in tables: ``pydocs``, the folder's name, the ``irds:`` identifier.
    documents : DocumentSource or None
        The documents; None where an existing index stands for them.
    topics : dict of str to str
        Query text by topic identifier, in the file's order.
    qrels : dict of str to dict of str to int
        Judgments: topic identifier to docno to gain. Gains below 0 mean "judged, but to be
        ignored as if unjudged"; see TREC conventions.
    topics_file, qrels_file : str or None
        Where they were read from, for messages and for the record of how a result was made.
    split : pair or None
        Topics to train and to test on where the collection is usually so split, as
        `lmtune.collections.folds.make_folds` takes them.
    index, prebuilt : str or None
        Where there are no documents, the index under ``indexes/`` that stands for them, and
        pyserini's index of them.
    versions : dict of str to str
        What the content depends on beside the files (package versions of ``pydocs``).
    exclude_self : bool
        Whether each topic's own document, whose docno is the topic's identifier, is left out of rankings.
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
    """A test collection whose parts belong together.

    Attributes
    ----------
    dataset : Dataset
        The judgments are only of topics that it has.
    unknown_topics : int
        How many topics were left out of the judgments, because there is no such topic.
    unknown_docnos : int
        How many judged documents the collection lacks. They stay in the judgments, so that a
        relevant one counts as never retrieved, as in trec_eval.
    """

    dataset: Dataset
    unknown_topics: int
    unknown_docnos: int


class SplitTopics(NamedTuple):
    """Topics by whether anything can be learnt from them.

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
    """Check that every judgment is of a topic and of a document that are there.

    Parameters
    ----------
    dataset : Dataset
        What to check.
    doc_numbers : callable, optional
        The index's method of that name: it takes docnos, and returns their numbers, -1 where the
        index lacks one. Without it documents are not checked.
    ignore_unknown : bool
        Leave unknown topics out instead of raising, and let all judged documents be unknown.

    Returns
    -------
    CheckedDataset

    Raises
    ------
    InputError
        At the first judgment, in the file's order, of an unknown topic, or where no judged document
        is known, unless `ignore_unknown`.
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
    """Separate the topics that have a relevant document from those that have none.

    Parameters
    ----------
    dataset : Dataset
        Topics without judgments count as having no relevant document.

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
        f"judgment of a topic that {dataset.topics_file or 'the topics'} lacks"
        f" ({quantity(len(unknown), 'such topic')} in all, {quantity(lines, 'judgment')})",
        file=dataset.qrels_file or dataset.name,
        line=_line(dataset, unknown[0], None),
        value=unknown[0],
        accepted=f"a topic such as {next(iter(dataset.topics), 'those in the topics file')},"
        " or add --ignore-unknown to leave such judgments out",
    )


def _unknown_docno(dataset: Dataset, unknown: list[str]) -> InputError:
    topic = next(topic for topic, judged in dataset.qrels.items() if unknown[0] in judged)
    return InputError(
        f"the collection lacks every judged document ({quantity(len(unknown), 'document')} in all)",
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
