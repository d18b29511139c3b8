"""What tuners that follow a gradient share: starts, descents, traces, stopping; and RankNet's tuner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice, check_least
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.models.formula import Ridge
from lmtune.progress import counted
from lmtune.tuning.descent import FLAT, Point, coordinate_descent, l_bfgs
from lmtune.tuning.pairs import STAND_INS, Pairs
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.tuner import Progress, SearchRecord, Tuner, choose

OPTIMIZERS = {"coordinate-descent": coordinate_descent, "l-bfgs": l_bfgs}

Evaluation = tuple[float, Doubles]

LOOSE = 1e-3
"""A gradient that is flat enough on the way, or for comparison."""


class Evaluations:
    """Counts and times a cost's evaluations, and answers again where it has been asked before.

    Parameters
    ----------
    cost : callable
        Returns the cost at a point and its gradient.
    begin : float
        When the search began, on `time.monotonic`'s clock.
    """

    def __init__(self, cost: Callable[[Doubles], Evaluation], begin: float) -> None:
        self._cost, self._begin = cost, begin
        self._known: dict[bytes, tuple[Evaluation, float]] = {}

    def __call__(self, x: Doubles) -> Evaluation:
        """Return the cost at a point and its gradient."""
        key = x.tobytes()
        if key not in self._known:
            self._known[key] = self._cost(x), time.monotonic() - self._begin
        return self._known[key][0]

    def __len__(self) -> int:
        """Return how many points it has been evaluated at."""
        return len(self._known)

    def record(
        self, record: SearchRecord, start: int, points: Sequence[Point], *, scale: float = 1.0
    ) -> None:
        """Add a descent's iterates to a record, their costs times `scale`."""
        parameters = len(record.space.names)
        settings = np.array([record.space.from_unbounded(point.x[:parameters]) for point in points])
        step = record.starts.count(start)
        record.add(settings, [point.cost * scale for point in points], starts=[start] * len(points))
        record.steps[-len(points) :] = range(step, step + len(points))
        record.seconds[-len(points) :] = [self._known[point.x.tobytes()][1] for point in points]


