"""``lmtune rerank train``: train a network, or grow trees, and keep the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import say
from lmtune.cli.parameters import Tuned
from lmtune.cli.rerank import Machine, tuned_features
from lmtune.cli.screen import stages
from lmtune.datasets.collection import Collection
from lmtune.errors import InputError
from lmtune.formats.files import check_directory
from lmtune.options import option
from lmtune.progress import Progress, timed
from lmtune.reporting.provenance import NEURAL, describe, record
from lmtune.reranking.normalisation import Normalisation
from lmtune.reranking.settings import Settings
from lmtune.reranking.sources import FeatureSettings, TrainingData, from_letor, from_run


@dataclass(frozen=True)
class Learning:
    """What is learnt from, and kept."""

    output: Path = option(..., "The model's folder.", metavar="DIR")
    run: Path | None = option(None, "A TREC run.")
    train_topics: str | None = option(None, "Train on these: 51-100, a list 51,52 or a file.")
    validation: str | None = option(
        None, "A file with one training query a line, or a share such as 0.2 of them, to choose the epoch by."
    )
    checkpoint: Path | None = option(
        None, "Keep the training's state in this folder, and go on from it.", metavar="DIR"
    )
    checkpoint_every: int | None = option(None, "Keep it after so many steps, not only after epochs.")


def train(
    data: Annotated[
        str | None,
        "A folder of LETOR files; with --run a collection: pydocs, a folder, irds:ID ...",
        "LETOR_DIR",
    ],
    learning: Learning,
    collection: Collection,
    features: FeatureSettings,
    tuned: Annotated[Tuned, "measure", "method"],
    settings: Settings,
    normalisation: Normalisation,
    machine: Machine,
) -> None:
    """Train a network on LETOR files, or on a run with judgements."""
    from lmtune.reranking import distributed, model_folder
    from lmtune.reranking.networks import parse_network
    from lmtune.reranking.reranker import learn

    if data is None and learning.run is None:
        raise InputError("nothing to learn from", accepted="a folder of LETOR files, or --run")
    if learning.run is None and tuned.results is not None:
        raise InputError("--from without --run", accepted="--run, whose features it is for")
    features, collection = tuned_features(features, tuned, replace(collection, name=data))
    parse_network(settings.network)
    check_directory(learning.output, marker=model_folder.RECORD, own=model_folder.CONTENT)
    with stages() as progress:
        known = _known(data, learning, collection, features, settings.seed, progress)
    with distributed.process_group(machine.device) as place, stages() as progress:
        with timed(f"{len(known.train.queries)} queries learnt from"):
            reranker = learn(
                known.train,
                known.validation,
                settings,
                normalisation=normalisation,
                names=known.names,
                facts=known.facts,
                device=place,
                checkpoint=learning.checkpoint,
                checkpoint_every=learning.checkpoint_every,
                progress=partial(progress, "training"),
            )
        if distributed.rank() > 0:
            return
        model_folder.save_model(learning.output, reranker, record(NEURAL, **_facts(known)))
    say(f"{reranker.scorer.summary}\n")
    for line in reranker.report(known.test) if known.test is not None else ():
        say(f"{line}\n")


def _known(
    data: str | None,
    learning: Learning,
    collection: Collection,
    features: FeatureSettings,
    seed: int,
    progress: Progress,
) -> TrainingData:
    if learning.run is None:
        return from_letor(str(data), learning.validation, seed)
    return from_run(
        learning.run,
        collection,
        features,
        train_topics=learning.train_topics,
        validation=learning.validation,
        seed=seed,
        progress=progress,
    )


def _facts(known: TrainingData) -> dict[str, object]:
    if known.source is not None:
        return describe(known.source.dataset, known.source.index)
    parts = {"train": known.train, "validation": known.validation, "test": known.test}
    return {
        "data": {
            name: {"queries": len(part.queries), "rows": int(part.labels.size)}
            for name, part in parts.items()
            if part is not None
        }
    }
