"""A Lucene index behind the same protocol as the embedded one."""

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
"""What names of Lucene indexes begin with on the command line."""

Lengths = Literal["exact", "lucene"]
LENGTHS: tuple[Lengths, ...] = ("exact", "lucene")

_NONE: frozenset[str] = frozenset()
_STEMMERS = ("porter", "krovetz", "none")


class LuceneIndex:
    """An index that Lucene or Anserini wrote; satisfies `Index`.

    Documents are numbered as Lucene numbers them, with deleted ones left out; frequencies and
    lengths are of live documents alone. What has been read once is kept in a store, and Java
    starts only for what is not there. Use `open`.

    Attributes
    ----------
    path : pathlib.Path
        The index's folder.
    name : str
        What to call it in messages.
    lengths_kind : {"exact", "lucene"}
        Which document lengths `lengths` has.
    analysis : dict
        How query text is analysed: ``stemmer`` and ``stopwords``, a list's name or its words.
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
            Its folder.
        name : str, optional
            What to call it; the folder's name by default.
        lengths : {"exact", "lucene"}
            Document lengths counted from the postings, or Lucene's own, quantised to a byte.
        stemmer : {"porter", "krovetz", "none"}, optional
            How query words are stemmed. By default as `lmtune index` noted in the index, or else
            ``"porter"``, Anserini's default: an index does not say how others built it.
        stopwords : str, optional
            ``"lucene"``, ``"none"`` or a file; the default as for `stemmer`, or ``"lucene"``.
        home : path-like
            The folder under which what was read is kept.
        progress : callable, optional
            Called with (terms done, terms in all) while lengths are counted.

        Returns
        -------
        LuceneIndex

        Raises
        ------
        InputError
            If Lucene cannot read it, it lacks what `LuceneReader` needs, Java is too old, or an
            option is unknown.
        MissingExtraError
            If pyserini is not installed.
        """
        lengths = check_lengths(lengths)
        path = Path(path)
        digest = commit_digest(path)
        kept = store_path(home, path)
        store, reader = LuceneStore.open(kept, digest), None
        if store is None:
            reader = _open_reader(path, digest)
            # Once at least, however large: what is kept of it is not read again.
            reader.check()
            noted = read_note(path).get("analysis", {})
            facts = {
                "path": str(path.resolve()),
                "name": name,
                "digest": digest,
                "num_docs": reader.num_docs,
                "deleted": reader.deleted,
                "segments": reader.segments,
                "total_terms": reader.total_terms,
                "analysis": {"stemmer": "porter", "stopwords": "lucene", **noted},
            }
            store = LuceneStore.create(kept, facts, reader.docnos())
        analysis = dict(store.facts["analysis"])
        if stemmer is not None:
            analysis["stemmer"] = check_stemmer(stemmer)
        if stopwords is not None:
            analysis["stopwords"] = _stopwords(stopwords)[1]
        return cls(path, name or name_of(path), store, analysis, lengths, reader, progress)

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self._store.path, self._store.facts["digest"]
        return _reopen, (self.path, self.name, *kept, self.analysis, self.lengths_kind)

    def __repr__(self) -> str:
        return f"LuceneIndex({str(self.path)!r}, num_docs={self.num_docs})"

    @property
    def num_docs(self) -> int:
        """The number of live documents."""
        return int(self._store.facts["num_docs"])

    @cached_property
    def total_terms(self) -> int:
        """The number of tokens in live documents, |C|; exact, whatever the lengths are."""
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
        """Each document's place among the docnos in ascending code-point order, (num_docs,)."""
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
        """What the index was when it was read: its commit's digest, segments, deleted documents."""
        facts = self._store.facts
        return {"commit": facts["digest"], **{n: facts[n] for n in ("segments", "deleted")}}

    def analyze(self, text: str) -> list[str]:
        """Turn query text into index terms, in order, repeats kept."""
        return self._store.terms(self._analysis_key, text, lambda: self._analyzer(text))

    def postings(self, term: str) -> Postings | None:
        """Return the term's postings, or None where the collection lacks the term."""
        return self._store.postings(term, lambda: self._reader.postings(term))

    def positions(self, term: str) -> Positions | None:
        """Return where a term stands, or None where the collection lacks the term.

        Raises
        ------
        InputError
            For an index without positions.
        """
        found, places = (
            self.postings(term),
            self._store.occurrences(term, lambda: self._reader.positions(term)),
        )
        return None if found is None or places is None else Positions(*found, places.tfs)

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers.

        Raises
        ------
        IndexError
            If a number is not one of 0 to ``num_docs - 1``.
        """
        return self._store.docnos.names(docs)

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos, -1 where the index lacks one."""
        return self._store.docnos.numbers(docnos)

    def texts(self, docs: Sequence[int] | NDArray[np.integer], field: str = CONTENTS) -> list[str]:
        """Return one field's text of documents by number, empty where a document lacks the field.

        The field is a stored one of Lucene's; or a part of the whole document that Anserini stores,
        as the readers of JSON lines and TREC documents take it.

        Raises
        ------
        InputError
            Where neither is stored.
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
        named = {"lucene": None, "none": frozenset[str]()}
        stopwords = named[words] if isinstance(words, str) else frozenset(words)
        return QueryAnalyzer(self.analysis["stemmer"], stopwords)


def _reopen(
    path: Path, name: str, kept: Path, digest: str, analysis: dict[str, Any], lengths: Lengths
) -> LuceneIndex:
    store = LuceneStore.open(kept, digest)
    if store is None or commit_digest(path) != digest:
        raise InputError(
            "the index has changed since it was opened", file=path, accepted="an index left alone"
        )
    return LuceneIndex(path, name, store, analysis, lengths, None, None)


def _open_reader(path: Path, digest: str) -> LuceneReader:
    """Open an index of which something is known already, if it is still the same."""
    reader = LuceneReader(path)
    if commit_digest(path) != digest:
        raise InputError(
            "the index has changed since it was opened", file=path, accepted="an index left alone meanwhile"
        )
    return reader


def check_lengths(lengths: str) -> Lengths:
    """Return a kind of lengths, or raise InputError where there is none such."""
    for known in LENGTHS:
        if lengths == known:
            return known
    raise InputError("unknown lengths", value=lengths, accepted=" or ".join(LENGTHS))


def check_stemmer(stemmer: str) -> str:
    """Return a stemmer's name, or raise InputError where Anserini has none such."""
    check_choice("unknown stemmer", stemmer, _STEMMERS)
    return stemmer


