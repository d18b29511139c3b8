"""The methods of an experiment: each chooses a setting on a fold's training topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lmtune.arrays import Columns, Doubles, stack
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.models.parameter import Setting
from lmtune.models.weighted import Weighted
from lmtune.progress import Count, Progress, detail, quantity
from lmtune.tuning.bagging import bagged_setting
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.direct import (
    AGREEMENT,
    CoordinateAscent,
    KnownValues,
    Surface,
    climb_together,
    group_by_speed,
)
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import ALSO, APPROX, BAGGED, DIRECT, OPTIMAL, RANKNET, STOPPED
from lmtune.tuning.gradient import GradientTuner, RankNetTuner
from lmtune.tuning.gradient_free import SEARCHES
from lmtune.tuning.pairs import Lists, Pairs
from lmtune.tuning.ridge import RidgeTuner
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.surrogate import (
    ALPHAS,
    SurrogateCost,
    SurrogateTuner,
    lists_depth,
    objective_for,
    smooth_form,
)
from lmtune.tuning.tuner import Point, Tuner

MOST_DRAWS = 5
"""Most rounds of drawing feedback documents at the fitted setting and fitting again."""


class FoldChoice(NamedTuple):
    """A chosen setting, its number of evaluations, an upper bound, and the regularisation step."""

    params: dict[str, float]
    evaluations: int
    bound: float | None = None
    step: str = ""


@dataclass
class _Steps:
    """The progress of an experiment, in steps.

    A fold has a step for each descent of RankNet, each group of Direct's climbs, and each row of each
    measure.
    """

    progress: Progress
    total: int
    begun: int = 0

    @classmethod
    def of(cls, plan: Plan, folds: int, progress: Progress) -> _Steps:
        """Count the steps of a plan on a number of folds."""
        stopped = bool(plan.validation)
        rows = 3 + plan.approx + plan.bag + stopped + len(plan.also)  # with Direct, RankNet and Optimal
        climbs = len(group_by_speed(plan.measures))
        total = (folds + plan.final) * (1 + stopped + climbs + len(plan.measures) * rows)
        return cls(progress, total - plan.final * len(plan.measures))  # The final fit has no Optimal.

    def begin(self, what: str) -> Count:
        """Begin the next step; return the callback for its progress."""
        before, self.begun = self.begun, self.begun + 1

        def show(done: int, total: int) -> None:
            self.progress("tuning", 100 * before + 100 * done // max(total, 1), 100 * self.total, what)

        show(0, 1)
        return show


_KnownLists = dict[tuple[int, ParameterSpace], Lists]


def _smooth_lists(
    known: _KnownLists, pool: CandidatePool, plan: Plan, measure: Measure, space: ParameterSpace | None = None
) -> Lists:
    """Return the lists for a measure's smooth approximation, built once per depth and space.

    Parameters
    ----------
    known : dict of (int, ParameterSpace) to Lists
        Cache of lists; new ones are added.
    pool, plan, measure
        Pool, plan and measure of the experiment.
    space : ParameterSpace, optional
        The space; the plan's by default.
    """
    depth = lists_depth(objective_for(smooth_form(measure), pool, plan.depth), pool, plan.depth)
    key = depth, space or plan.space
    if key not in known:
        known[key] = Lists.build(pool, key[1], depth=depth, seed=plan.seed)
    return known[key]


def _compile_smooth(known: _KnownLists, pool: CandidatePool, plan: Plan) -> None:
    """Compile the kernels of smooth measures by computing one topic's cost."""
    measure = plan.measures[0]
    lists = _smooth_lists(known, pool, plan, measure)
    first = lists.with_relevant(pool.positions(), measure.rel)[:1]
    if first.size:
        SurrogateCost(lists, objective_for(smooth_form(measure), pool, plan.depth), first)(
            plan.space.start, ALPHAS[0]
        )


