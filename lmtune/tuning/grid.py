"""Direct search over a full grid."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import SMALLEST_MU, Regions
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd


# Regions take as long as about a thousand settings measured without them.
_DENSE = 2000
# Below this many times the run depth, cells can leave out too little.
_LONG = 4


@dataclass(frozen=True)
class Surface:
    """Measures of every topic at every setting of a grid.

    Computed once, it answers for any fold: no setting is scored again.

    Attributes
    ----------
    lambdas, mus : numpy.ndarray of float64, shape (settings,)
        The settings.
    measures : tuple of Measure
        What was measured.
    values : numpy.ndarray of float64, shape (pool's topics, settings, measures)
        NaN for topics that were left out.
    """

    lambdas: NDArray[np.float64]
    mus: NDArray[np.float64]
    measures: tuple[Measure, ...]
    values: NDArray[np.float64]

    @classmethod
    def compute(
        cls,
        pool: CandidatePool,
        measures: Sequence[Measure],
        *,
        space: ParameterSpace,
        shape: tuple[int, int],
        topics: NDArray[np.int64] | None = None,
        depth: int = DEPTH,
        progress: Callable[[int, int], None] | None = None,
    ) -> Surface:
        """Measure the grid of `shape` (lambdas, mus) points over `space`.

        A dense grid over large candidate lists is measured cell by cell, with the same values.
        """
        topics = pool.positions() if topics is None else topics
        lambdas, mus = space.grid(*shape)
        values = np.full((len(pool.topics), lambdas.size, len(measures)), np.nan)
        regions = None
        per_topic = pool.candidates.doc.size / len(pool.topics)
        dense = lambdas.size >= _DENSE and per_topic > _LONG * depth
        if dense and space.mu_low >= SMALLEST_MU and not pool.formula.floored:
            regions = Regions.build(
                pool,
                lambda_low=space.lambda_low,
                lambda_high=space.lambda_high,
                mu_low=space.mu_low,
                mu_high=space.mu_high,
                depth=depth,
            )
        values[topics] = measure_settings(
            pool, lambdas, mus, measures, topics=topics, depth=depth, regions=regions, progress=progress
        )
        return cls(lambdas, mus, tuple(measures), values)

    def means(self, measure: Measure, topics: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the measure's mean over topics at each setting, shape (settings,)."""
        mean: NDArray[np.float64] = self.values[topics, :, self.measures.index(measure)].mean(0)
        return mean

    def best(self, measure: Measure, topics: NDArray[np.int64], count: int = 1) -> list[int]:
        """Return the settings with the highest means, best first; the first of equals."""
        order = np.argsort(-self.means(measure, topics), kind="stable")
        return [int(place) for place in order[:count]]


class GridSearch:
    """Find the grid point with the best mean of a measure.

    Parameters
    ----------
    measure : str
        What to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of lambda and mu.
    shape : tuple of int
        Points along lambda (equally spaced) and mu (equally spaced logarithms).
    depth : int
        Run depth.

    Attributes
    ----------
    lambda_, mu_ : float
        The best parameters; also in `best_params_`.
    best_params_ : dict of str to float
        ``{"lambda": ..., "mu": ...}``; the first of equally good points.
    best_score_ : float
        The measure's mean there.
    results_ : pandas.DataFrame
        One row a point: lambda, mu and the mean.
    n_evaluations_ : int
        Settings measured.
    seconds_ : list of float
        When each was known, since the start of the fit: all at the end, as topics are measured
        one after the other.

    Examples
    --------
    >>> grid = GridSearch(measure="AP").fit(pool, topics=train)  # doctest: +SKIP
    >>> grid.best_params_  # doctest: +SKIP
    {'lambda': 0.5, 'mu': 100.0}
    """

    lambda_: float
    mu_: float
    best_params_: dict[str, float]
    best_score_: float
    results_: pd.DataFrame
    n_evaluations_: int
    seconds_: list[float]

    def __init__(
        self,
        measure: str = "AP",
        *,
        space: ParameterSpace | None = None,
        shape: tuple[int, int] = (20, 26),
        depth: int = DEPTH,
    ) -> None:
        self.measure = parse_measure(measure)
        self.space = space or ParameterSpace()
        self.shape = shape
        self.depth = depth

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> GridSearch:
        """Measure the grid on topics of a pool (all by default).

        Raises
        ------
        InputError
            For unknown topics.
        """
        import pandas as pd

        begin = time.monotonic()
        places = pool.positions(topics)
        surface = Surface.compute(
            pool,
            [self.measure],
            space=self.space,
            shape=self.shape,
            topics=places,
            depth=self.depth,
            progress=progress,
        )
        means = surface.means(self.measure, places)
        best = surface.best(self.measure, places)[0]
        self.results_ = pd.DataFrame({"lambda": surface.lambdas, "mu": surface.mus, str(self.measure): means})
        self.lambda_, self.mu_ = float(surface.lambdas[best]), float(surface.mus[best])
        self.best_params_ = {"lambda": self.lambda_, "mu": self.mu_}
        self.best_score_ = float(means[best])
        self.n_evaluations_ = means.size
        self.seconds_ = [time.monotonic() - begin] * means.size
        return self
