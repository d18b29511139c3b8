"""Metzler 2007, table 1: two-stage smoothing by direct search and by RankNet's cost; what each loses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from experiments.data import short_name
from experiments.estimation import OPTIMUM, decompose
from experiments.experiment import Claim, Experiment, Tables, Unit, figures
from experiments.papers.table import differing, paper_table, rows_of
from lmtune.datasets.collection import Collection, named_collections
from lmtune.formats.result_folders import file_name
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.options import option
from lmtune.reporting.table import Table
from lmtune.reranking.comparison import Outcome
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import Prepared, prepare
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL, RANKNET, CollectionResult
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.experiment.stored import check_names

METHODS = (DIRECT, RANKNET, OPTIMAL)
PROTOCOL: Mapping[str, Any] = {"measures": ("AP", "Bpref", "P@10"), "approx": False, "final": False}
"""Of a `lmtune.tuning.experiment.plan.Plan`: coordinate descent of RankNet's cost is its default."""

PRINTED = {
    "ap": ".2072 .2081 .2088 .3490 .3437 .3504 .3360 .3400 .3520",
    "wsj": ".3255 .2987 .3290 .3392 .3294 .3557 .4820 .4240 .4960",
    "robust04": ".2920 .2756 .2931 .2821 .2661 .2840 .4323 .4384 .4434",
    "wt10g": ".1930 .1922 .2003 .1834 .1805 .1907 .3204 .3143 .3388",
}
"""Table 1's columns, measure by measure, each with `METHODS`."""

DIFFERENCES = (
    "it does not print its training and test topics: those of its author's companion work for its four "
    "collections, two halves that test each other for others",
    "its direct search is not described: a grid of 20 x 26, then coordinate ascents from its best points",
    "it marks t-tests without correction: ours is corrected over the three pairs of a cell",
)


_CELLS = (
    f"Cells in which it is significantly better or worse than {DIRECT} (the paper: never better, worse in "
    "MAP and BPREF on WSJ and ROBUST and in P@10 on WSJ)"
)


_LOSSES = (
    "Lost by searching, and by few topics: what a method misses on its training topics, against their "
    "certified best; what even that loses on the test topics, against Optimal; what the method loses beyond"
)
_GAPS = "collection measure method"
_LOST = ("missed", "unproven", "few_topics", "beyond")


