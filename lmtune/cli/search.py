"""``lmtune index`` and ``lmtune search``: build a collection's index, write a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from lmtune.candidates.explaining import write_explained
from lmtune.candidates.search import search as search_collection
from lmtune.cli.parameters import Setting, Tuned
from lmtune.cli.screen import stages, utf8_output
from lmtune.datasets.building import Building, build
from lmtune.datasets.collection import Collection
from lmtune.formats.runs import check_tag, write_run
from lmtune.models.model import find_model
from lmtune.options import usual
from lmtune.parallel import Workers
from lmtune.progress import quantity, timed
from lmtune.reporting.provenance import check_recorded, describe, write_record
from lmtune.storage.outputs import check_file
from lmtune.threads import cores


def index(
    dataset: Annotated[str | None, "pydocs, a folder, irds:ID ...; see `lmtune datasets`.", "DATASET"],
    collection: Annotated[
        Collection, "index", "topics", "qrels", "split", "topic_fields", "lengths", "indexes"
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


@dataclass(frozen=True)
class RunOptions:
    """The run."""

    hits: int = usual(1000, "Documents a topic.", low=1)
    output: Path = usual(Path("-"), "The run; .gz compresses; - is the screen.")
    explain: Path | None = usual(
        None, "Write each topic's terms with their weights, and what made them, to this file.", metavar="FILE"
    )
    run_tag: str | None = usual(None, "Default: lmtune-lambda...-mu..., with a model's name.")


def search(
    dataset: Annotated[str | None, "pydocs, a folder, irds:ID ...; see `lmtune datasets`.", "DATASET"],
    collection: Annotated[Collection, "qrels"],
    setting: Setting,
    tuned: Tuned,
    run: RunOptions,
    workers: Workers,
) -> None:
    """Write a TREC run.

    Examples
    --------
    lmtune search pydocs --output pydocs.run
    lmtune search my-collection --model bm25 --set b=0.3 --output bm25.run
    """
    on_screen = str(run.output) in ("-", "/dev/stdout")
    named = replace(collection, name=dataset)
    if not on_screen:
        check_recorded(run.output, reads=named.files())
    model, values, collection = setting.of(tuned, named)
    tag = f"lmtune-{find_model(model).describe(values)}" if run.run_tag is None else run.run_tag
    check_tag(tag)
    if run.explain is not None:
        check_file(run.explain, reads=named.files())
    with workers.engaged(), stages() as progress:
        done = search_collection(collection, model, values, hits=run.hits, progress=progress)
    if run.explain is not None:
        write_explained(str(run.explain), done.pool, values)
    with timed(f"{quantity(len(done.dataset.topics), 'topic')} ranked"):
        if on_screen:
            with utf8_output() as stream:
                write_run(stream, done.rankings, tag=tag)
            return
        write_run(run.output, done.rankings, tag=tag)
    write_record(run.output, model={"name": model, **values}, **describe(done.dataset, done.index))
