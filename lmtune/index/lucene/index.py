"""A Lucene index with the same protocol as the embedded index."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers32
from lmtune.errors import InputError, PathLike, check_choice, name_of
from lmtune.index.analysis import LUCENE_ENGLISH, load_stopwords
from lmtune.index.lucene.names import find_prebuilt
from lmtune.index.lucene.reader import LuceneReader, QueryAnalyzer, commit_digest
from lmtune.index.lucene.store import STORE_FORMAT, LuceneStore, store_path, stored_paths
from lmtune.index.lucene.writer import read_note, write_lucene_index
from lmtune.index.protocol import CONTENTS, Positions, Postings
from lmtune.progress import Count, silent

if TYPE_CHECKING:
    from lmtune.io.documents import DocumentSource

LUCENE_PREFIX = "lucene:"
"""Prefix of the names of Lucene indexes on the command line."""

Lengths = Literal["exact", "lucene"]
LENGTHS: tuple[Lengths, ...] = ("exact", "lucene")

_NONE: frozenset[str] = frozenset()
_STEMMERS = ("porter", "krovetz", "none")


class LuceneIndex:
    """An index that Lucene or Anserini wrote; satisfies `Index`.

    Documents are numbered in Lucene's order, without deleted ones; frequencies and lengths count only live
    documents. Data that was read once is cached in a store; Java starts only for data that is not cached.
    Use `open`.

    Attributes
    ----------
    path : pathlib.Path
        The folder of the index.
    name : str
        The index's name in messages.
    lengths_kind : {"exact", "lucene"}
        The kind of document lengths in `lengths`.
    analysis : dict
        The analysis of query text: ``stemmer``, and ``stopwords`` as the name of a list or its words.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        store: LuceneStore,
        analysis: dict[str, Any],
        lengths_kind: Lengths,
        reader: LuceneReader | None,
        progress: Count | None,
    ) -> None:
        self.path = path
        self.name = name
        self.analysis = analysis
        self.lengths_kind = lengths_kind
        self._store = store
        self._opened = reader
        self._progress = progress
        self._analysis_key = json.dumps(analysis, sort_keys=True)

    @classmethod
    def open(
        cls,
        path: PathLike,
        *,
        name: str | None = None,
        lengths: Lengths = "exact",
        stemmer: str | None = None,
        stopwords: str | None = None,
        home: PathLike = "indexes",
        progress: Count | None = None,
    ) -> LuceneIndex:
        """Open an index.

        Parameters
        ----------
        path : path-like
            The folder of the index.
        name : str, optional
            The index's name; by default that of the folder.
        lengths : {"exact", "lucene"}
            Document lengths counted from the postings, or Lucene's norms, quantised to one byte.
        stemmer : {"porter", "krovetz", "none"}, optional
            The stemmer of query words. By default the one that `lmtune index` recorded in the index, or else
            Anserini's default, ``"porter"``: an index of other programs does not record its analysis.
        stopwords : str, optional
            ``"lucene"``, ``"none"`` or a file. By default the recorded list, or else ``"lucene"``.
        home : path-like
            The folder of the cached data.
        progress : callable, optional
            Called with (terms done, total terms) while lengths are counted.

        Returns
        -------
        LuceneIndex

        Raises
        ------
        InputError
            If Lucene cannot read the index, the index lacks data that `LuceneReader` needs, Java is too old,
            or an option is unknown.
        MissingExtraError
            If pyserini is not installed.
        """
        lengths = check_lengths(lengths)
        path = Path(path)
        digest = commit_digest(path)
        cache = store_path(home, path)
        store, reader = LuceneStore.open(cache, digest), None
        if store is None:
            reader = _open_reader(path, digest)
            # Also check a large index once: cached data is not read again.
            reader.check()
            recorded = read_note(path).get("analysis", {})
            facts = {
                "path": str(path.resolve()),
                "name": name,
                "digest": digest,
                "num_docs": reader.num_docs,
                "deleted": reader.deleted,
                "segments": reader.segments,
                "total_terms": reader.total_terms,
                "analysis": {"stemmer": "porter", "stopwords": "lucene", **recorded},
            }
            store = LuceneStore.create(cache, facts, reader.docnos())
        analysis = dict(store.facts["analysis"])
        if stemmer is not None:
            analysis["stemmer"] = check_stemmer(stemmer)
        if stopwords is not None:
            analysis["stopwords"] = _stopwords(stopwords)[1]
        return cls(path, name or name_of(path), store, analysis, lengths, reader, progress)

    def __reduce__(self) -> tuple[Any, ...]:
        store = self._store.path, self._store.facts["digest"]
        return _reopen, (self.path, self.name, *store, self.analysis, self.lengths_kind)

    def __repr__(self) -> str:
        return f"LuceneIndex({str(self.path)!r}, num_docs={self.num_docs})"

    @property
    def num_docs(self) -> int:
        """The number of live documents."""
        return int(self._store.facts["num_docs"])

    @cached_property
    def total_terms(self) -> int:
        """The number of tokens in live documents, |C|; always exact, for both kinds of lengths."""
        known = self._store.facts["total_terms"]
        return int(self._exact_lengths.sum(dtype=np.int64)) if known is None else int(known)

    @property
    def lengths(self) -> Integers32:
        """Document lengths |D| in tokens, shape (num_docs,); see `lengths_kind`."""
        return self._exact_lengths if self.lengths_kind == "exact" else self._quantised_lengths

    @cached_property
    def _exact_lengths(self) -> Integers32:
        return self._store.lengths("exact", lambda: self._reader.lengths(self._progress))

    @cached_property
    def _quantised_lengths(self) -> Integers32:
        return self._store.lengths("lucene", lambda: self._reader.quantised_lengths())

    @property
    def docno_rank(self) -> Integers32:
        """Each document's rank among the docnos in ascending code-point order, shape (num_docs,)."""
        return self._store.docno_rank

    @cached_property
    def fingerprint(self) -> str:
        """A hexadecimal digest of the index's commit, the query analysis and the lengths."""
        parts = [STORE_FORMAT, self._store.facts["digest"], self._analysis_key, self.lengths_kind]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def candidates_path(self) -> Path:
        """The folder for candidates extracted from the index."""
        return self._store.candidates_path

    @property
    def origin(self) -> dict[str, Any]:
        """The state of the index when it was read: digest of the commit, segments, deleted documents."""
        facts = self._store.facts
        return {"commit": facts["digest"], **{n: facts[n] for n in ("segments", "deleted")}}

    def analyze(self, text: str) -> list[str]:
        """Return the index terms of a query text in order, with repetitions."""
        return self._store.terms(self._analysis_key, text, lambda: self._analyzer(text))

    def postings(self, term: str) -> Postings | None:
        """Return a term's postings, or None if the collection does not contain the term."""
        return self._store.postings(term, lambda: self._reader.postings(term))

    def positions(self, term: str) -> Positions | None:
        """Return a term's positions, or None if the collection does not contain the term.

        Raises
        ------
        InputError
            For an index without positions.
        """
        postings, occurrences = (
            self.postings(term),
            self._store.occurrences(term, lambda: self._reader.positions(term)),
        )
        return None if postings is None or occurrences is None else Positions(*postings, occurrences.tfs)

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers.

        Raises
        ------
        IndexError
            If a number is not between 0 and ``num_docs - 1``.
        """
        return self._store.docnos.names(docs)

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos; -1 for a docno that the index does not have."""
        return self._store.docnos.numbers(docnos)

    def texts(self, docs: Sequence[int] | NDArray[np.integer], field: str = CONTENTS) -> list[str]:
        """Return the texts of documents by number; empty for documents without the field.

        The field is a stored field of Lucene, or a part of the raw document that Anserini stores, extracted
        as by the readers of JSON lines and TREC documents.

        Raises
        ------
        InputError
            If neither is stored.
        """
        return self._reader.texts(docs, field)

    @property
    def _reader(self) -> LuceneReader:
        if self._opened is None:
            self._opened = _open_reader(self.path, self._store.facts["digest"])
        return self._opened

    @cached_property
    def _analyzer(self) -> QueryAnalyzer:
        words = self.analysis["stopwords"]
        lists = {"lucene": None, "none": frozenset[str]()}
        stopwords = lists[words] if isinstance(words, str) else frozenset(words)
        return QueryAnalyzer(self.analysis["stemmer"], stopwords)


