"""Train a reranker, network or trees, and keep it with how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lmtune.measures.lists import ndcg
from lmtune.progress import Progress, silent, timed
from lmtune.reranking import distributed, model_folder
from lmtune.reranking.comparison import CUTOFFS, tree_settings
from lmtune.reranking.data import RankingData
from lmtune.reranking.normalisation import Normalisation
from lmtune.reranking.settings import Settings
from lmtune.reranking.sources import TrainingData
from lmtune.reranking.training import fit


def learn(
    data: TrainingData,
    settings: Settings,
    output: Path,
    record: Mapping[str, Any],
    *,
    normalisation: Normalisation,
    device: str = "cpu",
    checkpoint: Path | None = None,
    checkpoint_every: int | None = None,
    progress: Progress = silent,
) -> list[str]:
    """Train a reranker and keep it.

    Parameters
    ----------
    data : TrainingData
        What to learn from, to choose by, and to report on.
    settings : Settings
        Its loss; all the rest is of networks alone.
    output : path
        The model's folder.
    record : mapping
        How the model was made.
    normalisation : Normalisation
        Of features, for networks.
    device : str
        Where to train.
    checkpoint, checkpoint_every
        See `lmtune.reranking.training.fit`.
    progress : Progress
        Called after each step or tree.

    Returns
    -------
    list of str
        How good it is; nothing from all but the first of processes that train together.
    """
    if settings.loss.family == "trees":
        return _grow(data, settings, output, record, progress)
    scaler = normalisation.fit(data.train)
    scaled, held = scaler.transform(data.train), scaler.transform(data.validation)
    with distributed.process_group(device) as place:
        with timed(f"{len(data.train.queries)} queries learnt from"):
            trained = fit(
                scaled,
                held,
                settings,
                device=place,
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                progress=lambda done, total, words: progress("training", done, total, words),
            )
        if distributed.rank() > 0:
            return []
        model_folder.save_model(output, trained, scaler, data.names, record, facts=data.facts)
        found = (
            f"best epoch {trained.best_epoch} of {len(trained.history)}, "
            f"validation nDCG@{settings.measure} {trained.validation:.4f}"
        )
        if data.test is None:
            return [found]
        return [found, *_measured(data.test, trained.score(scaler.transform(data.test)))]


def _grow(
    data: TrainingData, settings: Settings, output: Path, record: Mapping[str, Any], progress: Progress
) -> list[str]:
    from lmtune.reranking import lambdamart

    trees = tree_settings(settings.loss, settings.seed)
    with timed(f"{len(data.train.queries)} queries learnt from"):
        grown = lambdamart.fit(
            data.train,
            data.validation,
            trees,
            progress=lambda done, total, words: progress("growing trees", done, total, words),
        )
    model_folder.save_trees(output, grown, trees, data.names, record, facts=data.facts)
    best = grown.validation[grown.best_round - 1]
    found = f"{grown.best_round} trees, validation nDCG@{trees.measure} {best:.4f}"
    if data.test is None:
        return [found]
    return [found, *_measured(data.test, grown.model.predict(data.test))]


def _measured(test: RankingData, scores: ArrayLike) -> list[str]:
    """Say how good scores are, by both conventions of queries without a relevant document."""
    kept, zero = (np.nanmean(ndcg(scores, test, CUTOFFS, empty=empty), axis=0) for empty in ("skip", "zero"))
    lines = []
    for name, means in (("left out", kept), ("count 0", zero)):
        text = "  ".join(f"nDCG@{cutoff} {mean:.4f}" for cutoff, mean in zip(CUTOFFS, means, strict=True))
        lines.append(f"test, queries without relevant documents {name}: {text}")
    return lines[:1] if (kept == zero).all() else lines
