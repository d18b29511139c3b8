"""Yue and Burges 2007, table 1: a linear net trained on NDCG itself by SPSA, compared with LambdaRank."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Results, each, main
from experiments.datasets import load_split
from experiments.paper_tables import differences, laid_out, row_of, rows_of
from experiments.spsa.linear import LinearMeasure, Vector, first_weights, gains_of
from lmtune.measures import confidence_interval
from lmtune.measures.measure import exponential_ndcg
from lmtune.rerank import Outcome, Settings, fit, parse_loss
from lmtune.tuning.gradient_free import minimise

QUICK = {
    "data": "artificial:150",
    "seeds": 2,
    "evaluations": 1000,
    "epochs": 15,
    "rates": (0.3,),
    "widths": (0.03, 0.1),
    "learning_rates": (0.03,),
}
LOSSES = {"LambdaRank": "lambdarank", "RankNet": "ranknet"}
PARTS = ("train", "validation", "test")
PRINTED = {"LambdaRank": (0.721, 0.713, 0.707), "SPSA:4": (0.690, 0.682, 0.677)}
"""The paper's NDCG@10 of `PARTS`, on unpublished data of a commercial web search engine."""
CHECKS = 50
"""Number of iterates of a descent that validation chooses from."""


def experiment(
    *,
    data: str = "artificial:1000",
    seeds: int = 5,
    evaluations: int = 3000,
    per_step: int = 4,
    rates: tuple[float, ...] = (0.1, 0.3, 1.0),
    widths: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3),
    learning_rates: tuple[float, ...] = (0.01, 0.03, 0.1),
    epochs: int = 30,
    batch_size: int = 16,
    cutoff: int = 10,
    seed: int = 0,
) -> Results:
    """Train a linear net by SPSA on NDCG, and by LambdaRank and RankNet.

    The paper does not list the rates that it tried. Here the validation of the first training chooses them.

    Parameters
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    seeds : int
        trainings for each method
    evaluations : int
        evaluations of NDCG on all training queries in a run of SPSA
    per_step : int
        F of SPSA:F, even
    rates : tuple of float
        initial rates of SPSA to choose from
    widths : tuple of float
        initial distances c of SPSA to choose from
    learning_rates : tuple of float
        Adam's rates to choose from, for LambdaRank and RankNet
    epochs : int
        epochs of LambdaRank and RankNet
    batch_size : int
        queries in a step of LambdaRank and RankNet
    cutoff : int
        cutoff of the NDCG
    seed : int
        seed of artificial data and of the first training
    """
    all_seeds = range(seed, seed + seeds)
    fixed = {"data": data, "data_seed": seed, "cutoff": cutoff, "seeds": all_seeds}
    adam = {"learning_rates": learning_rates, "epochs": epochs, "batch_size": batch_size}
    [by_spsa] = each(
        descend,
        [{**fixed, "rates": rates, "widths": widths, "evaluations": evaluations, "per_step": per_step}],
    )
    trained = each(train, [{**fixed, **adam, "loss": loss} for loss in LOSSES.values()])
    records = {"LambdaRank": trained[0], f"SPSA:{per_step}": by_spsa, "RankNet": trained[1]}
    measure = exponential_ndcg(cutoff)
    runs, rows, tried, outcomes = [], [], [], []
    for name, record in records.items():
        for number, run in zip(all_seeds, record["runs"], strict=True):
            reached = {key: run[key] for key in (*PARTS, "evaluations")}
            runs.append({"method": name, "seed": number, **reached})
        values = np.array([run["queries"] for run in record["runs"]])[:, :, None]
        outcomes.append(Outcome(name, (), (measure,), values))
        means = {part: [run[part] for run in record["runs"]] for part in PARTS[:-1]}
        rows += [row_of(name, part.title(), confidence_interval(own)) for part, own in means.items()]
        tried += [{"method": name, **row} for row in record["tried"]]
    rows += rows_of(outcomes, measure, over="trials", printed={}, column=PARTS[-1].title())
    courses = np.array([run["course"]["train"] for run in by_spsa["runs"]])
    spread = {"lowest": courses.min(axis=0), "highest": courses.max(axis=0)}
    spent = by_spsa["runs"][0]["course"]["evaluations"]
    table = pd.DataFrame(rows)
    return {
        "printed": laid_out(table),
        "table": table,
        "differences": differences(outcomes),
        "runs": pd.DataFrame(runs),
        "tried": pd.DataFrame(tried),
        "courses": pd.DataFrame({"evaluations": spent, "train": courses.mean(axis=0), **spread}),
        "paper": pd.DataFrame(PRINTED, index=list(PARTS)).T.rename_axis("method").reset_index(),
    }


