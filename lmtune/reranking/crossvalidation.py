"""Rerankers learnt fold by fold, and what they make of topics that they never saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from lmtune.progress import Progress, timed
from lmtune.reranking.normalisation import Normalisation
from lmtune.reranking.reranker import Reranker, learn
from lmtune.reranking.settings import Settings
from lmtune.reranking.sources import TrainingData


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
        As for `lmtune.reranking.training.fit`; each of several folds has a folder in `checkpoint`.
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
    for part in parts:
        with timed(f"{part.label}{len(part.train.queries)} queries learnt from"):
            learnt = learn(
                part.train,
                part.validation,
                settings,
                normalisation=normalisation,
                names=part.names,
                facts=part.facts,
                device=device,
                checkpoint=checkpoint and checkpoint / part.fold,
                checkpoint_every=checkpoint_every,
                progress=partial(progress, f"{part.label}training"),
            )
        yield part, learnt
