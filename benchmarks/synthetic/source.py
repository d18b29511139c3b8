"""Synthetic collections by name, written as folders of documents, topics and judgments."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lmtune.errors import InputError

from .drawing import Postings, draw, draw_common_words, judge
from .model import COMMON_WORDS, PASSAGES, QUERIES, REFERENCE, VERSION, Shape, topic_model
from .passages import draw_passages, draw_queries

# Words end in a vowel that no stemmer removes, have no two vowels in a row, and are longer than similar
# stopwords, so that no analyzer of lmtune changes them.
_SYLLABLES = [consonant + vowel for consonant in "bdhjlmnprstvwz" for vowel in "aeiou"]
_LAST_SYLLABLES = [syllable for syllable in _SYLLABLES if syllable[-1] in "aou"]
# coprime to the number of words with any number of syllables, and to powers of ten
_STRIDE = 7919
_DIGITS = 7
_DOCNO_STRIDE = 7_654_321


def word(number: int, syllables: int) -> str:
    """Return the pronounceable word with a number; different numbers give different words.

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
    """Return the names of documents; their order differs from that of the numbers.

    Parameters
    ----------
    docs : numpy.ndarray of int or range
        Document numbers from 0 to below `total`.
    total : int
        Number of documents, at most 10 ** 9.
    """
    digits = max(_DIGITS, len(str(total - 1)))
    codes = np.asarray(docs, np.int64) * _DOCNO_STRIDE % 10**digits
    return [f"syn-{code:0{digits}d}" for code in codes.tolist()]


MSMARCO = "msmarco"
NAMED = {
    "robust04": Shape(REFERENCE, 250),
    "small": Shape(4000, 50, seed=6),
    MSMARCO: Shape(PASSAGES, QUERIES),
}
"""Named collections."""

_SMALLEST, _MOST_TOPICS = 1000, 400
_DEFAULT_TOPICS = 250
_TERM_SYLLABLES, _COMMON_SYLLABLES, _PASSAGE_SYLLABLES = 3, 2, 4
_AT_A_TIME = 100_000
_MOST_TERMS = 5


def parse_shape(name: str) -> Shape:
    """Parse the name of a synthetic collection.

    Parameters
    ----------
    name : str
        ``robust04``, ``small``, ``DOCUMENTS`` (with 250 topics) or ``DOCUMENTSxTOPICS``; ``msmarco`` or
        ``msmarco-DOCUMENTSxTOPICS``.

    Raises
    ------
    InputError
        If the name is none of these, or a number is out of range.
    """
    if name in NAMED:
        return NAMED[name]
    match = re.fullmatch(rf"({MSMARCO}-)?([0-9]{{1,9}})(?:x([0-9]{{1,9}}))?", name)
    if match is not None:
        shape = Shape(int(match[2]), int(match[3] or _DEFAULT_TOPICS))
        # passages share words with queries of others, so there can be as many queries as documents
        most = shape.documents if match[1] else _MOST_TOPICS
        if shape.documents >= _SMALLEST and 1 <= shape.topics <= most:
            return shape
    raise InputError(
        "no such synthetic collection",
        value=name,
        accepted=f"{', '.join(NAMED)}, DOCUMENTS or DOCUMENTSxTOPICS with {_SMALLEST:,} to {10**9 - 1:,}"
        f" documents and 1 to {_MOST_TOPICS} topics; {MSMARCO}-DOCUMENTSxTOPICS with any number of topics",
    )


