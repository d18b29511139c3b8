"""``lmtune search``: write a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmtune.cli import options, values
from lmtune.cli.prepare import Names, build_pool, open_dataset, open_index
from lmtune.cli.screen import note, timed
from lmtune.errors import InputError


def search(
    dataset: Annotated[
        str | None, typer.Argument(help="pydocs, a folder, or irds:ID; see `lmtune datasets`.")
    ] = None,
    documents: options.Documents = None,
    index: options.Index = None,
    topics: options.Topics = None,
    topic_fields: options.TopicFields = "title",
    lambda_: Annotated[float, typer.Option("--lambda", help="0 <= lambda < 1.")] = 0.0,
    mu: Annotated[float, typer.Option(help="mu > 0, in tokens.")] = 1000.0,
    hits: Annotated[int, typer.Option(help="Documents a topic.")] = 1000,
    output: Annotated[Path, typer.Option(help="The run; .gz compresses; - is the screen.")] = Path(
        "-"
    ),
    run_tag: Annotated[str | None, typer.Option(help="Default: lmtune-lambda...-mu...")] = None,
    stemmer: options.Stemmer = "porter",
    stopwords: options.Stopwords = "lucene",
    indexes: options.Indexes = Path("indexes"),
) -> None:
    """Write a TREC run."""
    from lmtune.formats.runs import write_run
    from lmtune.indexing.analysis import Analyzer
    from lmtune.models.ranking import rank
    from lmtune.models.two_stage import check_parameters

    check_parameters(lambda_, mu)
    if hits < 1:
        raise InputError("bad --hits", value=hits, accepted="1 or more")
    names = Names(dataset, documents, index, topics, None, values.fields(topic_fields))
    data = open_dataset(names, need=("documents", "topics"))
    opened = open_index(data, names, Analyzer(stemmer=stemmer, stopwords=stopwords), indexes)
    pool, notes = build_pool(data, opened, list(data.topics))
    for text in notes:
        note(f"{data.name}: {text}")
    tag = run_tag or f"lmtune-lambda{lambda_:g}-mu{mu:g}"
    target = Path("/dev/stdout") if str(output) == "-" else output
    with timed(f"{len(pool.topics)} topics ranked"):
        write_run(target, rank(pool, lambda_=lambda_, mu=mu, hits=hits), tag=tag)
