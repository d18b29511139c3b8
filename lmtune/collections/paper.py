"""The four collections of Metzler (SIGIR 2007), for users who have an index of the documents.

The paper does not list its training and test topics. The topics here are those of the author's related work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmtune.collections.dataset import Dataset
from lmtune.collections.names import Role, find_named, named_files
from lmtune.errors import InputError
from lmtune.io.qrels import read_qrels
from lmtune.io.topics import read_topics


@dataclass(frozen=True)
class PaperCollection:
    """A collection with TREC's topics and judgments.

    Attributes
    ----------
    name : str
        Name of the collection, and of its index under ``indexes/``.
    documents : str
        Description of the documents.
    parts : tuple of str
        Names of the files of topics and judgments in pyserini. A local file with the collection's name
        replaces all of them.
    train, test : str
        Training and test topics.
    docnos : str
        Prefix of the docnos; judgments of other documents are left out.
    prebuilt : str or None
        Name of pyserini's prebuilt index.
    """

    name: str
    documents: str
    parts: tuple[str, ...]
    train: str
    test: str
    docnos: str = ""
    prebuilt: str | None = None


_ADHOC = ("adhoc.51-100", "adhoc.101-150", "adhoc.151-200")

PAPER_COLLECTIONS = {
    known.name: known
    for known in (
        PaperCollection(
            "ap", "Associated Press 1988-89, TIPSTER disks 1 and 2", _ADHOC, "51-150", "151-200", "AP"
        ),
        PaperCollection(
            "wsj", "Wall Street Journal 1987-92, TIPSTER disks 1 and 2", _ADHOC, "51-150", "151-200", "WSJ"
        ),
        PaperCollection(
            "robust04",
            "TREC disks 4 and 5 without the Congressional Record",
            ("robust04",),
            "301-450",
            "601-700",
            prebuilt="robust04",
        ),
        PaperCollection("wt10g", "the WT10g web crawl", ("adhoc.451-550",), "451-500", "501-550"),
    )
}
"""The collections by name."""


def load_paper_collection(
    name: str, *, topic_fields: Sequence[str] = ("title",), need: Sequence[str]
) -> Dataset:
    """Load topics and judgments of one of the paper's collections.

    Parameters
    ----------
    name : str
        A key of `PAPER_COLLECTIONS`.
    topic_fields : sequence of {"title", "desc", "narr"}
        The fields of the query.
    need : sequence of {"topics", "qrels"}
        The parts to load; documents are in an index.

    Returns
    -------
    Dataset
        The collection without documents.

    Raises
    ------
    InputError
        If a file is missing and cannot be downloaded, is malformed, or two files have the same topic.
    """
    known = PAPER_COLLECTIONS[name]
    topics: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    topics_files, qrels_files = [], []
    for part in _parts("topics", known) if "topics" in need else ():
        path = find_named("topics", part)
        topics_files.append(str(path))
        for topic, text in read_topics(path, fields=topic_fields).items():
            if topic in topics:
                raise InputError("the topic is also in an earlier file", file=path, value=topic)
            topics[topic] = text
    for part in _parts("qrels", known) if "qrels" in need else ():
        path = find_named("qrels", part)
        qrels_files.append(str(path))
        for topic, judged in read_qrels(path).items():
            kept = {docno: gain for docno, gain in judged.items() if docno.startswith(known.docnos)}
            if kept:
                qrels.setdefault(topic, {}).update(kept)
    return Dataset(
        name=name,
        documents=None,
        topics=topics,
        qrels=qrels,
        topics_file=", ".join(topics_files) or None,
        qrels_file=", ".join(qrels_files) or None,
        split=(known.train, known.test),
        index=name,
        prebuilt=known.prebuilt,
    )


def _parts(role: Role, known: PaperCollection) -> tuple[str, ...]:
    return (known.name,) if known.name in named_files(role) else known.parts