@dataclass
class Shared:
    """Data and caches that all folds of an experiment share.

    Attributes
    ----------
    pool, plan, progress
        Arguments of `lmtune.tuning.experiment.run.run_experiment`.
    pairs : Pairs
        RankNet's pairs.
    surface : Surface
        The grid.
    steps : Steps
        The progress of all folds.
    tolerance : float or None
        The tolerance of certificates; None after one was interrupted.
    traced : bool
        Whether to store traces, including the measures at every iterate.
    known : list of KnownValues
        Caches of measured values, one per group of measures.
    lists : dict of (int, ParameterSpace) to Lists
        Approx's lists, by depth and space.
    """

    pool: CandidatePool
    plan: Plan
    progress: Progress
    pairs: Pairs
    surface: Surface
    steps: _Steps
    tolerance: float | None
    known: list[KnownValues]
    traced: bool = True
    lists: _KnownLists = field(default_factory=dict)

    @classmethod
    def of(cls, pool: CandidatePool, plan: Plan, folds: int, progress: Progress, *, traced: bool) -> Shared:
        """Collect the pairs, compile the kernels and measure the grid."""
        pairs = Pairs.build(pool, rel=plan.rel, sampled_negatives=plan.sampled_negatives)
        # The first call compiles. One topic is enough, and the progress shows it as a stage of its own.
        progress("compiling kernels, once", 0, 1)
        first = pool.positions()[:1]
        pairs.cost(plan.space.start, topics=first)
        measure_settings(pool, plan.space.start, plan.measures, topics=first, depth=plan.depth)
        lists: _KnownLists = {}
        if plan.approx:
            _compile_smooth(lists, pool, plan)
        progress("compiling kernels, once", 1, 1)
        surface = Surface.compute(
            pool,
            plan.measures,
            space=plan.grid_space,
            shape=plan.grid,
            depth=plan.depth,
            progress=lambda done, total: progress("grid", done, total),
        )
        steps = _Steps.of(plan, folds, progress)
        known = [
            KnownValues.from_surface(surface, pool, group, plan.depth)
            for group in group_by_speed(plan.measures)
        ]
        return cls(pool, plan, progress, pairs, surface, steps, plan.certify, known, traced, lists)

    def values(self, topics: Sequence[str], measure: Measure, params: Setting) -> Doubles:
        """Return a measure of topics at a setting, with feedback documents drawn at that setting."""
        positions, pool = self.pool.positions(topics), self.pool.drawn_at(params)
        if pool is not self.pool:
            return measure_settings(pool, params, [measure], topics=positions, depth=self.plan.depth)[:, 0, 0]
        known = next(known for known in self.known if measure in known.measures)
        values = known.values_at([self._point(params)], positions)[known.measures.index(measure), :, 0]
        return np.ascontiguousarray(values)  # Sums of strided arrays differ in the last bits.

    def measure(self, topics: Sequence[str], chosen: Mapping[Measure, Mapping[str, FoldChoice]]) -> None:
        """Measure all chosen settings in one call, so that `values` has them in the cache."""
        for known in self.known:
            choices = [c for measure in known.measures for c in chosen[measure].values()]
            points = [self._point(c.params) for c in choices if self.pool.drawn_at(c.params) is self.pool]
            if points and topics:
                known.values_at(list(dict.fromkeys(points)), self.pool.positions(topics))

    def _point(self, params: Setting) -> Point:
        return tuple(self.plan.space.vector(params).tolist())


