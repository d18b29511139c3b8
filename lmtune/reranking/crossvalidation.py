"""Rerankers learnt fold by fold, and what they make of topics that they never saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from lmtune.parallel import Task, in_order
from lmtune.progress import Progress, quantity, timed
from lmtune.reranking.normalisation import Normalisation
from lmtune.reranking.reranker import Reranker, learn
from lmtune.reranking.settings import Settings
from lmtune.reranking.sources import TrainingData
from lmtune.reranking.training.devices import check_device, is_spread, run_on_devices


def learn_folds(
    parts: Sequence[TrainingData],
    settings: Settings,
    normalisation: Normalisation,
    *,
    device: str,
    checkpoint: Path | None,
    checkpoint_every: int | None,
    progress: Progress,
) -> Iterator[tuple[TrainingData, Reranker]]:
    """Learn a reranker of each fold, normalised by that fold's training data.

    Parameters
    ----------
    parts : sequence of TrainingData
        The folds, or the one that there is.
    settings, normalisation
        As for `lmtune.reranking.reranker.learn`.
    device, checkpoint, checkpoint_every
        As for `lmtune.reranking.learners.feature_networks.fit`; each of several folds has a folder in
        `checkpoint`, and one of several devices: see `lmtune.reranking.training.devices`.
    progress : Progress
        Called while each is trained.

    Yields
    ------
    tuple of TrainingData and Reranker

    Raises
    ------
    InputError
        As `lmtune.reranking.reranker.learn`.
    """
    if len(parts) == 1:
        check_device(device)
    spread = len(parts) > 1 and is_spread(device)

    def tasks() -> Iterator[Task]:
        for part in parts:
            yield (
                learn,
                {
                    "train": part.train,
                    "validation": part.validation,
                    "settings": settings,
                    "normalisation": normalisation,
                    "names": part.names,
                    "facts": part.facts,
                    "checkpoint": checkpoint and checkpoint / part.fold,
                    "checkpoint_every": checkpoint_every,
                    "progress": None if spread else partial(progress, f"{part.label}training"),
                },
            )

    learnt = in_order(run_on_devices(list(tasks()), device))
    for done, part in enumerate(parts, 1):
        with timed(f"{part.label}{quantity(len(part.train.queries), 'query', 'queries')} learnt from"):
            reranker = next(learnt)
        if spread:
            progress("folds", done, len(parts))
        yield part, reranker
