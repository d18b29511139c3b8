"""The best setting of a range, with a proof that no other does much better."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.parameter import Setting
from lmtune.models.two_stage import require_two_stage
from lmtune.tuning.certificate.branch_and_bound import Search
from lmtune.tuning.certificate.problem import Problem
from lmtune.tuning.coordinate_ascent import CoordinateAscent
from lmtune.tuning.grid import GridSearch
from lmtune.tuning.space import ParameterSpace, space_for

if TYPE_CHECKING:
    import pandas as pd

_Point = tuple[float, ...]

_GRID = (12, 12)
_ASCENTS = 5


class CertifiedOptimum:
    """Find the best setting of a range and bound the measure over the whole range.

    A grid and coordinate ascents give the best setting; branch and bound over boxes of settings
    then proves how much better any other could be, splitting the boxes that may hold a better one.
    Bounds hold for every setting that `lmtune.measures.evaluate.measure_settings` can be given, as
    it computes them, rounding and ties included.

    Parameters
    ----------
    measure : str
        What to maximise, in ir_measures' or trec_eval's spelling: AP, AP@k, P@k, R@k, RR,
        Success@k or Bpref.
    tolerance : float
        Stop when the bound is at most this above the best mean found.
    space : ParameterSpace
        The range of each parameter, ends included; the model's own by default.
    starts : sequence of mappings
        Settings to measure before all others, such as those that other methods chose.
    depth : int
        Run depth.
    workers : int, optional
        Threads; the number of cores by default. The result does not depend on it.
    max_seconds : float, optional
        Stop after about this long, with the bound reached by then.

    Attributes
    ----------
    best_params_ : dict of str to float
        The best setting measured, such as ``{"lambda": 0.5, "mu": 100.0}``
    best_score_ : float
        The measure's mean there.
    bound_ : float
        No setting of the range has a higher mean.
    gap_ : float
        ``bound_ - best_score_``
    certified_ : bool
        Whether the gap is within the tolerance.
    stopped_ : str or None
        ``"interrupted"`` or ``"time"`` where the search did not end by itself. It also ends where
        no split can lower the bound: the order of some documents depends on rounding alone.
    n_boxes_ : int
        Boxes bounded.
    n_evaluations_ : int
        Settings measured.
    results_ : pandas.DataFrame
        One row a batch of boxes: boxes, best and bound by then.
    seconds_ : list of float
        The time since the start at each row.
    boxes_ : pandas.DataFrame
        The boxes whose bounds exceed `best_score_`: lambda_low, lambda_high, mu_low, mu_high,
        bound. No setting of the range outside them is better than the best measured.

    Examples
    --------
    >>> optimum = CertifiedOptimum("AP", tolerance=1e-3).fit(pool)  # doctest: +SKIP
    >>> optimum.best_score_, optimum.bound_  # doctest: +SKIP
    (0.2930..., 0.2938...)
    """

    best_params_: dict[str, float]
    best_score_: float
    bound_: float
    gap_: float
    certified_: bool
    stopped_: str | None
    n_boxes_: int
    n_evaluations_: int
    results_: pd.DataFrame
    seconds_: list[float]
    boxes_: pd.DataFrame

    def __init__(
        self,
        measure: str = "AP",
        *,
        tolerance: float = 1e-3,
        space: ParameterSpace | None = None,
        starts: Sequence[Setting] = (),
        depth: int = DEPTH,
        workers: int | None = None,
        max_seconds: float | None = None,
    ) -> None:
        self.measure = parse_measure(measure)
        Problem.check(self.measure)
        check_tolerance(tolerance)
        if workers is not None and workers < 1:
            raise InputError("a certificate needs a worker", value=workers, accepted="1 or more")
        self.tolerance = tolerance
        self.space = space
        self.starts = starts
        self.depth = depth
        self.workers = workers
        self.max_seconds = max_seconds

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        progress: Callable[[float, float, int], None] | None = None,
    ) -> CertifiedOptimum:
        """Search on topics of a pool (all by default).

        Ctrl-C ends the search, not the program: what is known by then stays, and `bound_` holds.

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to take the mean over; those without a relevant candidate count 0.
        progress : callable, optional
            Called with (best, bound, boxes) after each batch of boxes.

        Raises
        ------
        InputError
            For unknown topics or none, a range that the candidates were not made for, or a model
            other than two-stage smoothing, on which the proof rests.
        """
        import pandas as pd

        begin = time.monotonic()
        space = space_for(self.space, pool)
        require_two_stage(pool.formula, "the certificate's proof")
        pool.require(np.array([space.low, space.high]), self.depth)
        places = pool.positions(topics)
        known: dict[_Point, float] = {}

        def measure(*settings: Sequence[float] | NDArray[np.float64]) -> float:
            inside = list(dict.fromkeys(tuple(space.clip(setting).tolist()) for setting in settings))
            values = measure_settings(
                pool, np.array(inside), [self.measure], topics=places, depth=self.depth, threads=self.workers
            )
            known.update(zip(inside, values[:, :, 0].mean(axis=0).tolist(), strict=True))
            return max(known[setting] for setting in inside)

        lambdas, mus = space.parameters
        middle = 0.5 * (lambdas.low + lambdas.high), math.sqrt(mus.low * mus.high)
        first = measure(*map(space.vector, self.starts), middle)
        problem = Problem.build(pool, self.measure, space=space, topics=places, depth=self.depth)
        search = Search(
            problem,
            self.tolerance,
            first,
            lambda lambda_, mu: measure((lambda_, mu)),
            self.workers,
            math.inf if self.max_seconds is None else begin + self.max_seconds,
        )
        rows: list[tuple[int, float, float]] = []
        self.seconds_ = []

        def record() -> None:
            rows.append((search.boxes, search.best, search.bound))
            self.seconds_.append(time.monotonic() - begin)
            if progress is not None:
                progress(search.best, search.bound, search.boxes)

        self.stopped_ = None
        try:
            climb = self._climb(pool, topics, space, known)
            while time.monotonic() < search.deadline and (found := next(climb, None)):
                known.update(found)
                search.best = max(known.values())
            if not search.run(record):
                self.stopped_ = "time"
        except KeyboardInterrupt:
            self.stopped_ = "interrupted"

        best = max(known, key=known.__getitem__)
        self.best_params_ = space.named(best)
        self.best_score_ = known[best]
        self.bound_ = max(search.bound, self.best_score_)
        self.gap_ = self.bound_ - self.best_score_
        self.certified_ = self.bound_ <= self.best_score_ + self.tolerance
        self.n_boxes_ = search.boxes
        self.n_evaluations_ = len(known)
        self.results_ = pd.DataFrame(rows, columns=["boxes", "best", "bound"])
        self.boxes_ = self._boxes(search, space)
        return self

    def _boxes(self, search: Search, space: ParameterSpace) -> pd.DataFrame:
        import pandas as pd

        rows = []
        for (s_low, s_high, u_low, u_high), bound in search.undecided:
            low = space.clip((0.0 - math.expm1(s_high), math.exp(u_low)))
            high = space.clip((0.0 - math.expm1(s_low), math.exp(u_high)))
            if bound > self.best_score_:
                rows.append((low[0], high[0], low[1], high[1], bound))
        columns = ["lambda_low", "lambda_high", "mu_low", "mu_high", "bound"]
        return pd.DataFrame(sorted(rows), columns=columns)

    def _climb(
        self,
        pool: CandidatePool,
        topics: Sequence[str] | None,
        space: ParameterSpace,
        known: dict[_Point, float],
    ) -> Iterator[dict[_Point, float]]:
        """Measure a grid; then climb from the best settings known."""
        name = str(self.measure)
        grid = GridSearch(name, space=space, shape=_GRID, depth=self.depth)
        yield _by_setting(grid.fit(pool, topics=topics).results_, name)
        best = [space.named(point) for point in sorted(known, key=lambda point: -known[point])[:_ASCENTS]]
        ascent = CoordinateAscent(name, space=space, starts=best, restarts=0, depth=self.depth).fit(
            pool, topics=topics
        )
        yield _by_setting(ascent.results_, name)


def check_tolerance(tolerance: float) -> None:
    """Raise `InputError` unless a tolerance is a number that some gap can reach."""
    if not (math.isfinite(tolerance) and tolerance > 0.0):
        raise InputError(
            "the tolerance of a certificate is outside its domain",
            value=tolerance,
            accepted="a number above 0, such as 1e-3",
        )


def _by_setting(table: pd.DataFrame, name: str) -> dict[_Point, float]:
    columns = (table[column].to_numpy(np.float64).tolist() for column in ("lambda", "mu", name))
    return {(lambda_, mu): value for lambda_, mu, value in zip(*columns, strict=True)}
