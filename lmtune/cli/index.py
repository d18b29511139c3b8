"""``lmtune index``: build the embedded index of a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmtune.cli import options, values
from lmtune.cli.screen import note, stages, timed
from lmtune.errors import InputError


def index(
    dataset: Annotated[
        str | None, typer.Argument(help="pydocs, a folder, irds:ID ...; see `lmtune datasets`.")
    ] = None,
    documents: options.Documents = None,
    output: Annotated[Path | None, typer.Option(help="Default: where `lmtune tune` looks.")] = None,
    stemmer: options.Stemmer = None,
    stopwords: options.Stopwords = None,
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
    data = load(dataset, documents=documents, need=("documents",))
    source = data.documents or ListDocuments(data.name, [])
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
    note(
        f"{path}: {built.num_docs:,} documents, {built.total_terms:,} tokens, "
        f"{built.unique_terms:,} terms"
    )
