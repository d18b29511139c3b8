"""Several indexes as one: its postings are theirs, one shard's documents after another's."""

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
"""A sharded index's folder; shards may also lie elsewhere."""

_ACCEPTED = (
    "the shard as it was, or the shards joined again: lmtune index --join SHARD,SHARD,... --output PATH"
)

_T = TypeVar("_T")
AnyShard: TypeAlias = "ColumnarIndex | LuceneIndex"


@dataclass(frozen=True)
class StoredShard:
    """What the manifest says of a shard.

    Attributes
    ----------
    path : str
        Its folder, from that of the sharded index; ``lucene:`` stands before one of Lucene's.
    fingerprint : str
        Its own `Index.fingerprint`.
    num_docs : int
        Its documents.
    """

    path: str
    fingerprint: str
    num_docs: int


@dataclass(frozen=True)
class ShardsManifest:
    """What ``shards.json`` says.

    Attributes
    ----------
    source : str
        The collection's name.
    joined : bool
        Whether the shards were there before, so that nothing is known of their documents' files.
    fingerprints : dict of str to str
        Of the whole under ``""``, and of each field. Of shards that were cut from one collection
        they are those of one index of it.
    shards : list of StoredShard
        In the order of their documents.
    ranks : StoredColumn
        Each document's place among the docnos of all shards.
    """

    source: str
    joined: bool
    fingerprints: dict[str, str]
    shards: list[StoredShard]
    ranks: StoredColumn


class ShardedIndex:
    """Shards as one index; satisfies `Index`, and what else all of its shards do. Use `open`.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    manifest : ShardsManifest
        The shards and what is known of all of them.
    shards : tuple of ColumnarIndex or LuceneIndex
        The shards, open.
    bases : numpy.ndarray of int64, shape (shards + 1,)
        Where each shard's documents begin, and where the last one's end.
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
            Its folder.
        fingerprint : str, optional
            That of the index that is expected.

        Raises
        ------
        InputError
            If there is no index, or another one than is expected, it is damaged, or a shard is missing
            or has changed, naming it.
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
        """Each document's place among the docnos in ascending code-point order, (num_docs,)."""
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
        """Turn query text into index terms, in order, repeats kept."""
        return self.shards[0].analyze(text)

    def postings(self, term: str) -> Postings | None:
        """Return the term's postings, or None where the collection lacks the term."""
        found = [(base, own.postings(term)) for base, own in self._based()]
        held = [(own.docs + base, own.tfs) for base, own in found if own is not None]
        return Postings(*map(np.concatenate, zip(*held, strict=True))) if held else None

    def positions(self, term: str) -> Positions | None:
        """Return where a term stands, or None where the collection lacks the term.

        Raises
        ------
        InputError
            Where a shard has no positions.
        """
        found = [(base, own.positions(term)) for base, own in self._based()]
        held = [(own.docs + base, own.tfs, own.positions) for base, own in found if own is not None]
        return Positions(*map(np.concatenate, zip(*held, strict=True))) if held else None

    def field(self, name: str) -> ShardedIndex:
        """Return the index of one field of the documents, which have the same numbers there.

        Raises
        ------
        InputError
            Where a shard has none.
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
            If a number is not one of 0 to ``num_docs - 1``.
        """
        numbers = np.asarray(docs, np.int64)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.num_docs:
            raise IndexError(f"document numbers must be from 0 to {self.num_docs - 1}")
        return self._gathered(numbers, lambda shard, docs: shard.docnos(docs))

    def texts(self, docs: Sequence[int] | NDArray[np.integer], field: str = CONTENTS) -> list[str]:
        """Return one field's text of documents by number, empty where a document lacks the field.

        Raises
        ------
        InputError
            Where neither the index nor a shard keeps it.
        """
        if not self.manifest.joined or self._texts.open(field):
            return self._texts.of(docs, field)
        for shard in self.shards:
            shard.texts((), field)
        return self._gathered(np.asarray(docs, np.int64), lambda shard, docs: shard.texts(docs, field))

    def _gathered(self, numbers: Integers, read: Callable[[AnyShard, Integers], list[str]]) -> list[str]:
        """Read of each document where it lies."""
        found = np.empty(numbers.size, object)
        home = np.searchsorted(self.bases, numbers, "right") - 1
        for place in np.unique(home).tolist():
            here = home == place
            found[here] = read(self.shards[place], numbers[here] - self.bases[place])
        return list(found)

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos, -1 where the index lacks one."""
        numbers = np.full(len(docnos), -1, np.int32)
        for base, shard in self._based():
            own = shard.doc_numbers(docnos)
            numbers = np.where(own >= 0, own + base, numbers)
        return numbers

    def ranks_of(self, docs: NDArray[np.integer]) -> Integers32:
        """Return some documents' `docno_rank`, without reading all."""
        return self._ranks.take(docs)

    def stale_reason(self, source: DocumentSource) -> str | None:
        """Say why the index does not stand for documents; None where it does, or nobody can tell."""
        first = self.shards[0]
        if self.manifest.joined or not isinstance(first, ColumnarIndex):
            return None
        wanted = manifest.make_fingerprint(source.digest(), first.manifest.analyzer_fingerprint)
        return None if wanted == self.fingerprint else "the index was built from other documents"

    def _based(self) -> Iterator[tuple[np.int32, Any]]:
        return zip(self.bases.astype(np.int32)[:-1], self.shards, strict=True)


def open_shard(home: Path, shard: StoredShard) -> AnyShard:
    """Open one shard of the sharded index in a folder.

    Raises
    ------
    InputError
        Where it is missing, damaged or another one than when it was joined.
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
    """Return an index's shards; the index itself where it has none."""
    return index.shards if isinstance(index, ShardedIndex) else [index]


def over_shards(index: Index, function: Callable[..., _T], **arguments: Any) -> Iterator[tuple[int, _T]]:
    """Call a function with each shard of an index, in parallel where that is asked for.

    Parameters
    ----------
    index : Index
        One without shards counts as one shard, and the function is called here.
    function : callable
        A module's, as it may be called elsewhere; it takes the shard as ``shard``, and the other arguments.

    Yields
    ------
    tuple of int and object
        The number of the shard's first document, and the result, as soon as it is there, in no order.
    """
    if not isinstance(index, ShardedIndex):
        yield 0, function(index, **arguments)
        return
    tasks: list[Task] = [(function, {"shard": shard, **arguments}) for shard in index.shards]
    for place, result in run_all(tasks):
        yield int(index.bases[place]), result


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
        shards = [StoredShard(**require_types(own, kinds)) for own in content["shards"]]
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
