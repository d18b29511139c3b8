"""``lmtune rerank train``: train a network, or grow trees, and keep the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from lmtune.cli.rerank import Machine
from lmtune.cli.screen import stages
from lmtune.datasets.collection import Collection
from lmtune.errors import InputError
from lmtune.formats.files import check_directory
from lmtune.options import option
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
    settings: Settings,
    normalisation: Normalisation,
    machine: Machine,
) -> None:
    """Train a network on LETOR files, or on a run with judgements."""
    from lmtune.reranking import model_folder
    from lmtune.reranking.learning import learn
    from lmtune.reranking.networks import parse_network

    if data is None and learning.run is None:
        raise InputError("nothing to learn from", accepted="a folder of LETOR files, or --run")
    parse_network(settings.network)
    check_directory(learning.output, marker=model_folder.RECORD, own=model_folder.CONTENT)
    with stages() as progress:
        if learning.run is None:
            known = from_letor(str(data), learning.validation, settings.seed)
        else:
            known = from_run(
                learning.run,
                replace(collection, name=data),
                features,
                train_topics=learning.train_topics,
                validation=learning.validation,
                seed=settings.seed,
                progress=progress,
            )
        found = learn(
            known,
            settings,
            learning.output,
            record(NEURAL, **_facts(known)),
            normalisation=normalisation,
            device=machine.device,
            checkpoint=learning.checkpoint,
            checkpoint_every=learning.checkpoint_every,
            progress=progress,
        )
    for line in found:
        print(line)


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
