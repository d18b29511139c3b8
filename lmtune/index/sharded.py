"""A sharded index: several indexes that are read as one, with consecutive document numbers."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers, Integers32
from lmtune.errors import InputError, PathLike
from lmtune.index import manifest
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.columns import Column, StoredColumn, read_columns
from lmtune.index.protocol import CONTENTS, Index, Positions, Postings, field_index
from lmtune.index.text_store import KeptTexts
from lmtune.io.digests import require_types, sealed_text, unsealed
from lmtune.io.files import read_bytes
from lmtune.io.folders import FolderKind, is_folder
from lmtune.parallel import Task, run_all

if TYPE_CHECKING:
    from lmtune.index.lucene.index import LuceneIndex
    from lmtune.io.documents import DocumentSource

SHARDED_FORMAT, SHARDED_VERSION = "lmtune sharded index", 1
SHARDS_FILE, RANKS = "shards.json", "docno_ranks"
_SHARD = "shard-*"
_OF_SHARDS = tuple(f"{_SHARD}/{name}" for name in manifest.INDEX_KIND.files or ())
SHARDED_KIND = FolderKind(
    SHARDS_FILE, (SHARDS_FILE, RANKS, "candidates/*", f"{manifest.TEXTS_FOLDER}/*/*", *_OF_SHARDS)
)
"""The folder of a sharded index; the shards may be elsewhere."""

_ACCEPTED = (
    "the shard as it was, or the shards joined again: lmtune index --join SHARD,SHARD,... --output PATH"
)

_T = TypeVar("_T")
AnyShard: TypeAlias = "ColumnarIndex | LuceneIndex"


@dataclass(frozen=True)
class StoredShard:
    """A shard's entry in the manifest.

    Attributes
    ----------
    path : str
        The shard's folder, relative to the sharded index; Lucene indexes have the prefix ``lucene:``.
    fingerprint : str
        The shard's `Index.fingerprint`.
    num_docs : int
        Number of documents.
    """

    path: str
    fingerprint: str
    num_docs: int


@dataclass(frozen=True)
class ShardsManifest:
    """The content of ``shards.json``.

    Attributes
    ----------
    source : str
        The collection's name.
    joined : bool
        Whether existing indexes were joined; the files of their documents are then unknown.
    fingerprints : dict of str to str
        The fingerprint of the whole index under ``""``, and that of each field's index. If the shards were
        built from one collection, these are the fingerprints of its unsharded index.
    shards : list of StoredShard
        The shards, in the order of their documents.
    ranks : StoredColumn
        Each document's rank among the docnos of all shards.
    """

    source: str
    joined: bool
    fingerprints: dict[str, str]
    shards: list[StoredShard]
    ranks: StoredColumn


class ShardedIndex:
    """Shards as one index. Use `open`.

    Satisfies `Index`; positions and fields are available if all shards have them.

    Attributes
    ----------
    path : pathlib.Path
        The folder of the index.
    manifest : ShardsManifest
        The content of ``shards.json``.
    shards : tuple of ColumnarIndex or LuceneIndex
        The open shards.
    bases : numpy.ndarray of int64, shape (shards + 1,)
        Number of each shard's first document, and the number of all documents.
    """

    def __init__(
        self, path: Path, manifest: ShardsManifest, shards: Sequence[AnyShard], field: str = ""
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.shards = tuple(shards)
        self.bases = np.cumsum([0, *(shard.num_docs for shard in shards)])
        self._ranks: Column[np.int32] = Column(path, manifest.ranks)
        self._field = field
        self._fields: dict[str, ShardedIndex] = {}
        self._texts = KeptTexts(path, self.fingerprint)

    @classmethod
    def open(cls, path: PathLike, *, fingerprint: str | None = None) -> ShardedIndex:
        """Open an index.

        Parameters
        ----------
        path : path-like
            The folder of the index.
        fingerprint : str, optional
            The expected fingerprint.

        Raises
        ------
        InputError
            If there is no index, the fingerprint differs, the index is damaged, or a shard is missing or has
            changed (the message names it).
        """
        path = Path(path)
        manifest = read_shards(path)
        if fingerprint not in (None, manifest.fingerprints[""]):
            raise InputError(
                "another process has put another index here",
                file=path,
                accepted="one index at a time in a folder",
            )
        return cls(path, manifest, [open_shard(path, shard) for shard in manifest.shards])

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path, self.manifest.fingerprints[""], self._field)

    def __repr__(self) -> str:
        return f"ShardedIndex({str(self.path)!r}, shards={len(self.shards)}, num_docs={self.num_docs})"

    @property
    def name(self) -> str:
        """The collection's name."""
        return self.manifest.source

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return int(self.bases[-1])

    @cached_property
    def total_terms(self) -> int:
        """The number of tokens in the collection, |C|."""
        return sum(shard.total_terms for shard in self.shards)

    @cached_property
    def lengths(self) -> Integers32:
        """Document lengths in tokens, shape (num_docs,)."""
        return np.concatenate([np.asarray(shard.lengths, np.int32) for shard in self.shards])

    @cached_property
    def docno_rank(self) -> Integers32:
        """Each document's rank among the docnos in ascending code-point order, shape (num_docs,)."""
        return self._ranks[:]

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest of the documents and of the analysis that made the index."""
        return self.manifest.fingerprints[self._field]

    @property
    def candidates_path(self) -> Path:
        """The folder for candidates extracted from the index."""
        return self.path / "candidates"

    @property
    def analysis(self) -> dict[str, Any]:
        """The settings of the analysis that made the shards."""
        return self.shards[0].analysis

    def analyze(self, text: str) -> list[str]:
        """Return the index terms of a query text in order, with repetitions."""
        return self.shards[0].analyze(text)

    def postings(self, term: str) -> Postings | None:
        """Return a term's postings, or None if the collection does not contain the term."""
        by_shard = [(base, shard.postings(term)) for base, shard in self._based_shards()]
        parts = [(part.docs + base, part.tfs) for base, part in by_shard if part is not None]
        return Postings(*map(np.concatenate, zip(*parts, strict=True))) if parts else None

    def positions(self, term: str) -> Positions | None:
        """Return a term's positions, or None if the collection does not contain the term.

        Raises
        ------
        InputError
            If a shard has no positions.
        """
        by_shard = [(base, shard.positions(term)) for base, shard in self._based_shards()]
        parts = [(part.docs + base, part.tfs, part.positions) for base, part in by_shard if part is not None]
        return Positions(*map(np.concatenate, zip(*parts, strict=True))) if parts else None

    def field(self, name: str) -> ShardedIndex:
        """Return the index of one field, with the same document numbers.

        Raises
        ------
        InputError
            If a shard does not have the field.
        """
        if name not in self._fields:
            fields: list[Any] = [field_index(shard, name) for shard in self.shards]
            self._fields[name] = ShardedIndex(self.path, self.manifest, fields, name)
        return self._fields[name]

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers.

        Raises
        ------
        IndexError
            If a number is not between 0 and ``num_docs - 1``.
        """
        numbers = np.asarray(docs, np.int64)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.num_docs:
            raise IndexError(f"document numbers must be from 0 to {self.num_docs - 1}")
        return self._gathered(numbers, lambda shard, docs: shard.docnos(docs))

    def texts(self, docs: Sequence[int] | NDArray[np.integer], field: str = CONTENTS) -> list[str]:
        """Return the texts of documents by number; empty for documents without the field.

        Raises
        ------
        InputError
            If neither the index nor the shards store the texts.
        """
        if not self.manifest.joined or self._texts.open(field):
            return self._texts.of(docs, field)
        for shard in self.shards:
            shard.texts((), field)
        return self._gathered(np.asarray(docs, np.int64), lambda shard, docs: shard.texts(docs, field))

    def _gathered(self, numbers: Integers, read: Callable[[AnyShard, Integers], list[str]]) -> list[str]:
        """Read strings of documents from their shards; return them in the order of `numbers`."""
        strings = np.empty(numbers.size, object)
        shard_of = np.searchsorted(self.bases, numbers, "right") - 1
        for at in np.unique(shard_of).tolist():
            in_shard = shard_of == at
            strings[in_shard] = read(self.shards[at], numbers[in_shard] - self.bases[at])
        return list(strings)

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos; -1 for a docno that the index does not have."""
        numbers = np.full(len(docnos), -1, np.int32)
        for base, shard in self._based_shards():
            in_shard = shard.doc_numbers(docnos)
            numbers = np.where(in_shard >= 0, in_shard + base, numbers)
        return numbers

    def ranks_of(self, docs: NDArray[np.integer]) -> Integers32:
        """Return the `docno_rank` of some documents, without reading the whole column."""
        return self._ranks.take(docs)

    def stale_reason(self, source: DocumentSource) -> str | None:
        """Return why the index is not of these documents; None if it is, or if this is unknown."""
        first = self.shards[0]
        if self.manifest.joined or not isinstance(first, ColumnarIndex):
            return None
        wanted = manifest.make_fingerprint(source.digest(), first.manifest.analyzer_fingerprint)
        return None if wanted == self.fingerprint else "the index was built from other documents"

    def _based_shards(self) -> Iterator[tuple[np.int32, Any]]:
        return zip(self.bases.astype(np.int32)[:-1], self.shards, strict=True)


