"""Building the index of a collection, in lmtune's or Lucene's format."""

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
from lmtune.io.documents import DocumentSource, ListDocuments, check_field_present
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
        Folder of the index; by default the one that `lmtune.collections.collection.Collection` opens.
    engine : {"embedded", "lucene"}
        lmtune's format, or Lucene's through Anserini.
    positions : bool
        Whether to store the positions of terms.
    keep_text : bool
        Whether to store the text of the documents and of the indexed fields.
    memory : int
        Memory limit of all processes, in MiB.
    shards : int or None
        Number of shards, each a separate index.
    join : tuple of str
        Existing indexes that become the shards of a new one, instead of documents.

    Raises
    ------
    InputError
        If Lucene, shards or joined indexes have no folder, or are combined.
    """

    output: Path | None = usual(None, "Folder of the index; default: where `lmtune tune` looks for it.")
    engine: str = option(
        EMBEDDED, "embedded, or lucene (through Anserini; needs --output).", choices=(EMBEDDED, LUCENE)
    )
    positions: bool = usual(False, "Store positions of terms, one or two bytes per token, for --model sdm.")
    keep_text: bool = usual(
        False, "Store the compressed text of documents and --fields, for rerankers of text."
    )
    memory: int = usual(1024, "Memory limit of all processes, in MiB.", low=1)

    shards: int | None = usual(None, "Number of shards; open them with --index sharded:PATH.", low=1)
    join: tuple[str, ...] = option(
        (),
        "Existing indexes that become shards of a new one, instead of documents: folders, or lucene:PATH.",
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
        The collection's name or documents, and the analysis.
    building : Building
        The options of the index.
    progress : Progress
        Called while documents are indexed.

    Returns
    -------
    path
        The index's folder.

    Raises
    ------
    InputError
        If the documents cannot be indexed.
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
        check_field_present(source, field)
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
        folders = [find_index(name).removeprefix(SHARDED) for name in building.join]
        joined = join_indexes(folders, building.output)
    note(f"{building.output}: {joined.num_docs:,} documents in {len(joined.shards)} shards")
    return building.output


def _build_own(
    source: DocumentSource, collection: Collection, building: Building, progress: Progress
) -> Path:
    analyzer = collection.analyzer()
    path = building.output or cached_path(source, analyzer, positions=building.positions)
    options: dict[str, Any] = {
        "fields": collection.fields,
        "positions": building.positions,
        "memory_bytes": building.memory << 20,
        "progress": lambda done, total: progress(f"indexing {source.name}", done, total),
    }
    built: ColumnarIndex | ShardedIndex

    def keep(index: StoredIndex) -> None:
        for field in (CONTENTS, *collection.fields):
            keep_texts(source, index, field, progress=partial(progress, f"storing text of {source.name}"))

    if building.keep_text:
        options["finish"] = keep
    with timed(f"indexed {source.name}"):
        if building.shards is not None:
            built = build_sharded_index(source, path, analyzer, building.shards, **options)
        else:
            built = build_index(source, path, analyzer, **options)
    indexes: list[ColumnarIndex | ShardedIndex] = [built, *(built.field(name) for name in collection.fields)]
    for index in indexes:
        if isinstance(index, ColumnarIndex):
            parts = quantity(index.unique_terms, "term")
        else:
            parts = quantity(len(index.shards), "shard")
        size = f"{quantity(index.num_docs, 'document')}, {quantity(index.total_terms, 'token')}"
        note(f"{index.path}: {size}, {parts}")
    return path
