"""Minimise the RankNet cost of a formula by its analytic gradient."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.tuning.descent import Point, coordinate_descent, l_bfgs
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.tuner import Progress, SearchRecord, Tuner, choose

OPTIMIZERS = {"coordinate-descent": coordinate_descent, "l-bfgs": l_bfgs}


class RankNetTuner(Tuner):
    """Fit a formula's parameters to preference pairs (Metzler, SIGIR 2007).

    The cost is minimised in unbounded coordinates from several starts; the lowest end wins.

    Parameters
    ----------
    optimizer : {"coordinate-descent", "l-bfgs"}
        One coordinate at a time by its derivative, as the paper does, or both jointly; see
        `lmtune.tuning.descent`.
    space : ParameterSpace
        The range of each parameter, the model's own by default; a fit that ends on its edge says so
        in `at_edge_`.
    starts : int
        The first is the space's `ParameterSpace.start`; the others are drawn from the space.
    seed : int
        For the starts.
    rel : int
        The smallest gain that is relevant.
    negatives_depth : int
        Where no document is judged nonrelevant: how deep in a default run unjudged documents
        stand in for them.
    measures : sequence of str
        Measured at every iterate, for the trace; they do not influence the fit.
    depth : int
        Run depth of the measures.

    Attributes
    ----------
    n_pairs_ : int
        Pairs in the cost.
    converged_ : bool
        Whether the start that won ended where the gradient vanishes, up to the space's edges.
    pairs_rule_ : str
        Where the nonrelevant documents came from.

    Notes
    -----
    `best_value_` is the summed cost at the fitted setting. `results_` has a row an iterate, with
    ``cost`` and then the measures' means on the fitting topics; `stop_on` adds a column.
    `n_evaluations_` counts evaluations of the cost with its gradient; the time of the measures is
    not in `seconds_`.

    Examples
    --------
    >>> tuner = RankNetTuner(seed=0).fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    n_pairs_: int
    converged_: bool
    pairs_rule_: str

    def __init__(
        self,
        *,
        optimizer: str = "coordinate-descent",
        space: ParameterSpace | None = None,
        starts: int = 4,
        seed: int = 0,
        rel: int = 1,
        negatives_depth: int = 100,
        measures: Sequence[str] = (),
        depth: int = DEPTH,
    ) -> None:
        self.optimizer = optimizer
        self.space = space
        self.starts = starts
        self.seed = seed
        self.rel = rel
        self.negatives_depth = negatives_depth
        self.measures = measures
        self.depth = depth

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        pairs: Pairs | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit on topics of a pool (all by default).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to fit on.
        pairs : Pairs, optional
            Pairs of this pool, built before with this tuner's `rel` and `negatives_depth`.
        progress : callable, optional
            Called with (starts done, starts in all).

        Raises
        ------
        InputError
            For unknown topics, topics without a pair, pairs built otherwise, or a constructor
            argument outside its domain.
        """
        if self.optimizer not in OPTIMIZERS:
            raise InputError("unknown optimizer", value=self.optimizer, accepted=", ".join(OPTIMIZERS))
        if self.starts < 1:
            raise InputError("RankNet needs a start", value=self.starts, accepted="1 or more")
        if self.seed < 0:
            raise InputError("bad seed", value=self.seed, accepted="0 or more")
        measures = parse_measures(self.measures)
        record = SearchRecord(pool, None, space=self.space, topics=topics, repeats=True)
        places, space = record.places, record.space
        pairs = pairs or Pairs.build(pool, rel=self.rel, depth=self.negatives_depth)
        if (pairs.rel, pairs.depth) != (self.rel, self.negatives_depth) or pairs.pool is not pool:
            raise InputError(
                "the pairs were built otherwise",
                value={"rel": pairs.rel, "depth": pairs.depth},
                accepted=f"this pool's, with rel={self.rel} and depth={self.negatives_depth}",
            )
        n_pairs = int(pairs.per_topic[places].sum())
        if n_pairs == 0:
            raise InputError(
                "RankNet has no pair to fit on",
                value=[pool.topics[place] for place in places[:3]],
                accepted="a topic with a relevant and a nonrelevant document",
            )
        evaluations = 0
        reached: dict[bytes, float] = {}

        def objective(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal evaluations
            evaluations += 1
            setting = space.from_unbounded(x)
            cost = pairs.cost(setting, topics=places)
            reached.setdefault(x.tobytes(), time.monotonic() - record.begin)
            return cost.value / n_pairs, space.chain(cost.gradient, setting) / n_pairs

        converged = []
        minima: list[Point] = []
        seconds = []
        steps: list[int] = []
        for start, x in enumerate(self._starts(space)):
            found = OPTIMIZERS[self.optimizer](objective, x, space.unbounded_box, minima)
            minima += found.points[-1:] if found.converged else []
            settings = np.array([space.from_unbounded(point.x) for point in found.points])
            costs = [point.cost * n_pairs for point in found.points]
            record.add(settings, costs, starts=[start] * len(costs))
            seconds += [reached[point.x.tobytes()] for point in found.points]
            steps += range(len(costs))
            converged.append(found.converged)
            if progress is not None:
                progress(start + 1, self.starts)
        record.steps = steps
        # A start may come to a setting that an earlier one has been to.
        record.seconds = np.maximum.accumulate(seconds).tolist()
        record.close(self)
        if measures:
            self.results_[[str(measure) for measure in measures]] = self._means(pool, measures, places)
        self.converged_ = converged[record.starts[record.best]]
        self.n_pairs_ = n_pairs
        self.n_evaluations_ = evaluations
        self.pairs_rule_ = pairs.rule
        return self

    def stop_on(self, pool: CandidatePool, measure: str, *, topics: Sequence[str]) -> Self:
        """Take the iterate whose measure is best on validation topics, not the lowest cost.

        The paper names this as the likely cure where the cost and the measure disagree.

        Parameters
        ----------
        pool : CandidatePool
            The collection that was fitted.
        measure : str
            What to maximise.
        topics : sequence of str
            Topics that were not fitted on.

        Returns
        -------
        RankNetTuner
            This one, with the parameters of that iterate and a column ``validation MEASURE`` in
            `results_`; measured iterates count in `n_evaluations_`.
        """
        column = f"validation {parse_measure(measure)}"
        if column not in self.results_:
            self.n_evaluations_ += len(self.results_)
        self.results_[column] = self._means(pool, [parse_measure(measure)], pool.positions(topics))
        best = self.results_.iloc[int(self.results_[column].argmax())]
        self.best_value_ = float(best["cost"])
        space = space_for(self.space, pool)
        choose(self, space, [float(best[name]) for name in space.names])
        return self

    def _starts(self, space: ParameterSpace) -> list[NDArray[np.float64]]:
        rng = np.random.default_rng(self.seed)
        settings = [space.start, *(space.random(rng) for _ in range(self.starts - 1))]
        return [space.to_unbounded(setting) for setting in settings]

    def _means(
        self, pool: CandidatePool, measures: list[Measure], places: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        settings = self.results_[space_for(self.space, pool).names].to_numpy()
        values = measure_settings(pool, settings, measures, topics=places, depth=self.depth)
        mean: NDArray[np.float64] = values.mean(axis=0)
        return mean