def open_shard(home: Path, shard: StoredShard) -> AnyShard:
    """Open one shard of the sharded index in the folder `home`.

    Raises
    ------
    InputError
        If the shard is missing or damaged, or has changed since it was joined.
    """
    from lmtune.index.lucene.index import LUCENE_PREFIX, LuceneIndex

    path = Path(os.path.normpath(home / shard.path.removeprefix(LUCENE_PREFIX)))
    if not path.is_dir():
        raise InputError("a shard is missing", file=path, value=f"of {home}", accepted=_ACCEPTED)
    is_lucene = shard.path.startswith(LUCENE_PREFIX)
    opened = LuceneIndex.open(path) if is_lucene else ColumnarIndex.open(path, verify=False)
    if (opened.fingerprint, opened.num_docs) != (shard.fingerprint, shard.num_docs):
        raise InputError("a shard has changed", file=path, value=f"of {home}", accepted=_ACCEPTED)
    return opened


def shards_of(index: Index) -> Sequence[Index]:
    """Return an index's shards, or the index itself if it is not sharded."""
    return index.shards if isinstance(index, ShardedIndex) else [index]


def over_shards(index: Index, function: Callable[..., _T], **arguments: Any) -> Iterator[tuple[int, _T]]:
    """Call a function with each shard of an index, in parallel if `lmtune.parallel` is so configured.

    Parameters
    ----------
    index : Index
        An index. If it is not sharded, the function is called with it in this process.
    function : callable
        A module-level function, since other processes may call it. Its arguments are the shard, as ``shard``,
        and `arguments`.

    Yields
    ------
    tuple of int and object
        The number of the shard's first document, and the result. Results come in order of completion.
    """
    if not isinstance(index, ShardedIndex):
        yield 0, function(index, **arguments)
        return
    tasks: list[Task] = [(function, {"shard": shard, **arguments}) for shard in index.shards]
    for number, result in run_all(tasks):
        yield int(index.bases[number]), result


