"""Choose stemmer, stopwords, model and parameters by full search, successive halving and Optuna's samplers.

    python -m experiments.choices cranfield cacm --seeds 10

Half of the topics are training topics. Every sampler may score as many documents as the full search, which
uses a small grid and a climb for each case. The race halves the cases first and searches the last two. Each
row also has the certified bound over all cases.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.trial import BaseTrial, FixedTrial

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.collection import Collection
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.choices.experiment import halve, make_cases
from lmtune.tuning.direct import CoordinateAscent, GridSearch
from lmtune.tuning.experiment.plan import Split
from lmtune.tuning.experiment.preparation import prepare
from lmtune.tuning.space import Choice, ParameterSpace

AP = parse_measure("AP")
CHOICES = ("stemmer=porter,none", "stopwords=lucene,none", "model=two-stage,bm25")


class Searched(NamedTuple):
    """Result of a search: best setting on training topics, its mean on the other topics, and cost."""

    train: float
    test: float
    seconds: float
    settings: int
    scored: int = 0


class Bench:
    """The cases of a collection, and half of its topics for training."""

    def __init__(self, name: str, tolerance: float) -> None:
        choices = [Choice.parse(text) for text in CHOICES]
        self.cases = make_cases(choices, Collection(name=name), {"measures": ("AP",)})
        self.pools: list[CandidatePool] = []
        for case in self.cases:
            self.pools.append(prepare(case.collection, Split(folds="2"), case.plan).pool)
        topics = np.random.default_rng(0).permutation(self.pools[0].topics).tolist()
        self.train, self.test = topics[::2], topics[1::2]
        self.names = [tuple(case.values.values()) for case in self.cases]
        self.tolerance = tolerance

    def space(self, case: int) -> ParameterSpace:
        """Return the parameter space of a case."""
        return self.cases[case].plan.space

    def documents(self, case: int) -> int:
        """Return the number of documents that a setting of a case scores on the training topics."""
        pool = self.pools[case]
        return sum(len(pool.candidates.length[pool.candidates.rows(t)]) for t in pool.positions(self.train))

    def mean(self, case: int, setting: dict[str, float], topics: list[str]) -> float:
        """Return MAP."""
        pool = self.pools[case]
        places = pool.positions(topics)
        return float(measure_settings(pool, setting, [AP], topics=places)[:, 0, 0].mean())

    def ours(self, cases: Iterable[int]) -> Searched:
        """Search each case by a small grid and a climb."""
        begin, found, scored, settings = time.perf_counter(), [], 0, 0
        for case in cases:
            pool = self.pools[case]
            shared: dict[str, Any] = {"measure": AP, "space": self.space(case)}
            grid = GridSearch(**shared, shape=(4, 4)).fit(pool, topics=self.train)
            climb = CoordinateAscent(**shared, starts=[grid.best_params_], restarts=0)
            climb.fit(pool, topics=self.train)
            taken = grid.n_evaluations_ + climb.n_evaluations_
            settings, scored = settings + taken, scored + taken * self.documents(case)
            found.append((climb.best_value_, case, climb.best_params_))
        value, case, setting = max(found, key=lambda one: one[0])
        seconds = time.perf_counter() - begin
        return Searched(value, self.mean(case, setting, self.test), seconds, settings, scored)

    def raced(self) -> Searched:
        """Search the cases that remain after successive halving."""
        begin, settings, scored = time.perf_counter(), 0, 0

        def look_at(case: int, count: int) -> dict[Measure, NDArray[np.float64]]:
            nonlocal settings, scored
            settings, scored = settings + count, scored + count * self.documents(case)
            search = GridSearch(AP, space=self.space(case), shape=(count,))
            return {AP: np.array([search.fit(self.pools[case], topics=self.train).best_value_])}

        left = halve(len(self.pools), look_at)[AP][0]
        spent = time.perf_counter() - begin
        own = self.ours(sorted(left))
        return Searched(
            own.train, own.test, own.seconds + spent, own.settings + settings, own.scored + scored
        )

    def optuna(self, sampler: optuna.samplers.BaseSampler, budget: int, most: int) -> Searched:
        """Run a sampler until it has scored `budget` documents or tried `most` settings."""
        study = optuna.create_study(direction="maximize", sampler=sampler)
        begin, costs, tried = time.perf_counter(), [self.documents(n) for n in range(len(self.cases))], 0
        left = budget
        while left > 0 and tried < most:
            trial = study.ask()
            case, setting = self.suggested(trial)
            study.tell(trial, self.mean(case, setting, self.train))
            left, tried = left - costs[case], tried + 1
        best = self.suggested(FixedTrial(study.best_params))
        seconds = time.perf_counter() - begin
        return Searched(study.best_value, self.mean(*best, self.test), seconds, tried, budget - left)

    def suggested(self, trial: BaseTrial) -> tuple[int, dict[str, float]]:
        """Return the case and setting that a trial suggests."""
        chosen = tuple(
            trial.suggest_categorical(name, text.split(","))
            for name, text in (choice.split("=") for choice in CHOICES)
        )
        case = self.names.index(chosen)
        free = self.space(case).parameters
        return case, {p.name: trial.suggest_float(p.name, p.low, p.high, log=p.low > 0.0) for p in free}

    def proven(self, start: float) -> tuple[float, float]:
        """Return the best value found over all cases on training topics, and the proven upper bound."""
        best, bounds = start, []
        for case, pool in enumerate(self.pools):
            space = self.space(case)
            optimum = CertifiedOptimum(AP, tolerance=self.tolerance, space=space, beat=best)
            optimum.fit(pool, topics=self.train)
            best = max(best, optimum.best_value_)
            bounds.append(optimum.bound_)
        return best, max(bounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument(
        "--gp", type=int, default=150, help="maximum number of settings of the Gaussian process; 0: skip it"
    )
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {"TPE": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
    samplers |= {"GP": optuna.samplers.GPSampler} if options.gp else {}
    print("collection\tsearch\ttrain\tworst\ttest\tsettings\tseconds\tdocuments scored")
    for name in options.collections:
        bench = Bench(name, options.tolerance)
        ours = bench.ours(range(len(bench.cases)))
        rows = {"lmtune": [ours], "race": [bench.raced()]}
        for sampler, make in samplers.items():
            most = options.gp if sampler == "GP" else 10**9
            rows[sampler] = [
                bench.optuna(make(seed=seed), ours.scored, most) for seed in range(options.seeds)
            ]
        for search, found in rows.items():
            train, test, seconds, settings, scored = np.mean(found, axis=0)
            worst = min(one.train for one in found)
            print(
                f"{name}\t{search}\t{train:.4f}\t{worst:.4f}\t{test:.4f}\t{settings:.0f}\t{seconds:.1f}"
                f"\t{scored:.0f}",
                flush=True,
            )
        best, bound = bench.proven(ours.train)
        print(f"{name}\tproven\t{best:.4f} to {bound:.4f}")


if __name__ == "__main__":
    main()