@dataclass(frozen=True)
class Metzler(Experiment):
    """Experiment.

    Metzler 2007, table 1: two-stage smoothing tuned by direct search and by RankNet's cost.
    """

    name: ClassVar[str] = "metzler"
    quick: ClassVar[Mapping[str, Any]] = {"points": (8, 10), "ascents": 1, "restarts": 0, "starts": 1} | {
        "tolerance": 0.01
    }

    datasets: tuple[str, ...] = option(("pydocs",), "pydocs, folders, ap, wsj, robust04, wt10g ...", fewest=1)
    points: tuple[int, ...] = option((20, 26), "Grid points along lambda and mu.", low=1, fewest=2)
    ascents: int = option(Plan.ascents, "Coordinate ascents from the best of them.", low=1)
    restarts: int = option(Plan.restarts, "Random restarts of the coordinate ascent.", low=0)
    starts: int = option(Plan.starts, "Starts of RankNet's descent.", low=1)
    tolerance: float = option(
        0.001, "Of the certificates of training topics, which cut losses in two; 0 for none.", low=0
    )
    seed: int = option(0, "Of folds, starts and restarts.", low=0)

    def units(self) -> list[Unit]:
        """Return a unit a collection."""
        check_names([short_name(dataset) for dataset in self.datasets])
        self._plan()
        collections = named_collections(self.datasets, Collection())
        for collection in collections:
            collection.load(need=("topics", "qrels"))
        return [
            Unit(file_name(short_name(str(one.name))), self.compare, {"collection": one}, reports=True)
            for one in collections
        ]

    def compare(
        self, collection: Collection, progress: Callable[..., None] = lambda *_: None
    ) -> dict[str, Any]:
        """Tune on one collection.

        Returns
        -------
        dict
            ``values`` of each test topic by measure and method, ``fits`` (a row a fold, measure and
            method), ``gaps`` (a row a measure, fold and method) and ``notes``.
        """
        plan = self._plan()
        ready = prepare(collection, Split(), plan, progress=progress)
        result = run_experiment(ready.pool, ready.folds, plan, notes=ready.notes, progress=progress)
        values: dict[str, dict[str, list[float]]] = {}
        for row in result.rows:
            values.setdefault(str(row.measure), {})[row.method] = row.values.tolist()
        fits = [
            {"measure": str(row.measure), "method": row.method, "fold": number, **fit.params}
            | {"train": fit.train_value, "test": fit.test_value, "evaluations": fit.evaluations}
            for row in result.rows
            for number, fit in enumerate(row.fits, 1)
        ]
        gaps = list(self._gaps(ready, result, progress)) if self.tolerance else []
        return {"values": values, "fits": fits, "gaps": gaps, "notes": list(result.notes)}

    def _gaps(
        self, ready: Prepared, result: CollectionResult, progress: Callable[..., None]
    ) -> Iterator[dict[str, Any]]:
        """Yield what each fit misses on its training topics, and what the best of these loses on others."""
        fits = {(row.measure, row.method): row.fits for row in result.rows}
        measures = dict.fromkeys(row.measure for row in result.rows)
        cases = [(measure, number) for measure in measures for number in range(len(ready.folds))]
        for done, (measure, number) in enumerate(cases):
            progress("certifying training topics", done, len(cases))
            fold = ready.folds[number]
            settings = {method: fits[measure, method][number].params for method in METHODS}
            tuner = CertifiedOptimum(measure, tolerance=self.tolerance, starts=[*settings.values()])
            proven = tuner.fit(ready.pool, topics=fold.train)
            settings[OPTIMUM] = proven.best_params_
            values = {
                name: measure_settings(ready.pool, own, [measure])[:, 0, 0] for name, own in settings.items()
            }
            parts = decompose(values, *map(ready.pool.positions, (fold.train, fold.test)))
            for method in (DIRECT, RANKNET):
                missed = {
                    "missed": parts[method]["optimisation"],
                    "unproven": proven.bound_ - proven.best_value_,
                    "few_topics": -parts[OPTIMAL]["part"],
                    "beyond": parts[method]["part"],
                }
                yield {"measure": str(measure), "method": method, "fold": number + 1, **missed}

    def _plan(self) -> Plan:
        searched: dict[str, Any] = {name: getattr(self, name) for name in ("ascents", "restarts", "starts")}
        return Plan(**PROTOCOL, grid=self.points, seed=self.seed, **searched)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make ``table``, ``fits``, ``gaps`` and ``notes``."""
        named = list(zip(map(short_name, self.datasets), results.values(), strict=True))
        rows = []
        for number, measure in enumerate(parse_measures(PROTOCOL["measures"])):
            for name, result in named:
                column = PRINTED.get(name, "").split()[3 * number : 3 * number + 3]
                printed = dict(zip(METHODS, column or [""] * 3, strict=True))
                values = result["values"].get(str(measure), {})
                outcomes = [
                    Outcome(method, math.nan, (measure,), np.array(of_topics)[None, :, None])
                    for method, of_topics in values.items()
                ]
                rows += rows_of(
                    outcomes, measure, over="queries", printed=printed, column=name, group=measure.title
                )
        fits, gaps = (
            [{"collection": name, **row} for name, result in named for row in result[part]]
            for part in ("fits", "gaps")
        )
        notes = [(name, note) for name, result in named for note in result["notes"]]
        return {
            "table": pd.DataFrame(rows),
            "fits": pd.DataFrame(fits),
            "gaps": pd.DataFrame(gaps, columns=[*_GAPS.split(), "fold", *_LOST]),
            "notes": pd.DataFrame(notes, columns=["collection", "note"]),
        }

    def table(self, tables: Tables) -> Table:
        """Lay it out as the paper does."""
        caption = "Metzler (2007), table 1: means over test topics"
        return paper_table(tables["table"], caption=caption, over="test topics", first="Metric")

    def claims(self) -> Sequence[Claim]:
        """Return how often RankNet is better or worse than direct search, and what is not the paper's."""
        return (
            Claim(_CELLS, _cells),
            Claim(_LOSSES, figures("gaps", _GAPS, " ".join(_LOST), "mean")),
            Claim("Notes", figures("notes", "collection note")),
            *differing(self, DIFFERENCES),
        )


def _cells(tables: Tables) -> pd.DataFrame:
    cells = tables["table"].set_index("method")
    counts = {
        "cells": cells.loc[[RANKNET], "mean"].notna().sum(),
        "better": cells.loc[[RANKNET], "better_than"].str.contains(DIRECT).sum(),
        "worse": cells.loc[[DIRECT], "better_than"].str.contains(RANKNET).sum(),
    }
    return pd.DataFrame(counts, index=[RANKNET])
