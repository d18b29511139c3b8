"""Fit parameters by the gradient of a smooth measure that is free of the scores' scale."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH, lacks_nonrelevant, measure_settings
from lmtune.measures.measure import Measure
from lmtune.models.formula import Ridge
from lmtune.progress import counted
from lmtune.tuning.descent import Descent, Point
from lmtune.tuning.gradient import LOOSE, OPTIMIZERS, Evaluation, Evaluations, GradientTuner
from lmtune.tuning.objectives import Objective, SurrogateCost, parse_objective
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import Progress, SearchRecord

# Chosen on MED, CACM and NPL, by AP, nDCG@10, P@10 and RR of held-out halves: see FINDINGS.md.
ALPHAS = (4.0, 32.0)
LIST_DEPTH = 200
_RELEVANT = 6.0

# Where the gradient of a mean over topics is called flat.
_FLAT = 1e-5
# Settings among which starts are looked for.
_DRAWS = 32
# Bounds of a steepness that is fitted.
_STEEPNESS = (1e-2, 1e3)
# Rounds of weighting pairs and minimising, and the movement that ends them.
_MOST_ROUNDS, _STILL = 30, 1e-4


@dataclass(eq=False, repr=False)
class SurrogateTuner(GradientTuner):
    """Fit a formula's parameters by an objective that stands in for a measure.

    Scores are divided by their spread over each topic's list, so that parameters cannot lower the
    cost by shrinking all differences: this is where RankNet goes astray on smoothing parameters,
    which set the scale of the scores. Measures are of ranks that are smooth in the scores
    (Qin, Liu and Li, Information Retrieval 2010; Bruch et al., SIGIR 2019). The first start is
    followed from a wide steepness to the last one; the other starts are the best of 32 draws at the
    last steepness, and descend there. The lowest end wins, or of ``lambda-...``, which have no cost
    to compare, the best by the measure on the fitting topics.

    Parameters
    ----------
    objective : str or Objective
        ``"approx-ap"`` and others; see `lmtune.tuning.objectives.parse_objective`.
    alpha : float or sequence of float
        Steepnesses, rising: of ranks in units of the scores' spread. ``softmax``, ``ranknet`` and
        ``lambda-...`` fit theirs, from the first on.
    optimizer, space, starts, seed, ridge, measures, depth
        As of `lmtune.tuning.gradient.GradientTuner`.
    list_depth : int, optional
        How many of the best documents of settings all over the space make up a topic's list; by
        default 200, or where that is more, but within `depth`, twice a measure's cutoff, or six times
        the mean number of relevant documents of one without; no more than candidates were pruned for.

    Attributes
    ----------
    objective_ : Objective
        What was minimised. Bpref without a document judged nonrelevant is recall at `depth`.

    Notes
    -----
    Costs are means over topics, minus a smooth measure for ``approx-...``; those of different
    steepness, in the column ``alpha`` of `results_`, do not compare.

    Examples
    --------
    >>> tuner = SurrogateTuner("approx-ndcg@10").fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    objective_: Objective = field(init=False)
    flat = _FLAT

    objective: str | Objective = "approx-ap"
    _: KW_ONLY
    alpha: float | Sequence[float] = ALPHAS
    optimizer: str = "l-bfgs"
    space: ParameterSpace | None = None
    starts: int = 4
    seed: int = 0
    ridge: float = 0.0
    list_depth: int | None = None
    measures: Sequence[str | Measure] = ()
    depth: int = DEPTH

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        lists: Lists | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit on topics of a pool (all judged ones by default).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to fit on.
        lists : Lists, optional
            Lists of this pool, built before.
        progress : callable or bool, optional
            Called with (starts done, starts in all); True draws a bar.

        Raises
        ------
        InputError
            For unknown topics, topics without a relevant document in the lists, lists of another
            pool, or a constructor argument outside its domain.
        """
        measures = self._check()
        report = counted(progress, type(self).__name__)
        record = SearchRecord(pool, None, space=self.space, topics=topics, repeats=True)
        self.objective_ = objective_for(parse_objective(self.objective), pool, self.depth)
        alphas = self._alphas(self.objective_)
        if lists is None:
            lists = self.ready(pool, record.space)["lists"]
        elif lists.pool is not pool:
            raise InputError(
                "the lists are of other candidates", value=lists.pool.name, accepted="this pool's"
            )
        cost = SurrogateCost(lists, self.objective_, record.places)
        search = _Search(record, cost, OPTIMIZERS[self.optimizer], self._penalty(pool, record.places))
        ends = []
        for start, x in enumerate(search.starts(self.starts, alphas[-1], self.seed)):
            # The first start comes from afar; the others were chosen at the last steepness.
            for alpha in alphas if start == 0 else alphas[-1:]:
                end = search.descend(start, x, alpha, self.flat if alpha == alphas[-1] else LOOSE)
                x = end.x
            ends.append(end)
            if report is not None:
                report(start + 1, self.starts)
        end = search.best(ends, self.depth)
        self._close(record, measures)
        self.results_.insert(3 + len(record.space.names), "alpha", search.alphas)
        self._choose(record.space, end.row)
        self.converged_, self.n_evaluations_ = end.converged, search.evaluations
        return self

    def ready(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:
        """Return the lists."""
        depth = self.list_depth
        if depth is None:
            objective = objective_for(parse_objective(self.objective), pool, self.depth)
            depth = lists_depth(objective, pool, self.depth)
        return {"lists": Lists.build(pool, space, depth=depth, seed=self.seed)}

    @property
    def judge(self) -> Measure:
        """The objective's measure, once it is fitted as the pool's judgements allow."""
        return self.objective_.measure

    def again(self) -> dict[str, Any]:
        """Leave out the wide steepnesses."""
        return {"alpha": self._alphas(parse_objective(self.objective))[-1:]}

    def _alphas(self, objective: Objective) -> list[float]:
        alphas = [float(alpha) for alpha in np.atleast_1d(self.alpha)]
        rising = all(a < b for a, b in itertools.pairwise(alphas))
        if not (alphas and rising and alphas[0] > 0.0 and np.isfinite(alphas[-1])):
            raise InputError("bad alpha", value=self.alpha, accepted="numbers above 0, rising")
        if objective.fits_slope:
            return alphas[:1]
        return alphas


class _End(NamedTuple):
    """Where a descent ended: the point, its cost and row, and whether the gradient vanishes there."""

    x: Doubles
    cost: float
    row: int
    converged: bool


class _Search:
    """The descents of a fit, each recorded."""

    def __init__(
        self, record: SearchRecord, cost: SurrogateCost, minimise: Callable[..., Descent], penalty: Ridge
    ) -> None:
        self.record, self.cost, self.minimise, self.penalty = record, cost, minimise, penalty
        # Costs of pairs that are weighted at different settings do not compare.
        self.weighted, self.fitted = cost.objective.family == "lambda", cost.objective.fits_slope
        self.evaluations = 0
        self.alphas: list[float] = []

    def starts(self, count: int, alpha: float, seed: int) -> list[Doubles]:
        """Return the space's start and the best of settings drawn from it, at a steepness."""
        space, rng = self.record.space, np.random.default_rng(seed)
        draws = [space.random(rng) for _ in range(max(_DRAWS, count - 1) if count > 1 else 0)]
        if not self.weighted:
            self.evaluations += len(draws)
            draws.sort(key=lambda setting: self.cost.value(setting, alpha))
        return [space.to_unbounded(setting) for setting in (space.start, *draws[: count - 1])]

    def descend(self, start: int, x: Doubles, alpha: float, flat: float) -> _End:
        """Minimise from a point, with the steepness held fixed unless it is fitted."""
        space, box = self.record.space, self.record.space.unbounded_box
        parameters = len(box)
        if self.fitted:
            x, box = np.append(x, np.log(alpha)), (*box, tuple(np.log(_STEEPNESS)))
        converged = False
        for _ in range(_MOST_ROUNDS if self.weighted else 1):
            if self.weighted:
                self.cost.freeze(space.from_unbounded(x[:parameters]))
            evaluations = Evaluations(lambda x: self._evaluate(x, alpha), self.record.begin)
            found = self.minimise(evaluations, x, box, flat=flat)
            self._keep(evaluations, start, found.points, alpha)
            still = not self.weighted or bool(np.abs(found.points[-1].x - x).max() < _STILL)
            x, converged = found.points[-1].x, found.converged and still
            if still:
                break
        return _End(x[:parameters], found.points[-1].cost, len(self.alphas) - 1, converged)

    def best(self, ends: Sequence[_End], depth: int) -> _End:
        """Return the end of the lowest cost, or where costs do not compare of the best measure."""
        if not self.weighted:
            return min(ends, key=lambda end: end.cost)
        pool, places, space = self.record.pool, self.record.places, self.record.space
        settings = np.array([space.from_unbounded(end.x) for end in ends])
        measure = self.cost.objective.measure
        values = measure_settings(pool, settings, [measure], topics=places, depth=depth)
        return ends[int(pool.mean(values[:, :, 0], places).argmax())]

    def _evaluate(self, x: Doubles, alpha: float) -> Evaluation:
        space = self.record.space
        parameters = len(space.names)
        setting = space.from_unbounded(x[:parameters])
        cost = self.cost(setting, alpha if x.size == parameters else float(np.exp(x[-1])))
        pull, pulled = self.penalty.at(setting)
        slope = space.chain(cost.gradient[:-1] + pulled, setting)
        value = cost.value + pull
        return value, slope if x.size == parameters else np.append(slope, cost.gradient[-1])

    def _keep(self, evaluations: Evaluations, start: int, points: Sequence[Point], alpha: float) -> None:
        evaluations.record(self.record, start, points)
        self.alphas += [float(np.exp(point.x[-1])) if self.fitted else alpha for point in points]
        self.evaluations += len(evaluations)


def objective_for(objective: Objective, pool: CandidatePool, depth: int) -> Objective:
    """Return what an objective comes to with a pool's judgements.

    Where no document is judged nonrelevant, Bpref is recall at the run depth.
    """
    if lacks_nonrelevant(pool, objective.measure):
        return Objective(objective.family, Measure("R", depth, objective.measure.rel))
    return objective


def lists_depth(objective: Objective, pool: CandidatePool, depth: int) -> int:
    """Return how deep an objective's lists are by default: see `SurrogateTuner`."""
    measure = objective.measure
    far = (
        2 * measure.cutoff if measure.cutoff else round(_RELEVANT * pool.judged_counts(measure.rel)[0].mean())
    )
    wanted = max(LIST_DEPTH, min(far, depth))
    return wanted if pool.pruning is None else min(wanted, pool.pruning.depth)