class FoldMethods:
    """The methods on one fold.

    The constructor fits RankNet, which does not depend on the measure, and runs the climbs of all measures. A
    fold without test topics is the final fit.

    Attributes
    ----------
    traces : dict of str to dict of str to numpy.ndarray
        Traces of the searches, by name.
    remarks : dict of str to str
        Remarks on problems of searches, each with the name of the fold.
    """

    _show: Count

    def __init__(self, shared: Shared, number: int, fold: Fold) -> None:
        self.traces: dict[str, Columns] = {}
        self.remarks: dict[str, str] = {}
        self.shared, self.plan, self.pool = shared, shared.plan, shared.pool
        self.name = f"fold {number + 1}" if fold.test else "the final fit"
        self._suffix = f"fold{number + 1}" if fold.test else "final"
        self.fold = fold
        self._search: dict[str, Any] = {"space": self.plan.space, "depth": self.plan.depth}
        self._ranknet_choice = self._descend_ranknet()
        self._ascents: dict[Measure, CoordinateAscent] = {}
        for known in shared.known:
            ascents = [self._ascent(measure) for measure in known.measures]
            climb_together(ascents, known, topics=fold.train, progress=self._begin(DIRECT))
            self._ascents |= zip(known.measures, ascents, strict=True)
        if self.plan.validation:
            rng = np.random.default_rng([self.plan.seed, number])
            size = max(1, round(self.plan.validation * len(fold.train)))
            validation = set(rng.permutation(fold.train)[:size])
            self._validation = [topic for topic in fold.train if topic in validation]
            fitting = [topic for topic in fold.train if topic not in validation]
            self._stopped: RankNetTuner | None = None
            if self._has_pairs(fitting, STOPPED):
                self._stopped = self._ranknet_tuner()
                self._stopped.fit(
                    self.pool, topics=fitting, progress=self._begin(RANKNET), pairs=shared.pairs
                )
                self._keep("ranknet-val", self._stopped.columns_)
                self._descent_evaluations = self._stopped.n_evaluations_

    def _descend_ranknet(self) -> FoldChoice:
        """Fit RankNet to the fold's training topics; return the initial point if they have no pair."""
        topics = self.fold.train
        if not self._has_pairs(topics, RANKNET):
            return self._start()
        tuner, pairs = self._with_ridge(self._ranknet_tuner()), {"pairs": self.shared.pairs}
        tuner.fit(self.pool, topics=topics, progress=self._begin(RANKNET), **pairs)
        self._keep("ranknet", tuner.columns_)
        if not tuner.converged_:
            self._remark(f"{RANKNET} did not converge")
        return self._gradient_choice(RANKNET, tuner)

    def _has_pairs(self, topics: Sequence[str], method: str) -> bool:
        """Return whether topics have a pair to learn from; if not, add a remark with the method's name."""
        positions = self.pool.positions(topics) if topics else slice(0)
        paired = bool(self.shared.pairs.per_topic[positions].any())
        if not paired:
            self._remark(f"{method} had no pair of documents to learn from")
        return paired

    def _start(self, space: ParameterSpace | None = None) -> FoldChoice:
        """Return the space's initial point, for a method with nothing to learn from."""
        space = space or self.plan.space
        return FoldChoice(dict(zip(space.names, space.start.tolist(), strict=True)), 0)

    def _with_ridge(self, tuner: GradientTuner) -> GradientTuner | RidgeTuner:
        """Return a tuner that also selects the regularisation strength, if the formula has term weights.

        The selection needs inner folds, so with a single training topic there is no penalty.
        """
        is_weighted = isinstance(self.pool.formula, Weighted) and len(self.fold.train) > 1
        return RidgeTuner(tuner) if is_weighted else tuner

    def _ranknet_tuner(self) -> RankNetTuner:
        plan = self.plan
        return RankNetTuner(
            **self._search,
            optimizer=plan.optimizer,
            starts=plan.starts,
            seed=plan.seed,
            rel=plan.rel,
            sampled_negatives=plan.sampled_negatives,
            measures=self._traced(*plan.measures),
        )

    def _remark(self, text: str) -> None:
        self.remarks[text] = self.name

    def _traced(self, *measures: Measure) -> Sequence[Measure]:
        return measures if self.shared.traced else ()

    def _keep(self, name: str, table: Columns) -> None:
        if self.shared.traced:
            self.traces[f"{name}-{self._suffix}"] = table

    def _ascent(self, measure: Measure) -> CoordinateAscent:
        """Return coordinate ascents from the best grid points and from random settings."""
        surface = self.shared.surface
        best = surface.best(measure, self.pool.positions(self.fold.train), self.plan.ascents)
        return CoordinateAscent(
            measure,
            **self._search,
            starts=[surface.setting(row) for row in best],
            restarts=self.plan.restarts,
            seed=self.plan.seed,
        )

    def direct(self, measure: Measure) -> FoldChoice:
        """Return Direct's setting: the best result of grid and climbs."""
        surface, ascent = self.shared.surface, self._ascents[measure]
        self._keep(f"direct-{measure}", ascent.columns_)
        agreeing, climbs = ascent.n_agreeing_, len(ascent.end_columns_["start"])
        detail(
            f"{self.name}, {measure.title}, {DIRECT}: {agreeing} of {climbs} climbs end within {AGREEMENT:g}"
        )
        if agreeing == 1 < climbs:
            self._remark(f"{DIRECT}: no other climb ended within {AGREEMENT:g} of the best {measure.title}")
        climbed = stack(ascent.columns_, surface.names)
        measured = np.unique(np.concatenate((surface.settings, climbed)), axis=0)

        def refit(pool: CandidatePool, start: Setting) -> Tuner:
            how: Any = {**self._search, "starts": [start], "restarts": 0, "seed": self.plan.seed}
            return CoordinateAscent(measure, **how).fit(pool, topics=self.fold.train)

        return self._refit_feedback(DIRECT, FoldChoice(ascent.best_params_, len(measured)), refit)

    def ranknet(self, measure: Measure) -> FoldChoice:  # noqa: ARG002 - the same for all measures
        """Return RankNet's setting."""
        return self._ranknet_choice

    def approx(self, measure: Measure) -> FoldChoice:
        """Return Approx's setting; without relevant documents, the initial point."""
        positions = self.pool.positions(self.fold.train)
        space = space_for(self.plan.space, self.pool, positions)
        lists = _smooth_lists(self.shared.lists, self.pool, self.plan, measure, space)
        if not lists.with_relevant(positions, measure.rel).size:
            self._remark(f"{APPROX} had no relevant document to learn {measure.title} from")
            return self._start(space)
        smooth = SurrogateTuner(
            smooth_form(measure), **self._search, seed=self.plan.seed, measures=self._traced(measure)
        )
        arguments: dict[str, Any] = {"topics": self.fold.train, "lists": lists, "progress": self._show}
        tuner = self._with_ridge(smooth)
        tuner.fit(self.pool, **arguments)
        if not tuner.converged_:
            self._remark(f"{APPROX} did not converge")
        self._keep(f"approx-{measure}", tuner.columns_)
        return self._gradient_choice(APPROX, tuner)

    def _gradient_choice(self, name: str, tuner: GradientTuner | RidgeTuner) -> FoldChoice:
        choice = FoldChoice(tuner.best_params_, tuner.n_evaluations_)
        if not isinstance(tuner, RidgeTuner):
            return choice
        choice = choice._replace(step=tuner.step_)
        return self._refit_feedback(name, choice, partial(tuner.refit, topics=self.fold.train))

    def _refit_feedback(
        self, name: str, choice: FoldChoice, refit: Callable[[CandidatePool, Setting], Tuner]
    ) -> FoldChoice:
        """Draw feedback documents at the chosen setting and fit again, until they do not change."""
        positions, pool = self.pool.positions(self.fold.train), self.pool
        drawn_again = f"{name}: feedback, drawn again at the fitted setting, changed"
        for draws in range(MOST_DRAWS + 1):
            drawn = self.pool.drawn_at(choice.params)
            if not pool.has_other_feedback(drawn, positions):
                break
            if draws == MOST_DRAWS:
                self._remark(f"{drawn_again} {quantity(draws, 'time')} and still does,")
                return choice
            pool, tuner = drawn, refit(drawn, choice.params)
            spent = choice.evaluations + tuner.n_evaluations_
            choice = choice._replace(params=tuner.best_params_, evaluations=spent)
        if draws:
            self._remark(f"{drawn_again} {quantity(draws, 'time')}, then stayed,")
        return choice

    def stopped(self, measure: Measure) -> FoldChoice:
        """Return RankNet's iterate with the best measure on validation topics."""
        if self._stopped is None:
            return self._start()
        tuner = self._stopped.stop_on(self.pool, measure, topics=self._validation)
        return FoldChoice(tuner.best_params_, self._descent_evaluations + len(tuner.seconds_))

    def gradient_free(self, name: str, measure: Measure) -> FoldChoice:
        """Return the setting of SPSA or FDSA."""
        tuner = SEARCHES[name](
            measure, **self._search, evaluations=self.plan.evaluations, seed=self.plan.seed
        ).fit(self.pool, topics=self.fold.train, progress=self._show)
        self._keep(f"{name}-{measure}", tuner.columns_)
        return FoldChoice(tuner.best_params_, tuner.n_evaluations_)

    def bagged(self, measure: Measure) -> FoldChoice:
        """Return the mean of the best grid settings of resampled training topics."""
        surface, train = self.shared.surface, self.pool.positions(self.fold.train)
        space = space_for(self.plan.grid_space, self.pool, train)
        setting = bagged_setting(surface, measure, train, space, seed=self.plan.seed)
        return FoldChoice(space.named(setting), len(surface.settings))

    def choose(self, measure: Measure) -> dict[str, FoldChoice]:
        """Return the choices of all methods except Optimal, by row."""
        methods: dict[str, Callable[[Measure], FoldChoice]] = {DIRECT: self.direct}
        if self.plan.bag:
            methods[BAGGED] = self.bagged
        methods[RANKNET] = self.ranknet
        if self.plan.approx:
            methods[APPROX] = self.approx
        if self.plan.validation:
            methods[STOPPED] = self.stopped
        for name in self.plan.also:
            methods[ALSO[name]] = partial(self.gradient_free, name)
        chosen = {}
        for row, choose in methods.items():
            self._show = self._begin(f"{measure.title}, {row}")
            choice = chosen[row] = choose(measure)
            values = ", ".join(f"{name} = {value:.6g}" for name, value in choice.params.items())
            detail(f"{self.name}, {measure.title}, {row}: {values} in {choice.evaluations} evaluations")
        return chosen

    def _begin(self, what: str) -> Count:
        return self.shared.steps.begin(f"{self.name}, {what}")

    def optimal(self, measure: Measure, chosen: Iterable[FoldChoice]) -> FoldChoice:
        """Return the oracle: the best of the known settings on the test topics.

        It is the best of the grid points and the methods' choices, or with a certificate, the certified
        optimum.
        """
        self._begin(f"{measure.title}, {OPTIMAL}")
        surface, positions = self.shared.surface.unweighted, self.pool.positions(self.fold.test)
        settings = [choice.params for choice in chosen]
        known = [surface.setting(surface.best(measure, positions)[0]), *settings]
        means = [self.shared.values(self.fold.test, measure, setting).mean() for setting in known]
        best = known[int(np.argmax(means))]
        evaluations = len(surface.settings) + len(settings)
        if self.shared.tolerance is None:
            return FoldChoice(best, evaluations)
        optimum = self._certify(measure, [best, *settings], self.shared.tolerance)
        return FoldChoice(optimum.best_params_, evaluations + optimum.n_evaluations_, optimum.bound_)

    def _certify(
        self, measure: Measure, starts: list[dict[str, float]], tolerance: float
    ) -> CertifiedOptimum:
        """Search for the certified optimum on the test topics, and report the progress of the gap."""
        optimum = CertifiedOptimum(measure, **self._search, tolerance=tolerance, starts=starts)
        stage = f"certifying {measure.title}, {self.name}"

        def show(done: int, total: int) -> None:
            reached = f"{optimum.best_value_:.4f} to {optimum.bound_:.4f}, {optimum.n_boxes_} boxes"
            self.shared.progress(stage, done, total, reached)

        self.shared.progress(stage, 0, 100)
        optimum.fit(self.pool, topics=self.fold.test, progress=show)
        self._keep(f"certificate-{measure}", optimum.bound_columns_)
        self._keep(f"boxes-{measure}", optimum.box_columns_)
        if optimum.stopped_ is not None:
            self.shared.tolerance = None
        return optimum
