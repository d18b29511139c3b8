"""Trainings as units of sweeps: a network or trees, with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.data import load_split
from lmtune.measures.lists import Measurer, mean_over_lists, ndcg
from lmtune.reranking.data import RankingData, RankingSplit, batches
from lmtune.reranking.learners.feature_networks import Feed, fit
from lmtune.reranking.losses.names import Loss
from lmtune.reranking.losses.table import SONGS
from lmtune.reranking.reranker import learner_of
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import RelevantPairs
from lmtune.reranking.training.loop import TrainingRun

_LISTS = 64


def train(
    data: str,
    data_seed: int,
    settings: Mapping[str, Any],
    cutoffs: Sequence[int],
    least: int = 1,
    watched: bool = False,
    least_steps: int = 1,
) -> dict[str, Any]:
    """Train a network, or grow LambdaMART's trees, and measure it.

    Parameters
    ----------
    data, data_seed
        As `experiments.data.load_split` takes.
    settings : mapping
        Of `lmtune.reranking.settings.Settings`.
    cutoffs : sequence of int
        Of the NDCG.
    least : int
        See `with_least_grade`.
    watched : bool
        Whether to take the objective, of SONG or one of its relatives, after each epoch, over all items
        of all training lists.
    least_steps : int
        Steps an epoch; where there would be fewer, they take fewer queries.

    Returns
    -------
    dict
        ``validation`` and ``test``, NDCG at each cutoff with the weights of the epoch that is best
        on the validation queries; ``best_epoch``; ``courses``, by epoch: ``validation``, the
        settings' measure, and, where watched, ``objective`` and ``training``, that measure on the
        training queries.
    """
    fold = with_least_grade(load_split(data, data_seed), least)
    asked = Settings.from_record(settings)
    most = max(1, len(fold.train.queries) // least_steps)
    asked = replace(asked, batch_size=min(asked.batch_size, most))
    learner = learner_of(asked)
    if not learner.scorer.has_rate:
        grown = learner.fit(fold.train, fold.validation)
        return {**_measured(grown.score, fold, cutoffs), "best_epoch": 0, "courses": {}}
    courses: dict[str, list[float]] = {}
    if watched:
        courses = {"objective": [], "training": []}
        pairs = RelevantPairs.from_lists(fold.train.starts, np.asarray(fold.train.labels))
        feed = Feed(fold.train, "cpu")
        measurer = Measurer(asked.chosen_by, fold.train)

    def watch(run: TrainingRun) -> None:
        scores = feed.scores(run.task.network).numpy()
        courses["objective"].append(whole_objective(pairs, fold.train, scores, asked.loss))
        courses["training"].append(measurer.mean(scores))

    trained = fit(fold.train, fold.validation, asked, watch=watch if watched else None)
    courses["validation"] = [row.validation for row in trained.history]
    return {**_measured(trained.score, fold, cutoffs), "best_epoch": trained.best_epoch, "courses": courses}


def whole_objective(
    pairs: RelevantPairs, data: RankingData, scores: NDArray[np.floating], loss: Loss
) -> float:
    """Compute the objective of SONG or one of its relatives over all items of all lists.

    Whatever a training estimates of it as it goes, this is its value at the weights that gave the
    scores: no sampling, no running estimates.
    """
    # Item ids of `RelevantPairs.from_lists` are rows.
    blocks = (
        (
            np.where(batch.mask, np.take(scores, batch.rows, mode="clip"), 0.0),
            batch.labels,
            batch.queries,
            batch.rows,
        )
        for batch in batches(data, size=_LISTS, seed=0, epoch=0, shuffle=False)
    )
    return _objective(pairs, blocks, loss)


def _objective(pairs: RelevantPairs, blocks: Iterable[tuple[Any, Any, Any, Any]], asked: Loss) -> float:
    """Average over the lists that have a relevant item; blocks: scores, labels, queries, items."""
    options = {name: value for name, value in asked.options.items() if name not in ("estimator", "eta")}
    loss = SONGS[asked.name](pairs, **options | {"gamma": 1.0}).eval()
    total, counted = 0.0, 0
    for scores, labels, queries, items in blocks:
        count = int((labels > 0).any(axis=1).sum())
        with torch.no_grad():
            loss(
                torch.from_numpy(np.asarray(scores, np.float64)),
                torch.from_numpy(np.asarray(labels, np.float64)),
                queries=torch.from_numpy(queries),
                items=torch.from_numpy(items),
            )
        if count:
            total, counted = total + float(loss.objective) * count, counted + count
    return total / max(counted, 1)


def with_least_grade(fold: RankingSplit, least: int) -> RankingSplit:
    """Lower all labels by `least` - 1, to 0 at the lowest: fewer documents are relevant."""
    if least == 1:
        return fold

    def lowered(data: RankingData) -> RankingData:
        return replace(data, labels=np.maximum(data.labels - (least - 1), 0).astype(np.float32))

    return fold.map(lowered)


def _measured(
    score: Callable[[RankingData], NDArray[np.floating]], fold: RankingSplit, cutoffs: Sequence[int]
) -> dict[str, list[float]]:
    parts = {"validation": fold.validation, "test": fold.test}
    return {name: _mean(score(part), part, cutoffs) for name, part in parts.items()}


def _mean(scores: NDArray[np.floating], data: RankingData, cutoffs: Sequence[int]) -> list[float]:
    return [float(value) for value in mean_over_lists(ndcg(scores, data, list(cutoffs)))]
