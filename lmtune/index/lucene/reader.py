"""Read a Lucene index: live documents, postings, lengths, docnos, query analysis."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers, Integers32
from lmtune.errors import InputError, PathLike
from lmtune.index.columns import SMALL_BYTES
from lmtune.index.lucene.java import FREQS, POSITIONS, loops
from lmtune.index.protocol import CONTENTS
from lmtune.io.line_documents import keys_with_text, parse_jsonl
from lmtune.io.trec_documents import TEXT_ELEMENTS, element_names, news_text, without_markup
from lmtune.progress import Count
from lmtune.strict_json import parse_json

RAW = "raw"
"""The field in which Anserini stores raw documents."""
_SAMPLE = 1000
"""Number of documents that are searched for a field."""

Get = Callable[[str], str | None]
"""Returns a stored field of one document, or None if the document does not have it."""


def field_text(path: Path, get: Get, field: str) -> str | None:
    """Return the text of a document's field, or None if it is not stored.

    The field is stored separately, or is a part of the raw document: JSON or a TREC news document.

    Parameters
    ----------
    path : path
        The index, for messages.
    get : callable
        Returns the document's stored fields.
    field : str
        The field; `CONTENTS` is the indexed text.

    Raises
    ------
    InputError
        If the raw document is malformed JSON.
    """
    text, raw = get(field), get(RAW)
    if text is not None or raw is None:
        return text
    if not raw.lstrip().startswith("{"):
        elements = news_text(raw, TEXT_ELEMENTS if field == CONTENTS else (field.upper(),))
        return elements or (without_markup(raw) if field == CONTENTS else "")
    try:
        line = json.dumps(parse_json(raw, infinite=True)).encode()
    except ValueError as error:
        raise InputError(f"a stored document is not JSON ({error})", file=path, value=raw) from None
    [(_, _, text)] = parse_jsonl([line], path, None if field == CONTENTS else field)
    return text


def check_stored(
    path: Path, documents: Iterable[Get], field: str, names: Callable[[], Iterator[str]]
) -> None:
    """Raise `InputError` if none of an index's first documents has a field.

    Parameters
    ----------
    path : path
        The index.
    documents : iterable of callables
        For each document, a function that returns its stored fields.
    field : str
        The field.
    names : callable
        Returns the names of the first document's stored fields.
    """
    first = list(itertools.islice(documents, _SAMPLE))
    if not first or any(field_text(path, get, field) for get in first):
        return
    known = [name for name in names() if name not in ("id", RAW)]
    raw = first[0](RAW)
    if raw is not None:
        joined = raw.replace("\n", " ").encode()
        known += keys_with_text(joined) if joined.lstrip().startswith(b"{") else element_names(joined)
    raise InputError(
        f"none of the index's first {len(first):,} documents stores this text",
        file=path,
        value=field,
        accepted=", ".join(dict.fromkeys(known))
        or "an index with text: lmtune index ... --engine lucene --keep-text",
    )


ID = "id"
"""The field in which Anserini stores docnos."""

_SEGMENTS = re.compile(r"segments_([0-9a-z]+)")
_ACCEPTED = "a folder that Lucene or Anserini wrote, such as `lmtune index --engine lucene` makes"


class _Leaf(NamedTuple):
    """A segment; its live documents are numbered from `first`."""

    reader: Any
    first: int
    size: int
    numbers: Integers32 | None  # number of each document of Lucene, -1 if deleted; None if all are live
    live: Integers | None  # Lucene's numbers of the live documents; None if all are live


def commit_digest(path: PathLike) -> str:
    """Return a digest of a Lucene index's last commit, without Java.

    The commit file lists all segments with their random identifiers and deletions: any change to the index
    changes the digest.

    Raises
    ------
    InputError
        If there is no Lucene index.
    """
    folder = Path(path)
    commits = []
    try:
        commits = [
            (int(match[1], 36), file)
            for file in folder.iterdir()
            if (match := _SEGMENTS.fullmatch(file.name)) is not None
        ]
        if commits:
            return hashlib.sha256(max(commits)[1].read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(
            f"cannot read the index: {error.strerror}", file=folder, accepted=_ACCEPTED
        ) from None
    raise InputError("not a Lucene index: no segments file", file=folder, accepted=_ACCEPTED)


class LuceneReader:
    """An open Lucene index. Documents are numbered in Lucene's order, without deleted ones.

    Parameters
    ----------
    path : path-like
        The folder of the index.

    Attributes
    ----------
    num_docs : int
        Number of live documents.

    Raises
    ------
    InputError
        If there is no index, Lucene cannot read it, or it has no frequencies or no docnos.
    MissingExtraError
        If pyserini is not installed.
    """

    def __init__(self, path: PathLike) -> None:
        commit_digest(path)
        self.path = Path(path)
        self._loops = loops()
        load = self._loops.jnius.autoclass
        self._load = load
        try:
            folder = load("java.nio.file.Paths").get(str(self.path.resolve()))
            directory = load("org.apache.lucene.store.FSDirectory").open(folder)
            self._reader = load("org.apache.lucene.index.DirectoryReader").open(directory)
        except self._loops.jnius.JavaException as error:
            raise self._unreadable(error) from None
        self._bytes = load("org.apache.lucene.util.BytesRef")
        self._leaves = self._open_leaves()
        self._checked = False
        self._stored: set[str] = set()
        if sum(file.stat().st_size for file in self.path.iterdir()) < SMALL_BYTES:
            self.check()
        self.num_docs = sum(leaf.size for leaf in self._leaves)
        self._check_fields()

    def _open_leaves(self) -> list[_Leaf]:
        leaves, first = [], 0
        for context in self._reader.leaves().toArray():
            leaf = context.reader()
            size, numbers, live = leaf.numDocs(), None, None
            if size < leaf.maxDoc():
                is_live = self._loops.flags(leaf.getLiveDocs(), leaf.maxDoc())
                numbers = np.where(is_live, first + np.cumsum(is_live) - 1, -1).astype(np.int32)
                live = np.flatnonzero(is_live)
            leaves.append(_Leaf(leaf, first, size, numbers, live))
            first += size
        return leaves

    def _check_fields(self) -> None:
        names = set()
        for leaf in self._leaves:
            infos = leaf.reader.getFieldInfos().iterator()
            while infos.hasNext():
                info = infos.next()
                names.add(str(info.name))
                if info.name == CONTENTS and "FREQS" not in info.getIndexOptions().toString():
                    raise InputError(
                        f"the index's field {CONTENTS} has no term frequencies",
                        file=self.path,
                        value=info.getIndexOptions().toString(),
                        accepted="DOCS_AND_FREQS or more",
                    )
        lacking = [name for name in (CONTENTS, ID) if name not in names]
        if lacking and self.num_docs:
            raise InputError(
                f"the index lacks Anserini's field {lacking[0]}",
                file=self.path,
                value=", ".join(sorted(names)),
                accepted=f"an index with the fields {ID} and {CONTENTS}",
            )

    def check(self) -> None:
        """Verify Lucene's checksums of its files; a small index is checked when it is opened.

        Raises
        ------
        InputError
            If a checksum differs.
        """
        try:
            for leaf in () if self._checked else self._leaves:
                leaf.reader.checkIntegrity()
        except self._loops.jnius.JavaException as error:
            raise self._unreadable(error) from None
        self._checked = True

    @property
    def total_terms(self) -> int | None:
        """The segments' count of tokens in live documents; None if there are deleted documents."""
        if self.deleted:
            return None
        return sum(int(leaf.reader.getSumTotalTermFreq(CONTENTS)) for leaf in self._leaves)

    @property
    def segments(self) -> int:
        """The number of segments."""
        return len(self._leaves)

    @property
    def deleted(self) -> int:
        """The number of deleted documents that are still in the index."""
        return int(self._reader.numDeletedDocs())

    def postings(self, term: str) -> tuple[Integers32, Integers32] | None:
        """Return the live documents that contain a term, ascending, and the term frequencies."""
        parts = []
        for leaf, terms in self._leaves_with(term):
            pairs = self._loops.postings(terms.postings(None, FREQS), terms.docFreq())
            pairs[:, 0] = self._renumber(leaf, pairs[:, 0])
            parts.append(pairs if leaf.numbers is None else pairs[pairs[:, 0] >= 0])
        return _columns(parts)

    def _leaves_with(self, term: str) -> Iterator[tuple[_Leaf, Any]]:
        """Yield the segments that contain a term, each with a TermsEnum positioned at the term."""
        for leaf in self._leaves:
            terms = self._iterator(leaf)
            if terms is not None and terms.seekExact(self._bytes(term.encode("utf-8"))):
                yield leaf, terms

    def positions(self, term: str) -> tuple[Integers32, Integers32] | None:
        """Return the live document and the position of each occurrence of a term.

        Raises
        ------
        InputError
            For an index without positions.
        """
        parts = []
        for leaf, terms in self._leaves_with(term):
            if not _terms(leaf).hasPositions():
                raise InputError(
                    "the index has no positions",
                    file=self.path,
                    accepted="an index built by: lmtune index ... --engine lucene --positions"
                    f" --output {self.path}",
                )
            docs, tfs = self._loops.postings(terms.postings(None, FREQS), terms.docFreq()).T
            positions = self._loops.positions(terms.postings(None, POSITIONS), np.ascontiguousarray(tfs))
            pairs = np.stack((np.repeat(self._renumber(leaf, docs), tfs), positions), axis=1)
            parts.append(pairs[pairs[:, 0] >= 0])
        return _columns(parts)

    def lengths(self, progress: Count | None = None) -> Integers32:
        """Count every live document's tokens from all postings, shape (num_docs,).

        Parameters
        ----------
        progress : callable, optional
            Called with (terms done, total terms).
        """
        sizes = [0 if terms is None else int(terms.size()) for terms in map(_terms, self._leaves)]
        parts, done = [np.empty(0, np.int32)], 0

        def advance(terms: int) -> None:
            nonlocal done
            done += terms
            if progress is not None:
                progress(done, sum(sizes))

        for leaf, size in zip(self._leaves, sizes, strict=True):
            iterator = self._iterator(leaf)
            documents = leaf.reader.maxDoc()
            if iterator is None:
                parts.append(np.zeros(leaf.size, np.int32))
                continue
            sums = self._loops.sums(iterator, size, documents, advance)
            parts.append(sums if leaf.numbers is None else sums[leaf.numbers >= 0])
        return np.concatenate(parts)

    def quantised_lengths(self) -> Integers32:
        """Return Lucene's document lengths, quantised to one byte, shape (num_docs,).

        Raises
        ------
        InputError
            If the index has no norms.
        """
        decode = self._load("org.apache.lucene.util.SmallFloat").byte4ToInt
        table = np.array([decode(code) for code in range(-128, 128)], np.int32)
        lengths = np.zeros(self.num_docs, np.int32)
        for leaf in self._leaves:
            info = leaf.reader.getFieldInfos().fieldInfo(CONTENTS)
            if info is None:
                continue
            values = leaf.reader.getNormValues(CONTENTS)
            if values is None:
                raise InputError(
                    "the index has no norms, so no quantised lengths",
                    file=self.path,
                    accepted="--lengths exact",
                )
            docs, codes = self._loops.numbers(values, int(values.cost())).T
            at = self._renumber(leaf, docs)
            lengths[at[at >= 0]] = table[codes[at >= 0].astype(np.int8).astype(np.int64) + 128]
        return lengths

    def docnos(self) -> list[bytes]:
        """Return every live document's docno in UTF-8, in document order.

        Raises
        ------
        InputError
            If a document has no docno.
        """
        docnos: list[bytes] = []
        for leaf in self._leaves:
            names = self._leaf_docnos(leaf)
            if leaf.numbers is not None:
                names = [names[number] for number in np.flatnonzero(leaf.numbers >= 0)]
            docnos += names
        return docnos

    def texts(self, docs: Sequence[int] | NDArray[np.integer], field: str) -> list[str]:
        """Return the texts of live documents by number; empty for documents without the field.

        Raises
        ------
        InputError
            If none of the first documents stores the field.
        """
        if field not in self._stored:
            first = (self._document(number).get for number in range(self.num_docs))
            check_stored(self.path, first, field, self._stored_names)
            self._stored.add(field)
        texts = (field_text(self.path, self._document(int(number)).get, field) for number in docs)
        return [text or "" for text in texts]

    def _document(self, number: int) -> Any:
        """Return the stored fields of a live document, as a Lucene Document."""
        leaf = max((leaf for leaf in self._leaves if leaf.first <= number), key=lambda leaf: leaf.first)
        offset = number - leaf.first
        return leaf.reader.storedFields().document(offset if leaf.live is None else int(leaf.live[offset]))

    def _stored_names(self) -> Iterator[str]:
        return (str(field.name()) for field in self._document(0).getFields().toArray())

    def _leaf_docnos(self, leaf: _Leaf) -> list[bytes]:
        size = leaf.reader.maxDoc()
        kind = leaf.reader.getFieldInfos().fieldInfo(ID).getDocValuesType().toString()
        if kind == "BINARY":
            values = self._load("org.apache.lucene.index.DocValues").getBinary(leaf.reader, ID)
            if int(values.cost()) == size:
                return self._loops.strings(values, size)
        # Older indexes store docnos only in the documents, which are slow to read.
        stored = leaf.reader.storedFields()
        names = [stored.document(number).get(ID) for number in range(size)]
        if None in names:
            raise InputError(
                f"a document of the index has no {ID}",
                file=self.path,
                value=leaf.first + names.index(None),
                accepted=f"a stored field or doc values called {ID}",
            )
        return [str(name).encode() for name in names]

    def _renumber(self, leaf: _Leaf, docs: Integers32) -> Integers32:
        return docs + leaf.first if leaf.numbers is None else leaf.numbers[docs]

    @staticmethod
    def _iterator(leaf: _Leaf) -> Any:
        terms = _terms(leaf)
        return None if terms is None else terms.iterator()

    def _unreadable(self, error: Any) -> InputError:
        cause = str(getattr(error, "innermessage", None) or error).splitlines()[0]
        return InputError(f"Lucene cannot read the index: {cause}", file=self.path, accepted=_ACCEPTED)


