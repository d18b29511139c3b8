"""Build the index of a collection, lmtune's own or Lucene's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lmtune.collections.collection import Collection
from lmtune.collections.loading import load
from lmtune.collections.names import SHARDED, find_index
from lmtune.errors import InputError
from lmtune.index.builder import build_index
from lmtune.index.cache import cached_path
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.lucene.writer import LUCENE_KIND
from lmtune.index.manifest import INDEX_KIND
from lmtune.index.protocol import CONTENTS, StoredIndex
from lmtune.index.sharded import SHARDED_KIND, ShardedIndex
from lmtune.index.sharding import build_sharded_index, join_indexes
from lmtune.index.text_store import keep_texts
from lmtune.io.documents import DocumentSource, ListDocuments, check_held
from lmtune.io.folders import check_directory
from lmtune.options import option, usual
from lmtune.parallel import width
from lmtune.progress import Progress, note, quantity, silent, timed
from lmtune.threads import cores

EMBEDDED, LUCENE = "embedded", "lucene"


@dataclass(frozen=True)
class Building:
    """The index.

    Attributes
    ----------
    output : path or None
        Its folder; by default where `lmtune.collections.collection.Collection` looks for it.
    engine : {"embedded", "lucene"}
        lmtune's own, or Lucene through Anserini.
    positions : bool
        Whether to keep where terms stand.
    keep_text : bool
        Whether to keep the documents' text, and that of the fields that are indexed too.
    memory : int
        Their budget, in MiB.
    shards : int or None
        In how many parts, each an index of its own.
    join : tuple of str
        Indexes that are there, to be shards of one, in place of documents.

    Raises
    ------
    InputError
        For Lucene or shards without a folder, and for shards in Lucene's format or beside joined ones.
    """

    output: Path | None = usual(None, "Default: where `lmtune tune` looks.")
    engine: str = option(
        EMBEDDED, "embedded, or lucene: through Anserini; needs --output.", choices=(EMBEDDED, LUCENE)
    )
    positions: bool = usual(False, "Keep where terms stand too, a byte or two a token: for --model sdm.")
    keep_text: bool = usual(
        False, "Keep the documents' text too, and that of --fields, compressed: for rerankers of text."
    )
    memory: int = usual(1024, "Budget for all processes, in MiB.", low=1)

    shards: int | None = usual(None, "In so many shards; use it with --index sharded:PATH.", low=1)
    join: tuple[str, ...] = option(
        (),
        "In place of documents indexes, which become shards of one: folders, or lucene:PATH.",
        metavar="PATH,...",
    )

    def __post_init__(self) -> None:
        flags = {"--engine lucene": self.engine == LUCENE, "--shards": self.shards, "--join": self.join}
        wanted = [flag for flag, is_wanted in flags.items() if is_wanted]
        if wanted and self.output is None:
            raise InputError(f"{wanted[0]} needs --output", accepted="--output PATH")
        if len(wanted) > 1:
            raise InputError(f"{wanted[1]} with {wanted[0]}", accepted="one of them")


def build(collection: Collection, building: Building, *, progress: Progress = silent) -> Path:
    """Build a collection's index.

    Parameters
    ----------
    collection : Collection
        Its name or documents, and the analysis.
    building : Building
        Where and how.
    progress : Progress
        Called while documents are indexed.

    Returns
    -------
    path
        The index's folder.

    Raises
    ------
    InputError
        For documents that cannot be indexed.
    """
    if building.join:
        return _join(collection, building)
    if building.output is not None:
        if building.shards is not None:
            kind = SHARDED_KIND
        else:
            kind = LUCENE_KIND if building.engine == LUCENE else INDEX_KIND
        check_directory(building.output, kind, reads=collection.files())
    data = load(collection.name, documents=collection.documents, need=("documents",))
    source = data.documents or ListDocuments(data.name, [])
    for field in collection.fields:
        check_held(source, field)
    if building.engine == LUCENE and building.output is not None:
        if collection.fields:
            raise InputError(
                "--fields with --engine lucene", value=collection.fields, accepted="--engine embedded"
            )
        from lmtune.index.lucene.index import build_lucene_index

        with timed(f"indexed {source.name}"):
            count = build_lucene_index(
                source,
                building.output,
                stemmer=collection.stemmer or "porter",
                stopwords=collection.stopwords or "lucene",
                positions=building.positions,
                raw=building.keep_text,
                workers=width() or cores(),
                memory_mb=building.memory,
                progress=progress,
            )
        note(f"{building.output}: {count:,} documents; use it with --index lucene:{building.output}")
        return building.output
    return _build_own(source, collection, building, progress)


def _join(collection: Collection, building: Building) -> Path:
    names = "name", "documents", "fields", "stemmer", "stopwords"
    if any(getattr(collection, name) for name in names) or building.output is None:
        raise InputError("--join with documents or their analysis", accepted="--join PATH,... --output PATH")
    with timed(f"joined {quantity(len(building.join), 'index', 'indexes')}"):
        places = [find_index(name).removeprefix(SHARDED) for name in building.join]
        joined = join_indexes(places, building.output)
    note(f"{building.output}: {joined.num_docs:,} documents in {len(joined.shards)} shards")
    return building.output


def _build_own(
    source: DocumentSource, collection: Collection, building: Building, progress: Progress
) -> Path:
    analyzer = collection.analyzer()
    path = building.output or cached_path(source, analyzer, positions=building.positions)
    how: dict[str, Any] = {
        "fields": collection.fields,
        "positions": building.positions,
        "memory_bytes": building.memory << 20,
        "progress": lambda done, total: progress(f"indexing {source.name}", done, total),
    }
    built: ColumnarIndex | ShardedIndex

    def keep(index: StoredIndex) -> None:
        for field in (CONTENTS, *collection.fields):
            keep_texts(source, index, field, progress=partial(progress, f"keeping text of {source.name}"))

    if building.keep_text:
        how["finish"] = keep
    with timed(f"indexed {source.name}"):
        if building.shards is not None:
            built = build_sharded_index(source, path, analyzer, building.shards, **how)
        else:
            built = build_index(source, path, analyzer, **how)
    everything: list[ColumnarIndex | ShardedIndex] = [
        built,
        *(built.field(name) for name in collection.fields),
    ]
    for own in everything:
        parts = (own.unique_terms, "term") if isinstance(own, ColumnarIndex) else (len(own.shards), "shard")
        size = f"{quantity(own.num_docs, 'document')}, {quantity(own.total_terms, 'token')}"
        note(f"{own.path}: {size}, {quantity(*parts)}")
    return path
