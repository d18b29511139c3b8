"""A tuner that proves an upper bound of the measure over the whole range."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from lmtune.arrays import Columns, Doubles, stack
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import MeasureLike, parse_measure
from lmtune.models.parameter import Setting
from lmtune.showing import Framed
from lmtune.tuning.certificate.branch_and_bound import BranchAndBound
from lmtune.tuning.certificate.problem import Problem, proof_of
from lmtune.tuning.direct import CoordinateAscent, GridSearch
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import FitProgress, SearchRecord, Tuner

_GRID = (12, 12)
_ASCENTS = 5


@dataclass(eq=False, repr=False)
class CertifiedOptimum(Tuner):
    """Find the best setting of a range, and prove an upper bound of the measure over the range.

    A grid search and coordinate ascents find the best setting. Branch and bound over boxes of settings then
    bounds the measure of all others; it splits the boxes that could contain a better setting. The bounds
    apply to values as `lmtune.measures.evaluate.measure_settings` computes them, with rounding and ties.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        The measure to maximise, in ir_measures' or trec_eval's spelling: AP, AP@k, nDCG, nDCG@k, P@k, R@k,
        RR, Success@k or Bpref.
    tolerance : float
        Stop if the bound exceeds the best measured mean by at most this.
    space : ParameterSpace
        The range of each parameter, ends included; the model's own ranges by default.
    starts : sequence of mappings
        Settings to measure first, for example the results of other methods.
    depth : int
        Run depth.
    workers : int, optional
        Threads; the number of cores by default. The result does not depend on it.
    max_seconds : float, optional
        Stop after about this many seconds, with the bound proven until then.
    beat : float
        A mean that another search reached, for example with another model. The search also stops if no
        setting of the range exceeds it by more than the tolerance, and skips grid and ascents.

    Attributes
    ----------
    bound_ : float
        The upper bound: no setting of the range has a higher mean.
    gap_ : float
        ``bound_ - best_value_``
    certified_ : bool
        Whether the bound exceeds the best value, or `beat` if that is larger, by at most the tolerance.
    stopped_ : str or None
        ``"interrupted"`` or ``"time"`` if the search was stopped; None if it ended by itself. It also ends
        by itself if no split can lower the bound, because the order of some documents depends on rounding.
    n_boxes_ : int
        Number of boxes that were bounded.
    bound_columns_ : dict of str to numpy.ndarray
        One row per batch of boxes: number of boxes, best mean and bound at that time.
    box_columns_ : dict of str to numpy.ndarray
        The boxes whose bounds exceed `best_value_`: the ends of each parameter's interval (lambda_low,
        lambda_high, mu_low, mu_high), and bound. No setting outside them is better than the best one.
    bounds_, boxes_ : pandas.DataFrame
        The same as data frames.

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
    bound_columns_: Columns = field(init=False)
    box_columns_: Columns = field(init=False)
    bounds_ = Framed("bound_columns_")
    boxes_ = Framed("box_columns_")

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

        Ctrl-C ends the search, not the program. The attributes are set and `bound_` is valid.

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to average over; topics without a relevant candidate count as 0.
        progress : callable, optional
            Called after each batch of boxes with (percent, 100). The percentage is the progress of the gap
            from 1 to the tolerance, on a logarithmic scale. `best_value_`, `bound_` and `n_boxes_` are up to
            date during the call.

        Raises
        ------
        InputError
            If a constructor argument is outside its domain, there are no topics or unknown ones, the
            candidates were pruned for a smaller range, or the model has no proof.
        """
        what = parse_measure(self.measure)
        Problem.check(what)
        check_tolerance(self.tolerance)
        if pool.topic_weights is not None:
            check_uncertified(self.tolerance)
        if self.workers is not None and self.workers < 1:
            raise InputError("bad number of workers", value=self.workers, accepted="1 or more")
        report = self._report(progress)
        record = SearchRecord(
            pool, what, space=self.space, topics=topics, depth=self.depth, threads=self.workers
        )
        space = record.space
        proof_of(pool.formula)
        pool.require(np.array([space.low, space.high]), self.depth)

        def measure(*settings: Sequence[float] | Doubles) -> float:
            inside = dict.fromkeys(tuple(space.clip(setting).tolist()) for setting in settings)
            return max(record.evaluate(np.array(list(inside))))

        middle = [p.between(p.low, p.high, 0.5) for p in space.parameters]
        first = measure(*map(space.vector, self.starts), middle)
        problem = Problem.build(pool, what, space=space, topics=record.positions, depth=self.depth)
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
            while time.monotonic() < search.deadline and (table := next(climb, None)) is not None:
                record.add(stack(table, space.names), table[str(what)].tolist())
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
        self.bound_columns_ = {
            name: np.array([row[i] for row in rows]) for i, name in enumerate(("boxes", "best", "bound"))
        }
        self.box_columns_ = self._boxes(search, space)
        return self

    def _boxes(self, search: BranchAndBound, space: ParameterSpace) -> Columns:
        rows = []
        to_setting = search.problem.proof.to_setting
        for (s_low, s_high, u_low, u_high), bound in search.undecided:
            corners = [space.clip(to_setting(s_low, u_low)), space.clip(to_setting(s_high, u_high))]
            if bound > self.best_value_:
                rows.append((*np.sort(corners, axis=0).T.ravel().tolist(), bound))
        columns = [*(f"{name}_{end}" for name in space.names for end in ("low", "high")), "bound"]
        return dict(zip(columns, np.reshape(sorted(rows), (-1, len(columns))).T, strict=True))

    def _climb(
        self, pool: CandidatePool, topics: Sequence[str] | None, record: SearchRecord
    ) -> Iterator[Columns]:
        """Yield the results of a grid search, then those of ascents from the best settings."""
        shared: dict[str, Any] = {"measure": str(record.measure), "space": record.space, "depth": self.depth}
        yield GridSearch(**shared, shape=_GRID).fit(pool, topics=topics).columns_
        order = np.argsort(-np.array(record.values), kind="stable")[:_ASCENTS]
        best = [record.space.named(record.settings[row]) for row in order]
        yield CoordinateAscent(**shared, starts=best, restarts=0).fit(pool, topics=topics).columns_


def _share_closed(gap: float, tolerance: float) -> float:
    """Return the progress of the gap from 1 to the tolerance, on a logarithmic scale, from 0 to 1."""
    return math.log(min(max(gap, tolerance), 1.0)) / math.log(tolerance) if tolerance < 1.0 else 1.0


def check_uncertified(tolerance: float | None) -> None:
    """Raise `InputError` if a certificate is requested; call this for weighted topics."""
    if tolerance is not None:
        raise InputError(
            "weighted topics cannot be certified", value=tolerance, accepted="topic weights without --certify"
        )


def check_tolerance(tolerance: float) -> None:
    """Raise `InputError` unless a tolerance is positive and finite."""
    if not (math.isfinite(tolerance) and tolerance > 0.0):
        raise InputError(
            "the tolerance of a certificate is outside its domain",
            value=tolerance,
            accepted="a number above 0, such as 1e-3",
        )
