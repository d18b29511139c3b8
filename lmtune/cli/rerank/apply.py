"""``lmtune rerank apply``: rerank a run by a trained network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from lmtune.cli.rerank import Machine
from lmtune.cli.screen import stages
from lmtune.datasets.collection import Collection
from lmtune.formats.digests import read_json
from lmtune.options import option
from lmtune.reporting.provenance import NEURAL, check_recorded, describe, write_record


@dataclass(frozen=True)
class Reranking:
    """What is read and written."""

    run: Path = option(..., "A TREC run.")
    output: Path = option(..., "The new run; .gz compresses.")
    only_topics: str | None = option(None, "These alone: 51-100, a list or a file.")
    depth: int | None = option(
        None,
        "Documents of a topic that are scored; the others keep their order beneath; default: as in training.",
    )
    run_tag: str | None = option(None, "Default: lmtune-LOSS-NET.")


def apply(
    model: Annotated[Path, "A folder that lmtune rerank train wrote.", "MODEL"],
    dataset: Annotated[str | None, "The collection: pydocs, a folder, irds:ID ...", "DATASET"],
    reranking: Reranking,
    collection: Annotated[Collection, "qrels"],
    machine: Machine,
) -> None:
    """Rerank a run by a trained network."""
    from lmtune.reranking.applying import rerank_run

    named = replace(collection, name=dataset)
    topics = [] if reranking.only_topics is None else [Path(reranking.only_topics)]
    check_recorded(reranking.output, reads=[model, reranking.run, *topics, *named.files()])
    trained = read_json(model / "made.json")
    with stages() as progress:
        made = rerank_run(
            model,
            reranking.run,
            named,
            reranking.output,
            only=reranking.only_topics,
            depth=reranking.depth,
            tag=reranking.run_tag,
            device=machine.device,
            progress=progress,
        )
    write_record(reranking.output, NEURAL, **describe(made.dataset, made.index), model=trained)
