"""Trainings as units of sweeps: a network, trees, or NeuMF on ratings, with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.data import load_split
from lmtune.formats.ratings import read_ratings
from lmtune.measures.lists import Measurer, mean_over_lists, ndcg
from lmtune.reranking.data import RankingData, RankingSplit, batches
from lmtune.reranking.learners.feature_networks import Feed, fit
from lmtune.reranking.long_lists import learning
from lmtune.reranking.long_lists.ratings import RatingLists
from lmtune.reranking.long_lists.settings import LONG_LISTS, LongListSettings, RankingOptions
from lmtune.reranking.losses.names import Loss
from lmtune.reranking.losses.table import SONGS
from lmtune.reranking.reranker import learner_of
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import RelevantPairs
from lmtune.reranking.training.loop import TrainingRun

HELD_OUT = 5
"""Latest ratings of each user for validation, and as many for tests."""

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


def train_on_ratings(
    path: str, settings: Mapping[str, Any], cutoffs: Sequence[int], watched: bool = False
) -> dict[str, Any]:
    """Train NeuMF on each user's ranking of all items, and measure it, as `train` does.

    Each user's last ratings are the test items, those before them the validation items
    (`HELD_OUT` each); either are ranked among all items that the user has not rated before.

    Parameters
    ----------
    path : str
        A file as `lmtune.formats.ratings.read_ratings` takes.
    settings : mapping
        Of `lmtune.reranking.settings.Settings`, besides `LONG_LISTS`.
    cutoffs, watched
        As for `train`; nDCG at the first cutoff chooses the epoch.
    """
    lists = _lists(path)
    asked = LongListSettings.from_record(
        LONG_LISTS.as_record() | dict(settings) | {"measure": f"ndcg@{cutoffs[0]}"}
    )
    objective: list[float] = []

    def watch(run: TrainingRun) -> None:
        score = run.task.network.scorer()
        objective.append(objective_of_ratings(lists.pairs, score, asked.loss))

    fitted = learning.fit(lists, asked, watch=watch if watched else None)
    network = fitted.network()
    courses = {"validation": [epoch.validation for epoch in fitted.history]}
    return {
        "validation": network.ndcg(lists.validation, cutoffs).mean(axis=0).tolist(),
        "test": network.ndcg(lists.test, cutoffs).mean(axis=0).tolist(),
        "best_epoch": fitted.best_epoch,
        "courses": courses | ({"objective": objective} if watched else {}),
    }


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


def objective_of_ratings(
    pairs: RelevantPairs, score: Callable[[NDArray[np.int64]], NDArray[np.floating]], loss: Loss
) -> float:
    """Compute what `whole_objective` does for users' lists of all items, as `HeldOut.ndcg` scores them."""

    def blocks() -> Iterator[tuple[Any, Any, Any, Any]]:
        for first in range(0, len(pairs.queries), _LISTS):
            users = pairs.queries[first : first + _LISTS]
            scores = score(users)
            labels = np.zeros(scores.shape)
            relevant = slice(pairs.starts[first], pairs.starts[first + len(users)])
            rows = np.repeat(np.arange(len(users)), pairs.counts[first : first + len(users)])
            labels[rows, pairs.items[relevant]] = pairs.labels[relevant]
            yield scores, labels, users, np.tile(np.arange(scores.shape[1]), (len(users), 1))

    return _objective(pairs, blocks(), loss)


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


@lru_cache(maxsize=1)
def _lists(path: str) -> RatingLists:
    return RatingLists(read_ratings(path), RankingOptions(held_out=HELD_OUT))


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
