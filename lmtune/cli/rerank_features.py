"""``lmtune rerank features``: a run as a LETOR file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmtune.cli import options, rerank_options, values
from lmtune.cli.prepare import Names
from lmtune.cli.rerank_data import RunSource, run_features
from lmtune.errors import InputError


def features(
    dataset: Annotated[
        str | None, typer.Argument(help="The collection: pydocs, a folder, irds:ID ...")
    ] = None,
    run: rerank_options.Run = None,
    output: Annotated[Path | None, typer.Option(help="A LETOR file; .gz compresses.")] = None,
    documents: options.Documents = None,
    index: options.Index = None,
    topics: options.Topics = None,
    qrels: options.Qrels = None,
    topic_fields: options.TopicFields = "title",
    only: rerank_options.Only = None,
    lambda_: Annotated[float, typer.Option("--lambda", help="Of the tuned feature.")] = 0.4,
    mu: Annotated[float, typer.Option(help="Of the tuned feature.")] = 2500.0,
    depth: rerank_options.Depth = 1000,
    stemmer: options.Stemmer = None,
    stopwords: options.Stopwords = None,
    lengths: options.Lengths = None,
    indexes: options.Indexes = Path("indexes"),
) -> None:
    """Write a run's features and labels as a LETOR file; print what the features are."""
    from lmtune.formats.files import check_file
    from lmtune.formats.letor import write_letor
    from lmtune.formats.runs import read_run
    from lmtune.reranking.features import FEATURES

    if run is None or output is None:
        missing = "--run" if run is None else "--output"
        raise InputError(f"no {missing}", accepted="--run RUN --output FILE")
    check_file(output)
    names = Names(
        dataset, documents, index, topics, qrels, values.fields(topic_fields), stemmer, stopwords, lengths
    )
    source = RunSource(run, names, indexes, lambda_, mu, depth)
    data, _ = run_features(source, read_run(run), only=only, judged=True)
    write_letor(output, data)
    for number, feature in enumerate(FEATURES, 1):
        print(f"{number}\t{feature.name}\t{feature.what}")
