"""``lmtune index``: build the embedded index of a collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmtune.cli import options, values
from lmtune.cli.screen import stages
from lmtune.errors import InputError
from lmtune.progress import note, timed

if TYPE_CHECKING:
    from lmtune.formats.documents import DocumentSource

_ENGINES = ("embedded", "lucene")


def index(
    dataset: Annotated[
        str | None, typer.Argument(help="pydocs, a folder, irds:ID ...; see `lmtune datasets`.")
    ] = None,
    documents: options.Documents = None,
    output: Annotated[Path | None, typer.Option(help="Default: where `lmtune tune` looks.")] = None,
    stemmer: options.Stemmer = None,
    stopwords: options.Stopwords = None,
    engine: Annotated[
        str, typer.Option(help="embedded, or lucene: through Anserini; needs --output.")
    ] = "embedded",
    workers: Annotated[int | None, typer.Option(help="Processes; default: the cores.")] = None,
    memory: Annotated[int, typer.Option(help="Budget for all processes, in MiB.")] = 1024,
) -> None:
    """Build an index of a collection."""
    from lmtune.datasets.loading import load
    from lmtune.formats.documents import ListDocuments
    from lmtune.indexing.builder import build_index
    from lmtune.indexing.cache import cached_path

    if memory < 1:
        raise InputError("bad --memory", value=memory, accepted="1 or more, in MiB")
    if engine not in _ENGINES:
        raise InputError("unknown --engine", value=engine, accepted=" or ".join(_ENGINES))
    if engine == "lucene" and output is None:
        raise InputError("--engine lucene needs --output", accepted="--output PATH")
    data = load(dataset, documents=documents, need=("documents",))
    source = data.documents or ListDocuments(data.name, [])
    if engine == "lucene" and output is not None:
        _with_lucene(source, output, stemmer, stopwords, workers, memory)
        return
    analyzer = values.analyzer(stemmer, stopwords)
    path = output or cached_path(source, analyzer)
    with stages() as report, timed(f"indexed {source.name}"):
        built = build_index(
            source,
            path,
            analyzer,
            workers=workers,
            memory_bytes=memory << 20,
            progress=lambda done, total: report(f"indexing {source.name}", done, total),
        )
    note(f"{path}: {built.num_docs:,} documents, {built.total_terms:,} tokens, {built.unique_terms:,} terms")


def _with_lucene(
    source: DocumentSource,
    path: Path,
    stemmer: str | None,
    stopwords: str | None,
    workers: int | None,
    memory: int,
) -> None:
    from lmtune.indexing.lucene.index import build_lucene_index
    from lmtune.threads import cores

    with stages() as report, timed(f"indexed {source.name}"):
        count = build_lucene_index(
            source,
            path,
            stemmer=stemmer or "porter",
            stopwords=stopwords or "lucene",
            workers=workers or cores(),
            memory_mb=memory,
            progress=report,
        )
    note(f"{path}: {count:,} documents; use it with --index lucene:{path}")
