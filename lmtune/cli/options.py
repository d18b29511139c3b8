"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Documents = Annotated[
    str | None, typer.Option(help="Documents: a file or a folder (JSONL, TRECTEXT, TRECWEB; .gz .bz2 .zst).")
]
Index = Annotated[
    str | None,
    typer.Option(
        help="An index made by `lmtune index`; lucene:PATH, a Lucene index; lucene:NAME, a prebuilt"
        " one of pyserini."
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(help="Of a Lucene index: exact, or lucene, its own to a byte.", show_default="exact"),
]
Topics = Annotated[str | None, typer.Option(help="Topics: a path, or NAME in topics/.")]
Qrels = Annotated[str | None, typer.Option(help="Judgements: a path, or NAME in qrels/.")]
TopicFields = Annotated[
    str, typer.Option(help="Fields of SGML topics: title, desc, narr, or several with commas.")
]
Model = Annotated[str, typer.Option(help="two-stage, dirichlet, jelinek-mercer or lucene-dirichlet.")]
Stemmer = Annotated[str | None, typer.Option(help="porter, krovetz or none.", show_default="porter")]
Stopwords = Annotated[
    str | None, typer.Option(help="lucene, none, or a file with one word a line.", show_default="lucene")
]
Indexes = Annotated[Path, typer.Option(help="The folder where built indexes are kept.")]
IgnoreUnknown = Annotated[
    bool,
    typer.Option(
        "--ignore-unknown",
        help="Allow judgements of unknown topics (left out) and documents (never retrieved).",
    ),
]
