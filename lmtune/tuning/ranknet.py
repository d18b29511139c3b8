"""Minimise the RankNet cost of a formula by its analytic gradient."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.tuning.descent import Point, coordinate_descent, l_bfgs
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace, space_for

if TYPE_CHECKING:
    import pandas as pd

OPTIMIZERS = {"coordinate-descent": coordinate_descent, "l-bfgs": l_bfgs}


class RankNetTuner:
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
    best_params_ : dict of str to float
        The fitted setting, such as ``{"lambda": 0.5, "mu": 100.0}``
    cost_ : float
        The summed cost at the fitted parameters.
    n_pairs_ : int
        Pairs in the cost.
    n_evaluations_ : int
        Evaluations of the cost with its gradient.
    trace_ : pandas.DataFrame
        One row an iterate: start, iteration, cost, the parameters, then the measures' means on the
        fitting topics; `stop_on` adds a column.
    seconds_ : list of float
        When each iterate of the trace was reached, since the start of the fit; the time of the
        trace's measures is not in it.
    converged_ : bool
        Whether the start that won ended where the gradient vanishes, up to the space's edges.
    pairs_rule_ : str
        Where the nonrelevant documents came from.
    at_edge_ : list of str
        Bounds of the space that the fit ended on.

    Examples
    --------
    >>> tuner = RankNetTuner(seed=0).fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    best_params_: dict[str, float]
    cost_: float
    n_pairs_: int
    n_evaluations_: int
    trace_: pd.DataFrame
    seconds_: list[float]
    converged_: bool
    pairs_rule_: str
    at_edge_: list[str]

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
        if optimizer not in OPTIMIZERS:
            raise InputError("unknown optimizer", value=optimizer, accepted=", ".join(OPTIMIZERS))
        if starts < 1:
            raise InputError("RankNet needs a start", value=starts, accepted="1 or more")
        if seed < 0:
            raise InputError("bad seed", value=seed, accepted="0 or more")
        self.optimizer = optimizer
        self.space = space
        self.starts = starts
        self.seed = seed
        self.rel = rel
        self.negatives_depth = negatives_depth
        self.measures = parse_measures(measures)
        self.depth = depth

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        pairs: Pairs | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> RankNetTuner:
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
            For unknown topics, topics without a pair, or pairs built otherwise.
        """
        places = pool.positions(topics)
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
        space = self._space = space_for(self.space, pool)
        evaluations = 0
        begin = time.monotonic()
        reached: dict[bytes, float] = {}

        def objective(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal evaluations
            evaluations += 1
            setting = space.from_unbounded(x)
            cost = pairs.cost(setting, topics=places)
            reached.setdefault(x.tobytes(), time.monotonic() - begin)
            return cost.value / n_pairs, space.chain(cost.gradient, setting) / n_pairs

        iterates: list[tuple[int, int, Point]] = []
        converged = []
        minima: list[Point] = []
        for start, x in enumerate(self._starts(space)):
            descent = OPTIMIZERS[self.optimizer](objective, x, space.unbounded_box, minima)
            minima += descent.points[-1:] if descent.converged else []
            iterates += [(start, i, point) for i, point in enumerate(descent.points)]
            converged.append(descent.converged)
            if progress is not None:
                progress(start + 1, self.starts)

        self._record(pool, places, iterates, n_pairs)
        times = [reached[point.x.tobytes()] for _, _, point in iterates]
        # A start may come to a setting that an earlier one has been to.
        self.seconds_ = np.maximum.accumulate(times).tolist()
        best = int(self.trace_["cost"].argmin())
        self._take(best)
        self.converged_ = converged[iterates[best][0]]
        self.n_pairs_ = n_pairs
        self.n_evaluations_ = evaluations
        self.pairs_rule_ = pairs.rule
        return self

    def stop_on(self, pool: CandidatePool, measure: str, *, topics: Sequence[str]) -> RankNetTuner:
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
            its trace; measured iterates count in `n_evaluations_`.
        """
        column = f"validation {parse_measure(measure)}"
        if column not in self.trace_:
            self.n_evaluations_ += len(self.trace_)
        self.trace_[column] = self._means(pool, [parse_measure(measure)], pool.positions(topics))
        self._take(int(self.trace_[column].argmax()))
        return self

    def _starts(self, space: ParameterSpace) -> list[NDArray[np.float64]]:
        rng = np.random.default_rng(self.seed)
        settings = [space.start, *(space.random(rng) for _ in range(self.starts - 1))]
        return [space.to_unbounded(setting) for setting in settings]

    def _record(
        self,
        pool: CandidatePool,
        places: NDArray[np.int64],
        iterates: list[tuple[int, int, Point]],
        n_pairs: int,
    ) -> None:
        import pandas as pd

        settings = np.array([self._space.from_unbounded(point.x) for _, _, point in iterates])
        self.trace_ = pd.DataFrame(
            {
                "start": [start for start, _, _ in iterates],
                "iteration": [iteration for _, iteration, _ in iterates],
                "cost": [point.cost * n_pairs for _, _, point in iterates],
                **dict(zip(self._space.names, settings.T, strict=True)),
            }
        )
        if self.measures:
            means = self._means(pool, self.measures, places)
            self.trace_[[str(measure) for measure in self.measures]] = means

    def _means(
        self, pool: CandidatePool, measures: list[Measure], places: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        settings = self.trace_[self._space.names].to_numpy()
        values = measure_settings(pool, settings, measures, topics=places, depth=self.depth)
        mean: NDArray[np.float64] = values.mean(axis=0)
        return mean

    def _take(self, iterate: int) -> None:
        row = self.trace_.iloc[iterate]
        self.cost_ = float(row["cost"])
        self.best_params_ = {name: float(row[name]) for name in self._space.names}
        self.at_edge_ = self._space.at_edge(list(self.best_params_.values()))
