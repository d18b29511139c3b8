"""``lmtune rerank importance``: what a model's features are worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from lmtune.cli.rerank import Machine
from lmtune.cli.screen import stages, utf8_output
from lmtune.datasets.collection import Collection
from lmtune.errors import InputError
from lmtune.options import option
from lmtune.reporting.provenance import NEURAL, record
from lmtune.reporting.table import STYLES
from lmtune.storage.folders import check_directory


@dataclass(frozen=True)
class Shuffling:
    """Shuffles and output."""

    run: Path | None = option(None, "A TREC run of the collection.")
    measure: str | None = option(None, "ndcg@5, mrr, ap ...; default: what validation chose by.")
    repeats: int = option(5, "Shuffles a feature.", low=1)
    seed: int = option(0, "Of the shuffles.", low=0)
    all_topics: bool = option(False, "Take also the topics that trained or validated the model.")
    style: str = option("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    output: Path | None = option(None, "Keep the tables and the picture here.", metavar="DIR")


def importance(
    model: Annotated[Path, "A folder that lmtune rerank train wrote.", "MODEL"],
    data: Annotated[
        str | None, "A LETOR file; with --run the collection: pydocs, a folder, irds:ID ...", "DATA"
    ],
    shuffling: Shuffling,
    collection: Collection,
    machine: Machine,
) -> None:
    """Shuffle one feature after the other; print what the measure loses, and LightGBM's own gain."""
    from lmtune.reporting.importance_folder import KIND, importance_table, write_importance
    from lmtune.reranking.applying import read_lists, unseen_lists
    from lmtune.reranking.importance import permutation_importance
    from lmtune.reranking.learners.trees import LambdaMart
    from lmtune.reranking.reranker import load_model

    if data is None and shuffling.run is None:
        raise InputError("no --run", accepted="--run PATH, or a LETOR file")
    if shuffling.output is not None:
        given = (model, shuffling.run or data)
        check_directory(shuffling.output, KIND, reads=[Path(name) for name in given if name is not None])
    loaded = load_model(model)
    if not loaded.names:
        raise InputError(
            "the model reads text: it has no features", file=model, accepted="a model of features"
        )
    with stages() as progress:
        if shuffling.run is None:
            lists = read_lists(loaded, Path(str(data)))
        else:
            own = replace(collection, name=data)
            lists = unseen_lists(loaded, shuffling.run, own, shuffling.all_topics, progress)
        found = permutation_importance(
            loaded,
            lists,
            measure=shuffling.measure,
            repeats=shuffling.repeats,
            seed=shuffling.seed,
            device=machine.device,
            progress=progress,
        )
    gains = {}
    if isinstance(loaded.scorer, LambdaMart):
        gains = dict(zip(loaded.names, loaded.scorer.gains, strict=True))
    if shuffling.output is not None:
        write_importance(shuffling.output, found, gains, record(NEURAL))
    with utf8_output() as stream:
        stream.write(importance_table(found, gains, shuffling.style))