class GradientTuner(Tuner):
    """A tuner that minimises a smooth cost in unbounded coordinates, from several starts.

    Subclasses have the parameters and attributes named here besides their own.

    Parameters
    ----------
    optimizer : {"coordinate-descent", "l-bfgs"}
        One coordinate at a time by its derivative, as Metzler (SIGIR 2007) does, or all jointly; see
        `lmtune.tuning.descent`.
    space : ParameterSpace
        The range of each parameter, the model's own by default; a fit that ends on its edge says so
        in `at_edge_`.
    starts : int
        Descents; the first begins at the space's `ParameterSpace.start`, the others at draws from it.
    seed : int
        For the starts.
    ridge : float
        Strength, 0 or more, of the formula's ridge: see `lmtune.models.formula.Formula.ridge`. Powers of
        terms' features are pulled to 0, weights of runs to equal ones.
    measures : sequence of str
        Measured at every iterate, for the trace; they do not influence the fit.
    depth : int
        Run depth of the measures.

    Attributes
    ----------
    flat : float
        Where the gradient of the cost ends a descent.
    converged_ : bool
        Whether the start that won ended where the gradient vanishes, up to the space's edges.

    Notes
    -----
    `best_value_` is the cost at the fitted setting. `results_` has a row an iterate, with ``cost`` and
    then the measures' means on the fitting topics; `stop_on` adds a column. `n_evaluations_` counts
    evaluations of the cost with its gradient; the time of the measures is not in `seconds_`.
    """

    converged_: bool
    flat: float = FLAT

    optimizer: str
    space: ParameterSpace | None
    starts: int
    seed: int
    ridge: float
    measures: Sequence[str | Measure]
    depth: int = DEPTH

    def _check(self) -> list[Measure]:
        """Check the constructor's arguments, and return the measures."""
        check_choice("unknown optimizer", self.optimizer, OPTIMIZERS)
        check_least("a descent needs a start", self.starts, 1)
        check_least("bad seed", self.seed, 0)
        if not 0.0 <= self.ridge < np.inf:
            raise InputError("bad ridge", value=self.ridge, accepted="0 or more")
        return parse_measures(self.measures)

    def ready(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:
        """Return what `fit` builds of a pool and a space, as its arguments, for several fits."""
        raise NotImplementedError

    @property
    def judge(self) -> Measure:
        """What topics that are held out judge fits by."""
        raise NotImplementedError

    def again(self) -> dict[str, Any]:
        """Return what is another constructor's argument for a fit that begins where one like it ended."""
        return {}

    def _penalty(self, pool: CandidatePool, places: Integers) -> Ridge:
        """Return the formula's ridge in its strength."""
        centre, scale = pool.formula.ridge(pool.counts(places))
        return Ridge(centre, scale * self.ridge**0.5)

    def _close(self, record: SearchRecord, measures: Sequence[Measure]) -> None:
        """Keep what the record knows, and the measures at every iterate."""
        # A start may come to a setting that an earlier one has been to.
        record.seconds = np.maximum.accumulate(record.seconds).tolist()
        record.close(self)
        if measures:
            self.results_[[str(measure) for measure in measures]] = self._means(
                record.pool, measures, record.places
            )

    def stop_on(self, pool: CandidatePool, measure: str | Measure, *, topics: Sequence[str]) -> Self:
        """Take the iterate whose measure is best on validation topics, not the lowest cost.

        Metzler (SIGIR 2007) names this as the likely cure where the cost and the measure disagree.

        Parameters
        ----------
        pool : CandidatePool
            The collection that was fitted.
        measure : str or Measure
            What to maximise.
        topics : sequence of str
            Topics that were not fitted on.

        Returns
        -------
        This tuner, with the parameters of that iterate and a column ``validation MEASURE`` in
        `results_`; measured iterates count in `n_evaluations_`.
        """
        measure = parse_measure(measure)
        column = f"validation {measure}"
        if column not in self.results_:
            self.n_evaluations_ += len(self.results_)
        self.results_[column] = self._means(pool, [measure], pool.positions(topics))
        self._choose(space_for(self.space, pool), int(self.results_[column].argmax()))
        return self

    def _choose(self, space: ParameterSpace, row: int) -> None:
        """Take the iterate of a row of `results_`."""
        best = self.results_.iloc[row]
        self.best_value_ = float(best["cost"])
        choose(self, space, [float(best[name]) for name in space.names])

    def _means(self, pool: CandidatePool, measures: Sequence[Measure], places: Integers) -> Doubles:
        settings = self.results_[space_for(self.space, pool).names].to_numpy()
        values = measure_settings(pool, settings, measures, topics=places, depth=self.depth)
        return pool.mean(values, places)


@dataclass(eq=False, repr=False)
class RankNetTuner(GradientTuner):
    """Fit a formula's parameters to preference pairs (Metzler, SIGIR 2007).

    The cost is minimised in unbounded coordinates from several starts; the lowest end wins.

    Parameters
    ----------
    optimizer, space, starts, seed, ridge, measures, depth
        As of `lmtune.tuning.gradient.GradientTuner`.
    rel : int
        The smallest gain that is relevant.
    stand_ins : int
        Where no document is judged nonrelevant: how many unjudged ones of each topic stand in.

    Attributes
    ----------
    n_pairs_ : int
        Pairs in the cost.
    pairs_rule_ : str
        Where the nonrelevant documents came from.

    Notes
    -----
    Costs are sums over pairs; the lowest end of all starts wins.

    Examples
    --------
    >>> tuner = RankNetTuner(seed=0).fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    n_pairs_: int = field(init=False)
    pairs_rule_: str = field(init=False)

    _: KW_ONLY
    optimizer: str = "coordinate-descent"
    space: ParameterSpace | None = None
    starts: int = 4
    seed: int = 0
    ridge: float = 0.0
    rel: int = 1
    stand_ins: int = STAND_INS
    measures: Sequence[str | Measure] = ()
    depth: int = DEPTH

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        pairs: Pairs | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit on topics of a pool (all judged ones by default).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to fit on.
        pairs : Pairs, optional
            Pairs of this pool, built before with this tuner's `rel` and `stand_ins`.
        progress : callable or bool, optional
            Called with (starts done, starts in all); True draws a bar.

        Raises
        ------
        InputError
            For unknown topics, topics without a pair, pairs built otherwise, or a constructor
            argument outside its domain.
        """
        measures = self._check()
        report = counted(progress, type(self).__name__)
        record = SearchRecord(pool, None, space=self.space, topics=topics, repeats=True)
        places, space = record.places, record.space
        pairs = pairs or self.ready(pool, space)["pairs"]
        if (pairs.rel, pairs.stand_ins) != (self.rel, self.stand_ins) or pairs.pool is not pool:
            raise InputError(
                "the pairs were built otherwise",
                value={"rel": pairs.rel, "stand_ins": pairs.stand_ins},
                accepted=f"this pool's, with rel={self.rel} and stand_ins={self.stand_ins}",
            )
        n_pairs = int(pairs.per_topic[places].sum())
        if n_pairs == 0:
            raise InputError(
                "RankNet has no pair to fit on",
                value=[pool.topics[place] for place in places[:3]],
                accepted="a topic with a relevant and a nonrelevant document",
            )

        penalty = self._penalty(pool, places)

        def objective(x: Doubles) -> tuple[float, Doubles]:
            setting = space.from_unbounded(x)
            cost, (pull, pulled) = pairs.cost(setting, topics=places), penalty.at(setting)
            return cost.value / n_pairs + pull, space.chain(cost.gradient / n_pairs + pulled, setting)

        evaluations = Evaluations(objective, record.begin)
        converged = []
        minima: list[Point] = []
        for start, x in enumerate(self._starts(space)):
            box = space.unbounded_box
            found = OPTIMIZERS[self.optimizer](evaluations, x, box, minima, flat=self.flat)
            minima += found.points[-1:] if found.converged else []
            evaluations.record(record, start, found.points, scale=n_pairs)
            converged.append(found.converged)
            if report is not None:
                report(start + 1, self.starts)
        self._close(record, measures)
        self.converged_ = converged[record.starts[record.best]]
        self.n_pairs_ = n_pairs
        self.n_evaluations_ = len(evaluations)
        self.pairs_rule_ = pairs.rule
        return self

    def ready(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:  # noqa: ARG002
        """Return the pairs."""
        return {"pairs": Pairs.build(pool, rel=self.rel, stand_ins=self.stand_ins)}

    @property
    def judge(self) -> Measure:
        """AP, for the pairs know no measure."""
        return Measure("AP", rel=self.rel)

    def _starts(self, space: ParameterSpace) -> list[Doubles]:
        rng = np.random.default_rng(self.seed)
        settings = [space.start, *(space.random(rng) for _ in range(self.starts - 1))]
        return [space.to_unbounded(setting) for setting in settings]
