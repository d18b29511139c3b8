"""Build the index of a collection, lmtune's own or Lucene's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lmtune.datasets.collection import Collection
from lmtune.datasets.loading import load
from lmtune.errors import InputError
from lmtune.formats.documents import ListDocuments, check_held
from lmtune.formats.folders import check_directory
from lmtune.indexing.builder import build_index
from lmtune.indexing.cache import cached_path
from lmtune.indexing.index import CONTENTS
from lmtune.indexing.lucene.writer import KIND as LUCENE_KIND
from lmtune.indexing.manifest import KIND
from lmtune.indexing.text_store import keep_texts
from lmtune.options import option
from lmtune.progress import Progress, note, silent, timed
from lmtune.threads import cores

EMBEDDED, LUCENE = "embedded", "lucene"


@dataclass(frozen=True)
class Building:
    """The index.

    Attributes
    ----------
    output : path or None
        Its folder; by default where `lmtune.datasets.collection.Collection` looks for it.
    engine : {"embedded", "lucene"}
        lmtune's own, or Lucene through Anserini.
    positions : bool
        Whether to keep where terms stand.
    keep_text : bool
        Whether to keep the documents' text, and that of the fields that are indexed too.
    workers : int or None
        Processes, for Lucene threads; as many as cores by default.
    memory : int
        Their budget, in MiB.

    Raises
    ------
    InputError
        For Lucene without a folder.
    """

    output: Path | None = option(None, "Default: where `lmtune tune` looks.")
    engine: str = option(
        EMBEDDED, "embedded, or lucene: through Anserini; needs --output.", choices=(EMBEDDED, LUCENE)
    )
    positions: bool = option(False, "Keep where terms stand too, a byte or two a token: for --model sdm.")
    keep_text: bool = option(
        False, "Keep the documents' text too, and that of --fields, compressed: for rerankers of text."
    )
    workers: int | None = option(None, "Processes; default: the cores.", low=1)
    memory: int = option(1024, "Budget for all processes, in MiB.", low=1)

    def __post_init__(self) -> None:
        if self.engine == LUCENE and self.output is None:
            raise InputError("--engine lucene needs --output", accepted="--output PATH")


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
    if building.output is not None:
        kind = LUCENE_KIND if building.engine == LUCENE else KIND
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
        from lmtune.indexing.lucene.index import build_lucene_index

        with timed(f"indexed {source.name}"):
            count = build_lucene_index(
                source,
                building.output,
                stemmer=collection.stemmer or "porter",
                stopwords=collection.stopwords or "lucene",
                positions=building.positions,
                raw=building.keep_text,
                workers=building.workers or cores(),
                memory_mb=building.memory,
                progress=progress,
            )
        note(f"{building.output}: {count:,} documents; use it with --index lucene:{building.output}")
        return building.output
    analyzer = collection.analyzer()
    path = building.output or cached_path(source, analyzer)
    with timed(f"indexed {source.name}"):
        built = build_index(
            source,
            path,
            analyzer,
            fields=collection.fields,
            positions=building.positions,
            workers=building.workers,
            memory_bytes=building.memory << 20,
            progress=lambda done, total: progress(f"indexing {source.name}", done, total),
        )
    for field in (CONTENTS, *collection.fields) if building.keep_text else ():
        keep_texts(source, built, field, progress=partial(progress, f"keeping text of {source.name}"))
    for own in (built, *map(built.field, collection.fields)):
        size = f"{own.num_docs:,} documents, {own.total_terms:,} tokens, {own.unique_terms:,} terms"
        note(f"{own.path}: {size}")
    return path
