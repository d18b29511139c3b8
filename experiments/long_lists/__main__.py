"""Losses on long lists: rankings of all items, or of all labels (Qiu et al. 2022, tables 6 and 8)."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Results, each, main
from experiments.long_lists.data import LongLists, label_lists, made_ratings, rating_lists, read_ratings
from experiments.long_lists.training import TrainingOptions, train
from experiments.sweep import differences
from lmtune.measures import ComparisonOptions, compare

RATING_MEASURES = ("ndcg@10", "ndcg@20", "ndcg@50")
LABEL_MEASURES = ("p@1", "p@5", "ndcg@3", "ndcg@5", "psp@5")
OPTIONS = TrainingOptions()
QUICK = {"losses": ("listnet", "song"), "trials": 1, "epochs": 2, "warm_up": 1, "visits": 1, "held_out": 2}


def experiment(
    options: TrainingOptions = OPTIONS,
    *,
    data: str = "",
    test: str = "",
    losses: tuple[str, ...] = ("ranknet", "listnet", "listmle", "lambdarank", "approxndcg", "song", "k-song"),
    trials: int = 3,
    held_out: int = 5,
    graded: bool = False,
    widths: tuple[int, ...] = (256,),
    dropout: float = 0.0,
) -> Results:
    """Train every loss with every seed, and compare the means over trials for each list.

    Parameters
    ----------
    options : TrainingOptions
        the options of each training
    data : str
        file of ratings, or of training examples with labels; default: synthetic ratings
    test : str
        file of test examples with labels; if missing, data are ratings
    losses : tuple of str
        losses with options, NAME:OPTION=VALUE
    trials : int
        seeds for each loss
    held_out : int
        number of each user's latest ratings for tests, and as many before them for validation
    graded : bool
        use ratings as grades
    widths : tuple of int
        widths of the hidden layers of the label network
    dropout : float
        dropout after each hidden layer
    """
    where = {"data": data, "test": test, "held_out": held_out, "graded": graded}
    where |= {"widths": widths, "dropout": dropout}
    if test:
        options = replace(options, measure="ndcg@5")
    keys = list(product(losses, range(trials)))
    calls = [{**where, "loss": loss, "options": replace(options, seed=options.seed + n)} for loss, n in keys]
    found = each(train_one, calls)
    measures = LABEL_MEASURES if test else RATING_MEASURES
    tested = np.array([values for values, _ in found])
    by_list = dict(
        zip(losses, tested.reshape(len(losses), trials, *tested.shape[1:]).mean(axis=1), strict=True)
    )
    summary = pd.DataFrame([own.mean(axis=0) for own in by_list.values()], columns=[*measures])
    summary.insert(0, "loss", losses)
    courses = [
        {"loss": loss, "trial": n, "epoch": epoch, "validation": value}
        for (loss, n), (_, course) in zip(keys, found, strict=True)
        for epoch, value in enumerate(course, 1)
    ]
    results = {"summary": summary, "courses": pd.DataFrame(courses)}
    if len(losses) > 1:
        first, *others = (own[:, 0] for own in by_list.values())
        rest = dict(zip(losses[1:], others, strict=True))
        pairs = ComparisonOptions(pairwise=True)
        compared = compare(first, rest, pairs, baseline=losses[0], measures=[measures[0]])
        results["comparison"] = compared.to_frame()
    if len(losses) > 1 and trials > 1:
        later = results["courses"].query("epoch > @options.warm_up")
        areas = later.groupby(["loss", "trial"])["validation"].mean().rename("ndcg").reset_index()
        areas = areas.rename(columns={"loss": "value"}).assign(queries="validation", cutoff=options.measure)
        # how fast a loss converges: its mean over the epochs after the warm-up, paired by trial
        results["speed"] = differences(areas, [(losses[0], loss) for loss in losses[1:]])
    return results


def train_one(*, loss: str, options: TrainingOptions, **where: Any) -> tuple[np.ndarray, list[float]]:
    """Train once; return the test measures of each list, and the validation value of each epoch."""
    lists = _lists(**where)
    trained = train(lists, loss, options)
    measures = LABEL_MEASURES if where["test"] else RATING_MEASURES
    return lists.measure(trained.network, "test", measures), trained.validation


@lru_cache(maxsize=1)
def _lists(
    data: str, test: str, held_out: int, graded: bool, widths: tuple[int, ...], dropout: float
) -> LongLists:
    if test:
        return label_lists(Path(data), Path(test), widths=widths, dropout=dropout)
    ratings = read_ratings(data) if data else made_ratings()
    return rating_lists(ratings, held_out=held_out, graded=graded, dropout=dropout)


if __name__ == "__main__":
    main(__spec__)
