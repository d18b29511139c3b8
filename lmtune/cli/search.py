"""``lmtune index``, ``search`` and ``datasets``: build an index, write a run, list collections."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from lmtune.candidates.explaining import explain_document, write_explained
from lmtune.candidates.ranking import Searched
from lmtune.candidates.ranking import search as search_collection
from lmtune.cli.messages import note, say
from lmtune.cli.parameters import SettingOptions, Tuned
from lmtune.cli.screen import stages, utf8_output
from lmtune.collections.building import Building, build
from lmtune.collections.collection import Collection
from lmtune.collections.loading import available
from lmtune.collections.names import Role, named_files
from lmtune.collections.provenance import check_recorded, describe, write_record
from lmtune.collections.texts import texts_for
from lmtune.errors import InputError, visible
from lmtune.io.folders import check_file
from lmtune.io.runs import check_tag, write_run
from lmtune.models.model import find_model
from lmtune.options import usual
from lmtune.parallel import Workers
from lmtune.progress import quantity, timed
from lmtune.threads import cores


def index(
    dataset: Annotated[str | None, "pydocs, a folder or irds:ID; see `lmtune datasets`.", "DATASET"],
    collection: Annotated[
        Collection, "index", "topics", "qrels", "split", "topic_fields", "lengths", "exclude_self", "indexes"
    ],
    building: Building,
    workers: Workers,
) -> None:
    """Build an index of a collection.

    Examples
    --------
    lmtune index pydocs
    lmtune index my-collection --positions --keep-text
    """
    with workers.engaged(cores()), stages() as progress:
        build(replace(collection, name=dataset), building, progress=progress)


_ANSWERS, _WIDTH = 10, 80
_MOST = 1000
"""Most lines of a run that are printed on a terminal without --output -."""


@dataclass(frozen=True)
class _RunOptions:
    """Output."""

    hits: int = usual(1000, "Documents per topic.", low=1)
    output: Path | None = usual(
        None,
        "Write the run to this file; .gz compresses. Default: -, standard output (on a terminal at most "
        f"{_MOST:,} lines).",
    )
    explain: Path | None = usual(
        None, "Write each topic's terms, their weights and the factors of these to this file.", metavar="FILE"
    )
    explain_doc: str | None = usual(
        None, "Explain this document's score for QUERY term by term.", metavar="DOCNO"
    )
    run_tag: str | None = usual(None, "Tag of the run; default: lmtune-, the model and its parameters.")


def search(
    dataset: Annotated[str | None, "pydocs, a folder or irds:ID; see `lmtune datasets`.", "DATASET"],
    query: Annotated[
        str | None, "Search for this query instead of the topics, and print the results.", "QUERY"
    ],
    collection: Annotated[Collection, "qrels"],
    setting: SettingOptions,
    tuned: Tuned,
    run: _RunOptions,
    workers: Workers,
) -> None:
    """Search a collection for its topics or for one query.

    Examples
    --------
    lmtune search my-collection "bird flu" --model bm25 --explain-doc d17
    lmtune search my-collection --model bm25 --set b=0.3 --output bm25.run
    """
    output = run.output or Path("-")
    on_screen = str(output) in ("-", "/dev/stdout")
    if run.explain_doc is not None and query is None:
        raise InputError("--explain-doc without a query", accepted="lmtune search DATASET QUERY")
    named = replace(collection, name=dataset)
    if not on_screen:
        check_recorded(output, reads=named.files())
    model, values, collection = setting.of(tuned, named)
    tag = f"lmtune-{find_model(model).describe(values)}" if run.run_tag is None else run.run_tag
    check_tag(tag)
    if run.explain is not None:
        check_file(run.explain, reads=named.files())
    with workers.engaged(), stages() as progress:
        few = query is not None and on_screen and run.hits == _RunOptions.hits and run.explain_doc is None
        hits = _ANSWERS if few else run.hits
        how: Any = {"query": query, "progress": progress}
        if run.output is None and sys.stdout.isatty():
            how["check_size"] = _check_lines
        done = search_collection(collection, model, values, hits=hits, **how)
    if tuned.results is None:
        note(f"{model} with {', '.join(f'{name} = {value:.6g}' for name, value in values.items())}")
    if run.explain is not None:
        write_explained(str(run.explain), done.pool, values)
    if query is not None and on_screen:
        lines = _answers(done)
        if run.explain_doc is not None:
            lines = explain_document(done.pool, "1", run.explain_doc, values).lines()
        say("".join(f"{line}\n" for line in lines))
        return
    with timed(f"{quantity(len(done.dataset.topics), 'topic')} ranked"):
        if on_screen:
            with utf8_output() as stream:
                write_run(stream, done.rankings, tag=tag)
            return
        write_run(output, done.rankings, tag=tag)
    write_record(output, model={"name": model, **values}, **describe(done.dataset, done.index))


def _check_lines(lines: int) -> None:
    """Raise `InputError` for a run that is too long for a terminal."""
    if lines > _MOST:
        raise InputError(
            "the run is too long for a terminal",
            value=f"up to {lines:,} lines",
            accepted="--output FILE, --output - for all of them here, or a smaller --hits",
        )


def _answers(done: Searched) -> Iterator[str]:
    """Yield a line for each document: rank, docno, score and the beginning of its text."""
    [ranking] = done.rankings
    begins = [""] * len(ranking.docnos)
    with suppress(InputError):  # the documents of an index may be elsewhere
        texts = texts_for(done.index, done.dataset.documents)
        begins = [" ".join(text.split())[:_WIDTH] for text in texts.of(ranking.docnos)]
    width = max(map(len, ranking.docnos), default=0)
    found = zip(ranking.docnos, ranking.scores.tolist(), begins, strict=True)
    for rank, (docno, score, begin) in enumerate(found, 1):
        yield f"{rank:4}  {docno:{width}}  {score:9.4f}  {begin}".rstrip()
    if not ranking.docnos:
        yield "no document contains a term of the query"


def datasets() -> None:
    """List available collections.

    Examples
    --------
    lmtune datasets
    """
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=200, no_color=True, highlight=False)
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("DATASET", "what it is"):
        table.add_column(column)
    for name, description in available():
        table.add_row(name, description)
    table.add_row("--documents PATH --topics NAME --qrels NAME", "files by name or path")
    console.print(table)
    console.print()
    roles: tuple[Role, ...] = ("topics", "qrels")
    for role in roles:
        names = ", ".join(named_files(role)) or f"none; {role}/{role}.NAME.txt gives a name"
        console.print(visible(f"--{role} names in this folder: {names}"), markup=False)
