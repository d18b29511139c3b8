"""The comparison of Metzler (SIGIR 2007), Table 1: Direct, RankNet and Optimal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.measures.significance.tests import paired_t_test
from lmtune.models.model import described, find_model
from lmtune.progress import Progress
from lmtune.tuning.coordinate_ascent import CoordinateAscent
from lmtune.tuning.folds import Fold
from lmtune.tuning.grid import Surface
from lmtune.tuning.optimal import Choice, best_known, certify, proof
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.plan import Plan
from lmtune.tuning.ranknet import RankNetTuner
from lmtune.tuning.result import ALSO, DIRECT, OPTIMAL, RANKNET, STOPPED, CollectionResult, Fit, Row
from lmtune.tuning.spsa import SEARCHES

if TYPE_CHECKING:
    import pandas as pd


def run_experiment(
    pool: CandidatePool,
    folds: Sequence[Fold],
    plan: Plan,
    *,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> CollectionResult:
    """Choose parameters on training topics by every method; report them on test topics.

    Direct is a full grid, then coordinate ascents from its best points and from random ones;
    `Plan.also` adds gradient-free descents, each from the same start with a budget of evaluations.
    Optimal is the best grid point on the test topics themselves, or another row's setting where
    that is better still: the upper bound that no honest method may use. With `Plan.certify` it is
    searched for and proven to be that near the best possible. Ctrl-C ends such a proof and those
    to come, not the experiment.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    folds : sequence of Fold
        Their test topics are disjoint.
    plan : Plan
        How to search.
    notes : sequence of str
        Put before this function's own.
    progress : callable, optional
        Called with (stage, done, total), and where a certificate stands as ``detail``.

    Returns
    -------
    CollectionResult

    Raises
    ------
    InputError
        Where the pool was extracted for another model than the plan's.
    """
    if find_model(plan.model).formula.name != pool.formula.name:
        raise InputError(
            f"the candidates were extracted for {pool.formula.name}",
            value=plan.model,
            accepted="one model for candidates and plan",
        )
    report = progress or _silent
    experiment = _Experiment(pool, plan, report)
    steps = [(number, fold, step) for number, fold in enumerate(folds) for step in plan.steps]
    report("tuning", 0, len(steps))
    for done, (number, fold, measure) in enumerate(steps, 1):
        if measure is None:
            experiment.fit_ranknet(number, fold)
        else:
            experiment.add(number, fold, measure)
        report("tuning", done, len(steps))
    return experiment.finish(folds, notes)


def _silent(stage: str, done: int, total: int, detail: str = "") -> None:
    pass


class _Experiment:
    ranknet: RankNetTuner
    stopped: RankNetTuner
    descent_evaluations: int
    validation: list[str]

    def __init__(self, pool: CandidatePool, plan: Plan, progress: Progress) -> None:
        self.pool = pool
        self.plan = plan
        self.progress = progress
        self.tolerance = plan.certify  # None once a certificate is interrupted
        self.unfinished: list[int] = []
        self.pairs = Pairs.build(pool, rel=plan.rel, depth=plan.negatives_depth)
        # The first call compiles; a topic shows how long that takes before the bars move.
        progress("compiling kernels, once", 0, 1)
        first = pool.positions()[:1]
        self.pairs.cost(plan.space.start, topics=first)
        measure_settings(pool, plan.space.start, plan.measures, topics=first, depth=plan.depth)
        progress("compiling kernels, once", 1, 1)
        self.surface = Surface.compute(
            pool,
            plan.measures,
            space=plan.space,
            shape=plan.grid,
            depth=plan.depth,
            progress=lambda done, total: progress("grid", done, total),
        )
        stopped = [STOPPED] if plan.validation else []
        methods = [DIRECT, RANKNET, *stopped, *(ALSO[name] for name in plan.also), OPTIMAL]
        self.keys = [(measure, method) for measure in plan.measures for method in methods]
        self.fits: dict[tuple[Measure, str], list[Fit]] = {key: [] for key in self.keys}
        self.values: dict[tuple[Measure, str], list[NDArray[np.float64]]] = {key: [] for key in self.keys}
        self.traces: dict[str, pd.DataFrame] = {}

    def fit_ranknet(self, number: int, fold: Fold) -> None:
        """Fit RankNet, on all training topics and, to be stopped, on all but the validation's."""
        self.ranknet = self._tuner().fit(self.pool, topics=fold.train, pairs=self.pairs)
        self.traces[f"ranknet-fold{number + 1}"] = self.ranknet.results_
        if not self.ranknet.converged_:
            self.unfinished.append(number + 1)
        if self.plan.validation:
            rng = np.random.default_rng([self.plan.seed, number])
            size = max(1, round(self.plan.validation * len(fold.train)))
            held = set(rng.permutation(fold.train)[:size])
            self.validation = [topic for topic in fold.train if topic in held]
            fitting = [topic for topic in fold.train if topic not in held]
            self.stopped = self._tuner().fit(self.pool, topics=fitting, pairs=self.pairs)
            self.descent_evaluations = self.stopped.n_evaluations_
            self.traces[f"ranknet-val-fold{number + 1}"] = self.stopped.results_

    def _tuner(self) -> RankNetTuner:
        plan = self.plan
        return RankNetTuner(
            optimizer=plan.optimizer,
            space=plan.space,
            starts=plan.starts,
            seed=plan.seed,
            rel=plan.rel,
            negatives_depth=plan.negatives_depth,
            measures=[str(m) for m in plan.measures],
            depth=plan.depth,
        )

    def add(self, number: int, fold: Fold, measure: Measure) -> None:
        """Choose by every method for one measure; RankNet is fitted before."""
        tuner = self.ranknet
        chosen = {
            DIRECT: self._direct(number, fold, measure),
            RANKNET: Choice(tuner.best_params_, tuner.n_evaluations_),
        }
        if self.plan.validation:
            stopped = self.stopped.stop_on(self.pool, str(measure), topics=self.validation)
            evaluations = self.descent_evaluations + len(stopped.results_)
            chosen[STOPPED] = Choice(stopped.best_params_, evaluations)
        for name in self.plan.also:
            chosen[ALSO[name]] = self._search(name, number, fold, measure)
        optimal, bound = self._optimal(number, fold, measure, list(chosen.values()))
        chosen[OPTIMAL] = optimal
        for method, choice in chosen.items():
            train, test = (
                measure_settings(
                    self.pool,
                    choice.params,
                    [measure],
                    depth=self.plan.depth,
                    topics=self.pool.positions(topics),
                )[:, 0, 0]
                for topics in (fold.train, fold.test)
            )
            edges = tuple(self.plan.space.at_edge(list(choice.params.values())))
            means = float(train.mean()), float(test.mean())
            self.fits[measure, method].append(
                Fit(choice.params, *means, choice.evaluations, edges, bound if method == OPTIMAL else None)
            )
            self.values[measure, method].append(test)

    def _direct(self, number: int, fold: Fold, measure: Measure) -> Choice:
        places = self.pool.positions(fold.train)
        best = self.surface.best(measure, places, self.plan.ascents)
        ascent = CoordinateAscent(
            str(measure),
            space=self.plan.space,
            starts=[self.surface.setting(place) for place in best],
            restarts=self.plan.restarts,
            seed=self.plan.seed,
            depth=self.plan.depth,
        ).fit(self.pool, topics=fold.train)
        self.traces[f"direct-{measure}-fold{number + 1}"] = ascent.results_
        climbed = ascent.results_[list(self.surface.names)].to_numpy()
        measured = np.unique(np.concatenate((self.surface.settings, climbed)), axis=0)
        return Choice(ascent.best_params_, len(measured))

    def _search(self, name: str, number: int, fold: Fold, measure: Measure) -> Choice:
        tuner = SEARCHES[name](
            str(measure),
            space=self.plan.space,
            evaluations=self.plan.evaluations,
            seed=self.plan.seed,
            depth=self.plan.depth,
        ).fit(self.pool, topics=fold.train)
        self.traces[f"{name}-{measure}-fold{number + 1}"] = tuner.results_
        return Choice(tuner.best_params_, tuner.n_evaluations_)

    def _optimal(
        self, number: int, fold: Fold, measure: Measure, chosen: list[Choice]
    ) -> tuple[Choice, float | None]:
        """Return the best setting on the test topics and, if asked for, a bound on all others."""
        best = best_known(self.pool, self.surface, measure, fold, chosen, self.plan.depth)
        if self.tolerance is None:
            return best, None
        optimum = certify(
            self.pool,
            measure,
            fold,
            [best, *chosen],
            self.plan,
            self.tolerance,
            self.progress,
            f"certifying {measure.title}, fold {number + 1}",
        )
        self.traces[f"certificate-{measure}-fold{number + 1}"] = optimum.bounds_
        self.traces[f"boxes-{measure}-fold{number + 1}"] = optimum.boxes_
        if optimum.stopped_ is not None:
            self.tolerance = None
        evaluations = best.evaluations + optimum.n_evaluations_
        return Choice(optimum.best_params_, evaluations), optimum.bound_

    def finish(self, folds: Sequence[Fold], notes: Sequence[str]) -> CollectionResult:
        topics = tuple(topic for fold in folds for topic in fold.test)
        values = {key: np.concatenate(self.values[key]) for key in self.keys}
        rows = []
        for measure, method in self.keys:
            own = values[measure, method]
            p_values = {
                other: paired_t_test(own, values[measure, other])
                for other in (DIRECT, RANKNET)
                if other != method
            }
            fits = tuple(self.fits[measure, method])
            rows.append(Row(measure, method, topics, own, fits, p_values))
        own_notes = [*described(self.plan.model), f"RankNet pairs: {self.pairs.rule}"]
        if not self.pool.judged_counts()[1].any() and any(m.kind == "Bpref" for m in self.plan.measures):
            own_notes.append("no document is judged nonrelevant: Bpref is the recall at the run depth")
        if self.plan.certify is not None:
            sizes = [len(fold.test) for fold in folds]
            own_notes += [
                proof(measure, self.fits[measure, OPTIMAL], sizes, self.plan.certify)
                for measure in self.plan.measures
            ]
        for method in {method: None for _, method in self.keys}:
            chosen = [fit for (_, name), all_ in self.fits.items() if name == method for fit in all_]
            edges = sorted({edge for fit in chosen for edge in fit.at_edge})
            if edges and method != OPTIMAL:
                own_notes.append(f"{method} ended on the edge of the range: {', '.join(edges)}")
        if self.unfinished:
            folds_named = ", ".join(map(str, self.unfinished))
            own_notes.append(f"RankNet's descent was cut short in fold {folds_named}")
        return CollectionResult(
            self.pool.name,
            tuple(folds),
            tuple(rows),
            self.traces,
            (*notes, *own_notes),
            self.plan.model,
            self.surface,
        )
