"""The comparison of Metzler (SIGIR 2007), Table 1: Direct, RankNet and Optimal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure
from lmtune.measures.significance import paired_t_test
from lmtune.tuning.certificate import CertifiedOptimum, check_tolerance
from lmtune.tuning.coordinate_ascent import CoordinateAscent
from lmtune.tuning.folds import Fold
from lmtune.tuning.grid import Surface
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.ranknet import RankNetTuner
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd

DIRECT, RANKNET, STOPPED, OPTIMAL = "Direct", "RankNet", "RankNet-val", "Optimal"
SIGNIFICANCE = 0.05


class Progress(Protocol):
    """Called with a stage, how much of it is done, how much there is, and what to add to it."""

    def __call__(self, stage: str, done: int, total: int, detail: str = "") -> None:
        """Show it."""


@dataclass(frozen=True)
class Plan:
    """How an experiment searches.

    Attributes
    ----------
    measures : tuple of Measure
        The table's measures.
    space : ParameterSpace
        The range of lambda and mu for every method.
    grid : tuple of int
        Grid points along lambda and mu.
    ascents, restarts : int
        Coordinate ascents from the best grid points, and from random ones.
    optimizer : str
        RankNet's; see `RankNetTuner`.
    starts : int
        RankNet's starts.
    validation : float
        The share of training topics held back to stop RankNet on, 0 for none; adds the row
        ``RankNet-val``.
    rel : int
        The smallest gain that is relevant to RankNet.
    negatives_depth : int
        See `RankNetTuner`.
    seed : int
        Of every random choice.
    depth : int
        Run depth.
    certify : float or None
        Prove Optimal to be within this of the best possible; see `CertifiedOptimum`.
    """

    measures: tuple[Measure, ...]
    space: ParameterSpace = field(default_factory=ParameterSpace)
    grid: tuple[int, int] = (20, 26)
    ascents: int = 3
    restarts: int = 2
    optimizer: str = "coordinate-descent"
    starts: int = 4
    validation: float = 0.0
    rel: int = 1
    negatives_depth: int = 100
    seed: int = 0
    depth: int = DEPTH
    certify: float | None = None

    def __post_init__(self) -> None:
        if self.certify is not None:
            check_tolerance(self.certify)
        if not 0.0 <= self.validation < 1.0:
            raise InputError(
                "the validation share is outside its domain",
                value=self.validation,
                accepted="0 (none) to below 1",
            )


@dataclass(frozen=True)
class Fit:
    """What one method chose on one fold.

    Attributes
    ----------
    lambda_, mu : float
        The parameters.
    train_value, test_value : float
        The measure's means on the fold's training and test topics.
    evaluations : int
        Parameter settings that the choice took: measured ones for Direct and Optimal, costs with
        gradients for RankNet.
    at_edge : tuple of str
        Bounds of the space that the parameters lie on.
    bound : float or None
        For a certified Optimal: no setting in the range has a higher test value.
    """

    lambda_: float
    mu: float
    train_value: float
    test_value: float
    evaluations: int
    at_edge: tuple[str, ...]
    bound: float | None = None


@dataclass(frozen=True)
class Row:
    """One method and measure on one collection.

    Attributes
    ----------
    measure : Measure
        What is reported, and what Direct and Optimal maximise.
    method : str
        ``"Direct"``, ``"RankNet"``, ``"RankNet-val"`` or ``"Optimal"``.
    topics : tuple of str
        Test topics of all folds.
    values : numpy.ndarray of float64, shape (topics,)
        The measure on each test topic, with the parameters of its fold.
    fits : tuple of Fit
        One a fold.
    p_values : dict of str to float
        Two-sided paired t-tests against Direct and RankNet.
    """

    measure: Measure
    method: str
    topics: tuple[str, ...]
    values: NDArray[np.float64]
    fits: tuple[Fit, ...]
    p_values: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """The mean over test topics."""
        return float(self.values.mean())

    def beats(self, method: str, rows: Sequence[Row]) -> bool:
        """Say whether this row is significantly better than `method` on the same measure."""
        other = next((r for r in rows if r.method == method and r.measure == self.measure), None)
        if other is None or method not in self.p_values:
            return False
        return self.mean > other.mean and self.p_values[method] < SIGNIFICANCE


@dataclass(frozen=True)
class CollectionResult:
    """All rows of one collection.

    Attributes
    ----------
    name : str
        The collection.
    folds : tuple of Fold
        Training and test topics.
    rows : tuple of Row
        Measure by measure, Direct, RankNet, Optimal.
    traces : dict of str to pandas.DataFrame
        RankNet's iterates and Direct's evaluations, by file-name-like key.
    notes : tuple of str
        What a reader must know: rules applied, topics skipped, edges reached.
    """

    name: str
    folds: tuple[Fold, ...]
    rows: tuple[Row, ...]
    traces: dict[str, pd.DataFrame]
    notes: tuple[str, ...]


def run_experiment(
    pool: CandidatePool,
    folds: Sequence[Fold],
    plan: Plan,
    *,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> CollectionResult:
    """Choose parameters on training topics by every method; report them on test topics.

    Direct is a full grid, then coordinate ascents from its best points and from random ones.
    Optimal is the best grid point on the test topics themselves, or another row's setting where
    that is better still: the upper bound that no honest method may use. With `Plan.certify` it is
    searched for, and proven to be within that of the best possible. Ctrl-C ends such a proof and
    those to come, not the experiment.

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
        Called with (stage, done, total).

    Returns
    -------
    CollectionResult
    """
    experiment = _Experiment(pool, plan, progress or _silent)
    for number, fold in enumerate(folds):
        experiment.add(number, fold)
    return experiment.finish(folds, notes)


def _silent(stage: str, done: int, total: int, detail: str = "") -> None:
    pass


class _Experiment:
    def __init__(self, pool: CandidatePool, plan: Plan, progress: Progress) -> None:
        self.pool = pool
        self.plan = plan
        self.progress = progress
        self.pairs = Pairs.build(pool, rel=plan.rel, depth=plan.negatives_depth)
        self.surface = Surface.compute(
            pool, plan.measures, space=plan.space, shape=plan.grid, depth=plan.depth,
            progress=lambda done, total: progress("grid", done, total),
        )  # fmt: skip
        methods = [DIRECT, RANKNET, *([STOPPED] if plan.validation else []), OPTIMAL]
        self.keys = [(measure, method) for measure in plan.measures for method in methods]
        self.fits: dict[tuple[Measure, str], list[Fit]] = {key: [] for key in self.keys}
        self.values: dict[tuple[Measure, str], list[NDArray[np.float64]]] = {
            key: [] for key in self.keys
        }
        self.traces: dict[str, pd.DataFrame] = {}
        self.tolerance = plan.certify  # None once a certificate is interrupted

    def add(self, number: int, fold: Fold) -> None:
        ranknet = self._ranknet(number, fold.train, None, None)
        for measure in self.plan.measures:
            direct = self._direct(number, fold, measure)
            chosen = {DIRECT: direct, RANKNET: ranknet}
            if self.plan.validation:
                rng = np.random.default_rng([self.plan.seed, number])
                size = max(1, round(self.plan.validation * len(fold.train)))
                held = set(rng.permutation(fold.train)[:size])
                fitting = [topic for topic in fold.train if topic not in held]
                validation = [topic for topic in fold.train if topic in held]
                chosen[STOPPED] = self._ranknet(number, fitting, validation, measure)
            chosen[OPTIMAL] = self._optimal(fold, measure, chosen)
            bounds: dict[str, float] = {}
            if self.tolerance is not None:
                optimum = self._certify(self.tolerance, number, fold, measure, chosen)
                bounds[OPTIMAL] = optimum.bound_
                lambda_, mu = optimum.best_params_["lambda"], optimum.best_params_["mu"]
                evaluations = chosen[OPTIMAL][2] + optimum.n_evaluations_
                chosen[OPTIMAL] = lambda_, mu, evaluations
            for method, (lambda_, mu, evaluations) in chosen.items():
                train, test = (
                    measure_settings(
                        self.pool, lambda_, mu, [measure], depth=self.plan.depth,
                        topics=self.pool.positions(topics),
                    )[:, 0, 0]
                    for topics in (fold.train, fold.test)
                )  # fmt: skip
                edges = tuple(self.plan.space.at_edge(lambda_, mu))
                fit = Fit(
                    lambda_, mu, float(train.mean()), float(test.mean()), evaluations, edges,
                    bounds.get(method),
                )  # fmt: skip
                self.fits[measure, method].append(fit)
                self.values[measure, method].append(test)
            self.progress("folds", number + 1, number + 1)

    def _direct(self, number: int, fold: Fold, measure: Measure) -> tuple[float, float, int]:
        places = self.pool.positions(fold.train)
        best = self.surface.best(measure, places, self.plan.ascents)
        ascent = CoordinateAscent(
            str(measure),
            space=self.plan.space,
            starts=[(float(self.surface.lambdas[i]), float(self.surface.mus[i])) for i in best],
            restarts=self.plan.restarts,
            seed=self.plan.seed,
            depth=self.plan.depth,
        ).fit(self.pool, topics=fold.train)
        self.traces[f"direct-{measure}-fold{number + 1}"] = ascent.results_
        params = ascent.best_params_
        evaluations = self.surface.lambdas.size + ascent.n_evaluations_
        if self.surface.means(measure, places)[best[0]] >= ascent.best_score_:
            params = {"lambda": self.surface.lambdas[best[0]], "mu": self.surface.mus[best[0]]}
        return float(params["lambda"]), float(params["mu"]), evaluations

    def _ranknet(
        self,
        number: int,
        train: Sequence[str],
        validation: Sequence[str] | None,
        measure: Measure | None,
    ) -> tuple[float, float, int]:
        tuner = RankNetTuner(
            optimizer=self.plan.optimizer,
            space=self.plan.space,
            starts=self.plan.starts,
            seed=self.plan.seed,
            measures=[str(m) for m in self.plan.measures],
            stop_on=None if measure is None else str(measure),
            depth=self.plan.depth,
        ).fit(self.pool, topics=train, validation=validation, pairs=self.pairs)
        name = "ranknet" if measure is None else f"ranknet-val-{measure}"
        self.traces[f"{name}-fold{number + 1}"] = tuner.trace_
        return tuner.lambda_, tuner.mu_, tuner.n_evaluations_

    def _optimal(
        self, fold: Fold, measure: Measure, chosen: dict[str, tuple[float, float, int]]
    ) -> tuple[float, float, int]:
        places = self.pool.positions(fold.test)
        best = self.surface.best(measure, places)[0]
        settings = [(float(self.surface.lambdas[best]), float(self.surface.mus[best]))]
        settings += [(lambda_, mu) for lambda_, mu, _ in chosen.values()]
        lambdas, mus = zip(*settings, strict=True)
        means = measure_settings(
            self.pool, lambdas, mus, [measure], topics=places, depth=self.plan.depth
        )[:, :, 0].mean(axis=0)
        winner = settings[int(np.argmax(means))]
        return *winner, self.surface.lambdas.size + len(chosen)

    def _certify(
        self,
        tolerance: float,
        number: int,
        fold: Fold,
        measure: Measure,
        chosen: dict[str, tuple[float, float, int]],
    ) -> CertifiedOptimum:
        stage = f"certifying {measure.title}, fold {number + 1}"

        def show(best: float, bound: float, boxes: int) -> None:
            # The share of the way from a gap of 1 to the tolerance, on a logarithmic scale.
            share = math.log(max(bound - best, tolerance)) / math.log(tolerance)
            detail = f"{best:.4f} to {bound:.4f}, {boxes} boxes"
            self.progress(stage, round(100 * min(max(share, 0.0), 1.0)), 100, detail)

        optimum = CertifiedOptimum(
            str(measure),
            tolerance=tolerance,
            space=self.plan.space,
            starts=[(lambda_, mu) for lambda_, mu, _ in chosen.values()],
            depth=self.plan.depth,
        ).fit(self.pool, topics=fold.test, progress=show)
        self.traces[f"certificate-{measure}-fold{number + 1}"] = optimum.results_
        self.tolerance = None if optimum.stopped_ else tolerance
        return optimum

    def _proof(self, measure: Measure, tolerance: float) -> str:
        """Say in a note what the certificates of a measure prove together."""
        fits = self.fits[measure, OPTIMAL]
        sizes = [part.size for part in self.values[measure, OPTIMAL]]
        bounds = [fit.bound for fit in fits if fit.bound is not None]
        if len(bounds) < len(fits):
            return f"{measure.title}: Optimal is not certified: interrupted"
        bound = float(np.average(bounds, weights=sizes))
        gap = bound - float(np.average([fit.test_value for fit in fits], weights=sizes))
        shown = f"{math.ceil(bound * 1e4 - 1e-6) / 1e4:.4f}".removeprefix("0")
        each = "" if len(fits) == 1 else ", chosen for each fold,"
        short = "" if gap <= tolerance else f", not the {tolerance:g} asked for"
        return (
            f"{measure.title}: no (lambda, mu) in the range{each} gives more than {shown} "
            f"(gap {gap:.4f}{short})"
        )

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
        own_notes = [f"RankNet pairs: {self.pairs.rule}"]
        if self.plan.certify is not None:
            own_notes += [self._proof(measure, self.plan.certify) for measure in self.plan.measures]
        if not self.pool.judged_counts()[1].any() and any(
            m.kind == "Bpref" for m in self.plan.measures
        ):
            own_notes.append(
                "no document is judged nonrelevant: Bpref is the recall at the run depth"
            )
        edges = sorted(
            {edge for fit in self.fits[self.keys[0][0], RANKNET] for edge in fit.at_edge}
        )
        if edges:
            own_notes.append(f"RankNet ended on the edge of the range: {', '.join(edges)}")
        return CollectionResult(
            self.pool.name, tuple(folds), tuple(rows), self.traces, (*notes, *own_notes)
        )
