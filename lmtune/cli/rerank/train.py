"""``lmtune rerank train``: train a network, or grow trees, and keep the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lmtune.cli.messages import say
from lmtune.cli.parameters import Tuned
from lmtune.cli.rerank import Checkpoints, Lessons, Machine, list_source, tuned_features
from lmtune.cli.screen import stages
from lmtune.collections.collection import Collection
from lmtune.collections.provenance import NEURAL, describe, record
from lmtune.errors import InputError
from lmtune.io.folders import check_apart
from lmtune.options import option, usual
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.settings import Settings
from lmtune.rerank.sources import FeatureSettings, TrainingData, from_letor, from_run
from lmtune.rerank.text.options import TextOptions

if TYPE_CHECKING:
    from lmtune.rerank.applying import Scored


@dataclass(frozen=True)
class Learning(Checkpoints):
    """Training data."""

    run: Path | None = usual(None, "A TREC run.")
    validation: str | None = usual(
        None,
        "What to choose the epoch by: a share such as 0.2 of the training topics, or some of these; of LETOR"
        " files a share of the queries, or a file with one a line.",
    )

    def files(self, data: str | None, collection: Collection) -> list[Path]:
        """Return the files that are read, and written besides the output."""
        names = (self.run or data, self.validation, self.checkpoint)
        files = [] if self.run is None else [*replace(collection, name=data).files(), collection.indexes]
        return [*(Path(name) for name in names if name is not None), *files]

    def check(self, data: str | None) -> None:
        """Raise InputError where there is nothing to learn from."""
        if data is None and self.run is None:
            raise InputError("nothing to learn from", accepted="a folder of LETOR files, or --run")


@dataclass(frozen=True)
class Training:
    """The model, and its training topics."""

    output: Path = usual(
        ..., "The model's folder; of a LETOR_DIR with folds a folder of models.", metavar="DIR"
    )
    train_topics: str | None = option(None, "Train on these: 51-100, a list 51,52 or a file.")


def train(
    data: Annotated[
        str | None,
        "A folder of LETOR files; with --run a collection: pydocs, a folder, irds:ID ...",
        "LETOR_DIR",
    ],
    training: Training,
    learning: Learning,
    lessons: Lessons,
    collection: Annotated[Collection, "exclude_self"],
    features: FeatureSettings,
    tuned: Annotated[Tuned, "measure", "method"],
    text: TextOptions,
    settings: Settings,
    normalisation: Normalisation,
    machine: Machine,
) -> None:
    """Train a network on LETOR files, or on a run with judgements.

    Examples
    --------
    lmtune rerank train MSLR/Fold1 --loss lambdarank --output model
    lmtune rerank train my-collection --run bm25.run --output model
    """
    from lmtune.rerank.reranker import check_folder, learner_of, report

    learning.check(data)
    if learning.run is None and tuned.results is not None:
        raise InputError("--from without --run", accepted="--run, whose features it is for")
    features, named = tuned_features(features, tuned, replace(collection, name=data))
    learner_of(settings).check(lists=learning.run is not None)
    source = lessons.of(list_source(settings, features, text), [settings.method], learning.run)
    reads = [*learning.files(data, collection), *(Path(name) for name in [training.train_topics] if name)]
    check_apart(training.output, reads, whole=True)
    if learning.run is not None:
        check_folder(training.output)
    with stages() as progress:
        if learning.run is None:
            known = from_letor(str(data), learning.validation, settings.seed)
        else:
            part = from_run(
                learning.run,
                named,
                source,
                train_topics=training.train_topics,
                validation=learning.validation,
                seed=settings.seed,
                progress=progress,
            )
            known = [part]
    scored = learn_all(known, training.output, learning, settings, normalisation, machine)
    for line in report(scored, settings.chosen_by) if scored else ():
        say(f"{line}\n")


def learn_all(
    parts: Sequence[TrainingData],
    folder: Path | None,
    learning: Learning,
    settings: Settings,
    normalisation: Normalisation,
    machine: Machine,
) -> list[Scored]:
    """Learn a model of each fold, keep it where there is a folder, and score its test lists."""
    from lmtune.devices import parse_devices
    from lmtune.rerank.reranker import check_folder, learn_folds, save_model
    from lmtune.rerank.training import distributed

    homes = {} if folder is None else {part.fold: folder / part.fold for part in parts}
    for home in homes.values():
        check_folder(home)
    scored = []
    with distributed.process_group(machine.device) as device, stages() as progress:
        how = {"device": device, "progress": progress, **learning.options()}
        for part, reranker in learn_folds(parts, settings, normalisation, **how):
            if distributed.rank() > 0:
                continue
            if homes:
                save_model(homes[part.fold], reranker, record(NEURAL, **facts_of(part)))
            say(f"{part.label}{reranker.scorer.summary}\n")
            if part.test is not None:
                scored.append((part.test, reranker.score(part.test, device=parse_devices(device)[0])))
    return scored


def facts_of(part: TrainingData) -> dict[str, object]:
    """Describe a model's training data."""
    if part.source is not None:
        return describe(part.source.dataset, part.source.index)
    parts = {"train": part.train, "validation": part.validation, "test": part.test}
    sizes = {
        name: {"queries": len(lists.queries), "rows": int(lists.labels.size)}
        for name, lists in parts.items()
        if lists is not None
    }
    return {"data": sizes}