def _reopen(
    path: Path, name: str, store_folder: Path, digest: str, analysis: dict[str, Any], lengths: Lengths
) -> LuceneIndex:
    store = LuceneStore.open(store_folder, digest)
    if store is None or commit_digest(path) != digest:
        raise InputError(
            "the index has changed since it was opened", file=path, accepted="an index left alone"
        )
    return LuceneIndex(path, name, store, analysis, lengths, None, None)


def _open_reader(path: Path, digest: str) -> LuceneReader:
    """Open an index; raise `InputError` if its commit does not have the expected digest."""
    reader = LuceneReader(path)
    if commit_digest(path) != digest:
        raise InputError(
            "the index has changed since it was opened", file=path, accepted="an index left alone meanwhile"
        )
    return reader


def check_lengths(lengths: str) -> Lengths:
    """Return a kind of lengths, or raise `InputError` if it is unknown."""
    for known in LENGTHS:
        if lengths == known:
            return known
    raise InputError("unknown lengths", value=lengths, accepted=" or ".join(LENGTHS))


def check_stemmer(stemmer: str) -> str:
    """Return a stemmer's name, or raise `InputError` if Anserini does not have it."""
    check_choice("unknown stemmer", stemmer, _STEMMERS)
    return stemmer


def _stopwords(name: str) -> tuple[frozenset[str], str | list[str]]:
    """Return the words of a list, and the value to record: the list's name, or the words."""
    words = load_stopwords(name)
    return words, name if words in (LUCENE_ENGLISH, _NONE) else sorted(words)


