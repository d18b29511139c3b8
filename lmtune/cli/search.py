"""``lmtune search``: write a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lmtune.cli import options, values
from lmtune.cli.prepare import Names, open_dataset, open_index, unknown_terms
from lmtune.cli.screen import stages, utf8_output
from lmtune.errors import InputError
from lmtune.progress import note, timed


def search(
    dataset: Annotated[
        str | None, typer.Argument(help="pydocs, a folder, irds:ID ...; see `lmtune datasets`.")
    ] = None,
    documents: options.Documents = None,
    index: options.Index = None,
    topics: options.Topics = None,
    topic_fields: options.TopicFields = "title",
    model: options.Model = "two-stage",
    lambda_: Annotated[
        float | None,
        typer.Option("--lambda", help="0 <= lambda < 1.", show_default="0; jelinek-mercer 0.1, for titles"),
    ] = None,
    mu: Annotated[
        float | None, typer.Option(help="In tokens; mu > 0, or 0 with lambda > 0.", show_default="1000")
    ] = None,
    hits: Annotated[int, typer.Option(help="Documents a topic.")] = 1000,
    output: Annotated[Path, typer.Option(help="The run; .gz compresses; - is the screen.")] = Path("-"),
    run_tag: Annotated[
        str | None, typer.Option(help="Default: lmtune-lambda...-mu..., with a model's name.")
    ] = None,
    stemmer: options.Stemmer = None,
    stopwords: options.Stopwords = None,
    lengths: options.Lengths = None,
    indexes: options.Indexes = Path("indexes"),
) -> None:
    """Write a TREC run."""
    from lmtune.candidates.pool import CandidatePool
    from lmtune.formats.files import atomic_write, check_file
    from lmtune.formats.runs import check_tag, write_run
    from lmtune.models.model import find_model
    from lmtune.models.ranking import rank
    from lmtune.models.two_stage import check_parameters
    from lmtune.reporting.provenance import command, describe, versions

    lambda_, mu = values.setting(lambda_, mu, model)
    check_parameters(lambda_, mu)
    if hits < 1:
        raise InputError("bad --hits", value=hits, accepted="1 or more")
    on_screen = str(output) in ("-", "/dev/stdout")
    tag = f"lmtune-{find_model(model).describe(lambda_, mu)}" if run_tag is None else run_tag
    check_tag(tag)
    analyzer = values.analyzer(stemmer, stopwords, index)
    if not on_screen:
        check_file(output)
    names = Names(
        dataset, documents, index, topics, None, values.fields(topic_fields), stemmer, stopwords, lengths
    )
    data = open_dataset(names, need=("documents", "topics"))
    opened = open_index(data, names, analyzer, indexes)
    with stages() as report, timed(f"{data.name}: {len(data.topics)} topics extracted"):
        pool = CandidatePool.build(
            opened,
            data.topics,
            name=data.name,
            model=find_model(model).formula.name,
            progress=lambda done, total: report(f"topics of {data.name}", done, total),
        )
    for text in unknown_terms(pool):
        note(f"{data.name}: {text}")
    rankings = rank(pool, lambda_=lambda_, mu=mu, hits=hits)
    with timed(f"{len(pool.topics)} topics ranked"):
        if not on_screen:
            write_run(output, rankings, tag=tag)
            made = {
                "command": command(),
                "versions": versions(),
                "model": {"name": model, "lambda": lambda_, "mu": mu},
                **describe(data, opened),
            }
            with atomic_write(f"{output}.made.json") as file:
                file.write(json.dumps(made, indent=2) + "\n")
        else:
            with utf8_output() as stream:
                write_run(stream, rankings, tag=tag)
