"""Size of the term that practical K-SONG leaves out of the gradient (Qiu et al. 2022, appendix C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from experiments.common import Results, chart, each, intervals, main
from experiments.datasets import load_split
from experiments.song.long_lists import QUICK as SMALL
from experiments.song.long_lists import LongLists
from experiments.sweep import with_least_grade
from lmtune.losses.songs import KSong, RelevantPairs
from lmtune.measures import paired_t_test
from lmtune.rerank import RankingData, Settings, fit, make_network, parse_loss
from lmtune.rerank.data import batches
from lmtune.rerank.learners.feature_networks import FeatureFeed
from lmtune.rerank.training.loop import TrainingRun

SIZE = LongLists(trials=3, warm_up=20)
QUICK = {**SMALL, "epochs": 8, "warm_up": 4, "cutoffs": (50,)}


def experiment(
    lists: LongLists = SIZE,
    *,
    cutoffs: tuple[int, ...] = (10, 50),
    scales: tuple[float, ...] = (2.0, 20.0),
    gamma: float = 0.3,
) -> Results:
    """Compare both terms of the gradient in the weights, over all items, at each epoch of training K-SONG.

    The warm-up's epochs come first, then the last layer is drawn anew. Epoch 0 is the initial network.

    Parameters
    ----------
    lists : LongLists
        shared options of the sweeps over long lists
    cutoffs : tuple of int
        values of K, below the length of the lists
    scales : tuple of float
        scales of psi where the terms are measured; training has the default
    gamma : float
        gamma of the running estimates in training
    """
    fixed = {"data": lists.data, "data_seed": lists.seed, "least": lists.least, "margin": lists.margin}
    keys = [(cutoff, trial) for cutoff in cutoffs for trial in range(lists.trials)]
    cases = {cutoff: lists.case("k-song", {"gamma": gamma, "cutoff": cutoff}) for cutoff in cutoffs}
    calls = [
        {**fixed, "cutoff": cutoff, "scales": scales}
        | {"settings": {**lists.settings(), **cases[cutoff], "seed": lists.seed + trial}}
        for cutoff, trial in keys
    ]
    courses = pd.DataFrame(
        [
            {"cutoff": cutoff, "trial": trial, "epoch": epoch, **row}
            for (cutoff, trial), rows in zip(keys, each(follow, calls), strict=True)
            for epoch, own in enumerate(rows)
            for row in own
        ]
    )
    epochs = {0: "initial", lists.warm_up: "after warm-up", lists.epochs: "last"}
    at = courses[courses["epoch"].isin(epochs)].assign(when=lambda rows: rows["epoch"].map(epochs))
    groups = ["cutoff", "scale", "when"]
    summary = pd.concat([intervals(at, groups, kind).assign(kind=kind) for kind in ("ratio", "cosine")])
    tests = []
    for (cutoff, scale), own in courses.groupby(["cutoff", "scale"]):
        ratios = own.pivot(index="trial", columns="epoch", values="ratio")
        pair = ratios[lists.warm_up].to_numpy(), ratios[0].to_numpy()
        row = {"cutoff": cutoff, "scale": scale, "difference": float(np.mean(pair[0] - pair[1]))}
        tests.append({**row, "p": paired_t_test(*pair)})
    means = intervals(courses, ["cutoff", "scale", "epoch"], "ratio")
    drawn = chart(means, "epoch", "mean", line="scale", panel="cutoff", between=("low", "high"), log="y")
    return {"summary": summary, "tests": pd.DataFrame(tests), "courses": courses, "ratio": drawn}


def follow(
    *, data: str, data_seed: int, least: int, settings: Mapping[str, Any], **options: Any
) -> list[list[dict[str, float]]]:
    """Train, and return the rows of `terms` for the initial network and for each epoch."""
    fold = with_least_grade(load_split(data, data_seed), least)
    losses = {name: parse_loss(settings[name]) for name in ("loss", "warm_up_loss")}
    asked = Settings(**{**settings, **losses})
    first = make_network(asked.network, fold.train.features.shape[1], seed=asked.seed)
    rows = [terms(first, fold.train, **options)]

    def watch(run: TrainingRun) -> None:
        rows.append(terms(run.task.network, fold.train, **options))

    fit(fold.train, fold.validation, asked, watch=watch)
    return rows


def terms(
    network: Any, data: RankingData, *, cutoff: int, margin: float, scales: Sequence[float]
) -> list[dict[str, float]]:
    """Compute the gradients of theoretical and practical K-SONG in the weights, over all items.

    Returns
    -------
    list of dict
        For each scale, ``ratio``: the norm of the stopped term by that of the practical gradient; ``cosine``:
        of both gradients.
    """
    pairs = RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    [batch] = batches(data, size=len(data.queries), seed=0, epoch=0, shuffle=False)
    network.eval()
    scores = network(*FeatureFeed(data, "cpu").inputs(network, batch.rows)).double()
    labels = torch.from_numpy(np.asarray(batch.labels, np.float64))
    ids = {"queries": torch.from_numpy(batch.queries), "items": torch.from_numpy(batch.rows)}
    weights = [*network.parameters()]
    rows = []
    for scale in scales:
        found = []
        for theoretical in (False, True):
            loss = KSong(pairs, cutoff=cutoff, margin=margin, scale=scale, theoretical=theoretical)
            parts = torch.autograd.grad(loss(scores, labels, **ids), weights, retain_graph=True)
            found.append(torch.cat([part.flatten() for part in parts]))
        practical, whole = found
        cosine = torch.cosine_similarity(whole, practical, dim=0)
        ratio = (whole - practical).norm() / practical.norm()
        rows.append({"scale": scale, "ratio": float(ratio), "cosine": float(cosine)})
    return rows


if __name__ == "__main__":
    main(__spec__)