class Articles:
    """Documents similar to Robust04.

    Lengths are lognormal. Frequencies of query terms are negative binomial in the document's length, with
    lognormal document frequencies. They are higher in documents of the topic's area, by their affinity to the
    topic. Pooled documents with the highest affinity, as assessors see it, are relevant; see
    `synthetic.drawing.judge`.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def topics(self) -> dict[str, str]:
        """Return the queries by topic identifier, from 1; no two share a term."""
        return {str(topic + 1): " ".join(self._terms(topic)) for topic in range(self.shape.topics)}

    def qrels(self) -> dict[str, dict[str, int]]:
        """Return the judgments, docnos ascending."""
        judged = judge(self.shape, draw(self.shape))
        return {
            str(topic): dict(sorted(zip(docnos(docs, self.shape.documents), gains.tolist(), strict=True)))
            for topic, (docs, gains) in enumerate(judged, 1)
        }

    def invert(self, part: range) -> tuple[list[str], list[Postings]]:
        """Return the words of some documents and their postings: query terms and common words."""
        drawn = draw(self.shape, part)
        terms = [term for topic in range(self.shape.topics) for term in self._terms(topic)]
        terms += [word(rank, _COMMON_SYLLABLES) for rank in range(COMMON_WORDS)]
        postings = [postings for topic in drawn.topics for postings in topic.postings]
        return terms, postings + draw_common_words(self.shape, drawn.free, part.start)

    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield docnos and texts; the words of a text have no order."""
        for begin in range(0, self.shape.documents, _AT_A_TIME):
            part = range(begin, min(begin + _AT_A_TIME, self.shape.documents))
            terms, postings = self.invert(part)
            starts = np.cumsum([0, *(len(docs) for docs, _ in postings)])
            docs, tfs = (np.concatenate(column) for column in zip(*postings, strict=True))
            by_document = csr_array((tfs, docs, starts), shape=(len(terms), len(part))).tocsc()
            words, bounds = np.array(terms, object), by_document.indptr.tolist()
            names = docnos(part, self.shape.documents)
            for docno, (first, last) in zip(names, pairwise(bounds), strict=True):
                held = words[by_document.indices[first:last]]
                yield docno, " ".join(np.repeat(held, by_document.data[first:last]))

    def _terms(self, topic: int) -> list[str]:
        count = len(topic_model(self.shape, topic).terms)
        return [word(topic * _MOST_TERMS + number, _TERM_SYLLABLES) for number in range(count)]


class Passages(Articles):
    """Passages similar to MS MARCO; see `synthetic.passages`."""

    def topics(self) -> dict[str, str]:
        """Return the queries by identifier, from 1."""
        queries = enumerate(draw_queries(self.shape), 1)
        return {
            str(topic): " ".join(word(one, _PASSAGE_SYLLABLES) for one in query.words)
            for topic, query in queries
        }

    def qrels(self) -> dict[str, dict[str, int]]:
        """Return the judgments: one or two relevant passages for each topic."""
        total = self.shape.documents
        return {
            str(topic): dict.fromkeys(sorted(docnos(np.array(query.relevant), total)), 1)
            for topic, query in enumerate(draw_queries(self.shape), 1)
        }

    def invert(self, part: range) -> tuple[list[str], list[Postings]]:
        """Return the words of some passages and their postings."""
        _, postings = draw_passages(self.shape, part)
        held = [number for number, (docs, _) in enumerate(postings) if docs.size]
        return [word(number, _PASSAGE_SYLLABLES) for number in held], [postings[number] for number in held]


def collection(name: str, home: Path | None = None) -> str:
    """Return the folder of a synthetic collection; write it if it is missing.

    The same name gives the same collection on every machine.

    Parameters
    ----------
    name : str
        A name for `parse_shape`, or a folder, which is returned unchanged.
    home : pathlib.Path, optional
        Folder of the collections; a temporary one by default.
    """
    if Path(name).is_dir():
        return name
    shape = parse_shape(name)
    made = Passages(shape) if name.startswith(MSMARCO) else Articles(shape)
    home = Path(tempfile.gettempdir(), f"lmtune-synthetic-{VERSION}") if home is None else home
    folder = home / name
    if not folder.exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            new = Path(scratch, "new")
            new.mkdir()
            _write(made, new)
            if not folder.exists():
                new.rename(folder)
    return str(folder)


def _write(made: Articles, folder: Path) -> None:
    with (folder / "docs.jsonl").open("w", encoding="utf-8") as file:
        for docno, text in made.documents():
            file.write(json.dumps({"id": docno, "contents": text}) + "\n")
    topics, qrels = made.topics().items(), made.qrels().items()
    (folder / "topics.tsv").write_text("".join(f"{topic}\t{text}\n" for topic, text in topics))
    lines = [f"{topic} 0 {docno} {gain}\n" for topic, own in qrels for docno, gain in own.items()]
    (folder / "qrels.txt").write_text("".join(lines))
