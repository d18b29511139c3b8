"""The best setting of a range, with a proof that no other does much better."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import MeasureLike, parse_measure
from lmtune.models.parameter import Setting
from lmtune.tuning.certificate.branch_and_bound import BranchAndBound
from lmtune.tuning.certificate.problem import Problem, proof_of
from lmtune.tuning.direct import CoordinateAscent, GridSearch
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import FitProgress, SearchRecord, Tuner

if TYPE_CHECKING:
    import pandas as pd


_GRID = (12, 12)
_ASCENTS = 5


@dataclass(eq=False, repr=False)
class CertifiedOptimum(Tuner):
    """Find the best setting of a range and bound the measure over the whole range.

    A grid and coordinate ascents give the best setting; branch and bound over boxes of settings
    then proves how much better any other could be, splitting the boxes that may hold a better one.
    Bounds hold for every setting that `lmtune.measures.evaluate.measure_settings` can be given, as
    it computes them, rounding and ties included.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        What to maximise, in ir_measures' or trec_eval's spelling: AP, AP@k, nDCG, nDCG@k, P@k, R@k,
        RR, Success@k or Bpref.
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
    beat : float
        A mean reached elsewhere, such as by another model: the search also stops where no setting of the
        range exceeds it by more than the tolerance, and does not climb.

    Attributes
    ----------
    bound_ : float
        No setting of the range has a higher mean.
    gap_ : float
        ``bound_ - best_value_``
    certified_ : bool
        Whether the gap, from the best value or from what is to beat, is within the tolerance.
    stopped_ : str or None
        ``"interrupted"`` or ``"time"`` where the search did not end by itself. It also ends where
        no split can lower the bound: the order of some documents depends on rounding alone.
    n_boxes_ : int
        Boxes bounded.
    bounds_ : pandas.DataFrame
        One row a batch of boxes: boxes, best and bound by then.
    boxes_ : pandas.DataFrame
        The boxes whose bounds exceed `best_value_`: a low and a high of each parameter, such as
        lambda_low, lambda_high, mu_low, mu_high; and bound. No setting of the range outside them
        is better than the best measured.

    Examples
    --------
    >>> optimum = CertifiedOptimum("AP", tolerance=1e-3).fit(pool)  # doctest: +SKIP
    >>> optimum.best_value_, optimum.bound_  # doctest: +SKIP
    (0.2930..., 0.2938...)
    """

    bound_: float = field(init=False)
    gap_: float = field(init=False)
    certified_: bool = field(init=False)
    stopped_: str | None = field(init=False)
    n_boxes_: int = field(init=False)
    bounds_: pd.DataFrame = field(init=False)
    boxes_: pd.DataFrame = field(init=False)

    measure: MeasureLike = "AP"
    _: KW_ONLY
    tolerance: float = 1e-3
    space: ParameterSpace | None = None
    starts: Sequence[Setting] = ()
    depth: int = DEPTH
    workers: int | None = None
    max_seconds: float | None = None
    beat: float = 0.0

    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Search on topics of a pool (all judged ones by default).

        Ctrl-C ends the search, not the program: what is known by then stays, and `bound_` holds.

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to take the mean over; those without a relevant candidate count 0.
        progress : callable, optional
            Called after each batch of boxes with how far the gap has closed from 1 to the
            tolerance, on a logarithmic scale, of 100; `best_value_`, `bound_` and `n_boxes_` are
            then up to date.

        Raises
        ------
        InputError
            For a constructor argument outside its domain, unknown topics or none, a range that the
            candidates were not made for, or a model without a proof.
        """
        import pandas as pd

        what = parse_measure(self.measure)
        Problem.check(what)
        check_tolerance(self.tolerance)
        if pool.topic_weights is not None:
            check_uncertified(self.tolerance)
        if self.workers is not None and self.workers < 1:
            raise InputError("a certificate needs a worker", value=self.workers, accepted="1 or more")
        report = self._report(progress)
        record = SearchRecord(
            pool, what, space=self.space, topics=topics, depth=self.depth, threads=self.workers
        )
        space = record.space
        proof_of(pool.formula)
        pool.require(np.array([space.low, space.high]), self.depth)

        def measure(*settings: Sequence[float] | Doubles) -> float:
            inside = dict.fromkeys(tuple(space.clip(setting).tolist()) for setting in settings)
            return max(record.measure(np.array(list(inside))))

        middle = [own.between(own.low, own.high, 0.5) for own in space.parameters]
        first = measure(*map(space.vector, self.starts), middle)
        problem = Problem.build(pool, what, space=space, topics=record.places, depth=self.depth)
        search = BranchAndBound(
            problem,
            self.tolerance,
            max(first, self.beat),
            lambda *setting: measure(setting),
            self.workers,
            math.inf if self.max_seconds is None else record.begin + self.max_seconds,
        )
        rows: list[tuple[int, float, float]] = []

        def batch() -> None:
            rows.append((search.boxes, search.best, search.bound))
            self.best_value_, self.bound_, self.n_boxes_ = search.best, search.bound, search.boxes
            report(round(100 * _share_closed(search.bound - search.best, self.tolerance)), 100)

        self.stopped_ = None
        try:
            climb = self._climb(pool, topics, record) if not self.beat else iter(())
            while time.monotonic() < search.deadline and (found := next(climb, None)) is not None:
                record.add(found[space.names].to_numpy(np.float64), found[str(what)].tolist())
                search.best = max(record.values)
            if not search.run(batch):
                self.stopped_ = "time"
        except KeyboardInterrupt:
            self.stopped_ = "interrupted"

        record.close(self)
        self.bound_ = max(search.bound, self.best_value_)
        self.gap_ = self.bound_ - self.best_value_
        self.certified_ = self.bound_ <= max(self.best_value_, self.beat) + self.tolerance
        self.n_boxes_ = search.boxes
        self.bounds_ = pd.DataFrame(rows, columns=["boxes", "best", "bound"])
        self.boxes_ = self._boxes(search, space)
        return self

    def _boxes(self, search: BranchAndBound, space: ParameterSpace) -> pd.DataFrame:
        import pandas as pd

        rows = []
        to_setting = search.problem.proof.to_setting
        for (s_low, s_high, u_low, u_high), bound in search.undecided:
            corners = [space.clip(to_setting(s_low, u_low)), space.clip(to_setting(s_high, u_high))]
            if bound > self.best_value_:
                rows.append((*np.sort(corners, axis=0).T.ravel().tolist(), bound))
        columns = [f"{name}_{end}" for name in space.names for end in ("low", "high")]
        return pd.DataFrame(sorted(rows), columns=[*columns, "bound"])

    def _climb(
        self, pool: CandidatePool, topics: Sequence[str] | None, record: SearchRecord
    ) -> Iterator[pd.DataFrame]:
        """Measure a grid; then climb from the best settings known."""
        shared: dict[str, Any] = {"measure": str(record.what), "space": record.space, "depth": self.depth}
        yield GridSearch(**shared, shape=_GRID).fit(pool, topics=topics).results_
        order = np.argsort(-np.array(record.values), kind="stable")[:_ASCENTS]
        best = [record.space.named(record.settings[row]) for row in order]
        yield CoordinateAscent(**shared, starts=best, restarts=0).fit(pool, topics=topics).results_


def _share_closed(gap: float, tolerance: float) -> float:
    """Return the share of the way from a gap of 1 to the tolerance, on a logarithmic scale."""
    return math.log(min(max(gap, tolerance), 1.0)) / math.log(tolerance) if tolerance < 1.0 else 1.0


def check_uncertified(tolerance: float | None) -> None:
    """Raise `InputError` where topics are weighted, and a proof is asked for."""
    if tolerance is not None:
        raise InputError(
            "no proof counts topics by their weights", value=tolerance, accepted="weights without --certify"
        )


def check_tolerance(tolerance: float) -> None:
    """Raise `InputError` unless a tolerance is a number that some gap can reach."""
    if not (math.isfinite(tolerance) and tolerance > 0.0):
        raise InputError(
            "the tolerance of a certificate is outside its domain",
            value=tolerance,
            accepted="a number above 0, such as 1e-3",
        )