def choose_by_first(
    run: Callable[..., dict[str, Any]], options: list[dict[str, float]], seeds: range
) -> dict[str, Any]:
    """Choose the option with the best validation in the first run, and run the other seeds with it."""
    firsts = [run(seeds[0], **option) for option in options]
    best = int(np.argmax([first["validation"] for first in firsts]))
    tried = [
        {**option, "validation": first["validation"], "train": first["train"], "chosen": number == best}
        for number, (option, first) in enumerate(zip(options, firsts, strict=True))
    ]
    return {"tried": tried, "runs": [firsts[best], *(run(seed, **options[best]) for seed in seeds[1:])]}


def descend(
    *,
    data: str,
    data_seed: int,
    cutoff: int,
    seeds: range,
    rates: tuple[float, ...],
    widths: tuple[float, ...],
    evaluations: int,
    per_step: int,
) -> dict[str, Any]:
    """Choose SPSA's rate and width by the first seed's validation, and descend from each start."""
    nets = _nets(data, data_seed, cutoff)
    train = nets["train"]
    steps = max(1, (evaluations - 2) // per_step)
    every = max(1, steps // CHECKS)

    def descent(seed: int, rate: float, width: float) -> dict[str, Any]:
        points, spent = list[Vector](), list[int]()

        def observe(step: int, evaluated: int, x: Vector) -> None:
            if step % every == 0:
                points.append(x)
                spent.append(evaluated)

        minimise(
            lambda points: 1.0 - train.means(points),
            first_weights(train.features, seed, 0),
            evaluations_per_step=per_step,
            budget=evaluations,
            gains=gains_of(rate, width, steps),
            seed=seed,
            together=True,
            observe=observe,
        )
        best = int(np.argmax(nets["validation"].means(np.stack(points))))
        course = {"evaluations": spent, "train": train.means(np.stack(points)).tolist()}
        return {**_reached(nets, points[best]), "evaluations": spent[best], "course": course}

    options = [{"rate": rate, "width": width} for rate, width in product(rates, widths)]
    return choose_by_first(descent, options, seeds)


def train(
    *,
    data: str,
    data_seed: int,
    cutoff: int,
    seeds: range,
    loss: str,
    learning_rates: tuple[float, ...],
    epochs: int,
    batch_size: int,
) -> dict[str, Any]:
    """Choose Adam's rate by the first seed's validation, and train from each seed."""
    fold = load_split(data, data_seed)
    fixed = partial(
        Settings,
        loss=parse_loss(loss),
        network="linear",
        epochs=epochs,
        measure=f"ndcg@{cutoff}",
        schedule="cosine",
        batch_size=batch_size,
    )

    def training(seed: int, rate: float, width: float) -> dict[str, Any]:
        del width
        trained = fit(fold.train, fold.validation, fixed(learning_rate=rate, seed=seed))
        [weights] = trained.weights.values()
        nets = _nets(data, data_seed, cutoff)
        return {**_reached(nets, weights.double().numpy().ravel()), "evaluations": trained.best_epoch}

    return choose_by_first(training, [{"rate": rate, "width": math.nan} for rate in learning_rates], seeds)


@lru_cache(maxsize=1)
def _nets(data: str, seed: int, cutoff: int) -> dict[str, LinearMeasure]:
    fold = load_split(data, seed)
    return {name: LinearMeasure(getattr(fold, name), f"ndcg@{cutoff}") for name in PARTS}


def _reached(nets: Mapping[str, LinearMeasure], point: Vector) -> dict[str, Any]:
    values = {name: net.values(point) for name, net in nets.items()}
    means = {name: float(np.nanmean(by_query)) for name, by_query in values.items()}
    return {**means, "queries": values["test"].tolist()}


if __name__ == "__main__":
    main(__spec__)