def find_lucene_index(name: str, *, home: PathLike = "indexes") -> Path:
    """Find a Lucene index.

    Parameters
    ----------
    name : str
        The path of a folder, the name of a folder in `home`, or the name of a prebuilt index of pyserini,
        which is downloaded if it is not in pyserini's cache.
    home : path-like
        The folder of built indexes.

    Returns
    -------
    pathlib.Path
        The index's folder.

    Raises
    ------
    InputError
        If there is no index with this name, or it cannot be downloaded.
    MissingExtraError
        If pyserini is needed to find the index, and is not installed.
    """
    for path in (Path(name), Path(home, name)):
        if path.exists():
            return path
    for known in stored_paths(home, name):
        if known.is_dir():
            return known
    if os.sep in name:
        raise InputError(
            "no such folder", value=LUCENE_PREFIX + name, accepted=f"{LUCENE_PREFIX}PATH or NAME"
        )
    return find_prebuilt(name)


def build_lucene_index(
    source: DocumentSource,
    path: PathLike,
    *,
    stemmer: str = "porter",
    stopwords: str = "lucene",
    positions: bool = False,
    raw: bool = False,
    workers: int = 2,
    memory_mb: int = 1024,
    progress: Callable[[str, int, int], None] | None = None,
) -> int:
    """Index a collection with Anserini, and record the analysis.

    Parameters
    ----------
    source : DocumentSource
        The documents.
    path : path-like
        The folder of the index; the write is atomic.
    stemmer : {"porter", "krovetz", "none"}
        Anserini's stemmer.
    stopwords : str
        ``"lucene"``, ``"none"`` or a file with one word a line.
    positions : bool
        Whether to store term positions.
    raw : bool
        Whether to store the documents.
    workers : int
        Number of indexing threads.
    memory_mb : int
        Size of the indexing buffer, in MiB.
    progress : callable, optional
        Called with (stage, done, total).

    Returns
    -------
    int
        The number of documents.

    Raises
    ------
    InputError
        As `lmtune.index.lucene.writer.write_lucene_index`.
    MissingExtraError
        If pyserini is not installed.
    """
    check_stemmer(stemmer)
    words, recorded = _stopwords(stopwords)
    arguments = {"threads": workers, "memoryBuffer": memory_mb, "stemmer": stemmer}
    return write_lucene_index(
        source,
        path,
        {**arguments, "storePositions": positions, "storeRaw": raw},
        stopwords=None if words == LUCENE_ENGLISH else words,
        note={"source": source.name, "analysis": {"stemmer": stemmer, "stopwords": recorded}},
        report=progress or silent,
    )
