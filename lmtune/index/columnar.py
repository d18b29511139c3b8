"""The embedded index: memory-mapped columns on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers, Integers32
from lmtune.errors import InputError, PathLike
from lmtune.index.columns import REBUILD, SMALL_BYTES, Column, Docnos, Strings, decode, encode
from lmtune.index.manifest import (
    FIELDS_FOLDER,
    INDEX_FILE,
    POSITION_COLUMNS,
    Manifest,
    make_fingerprint,
    read_manifest,
)
from lmtune.index.protocol import CONTENTS, Positions, Postings
from lmtune.index.text_store import KeptTexts

if TYPE_CHECKING:
    from lmtune.index.analysis import Analyzer
    from lmtune.io.documents import DocumentSource

# Cached term numbers: each query term is looked up for the candidates, and again for the judged documents.
_CACHED_TERMS = 1 << 16
# Largest number of postings kept in memory: 64 MiB at 16 bytes each.
_SMALL_POSTINGS = 1 << 22
_NO_DOCS = np.empty(0, np.int32)


class ColumnarIndex:
    """An inverted index in a folder of memory-mapped columns; satisfies `Index`.

    Use `open`, or `lmtune.index.builder.build_index`.

    Attributes
    ----------
    path : pathlib.Path
        The folder of the index.
    manifest : Manifest
        Counts, origin and files.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._columns = {name: Column[Any](path, stored) for name, stored in manifest.columns.items()}
        self._terms = Strings(self._columns["terms"], self._columns["term_bytes"])
        self._find = lru_cache(_CACHED_TERMS)(self._terms.find)
        names = Strings(self._columns["docnos"], self._columns["docno_bytes"])
        self._docnos = Docnos(names, self._columns["docno_ranks"])
        self._fields: dict[str, ColumnarIndex] = {}
        self._texts = KeptTexts(path, manifest.fingerprint)

    @classmethod
    def open(
        cls, path: PathLike, *, verify: bool | None = None, fingerprint: str | None = None
    ) -> ColumnarIndex:
        """Open an index.

        Parameters
        ----------
        path : path-like
            The folder of the index.
        verify : bool, optional
            Whether to read all files and check their digests now. Otherwise each block of a file is checked
            before it is first used. By default, indexes below 256 MiB are verified.
        fingerprint : str, optional
            The expected fingerprint.

        Raises
        ------
        InputError
            If there is no index, the fingerprint differs, or the index is damaged or of another format
            version.
        """
        path = Path(path)
        manifest = read_manifest(path)
        try:
            index = cls(path, manifest)
        except InputError:
            # Another index may have replaced this one between reading the manifest and the files.
            if read_manifest(path) == manifest:
                raise
            return cls.open(path, verify=verify, fingerprint=fingerprint)
        if fingerprint is not None and manifest.fingerprint != fingerprint:
            raise InputError(
                "another process has put another index here",
                file=path,
                accepted="one index at a time in a folder",
            )
        if verify is None:
            verify = manifest.size < SMALL_BYTES
        if verify:
            for column in index._columns.values():
                column[:]
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(ColumnarIndex.open, verify=False, fingerprint=self.fingerprint), (self.path,)

    def __repr__(self) -> str:
        return f"ColumnarIndex({str(self.path)!r}, num_docs={self.num_docs})"

    @property
    def name(self) -> str:
        """The collection's name."""
        return self.manifest.source

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return self.manifest.num_docs

    @property
    def total_terms(self) -> int:
        """The number of tokens in the collection, |C|."""
        return self.manifest.total_terms

    @property
    def unique_terms(self) -> int:
        """The number of distinct terms."""
        return self.manifest.unique_terms

    @cached_property
    def lengths(self) -> Integers32:
        """Document lengths in tokens, shape (num_docs,)."""
        return self._columns["doc_lengths"][:]

    @cached_property
    def docno_rank(self) -> Integers32:
        """Each document's rank among the docnos in ascending code-point order, shape (num_docs,)."""
        return self._columns["docno_ranks"][:]

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest of the documents and of the analysis that made the index."""
        return self.manifest.fingerprint

    @property
    def candidates_path(self) -> Path:
        """The folder for candidates extracted from the index."""
        return self.path / "candidates"

    @property
    def analysis(self) -> dict[str, Any]:
        """The settings of the analysis that made the index."""
        return self.analyzer.settings

    @cached_property
    def analyzer(self) -> Analyzer:
        """The analyzer that made the index.

        Raises
        ------
        InputError
            If this version of lmtune analyses text differently from the one that built the index.
        """
        from lmtune.index.analysis import Analyzer

        analyzer = Analyzer.from_settings(self.manifest.analyzer)
        if analyzer.fingerprint != self.manifest.analyzer_fingerprint:
            raise InputError(
                "the index was built with an analysis that this version of lmtune does not have",
                file=self.path / INDEX_FILE,
                value=self.manifest.analyzer["stemmer"],
                accepted=REBUILD,
            )
        return analyzer

    def analyze(self, text: str) -> list[str]:
        """Return the index terms of a query text in order, with repetitions."""
        return self.analyzer.analyze(text)

    def postings(self, term: str) -> Postings | None:
        """Return a term's postings, or None if the collection does not contain the term."""
        from lmtune.index.posting_kernels import decode_postings

        number = self._find(encode(term))
        if number < 0:
            return None
        docs, tfs = self._decoded("postings", "posting_offsets", number, decode_postings)
        return Postings(docs, tfs)

    def _decoded(
        self, lists: str, offsets: str, number: int, decode: Callable[..., Any], *arguments: Any
    ) -> list[Integers32]:
        """Decode the list of a term; `arguments` are further arguments of `decode`."""
        column, (begin, end) = self._columns[lists], self._columns[offsets].pair(number)
        arrays: list[Integers32]
        *arrays, whole = decode(column.words(begin, end), begin, end, *arguments)
        if not whole:
            raise column.blocks.damaged()
        return arrays

    @property
    def has_positions(self) -> bool:
        """Whether the index was built with positions."""
        return POSITION_COLUMNS.keys() <= self._columns.keys()

    def positions(self, term: str) -> Positions | None:
        """Return a term's positions, or None if the collection does not contain the term.

        Raises
        ------
        InputError
            For an index that was built without positions.
        """
        from lmtune.index.posting_kernels import decode_positions

        if not self.has_positions:
            raise InputError(
                "the index has no positions",
                file=self.path,
                accepted=f"an index built by: lmtune index ... --positions --output {self.path}",
            )
        number, postings = self._find(encode(term)), self.postings(term)
        if postings is None:
            return None
        (positions,) = self._decoded("positions", "position_offsets", number, decode_positions, postings.tfs)
        return Positions(*postings, positions)

    def terms(self) -> list[str]:
        """Return the whole vocabulary, in ascending code-point order."""
        return [decode(term) for term in self._terms[:]]

    @property
    def is_small(self) -> bool:
        """Whether the first call of `vector` loads all postings into memory."""
        return self.manifest.num_postings <= _SMALL_POSTINGS

    def vector(self, doc: int) -> dict[str, int]:
        """Return the term frequencies of a document; only for a small index (`is_small`)."""
        terms, starts, numbers, tfs = self._by_document
        part = slice(starts[doc], starts[doc + 1])
        return {terms[at]: tf for at, tf in zip(numbers[part].tolist(), tfs[part].tolist(), strict=True)}

    @cached_property
    def _by_document(self) -> tuple[list[str], Integers, Integers, Integers32]:
        """All postings by document: the terms, each document's first posting, term numbers, frequencies."""
        terms = self.terms()
        lists = [postings for term in terms if (postings := self.postings(term)) is not None]
        docs = np.concatenate([_NO_DOCS, *(postings.docs for postings in lists)])
        tfs = np.concatenate([_NO_DOCS, *(postings.tfs for postings in lists)])
        numbers = np.repeat(np.arange(len(lists)), [postings.docs.size for postings in lists])
        order = np.argsort(docs, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(docs, minlength=self.num_docs)))
        return terms, starts, numbers[order], tfs[order]

    def stale_reason(
        self, source: DocumentSource, analyzer: Analyzer | None = None, *, positions: bool = False
    ) -> str | None:
        """Return why the index is not current for documents and an analysis.

        Parameters
        ----------
        source : DocumentSource
            The documents.
        analyzer : Analyzer, optional
            The required analysis; by default the index's.
        positions : bool
            Whether positions are required.

        Returns
        -------
        str or None
            The reason: other documents, another analysis or no positions; None if the index is current.
        """
        analyzer = analyzer or self.analyzer
        if self.manifest.analyzer_fingerprint != analyzer.fingerprint:
            return "the index was built with another analysis"
        if self.fingerprint != make_fingerprint(source.digest(), analyzer.fingerprint):
            return "the index was built from other documents"
        if positions and not self.has_positions:
            return "the index was built without positions"
        return None

    def field(self, name: str) -> ColumnarIndex:
        """Return the index of one field, with the same document numbers.

        Raises
        ------
        InputError
            If the field was not indexed, or its index is of other documents.
        """
        if name not in self._fields:
            path = self.path / FIELDS_FOLDER / name
            index = ColumnarIndex.open(path) if path.is_dir() else None
            # The docnos and their order must be the same.
            if index is None or index.manifest.columns["docnos"] != self.manifest.columns["docnos"]:
                raise InputError(
                    "the index has no such field",
                    file=self.path,
                    value=name,
                    accepted=f"an index built by: lmtune index ... --fields {name},... --output {self.path}",
                )
            self._fields[name] = index
        return self._fields[name]

    def texts(self, docs: Sequence[int] | NDArray[np.integer], field: str = CONTENTS) -> list[str]:
        """Return the texts of documents by number; empty for documents without the field.

        Raises
        ------
        InputError
            If the field's texts are not stored. The message lists the stored fields, and the command that
            stores this one.
        """
        return self._texts.of(docs, field)

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers.

        Raises
        ------
        IndexError
            If a number is not between 0 and ``num_docs - 1``.
        """
        return self._docnos.names(docs)

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos; -1 for a docno that the index does not have."""
        return self._docnos.numbers(docnos)
