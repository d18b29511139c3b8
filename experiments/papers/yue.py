"""Yue and Burges 2007, table 1: a linear net trained on NDCG itself by SPSA, against LambdaRank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.data import HELP, load_split, short_name
from experiments.experiment import Claim, Experiment, Tables, Unit, choose_by_first, figures
from experiments.papers.table import better, differences, differing, paper_table, row_of, rows_of
from experiments.spsa import LinearMeasure, first_weights, gains_of
from lmtune.errors import InputError
from lmtune.gradient_free import minimise
from lmtune.measures.measure import exponential_ndcg
from lmtune.measures.significance.effects import confidence_interval
from lmtune.options import option
from lmtune.reporting.table import Table
from lmtune.reranking.comparison import Outcome
from lmtune.reranking.learners.feature_networks import fit
from lmtune.reranking.losses.names import make_loss
from lmtune.reranking.settings import Settings

LOSSES = {"LambdaRank": "lambdarank", "RankNet": "ranknet"}
PARTS = ("train", "validation", "test")

_SHOWN = ("validation", "train")
# The iterates of a descent that validation chooses from.
_CHECKS = 50
_PRINTED = {"LambdaRank": (0.721, 0.713, 0.707), "SPSA:4": (0.690, 0.682, 0.677)}
_DIFFERENCES = (
    "its Web data, 367 features of a commercial engine, were not handed out",
    "it tried a variety of rates, without saying which; ours are chosen by the first training's validation",
)


@dataclass(frozen=True)
class SpsaOnNdcg(Experiment):
    """Experiment.

    Yue and Burges 2007, table 1: a linear net trained on NDCG itself by SPSA, against LambdaRank.
    """

    name: ClassVar[str] = "yue"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:150",
        "seeds": 2,
        "evaluations": 1000,
        "epochs": 15,
        "rates": (0.3,),
        "widths": (0.03, 0.1),
        "learning_rates": (0.03,),
    }

    data: str = option("artificial:1000", HELP, metavar="DIR")
    seeds: int = option(5, "trainings a method", low=1)
    evaluations: int = option(3000, "of NDCG on all training queries, a run of SPSA", low=10)
    per_step: int = option(4, "F of SPSA:F", low=2)
    rates: tuple[float, ...] = option(
        (0.1, 0.3, 1.0), "first rates of SPSA to choose from", above=0, fewest=1
    )
    widths: tuple[float, ...] = option(
        (0.01, 0.03, 0.1, 0.3),
        "first distances c to the points that are compared, to choose from",
        above=0,
        fewest=1,
    )
    learning_rates: tuple[float, ...] = option(
        (0.01, 0.03, 0.1), "Adam's, to choose from, for LambdaRank and RankNet", above=0, fewest=1
    )
    epochs: int = option(30, "of LambdaRank and RankNet", low=1)
    batch_size: int = option(16, "queries of a step of theirs", low=1)
    cutoff: int = option(10, "of the NDCG", low=1)
    seed: int = option(0, "of artificial data; the first of the trainings' seeds", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_step % 2:
            raise InputError("bad per step", value=self.per_step, accepted="an even number")

    @property
    def spsa(self) -> str:
        """The name of SPSA in the table."""
        return f"SPSA:{self.per_step}"

    @property
    def methods(self) -> list[str]:
        """All methods, the paper's first two first."""
        return ["LambdaRank", self.spsa, "RankNet"]

    @property
    def all_seeds(self) -> range:
        """The trainings' seeds."""
        return range(self.seed, self.seed + self.seeds)

    def units(self) -> list[Unit]:
        """Return a unit a method: its choice of rates, and its trainings."""
        losses = [Unit(loss, self.train, {"loss": loss}) for loss in LOSSES.values()]
        return [Unit("spsa", self.descend, {}), *losses]

    def descend(self) -> dict[str, Any]:
        """Choose SPSA's rate and width by the first seed's validation, and descend from each start."""
        choices = [{"rate": rate, "width": width} for rate, width in product(self.rates, self.widths)]
        return choose_by_first(self._descent, choices, self.all_seeds, "validation", _SHOWN)

    def train(self, loss: str) -> dict[str, Any]:
        """Choose Adam's rate by the first seed's validation, and train from each seed."""
        choices = [{"rate": rate, "width": math.nan} for rate in self.learning_rates]
        return choose_by_first(partial(self._training, loss), choices, self.all_seeds, "validation", _SHOWN)

    def _descent(self, seed: int, rate: float, width: float) -> dict[str, Any]:
        nets = _nets(self.data, self.seed, self.cutoff)
        train = nets["train"]
        steps = max(1, (self.evaluations - 2) // self.per_step)
        every = max(1, steps // _CHECKS)
        points, spent = list[NDArray[np.float64]](), list[int]()

        def observe(step: int, evaluated: int, x: NDArray[np.float64]) -> None:
            if step % every == 0:
                points.append(x)
                spent.append(evaluated)

        minimise(
            lambda points: 1.0 - train.means(points),
            first_weights(train.features, seed, 0),
            evaluations_per_step=self.per_step,
            budget=self.evaluations,
            gains=gains_of(rate, width, steps),
            seed=seed,
            together=True,
            observe=observe,
        )
        best = int(np.argmax(nets["validation"].means(np.stack(points))))
        course = {"evaluations": spent, "train": train.means(np.stack(points)).tolist()}
        return {**_reached(nets, points[best]), "evaluations": spent[best], "course": course}

    def _training(self, loss: str, seed: int, rate: float, width: float) -> dict[str, Any]:
        del width
        fold = load_split(self.data, self.seed)
        settings = Settings(
            loss=make_loss(loss),
            network="linear",
            learning_rate=rate,
            epochs=self.epochs,
            measure=f"ndcg@{self.cutoff}",
            schedule="cosine",
            batch_size=self.batch_size,
            seed=seed,
        )
        trained = fit(fold.train, fold.validation, settings)
        [weights] = trained.weights.values()
        nets = _nets(self.data, self.seed, self.cutoff)
        return {**_reached(nets, weights.double().numpy().ravel()), "evaluations": trained.best_epoch}

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Return NDCG by method and seed, the table, differences, the choices and SPSA's courses."""
        measure = exponential_ndcg(self.cutoff)
        runs, rows, tried, outcomes = [], [], [], []
        for name in self.methods:
            record = results[LOSSES.get(name, "spsa")]
            for seed, run in zip(self.all_seeds, record["runs"], strict=True):
                reached = {key: run[key] for key in (*PARTS, "evaluations")}
                runs.append({"method": name, "seed": seed, **reached})
            values = np.array([run["queries"] for run in record["runs"]])[:, :, None]
            outcomes.append(Outcome(name, math.nan, (measure,), values))
            for part in PARTS[:-1]:
                interval = confidence_interval([run[part] for run in record["runs"]])
                rows.append(row_of(name, part.title(), interval))
            tried += [{"method": name, **row} for row in record["tried"]]
        courses = [run["course"] for run in results["spsa"]["runs"]]
        course = np.array([record["train"] for record in courses])
        spread = {"train": course.mean(axis=0), "lowest": course.min(axis=0), "highest": course.max(axis=0)}
        rows += rows_of(outcomes, measure, over="trials", printed={}, column=PARTS[-1].title())
        return {
            "table": pd.DataFrame(rows),
            "differences": differences(outcomes),
            "runs": pd.DataFrame(runs),
            "tried": pd.DataFrame(tried),
            "courses": pd.DataFrame({"evaluations": courses[0]["evaluations"], **spread}),
        }

    def table(self, tables: Tables) -> Table:
        """Lay it out as the paper does."""
        data = short_name(self.data)
        caption = f"Yue and Burges (2007), table 1: NDCG@{self.cutoff} of linear nets on {data}"
        return paper_table(tables["table"], caption=caption, over=f"{self.seeds} trainings")

    def claims(self) -> Sequence[Claim]:
        """Return whether SPSA on NDCG itself is worse than the two losses by gradient."""
        return (
            better([(name, self.spsa) for name in LOSSES], exponential_ndcg(self.cutoff)),
            Claim(
                "Passes over the training queries until the best",
                figures("runs", "method", "evaluations", "mean"),
            ),
            Claim("The paper, on its Web data", lambda _: pd.DataFrame(_PRINTED, index=list(PARTS)).T),
            *differing(self, _DIFFERENCES),
        )


@lru_cache(maxsize=1)
def _nets(data: str, seed: int, cutoff: int) -> dict[str, LinearMeasure]:
    fold = load_split(data, seed)
    return {name: LinearMeasure(getattr(fold, name), f"ndcg@{cutoff}") for name in PARTS}


def _reached(nets: Mapping[str, LinearMeasure], point: NDArray[np.float64]) -> dict[str, Any]:
    values = {name: net.values(point) for name, net in nets.items()}
    means = {name: float(np.nanmean(by_query)) for name, by_query in values.items()}
    return {**means, "queries": values["test"].tolist()}