def _stopwords(name: str) -> tuple[frozenset[str], str | list[str]]:
    """Return a list's words, and how to note them: by name or one by one."""
    words = load_stopwords(name)
    return words, name if words in (LUCENE_ENGLISH, _NONE) else sorted(words)


def find_lucene_index(name: str, *, home: PathLike = "indexes") -> Path:
    """Find a Lucene index.

    Parameters
    ----------
    name : str
        A folder's path; the name of a folder under `home`; or one of pyserini's prebuilt indexes,
        downloaded where it is not in pyserini's cache.
    home : path-like
        The folder that holds built indexes.

    Returns
    -------
    pathlib.Path
        The index's folder.

    Raises
    ------
    InputError
        Where there is none of the name, or it cannot be downloaded.
    MissingExtraError
        Where pyserini would have to be asked, and is not installed.
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
    """Index a collection with Anserini, and note the analysis.

    Parameters
    ----------
    source : DocumentSource
        The documents.
    path : path-like
        The index's folder, written whole or not at all.
    stemmer : {"porter", "krovetz", "none"}
        How words are stemmed, by Anserini.
    stopwords : str
        ``"lucene"``, ``"none"`` or a file with one word a line.
    positions : bool
        Whether to keep where terms stand.
    raw : bool
        Whether to keep the documents themselves.
    workers : int
        Indexing threads.
    memory_mb : int
        Their buffer, in MiB.
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
    words, noted = _stopwords(stopwords)
    asked = {"threads": workers, "memoryBuffer": memory_mb, "stemmer": stemmer}
    return write_lucene_index(
        source,
        path,
        {**asked, "storePositions": positions, "storeRaw": raw},
        stopwords=None if words == LUCENE_ENGLISH else words,
        note={"source": source.name, "analysis": {"stemmer": stemmer, "stopwords": noted}},
        report=progress or silent,
    )
