"""Measure fits by a smooth measure against measuring and direct search on a synthetic collection.

    python benchmarks/surrogates.py --collection robust04 --output figures.json

Everything is compared within one run on the same pruned candidates. Seconds are processor seconds of
this process (all threads together), of single evaluations the least of several.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import least, write_figures
from numpy.typing import NDArray
from synthetic import collection

import lmtune
from lmtune.candidates.extraction import extract_pruned
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.models.kernels import Documents
from lmtune.models.two_stage import TwoStage
from lmtune.tuning.direct import CoordinateAscent, Surface
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import ALPHAS, SurrogateCost, SurrogateTuner, parse_objective

OBJECTIVES = {
    "AP": ["approx-ap", "softmax", "ranknet", "lambda-ap"],
    "nDCG@10": ["approx-ndcg@10", "song"],
    "P@10": ["approx-p@10"],
    "Bpref": ["approx-bpref"],
    "RR": ["approx-rr"],
}
AT = np.array([0.5, 1000.0])


class Counting(TwoStage):
    """Two-stage smoothing that counts the documents it scores."""

    def __init__(self) -> None:
        self._scored: list[int] = []

    def rank_scores(
        self, documents: Documents, settings: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        """Fill scores; count them."""
        self._scored.append(out.size)
        super().rank_scores(documents, settings, out)

    def likelihoods(self, *arguments: Any) -> None:
        """Fill likelihoods and gradients; count the documents."""
        self._scored.append(arguments[2].size)
        super().likelihoods(*arguments)

    def count(self) -> int:
        """Return how many documents were scored since the last call."""
        total = sum(self._scored)
        self._scored.clear()
        return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collection", default="robust04", help="a synthetic one, or a folder")
    parser.add_argument("--indexes", type=Path, help="where built indexes are kept")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="a JSON file")
    options = parser.parse_args()
    data = lmtune.load(collection(options.collection))
    with tempfile.TemporaryDirectory() as scratch:
        index = lmtune.index_for(data.documents, home=options.indexes or Path(scratch))
        pool = replace(extract_pruned(index, data.topics, data.qrels), formula=Counting())
        figures: dict[str, Any] = {"machine": platform.machine(), "collection": options.collection}
        figures["evaluations"] = evaluations(pool, options.repeats)
        figures["fits"] = [row for measure in OBJECTIVES for row in fits(pool, measure)]
    write_figures(figures, options.output, shown=False)


def evaluations(pool: CandidatePool, repeats: int) -> list[dict[str, Any]]:
    """Time one value and gradient of each objective against measuring one setting."""
    rows: list[dict[str, Any]] = []
    lists = Lists.build(pool, ParameterSpace.of("two-stage"))
    per_topic = lists.columns.doc.size / len(pool.topics)
    print(
        f"documents a topic: {per_topic:.0f}; candidates: {pool.candidates.doc.size / len(pool.topics):.0f}"
    )
    print(f"{'one evaluation':28}{'alpha':>6}{'ms':>9}{'ratio':>8}")
    for name, objectives in OBJECTIVES.items():
        measure = parse_measure(name)
        measuring = partial(measure_settings, pool, AT, [measure])
        measuring()
        _, alone = least(measuring, repeats)
        print(f"{name:34}{1e3 * alone:9.2f}")
        for objective in objectives:
            cost = SurrogateCost(lists, parse_objective(objective), pool.positions())
            if objective.startswith("lambda"):
                cost.freeze(AT)
            for alpha in ALPHAS:
                cost(AT, alpha)
                _, seconds = least(partial(cost, AT, alpha), repeats)
                rows.append({"objective": objective, "alpha": alpha, "ms": 1e3 * seconds})
                rows[-1] |= {"of measuring": seconds / alone}
                print(f"{objective:28}{alpha:6.0f}{1e3 * seconds:9.2f}{seconds / alone:8.2f}", flush=True)
    return rows


def fits(pool: CandidatePool, name: str) -> list[dict[str, Any]]:
    """Compare whole fits with direct search of the same measure on all topics."""
    measure = parse_measure(name)
    print(f"{'fit':20}{'lambda':>8}{'mu':>9}{name:>9}{'scored, M':>12}{'share':>8}{'s':>8}{'share':>8}")
    ways: dict[str, Callable[[], dict[str, float]]] = {"direct": partial(direct, pool, measure)}
    ways |= {objective: partial(smooth, pool, objective) for objective in OBJECTIVES[name]}
    rows: list[dict[str, Any]] = []
    for way, fit in ways.items():
        pool.formula.count()  # type: ignore[attr-defined]
        begin = time.process_time()
        params = fit()
        seconds = time.process_time() - begin
        row = {"fit": way, **params, "scored": pool.formula.count(), "seconds": seconds}  # type: ignore[attr-defined]
        row[name] = float(measure_settings(pool, params, [measure]).mean())
        rows.append(row)
        shares = row["scored"] / rows[0]["scored"], seconds / rows[0]["seconds"]
        print(
            f"{way:20}{params['lambda']:8.3f}{params['mu']:9.1f}{row[name]:9.4f}"
            f"{row['scored'] / 1e6:12.1f}{shares[0]:8.3f}{seconds:8.2f}{shares[1]:8.3f}",
            flush=True,
        )
    return rows


def smooth(pool: CandidatePool, objective: str) -> dict[str, float]:
    """Fit as `SurrogateTuner` does by default, its lists included."""
    return SurrogateTuner(objective).fit(pool).best_params_


def direct(pool: CandidatePool, measure: Measure) -> dict[str, float]:
    """Search as the experiment's Direct does: a grid, then ascents from its best points."""
    plan, topics = Plan(), pool.positions()
    surface = Surface.compute(pool, [measure], space=plan.space, shape=plan.grid)
    starts = [surface.setting(place) for place in surface.best(measure, topics, plan.ascents)]
    ascent = CoordinateAscent(str(measure), space=plan.space, starts=starts, restarts=plan.restarts)
    return ascent.fit(pool).best_params_


if __name__ == "__main__":
    main()
