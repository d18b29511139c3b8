"""Compare a model with its query expansion and term weights, by direct search and by gradients, held out.

    python -m experiments.term_weights cranfield med --model bm25 --parts +rm3 +weights +rm3+weights
    python -m experiments.term_weights cranfield npl --methods Approx --train 10 25 50

There are five folds.

- Approx and RankNet fit the plain model without a penalty, and weights by `RidgeTuner`, which uses only
  training
  topics.
- Direct is coordinate ascent from the default setting, then from random ones. It stops after as many settings
  as Approx used evaluations on the same fold; Direct x5 after five times as many.
- Documents are all documents scored in all fits; seconds are CPU seconds of this process.
- The last lines are p-values of differences from the plain model by the same method, with Holm's correction
  over
  collections.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ttest_rel

from experiments.datasets import short_name, whole_pool
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.tests import adjusted
from lmtune.tuning.direct import CoordinateAscent
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.pairs import Lists
from lmtune.tuning.ridge import RidgeTuner
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateCost, SurrogateTuner, parse_objective

AP = parse_measure("AP")
METHODS = ("Approx", "RankNet", "Direct", "Direct5")


def folds_of(topics: Sequence[str], count: int) -> list[Fold]:
    """Assign topics to folds, shuffled with seed 0."""
    order = np.random.default_rng(0).permutation(len(topics)).tolist()
    tests = [[topics[at] for at in order[first::count]] for first in range(count)]
    return [Fold(tuple(topic for topic in topics if topic not in test), tuple(test)) for test in tests]


def gradient_ratio(pool: CandidatePool) -> float:
    """Return the time of an evaluation with gradient, relative to evaluating one setting."""
    space = ParameterSpace.of(pool.formula)
    lists = Lists.build(pool, space)
    cost, start = SurrogateCost(lists, parse_objective("approx-ap"), pool.positions()), space.start
    seconds = np.inf * np.ones(2)
    for _ in range(6):
        for at in range(2):
            begin = time.process_time()
            if at:
                cost(start, 32.0, threads=1)
            else:
                measure_settings(pool, start[None], [AP], threads=1)
            seconds[at] = min(seconds[at], time.process_time() - begin)
    return float(seconds[1] / seconds[0])


class Counter:
    """Counts the documents whose scores a pool's formula computes."""

    def __init__(self, pool: CandidatePool) -> None:
        self.documents = 0
        formula: Any = pool.formula
        for name, at in (("rank_scores", 2), ("likelihoods", 2)):
            setattr(formula, name, self._counted(getattr(type(formula), name).__get__(formula), at))

    def _counted(self, method: Any, at: int) -> Any:
        def call(*arguments: Any) -> None:
            self.documents += arguments[at].size
            method(*arguments)

        return call


class Found(NamedTuple):
    """A setting, its number of evaluations, and a description of the selected penalty or climbs."""

    params: dict[str, float]
    evaluations: int
    step: str


def by_gradient(method: str, pool: CandidatePool, topics: Sequence[str]) -> Found:
    """Fit by the gradient of the smooth measure or of the pairwise cost."""
    inner = SurrogateTuner(starts=1) if method == "Approx" else RankNetTuner(starts=1, optimizer="l-bfgs")
    tuner = (RidgeTuner(inner) if pool.formula.simpler else inner).fit(pool, topics=topics)
    return Found(tuner.best_params_, tuner.n_evaluations_, getattr(tuner, "step_", "plain"))


def direct(pool: CandidatePool, topics: Sequence[str], budget: int) -> Found:
    """Climb from the default setting, then from random ones, until the budget is used."""
    space, best, spent = ParameterSpace.of(pool.formula), (-1.0, dict[str, float]()), 0
    for climb in itertools.count():
        start = space.random(np.random.default_rng(climb)) if climb else space.start
        found = CoordinateAscent("AP", starts=[space.named(start)], restarts=0, seed=climb)
        rows = found.fit(pool, topics=topics).results_[: budget - spent]
        spent += len(rows)
        top = rows.iloc[int(rows["AP"].to_numpy().argmax())]
        best = max(best, (float(top["AP"]), dict(top[space.names])), key=lambda pair: pair[0])
        if spent >= budget:
            return Found(best[1], spent, f"{climb + 1} climbs")
    raise AssertionError


def run(name: str, options: argparse.Namespace, gains: dict[tuple[str, ...], dict[str, float]]) -> None:
    """Print the rows of a collection."""
    topics = whole_pool(name, options.model).topics
    folds = folds_of(topics, options.folds)
    plain: dict[tuple[str, int], Any] = {}
    for part, size in itertools.product(("", *options.parts), options.train):
        pool = whole_pool(name, options.model + part)
        counter, budgets = Counter(pool), [0] * len(folds)
        for method in options.methods:
            values, training, found = np.zeros(len(topics)), [], list[Found]()
            documents, seconds = 0, 0.0
            for at, fold in enumerate(folds):
                order = np.random.default_rng(at).permutation(fold.train)[: size or None].tolist()
                train = [topic for topic in fold.train if topic in set(order)]
                begin, counter.documents = time.process_time(), 0
                if method in ("Approx", "RankNet"):
                    found.append(by_gradient(method, pool, train))
                    budgets[at] = found[-1].evaluations if method == "Approx" else budgets[at]
                else:
                    found.append(direct(pool, train, budgets[at] * (5 if method == "Direct5" else 1)))
                documents, seconds = documents + counter.documents, seconds + time.process_time() - begin
                for own in (fold.test, train):
                    places = pool.positions(own)
                    measured = measure_settings(pool, found[-1].params, [AP], topics=places)[:, 0, 0]
                    if own is fold.test:
                        values[places] = measured
                    else:
                        training.append(measured.mean())
            base = plain.setdefault((method, size), values)
            gain = values - base
            p = float(ttest_rel(values, base).pvalue) if gain.any() else float("nan")
            if part:
                gains.setdefault((part, method, str(size or "all")), {})[short_name(name)] = p
            cells = [short_name(name), options.model + part, method, size or "all", f"{values.mean():.4f}"]
            cells += [f"{np.mean(training):.4f}", f"{gain.mean():+.4f}", f"{p:.2g}"]
            cells += [f"{np.mean(gain < 0):.2f}", f"{np.mean(gain > 0):.2f}"]
            cells += [sum(own.evaluations for own in found), f"{documents / 1e6:.0f}", f"{seconds:.0f}"]
            cells += [f"{gradient_ratio(pool):.1f}" if method == "Approx" else ""]
            print("\t".join(map(str, [*cells, " ".join(own.step for own in found)])), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--model", default="bm25")
    parser.add_argument("--parts", nargs="+", default=["+weights", "+rm3", "+rm3+weights"])
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=METHODS, help="Approx sets the budgets"
    )
    parser.add_argument("--train", nargs="+", type=int, default=[0], help="training topics of a fold; 0: all")
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    head = (
        "collection model method topics held-out training difference p harmed helped evaluations Mdocuments"
    )
    print("\t".join([*head.split(), "seconds", "ratio", "steps"]))
    gains: dict[tuple[str, ...], dict[str, float]] = {}
    for name in options.collections:
        run(name, options, gains)
    for key, by_collection in gains.items():
        tested = {name: p for name, p in by_collection.items() if not np.isnan(p)}
        corrected = zip(tested, adjusted([*tested.values()]), strict=True)
        print("\t".join(["Holm", *key, *(f"{name} {p:.2g}" for name, p in corrected)]))


if __name__ == "__main__":
    main()
