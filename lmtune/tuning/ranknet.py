"""Minimise the RankNet cost of two-stage smoothing by its analytic gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.tuning.descent import Point, coordinate_descent, l_bfgs
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace, expit, logit

if TYPE_CHECKING:
    import pandas as pd

OPTIMIZERS = {"coordinate-descent": coordinate_descent, "l-bfgs": l_bfgs}

FIRST_START = (0.5, 1000.0)


class RankNetTuner:
    """Fit lambda and mu to preference pairs (Metzler, SIGIR 2007).

    The cost is minimised in (logit lambda, log mu) from several starts; the lowest end wins.

    Parameters
    ----------
    optimizer : {"coordinate-descent", "l-bfgs"}
        One coordinate at a time by its derivative, as the paper does, or both jointly.
    space : ParameterSpace
        The range of lambda and mu; a fit that ends on its edge says so in `at_edge_`.
    starts : int
        The first starts at lambda = 0.5, mu = 1000; the others are drawn from the space.
    seed : int
        For the starts.
    rel : int
        The smallest gain that is relevant.
    negatives_depth : int
        Where no document is judged nonrelevant: how deep in a default run unjudged documents
        stand in for them.
    measures : sequence of str
        Measured at every iterate, for the trace; they do not influence the fit.
    stop_on : str, optional
        With validation topics given to `fit`: take the iterate where this measure's mean on them
        is highest, not the one of lowest cost.
    depth : int
        Run depth of the measures.

    Attributes
    ----------
    lambda_, mu_ : float
        The fitted parameters; also in `best_params_`.
    best_params_ : dict of str to float
        ``{"lambda": ..., "mu": ...}``
    cost_ : float
        The summed cost at the fitted parameters.
    n_pairs_ : int
        Pairs in the cost.
    n_evaluations_ : int
        Evaluations of the cost with its gradient.
    trace_ : pandas.DataFrame
        One row an iterate: start, iteration, cost, lambda, mu, then the measures' means on the
        fitting topics and, with validation topics, ``validation``.
    pairs_rule_ : str
        Where the nonrelevant documents came from.
    at_edge_ : list of str
        Bounds of the space that the fit ended on.

    Examples
    --------
    >>> tuner = RankNetTuner(seed=0).fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.lambda_, tuner.mu_  # doctest: +SKIP
    """

    lambda_: float
    mu_: float
    best_params_: dict[str, float]
    cost_: float
    n_pairs_: int
    n_evaluations_: int
    trace_: pd.DataFrame
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
        stop_on: str | None = None,
        depth: int = DEPTH,
    ) -> None:
        if optimizer not in OPTIMIZERS:
            raise InputError("unknown optimizer", value=optimizer, accepted=", ".join(OPTIMIZERS))
        if starts < 1:
            raise InputError("RankNet needs a start", value=starts, accepted="1 or more")
        self.optimizer = optimizer
        self.space = space or ParameterSpace()
        self.starts = starts
        self.seed = seed
        self.rel = rel
        self.negatives_depth = negatives_depth
        self.measures = parse_measures(measures)
        self.stop_on = None if stop_on is None else parse_measure(stop_on)
        self.depth = depth

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        validation: Sequence[str] | None = None,
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
        validation : sequence of str, optional
            Topics for `stop_on`.
        pairs : Pairs, optional
            Pairs of this pool built before; built here otherwise.
        progress : callable, optional
            Called with (starts done, starts in all).

        Raises
        ------
        InputError
            For unknown topics, topics without a pair, or only one of `stop_on` and `validation`.
        """
        if (self.stop_on is None) != (validation is None):
            raise InputError(
                "stopping on validation topics needs both stop_on and validation",
                value={"stop_on": self.stop_on, "validation": validation},
            )
        places = pool.positions(topics)
        pairs = pairs or Pairs.build(pool, rel=self.rel, depth=self.negatives_depth)
        n_pairs = int(pairs.per_topic[places].sum())
        if n_pairs == 0:
            raise InputError("no topic to fit on has a pair", value=[*(topics or pool.topics)][:3])

        evaluations = 0

        def objective(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal evaluations
            evaluations += 1
            lambda_, mu = expit(x[0]), math.exp(x[1])
            cost = pairs.cost(lambda_, mu, topics=places)
            slope = np.array([cost.dlambda * lambda_ * (1.0 - lambda_), cost.dmu * mu])
            return cost.value / n_pairs, slope / n_pairs

        box = self.space.unbounded_box
        rng = np.random.default_rng(self.seed)
        iterates: list[tuple[int, int, Point]] = []
        for start in range(self.starts):
            begin = FIRST_START if start == 0 else self.space.random(rng)
            x = np.array([logit(max(begin[0], 1e-9)), math.log(begin[1])])
            x = np.clip(x, [box[0][0], box[1][0]], [box[0][1], box[1][1]])
            points = OPTIMIZERS[self.optimizer](objective, x, box)
            iterates += [(start, iteration, point) for iteration, point in enumerate(points)]
            if progress is not None:
                progress(start + 1, self.starts)

        self._record(pool, places, iterates, n_pairs, validation)
        self.n_pairs_ = n_pairs
        self.n_evaluations_ = evaluations
        self.pairs_rule_ = pairs.rule
        return self

    def _record(
        self,
        pool: CandidatePool,
        places: NDArray[np.int64],
        iterates: list[tuple[int, int, Point]],
        n_pairs: int,
        validation: Sequence[str] | None,
    ) -> None:
        import pandas as pd

        lambdas = np.array([self._inside(point)[0] for _, _, point in iterates])
        mus = np.array([self._inside(point)[1] for _, _, point in iterates])
        costs = np.array([point.cost * n_pairs for _, _, point in iterates])

        def means(measures: list[Measure], topics: NDArray[np.int64]) -> NDArray[np.float64]:
            values = measure_settings(pool, lambdas, mus, measures, topics=topics, depth=self.depth)
            mean: NDArray[np.float64] = values.mean(axis=0)
            return mean

        trace: dict[str, Any] = {
            "start": [start for start, _, _ in iterates],
            "iteration": [iteration for _, iteration, _ in iterates],
            "cost": costs,
            "lambda": lambdas,
            "mu": mus,
        }
        if self.measures:
            for measure, column in zip(self.measures, means(self.measures, places).T, strict=True):
                trace[str(measure)] = column
        best = int(np.argmin(costs))
        if self.stop_on is not None:
            trace["validation"] = means([self.stop_on], pool.positions(validation))[:, 0]
            best = int(np.argmax(trace["validation"]))
        self.trace_ = pd.DataFrame(trace)
        self.lambda_, self.mu_ = float(lambdas[best]), float(mus[best])
        self.best_params_ = {"lambda": self.lambda_, "mu": self.mu_}
        self.cost_ = float(costs[best])
        self.at_edge_ = self.space.at_edge(self.lambda_, self.mu_)

    def _inside(self, point: Point) -> tuple[float, float]:
        return self.space.clip(expit(point.x[0]), math.exp(point.x[1]))
