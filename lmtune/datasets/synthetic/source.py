"""Synthetic collections by name: documents as postings or as text, topics and judgements."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lmtune.datasets.dataset import Dataset
from lmtune.datasets.synthetic.model import (
    COMMON_WORDS,
    PASSAGES,
    QUERIES,
    REFERENCE,
    VERSION,
    Shape,
    topic_model,
)
from lmtune.errors import InputError
from lmtune.formats.documents import Document, InvertedCollection
from lmtune.progress import Count, part_of, unseen

# A word ends in a vowel that no stemmer strips, has no two vowels in a row, and is longer than any
# stopword of its kind: all of lmtune's analyses leave it as it is.
_SYLLABLES = [consonant + vowel for consonant in "bdhjlmnprstvwz" for vowel in "aeiou"]
_LAST_SYLLABLES = [syllable for syllable in _SYLLABLES if syllable[-1] in "aou"]
# Coprime to the number of words of any number of syllables, and to powers of ten.
_STRIDE = 7919
_DIGITS = 7
_DOCNO_STRIDE = 7_654_321


def word(number: int, syllables: int) -> str:
    """Return a pronounceable word; different numbers give different words.

    Parameters
    ----------
    number : int
        From 0 to below 42 x 70 ** (syllables - 1).
    syllables : int
        At least 2.

    Examples
    --------
    >>> word(0, 2), word(1, 2), word(1, 3)
    ('baba', 'sopu', 'bisopu')
    """
    code = number * _STRIDE % (len(_LAST_SYLLABLES) * len(_SYLLABLES) ** (syllables - 1))
    code, last = divmod(code, len(_LAST_SYLLABLES))
    parts = [_LAST_SYLLABLES[last]]
    for _ in range(syllables - 1):
        code, syllable = divmod(code, len(_SYLLABLES))
        parts.append(_SYLLABLES[syllable])
    return "".join(reversed(parts))


def docnos(docs: NDArray[np.integer] | range, total: int) -> list[str]:
    """Return the names of documents, whose order is another than that of their numbers.

    Parameters
    ----------
    docs : numpy.ndarray of int or range
        Document numbers from 0 to below `total`.
    total : int
        How many documents there are, at most 10 ** 9.
    """
    digits = max(_DIGITS, len(str(total - 1)))
    codes = np.asarray(docs, np.int64) * _DOCNO_STRIDE % 10**digits
    return [f"syn-{code:0{digits}d}" for code in codes.tolist()]


PREFIX = "synthetic:"
MSMARCO = "msmarco"
NAMED = {
    "robust04": Shape(REFERENCE, 250),
    "small": Shape(4000, 50, seed=6),
    MSMARCO: Shape(PASSAGES, QUERIES),
}
"""Collections that have a name of their own."""

_SMALLEST, _MOST_TOPICS = 1000, 400
_DEFAULT_TOPICS = 250
_TERM_SYLLABLES, _COMMON_SYLLABLES, _PASSAGE_SYLLABLES = 3, 2, 4
_BATCH_DOCUMENTS = 2048
_MOST_TERMS = 5


def parse_shape(name: str) -> Shape:
    """Read the part of a name after ``synthetic:``.

    Parameters
    ----------
    name : str
        ``robust04``, ``small``, ``DOCUMENTS`` (with 250 topics) or ``DOCUMENTSxTOPICS``; ``msmarco`` or
        ``msmarco-DOCUMENTSxTOPICS``.

    Raises
    ------
    InputError
        For anything else, or numbers out of range.
    """
    if name in NAMED:
        return NAMED[name]
    match = re.fullmatch(rf"({MSMARCO}-)?([0-9]{{1,9}})(?:x([0-9]{{1,9}}))?", name)
    if match is not None:
        shape = Shape(int(match[2]), int(match[3] or _DEFAULT_TOPICS))
        # Passages share their words with each other's queries, and so many have room.
        most = shape.documents if match[1] else _MOST_TOPICS
        if shape.documents >= _SMALLEST and 1 <= shape.topics <= most:
            return shape
    raise InputError(
        "no such synthetic collection",
        value=PREFIX + name,
        accepted=f"{', '.join(PREFIX + known for known in NAMED)}, {PREFIX}DOCUMENTS or"
        f" {PREFIX}DOCUMENTSxTOPICS with {_SMALLEST:,} to {10**9 - 1:,} documents"
        f" and 1 to {_MOST_TOPICS} topics; {PREFIX}{MSMARCO}-DOCUMENTSxTOPICS with any number of topics",
    )


def load_synthetic(
    name: str, *, need: Collection[str] = ("documents", "topics", "qrels"), progress: Count | None = None
) -> Dataset:
    """Make a synthetic test collection.

    Document lengths are lognormal. Query terms occur by a negative binomial in the document's
    length, with lognormal document frequencies, and more often in the documents of the topic's
    area, by their affinity to the topic. Relevance is affinity as assessors see it, among pooled
    documents; see `lmtune.datasets.synthetic.drawing.judge`. Nothing is read or written, and the
    same name gives the same collection everywhere.

    Parameters
    ----------
    name : str
        See `parse_shape`.
    need : collection of {"documents", "topics", "qrels"}
        The parts to make. Judgements take drawing the whole collection (some seconds at Robust04's
        scale); the others take nothing.
    progress : callable, optional
        Called with (work done, work in all) while judgements are made.

    Returns
    -------
    Dataset
        Its documents are a `SyntheticDocuments`.

    Raises
    ------
    InputError
        For a name that stands for nothing.
    """
    kind = PassageDocuments if name.startswith(MSMARCO) else SyntheticDocuments
    documents = kind(PREFIX + name, parse_shape(name))
    return Dataset(
        name=documents.name,
        documents=documents if "documents" in need else None,
        topics=documents.topics() if "topics" in need else {},
        qrels=documents.qrels(progress=progress) if "qrels" in need else {},
        versions={"synthetic": str(VERSION)},
    )


@dataclass(frozen=True)
class SyntheticDocuments:
    """The documents of a synthetic collection: a DocumentSource that needs no text to be indexed.

    Parameters
    ----------
    name : str
        What to call the collection.
    shape : Shape
        Its size and seed.
    part : range, optional
        These documents alone; all by default.
    """

    name: str
    shape: Shape
    part: range | None = None

    @property
    def size(self) -> int:
        """0: the bytes of text are not known beforehand."""
        return 0

    def digest(self) -> str:
        """Return a digest (BLAKE2b, 128 bits) of the shape and the generator's version."""
        content = f"synthetic {VERSION} {self.shape.documents} {self.shape.topics}"
        content += f" {self.shape.seed}"
        if self.part is not None:
            content += f" {self.part.start} to {self.part.stop}"
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def locate(self, docno: str) -> list[tuple[str, int]]:
        """Return (collection name, position from 1) of every document of that name."""
        names = docnos(self._documents, self.shape.documents)
        return [(self.name, place) for place, name in enumerate(names, 1) if name == docno]

    def topics(self) -> dict[str, str]:
        """Return the queries by topic identifier, from 1; no two share a term."""
        return {str(topic + 1): " ".join(self._terms(topic)) for topic in range(self.shape.topics)}

    def qrels(
        self, *, threads: int | None = None, progress: Count | None = None
    ) -> dict[str, dict[str, int]]:
        """Return the judgements, docnos ascending.

        Parameters
        ----------
        threads : int, optional
            Threads over topics, by default the number of cores.
        progress : callable, optional
            Called with (work done, work in all).
        """
        from lmtune.datasets.synthetic.drawing import draw, judge

        first, second = (part_of(progress or unseen, step, 2) for step in range(2))
        drawn = draw(self.shape, threads=threads, progress=first)
        judged = judge(self.shape, drawn, threads=threads, progress=second)
        total = self.shape.documents
        return {
            str(topic): dict(sorted(zip(docnos(docs, total), gains.tolist(), strict=True)))
            for topic, (docs, gains) in enumerate(judged, 1)
        }

    def invert(self, progress: Count | None = None, *, threads: int | None = None) -> InvertedCollection:
        """Return the postings of all query terms, and of common words that hold the other tokens.

        Parameters
        ----------
        progress : callable, optional
            Called with (topics done, topics in all).
        threads : int, optional
            Threads over topics, by default the number of cores.
        """
        from lmtune.datasets.synthetic.drawing import draw, draw_common_words

        drawn = draw(self.shape, self.part, threads=threads, progress=progress)
        terms = [term for topic in range(self.shape.topics) for term in self._terms(topic)]
        terms += [word(rank, _COMMON_SYLLABLES) for rank in range(COMMON_WORDS)]
        postings = [postings for topic in drawn.topics for postings in topic.postings]
        postings += draw_common_words(self.shape, drawn.free, self._documents.start)
        names = docnos(self._documents, self.shape.documents)
        return InvertedCollection(names, drawn.lengths, terms, postings)

    def batches(self) -> Iterator[SyntheticBatch]:
        """Yield the documents as text, for other search engines; a text's words have no order."""
        from scipy.sparse import csr_array

        inverted = self.invert()
        starts = np.cumsum([0, *(len(docs) for docs, _ in inverted.postings)])
        docs, tfs = (np.concatenate(part) for part in zip(*inverted.postings, strict=True))
        by_term = csr_array((tfs, docs, starts), shape=(len(inverted.terms), len(self._documents)))
        by_document = by_term.tocsc()
        for begin in range(0, len(self._documents), _BATCH_DOCUMENTS):
            end = min(begin + _BATCH_DOCUMENTS, len(self._documents))
            rows = slice(by_document.indptr[begin], by_document.indptr[end])
            yield SyntheticBatch(
                inverted.docnos[begin:end],
                list(inverted.terms),
                np.diff(by_document.indptr[begin : end + 1]),
                by_document.indices[rows],
                by_document.data[rows],
            )

    def parts(self, count: int, digest: str) -> list[SyntheticDocuments]:  # noqa: ARG002
        """Return at most so many parts of about equally many documents; each is drawn by itself."""
        total = len(self._documents)
        count = min(count, total)
        bounds = [self._documents.start + total * number // count for number in range(count + 1)]
        return [replace(self, part=range(*bound)) for bound in pairwise(bounds)]

    @property
    def _documents(self) -> range:
        return range(self.shape.documents) if self.part is None else self.part

    def _terms(self, topic: int) -> list[str]:
        count = len(topic_model(self.shape, topic).terms)
        return [word(topic * _MOST_TERMS + number, _TERM_SYLLABLES) for number in range(count)]


@dataclass(frozen=True)
class PassageDocuments(SyntheticDocuments):
    """Passages of a synthetic collection in MS MARCO's shape: `lmtune.datasets.synthetic.passages`."""

    def digest(self) -> str:
        """Return a digest (BLAKE2b, 128 bits) of the shape and the generator's version."""
        return hashlib.blake2b(f"{MSMARCO} {super().digest()}".encode(), digest_size=16).hexdigest()

    def topics(self) -> dict[str, str]:
        """Return the queries by identifier, from 1."""
        from lmtune.datasets.synthetic.passages import draw_queries

        queries = enumerate(draw_queries(self.shape), 1)
        return {
            str(topic): " ".join(word(one, _PASSAGE_SYLLABLES) for one in query.words)
            for topic, query in queries
        }

    def qrels(
        self, *, threads: int | None = None, progress: Count | None = None
    ) -> dict[str, dict[str, int]]:
        """Return the judgements: of each topic its one or two relevant passages."""
        from lmtune.datasets.synthetic.passages import draw_queries

        del threads, progress
        relevant = [np.array(query.relevant) for query in draw_queries(self.shape)]
        total = self.shape.documents
        return {
            str(topic): dict.fromkeys(sorted(docnos(own, total)), 1) for topic, own in enumerate(relevant, 1)
        }

    def invert(self, progress: Count | None = None, *, threads: int | None = None) -> InvertedCollection:
        """Return the postings of all words."""
        from lmtune.datasets.synthetic.passages import draw_passages

        del threads
        lengths, postings = draw_passages(self.shape, self._documents, progress)
        held = [number for number, (docs, _) in enumerate(postings) if docs.size]
        terms = [word(number, _PASSAGE_SYLLABLES) for number in held]
        names = docnos(self._documents, self.shape.documents)
        return InvertedCollection(names, lengths, terms, [postings[number] for number in held])


@dataclass(frozen=True)
class SyntheticBatch:
    """Documents as terms and their frequencies, to be written out as text.

    Attributes
    ----------
    docnos : sequence of str
        Their names.
    vocabulary : list of str
        The words.
    counts : numpy.ndarray of int, shape (documents,)
        How many distinct terms each document holds.
    terms, tfs : numpy.ndarray of int
        Places in the vocabulary and frequencies, document by document.
    """

    docnos: Collection[str]
    vocabulary: list[str]
    counts: NDArray[np.integer]
    terms: NDArray[np.integer]
    tfs: NDArray[np.integer]

    @property
    def size(self) -> int:
        """Bytes of text, about: a word and a space have seven, at most."""
        return 7 * int(self.tfs.sum(dtype=np.int64))

    def read(self) -> Iterator[Document]:
        """Yield the documents."""
        ends = np.cumsum(self.counts)
        words = np.array(self.vocabulary, object)
        for docno, end, count in zip(self.docnos, ends, self.counts, strict=True):
            here = slice(end - count, end)
            yield Document(docno, " ".join(np.repeat(words[self.terms[here]], self.tfs[here])))