def _columns(pairs: list[Integers32]) -> tuple[Integers32, Integers32] | None:
    first, second = np.concatenate([np.empty((0, 2), np.int32), *pairs]).T
    return (np.ascontiguousarray(first), np.ascontiguousarray(second)) if first.size else None


def _terms(leaf: _Leaf) -> Any:
    return leaf.reader.terms(CONTENTS)


class QueryAnalyzer:
    """Anserini's English analysis, in Java.

    Parameters
    ----------
    stemmer : {"porter", "krovetz", "none"}
        The stemmer.
    stopwords : collection of str, optional
        The stopwords; Lucene's English list if not given.
    """

    def __init__(self, stemmer: str, stopwords: frozenset[str] | None = None) -> None:
        load = loops().jnius.autoclass
        self._string = load("java.lang.String")
        self._utils = load("io.anserini.analysis.AnalyzerUtils")
        english = load("io.anserini.analysis.DefaultEnglishAnalyzer")
        if stopwords is None:
            self.analyzer = english.fromArguments(stemmer, False, None)
        elif not stopwords:
            self.analyzer = english.fromArguments(stemmer, True, None)
        else:
            with tempfile.TemporaryDirectory() as folder:
                words = Path(folder, "stopwords.txt")
                words.write_text("\n".join(sorted(stopwords)) + "\n", encoding="utf-8")
                self.analyzer = english.fromArguments(stemmer, False, str(words))

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text in order, with repetitions."""
        # Pass bytes: jnius corrupts astral characters. Java's "[a, b, c]" returns all terms in one call.
        java_text = self._string(text.encode("utf-16-le", "surrogatepass"), "UTF-16LE")
        terms = str(self._utils.analyze(self.analyzer, java_text).toString())[1:-1]
        return terms.split(", ") if terms else []