def write_shards(folder: Path, manifest: ShardsManifest) -> None:
    """Write ``shards.json`` into a sharded index's folder."""
    content = {"format": SHARDED_FORMAT, "version": SHARDED_VERSION} | asdict(manifest)
    text = sealed_text(content)
    (folder / SHARDS_FILE).write_text(text, encoding="ascii")


def read_shards(folder: Path) -> ShardsManifest:
    """Read ``shards.json`` from a sharded index's folder.

    Raises
    ------
    InputError
        If there is no sharded index, or it is damaged or of another format version.
    """
    path = folder / SHARDS_FILE
    if not is_folder(folder) or not path.is_file():
        raise InputError(
            "there is no sharded index here",
            file=folder,
            accepted="a folder of lmtune index --shards or --join",
        )
    try:
        content = unsealed(read_bytes(path), kinds=typing.get_type_hints(ShardsManifest) | _PARTS)
        if (content["format"], content["version"]) != (SHARDED_FORMAT, SHARDED_VERSION):
            raise ValueError("another format")
        kinds = typing.get_type_hints(StoredShard)
        shards = [StoredShard(**require_types(entry, kinds)) for entry in content["shards"]]
        ranks = read_columns({RANKS: content["ranks"]}, [RANKS])[RANKS]
        source, joined, fingerprints = (content[name] for name in ("source", "joined", "fingerprints"))
        require_types(fingerprints, {"": str})
    except (ValueError, KeyError, TypeError):
        raise InputError(
            "the manifest of a sharded index is damaged, or of another version", file=path, accepted=_ACCEPTED
        ) from None
    return ShardsManifest(source, joined, fingerprints, shards, ranks)


_PARTS = {"shards": list[dict], "ranks": dict, "format": str, "version": int}  # type: ignore[type-arg]


def _reopen(path: Path, fingerprint: str, field: str) -> ShardedIndex:
    index = ShardedIndex.open(path, fingerprint=fingerprint)
    return index.field(field) if field else index
