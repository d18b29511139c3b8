"""Base class of all tuners, and the record of a search."""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from lmtune.arrays import Columns, Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import check_choice
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure
from lmtune.progress import Count, count_callback, no_count
from lmtune.showing import Framed, Plotted
from lmtune.tuning.space import ParameterSpace, space_for

Point = tuple[float, ...]
"""A setting as a tuple, in the order of the parameters; usable as a dictionary key."""

EVALUATIONS = 200
"""The default number of settings that a gradient-free search measures."""

FEWEST = 8
"""The smallest budget of a gradient-free search.

FDSA with two parameters needs 2 evaluations for the gains, 4 for a step, and 2 for the first and last
iterate.
"""

FitProgress = Count | bool | None
"""A callable that receives (done, total) of a search, or True for a progress bar."""


class Tuner(Plotted, ABC, by="summaries.tuner"):
    """Base class of tuners, with scikit-learn's conventions.

    The constructor stores its arguments unchanged; `fit` checks them and sets the attributes below.

    Attributes
    ----------
    best_params_ : dict of str to float
        The best setting, such as ``{"lambda": 0.5, "mu": 100.0}``; the first of several equally good ones.
    best_value_ : float
        The value at the best setting: the mean of the measure, or the cost.
    at_edge_ : list of str
        Bounds of the space that the best setting lies on, such as ``"mu = 100000"``.
    columns_ : dict of str to numpy.ndarray
        One row per evaluated setting: ``start``, the number of the search's start; ``step``, the number of
        the step from that start; the parameters by name; then the values at the setting.
    results_ : pandas.DataFrame
        The same as a data frame.
    n_evaluations_ : int
        Number of evaluations.
    seconds_ : list of float
        Time of each row, in seconds since the start of the fit.
    """

    best_params_: dict[str, float]
    best_value_: float
    at_edge_: list[str]
    columns_: Columns
    results_ = Framed("columns_")
    n_evaluations_: int
    seconds_: list[float]

    @abstractmethod
    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Search on topics of a pool (all judged ones by default)."""

    def _report(self, progress: FitProgress) -> Count:
        """Return the callback that reports the progress of a fit."""
        return count_callback(progress, type(self).__name__) or no_count

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's signature
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name.

        Raises
        ------
        InputError
            If the constructor has no argument of that name.
        """
        known = self.get_params()
        for name, value in params.items():
            check_choice(f"{type(self).__name__} has no such parameter", name, known)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the class name and the arguments that differ from their defaults."""
        defaults = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class SettingRecord:
    """Stores measured settings with their values, number and times for a fit.

    Parameters
    ----------
    space : ParameterSpace
        The range of each parameter.
    measure : Measure, optional
        The measure to maximise; None if the record stores costs, which are minimised.
    repeats : bool
        Whether a repeated setting gets a new row and counts as another evaluation.

    Attributes
    ----------
    begin : float
        Start time of the search, from `time.monotonic`.
    settings, values, starts, steps, seconds : list
        One entry per row: the setting, its mean, and the columns of `Tuner.columns_` and `Tuner.seconds_`.
    """

    def __init__(self, space: ParameterSpace, measure: Measure | None, *, repeats: bool = False) -> None:
        self.begin = time.monotonic()
        self.space, self.measure, self.repeats = space, measure, repeats
        self.settings: list[Point] = []
        self.values: list[float] = []
        self.starts: list[int] = []
        self.steps: list[int] = []
        self.seconds: list[float] = []
        self._row: dict[Point, int] = {}

    def add(
        self, settings: Doubles, values: Sequence[float], *, starts: Sequence[int] = (), step: int = 0
    ) -> None:
        """Add settings and their values; they belong to start 0 unless ``starts`` names others."""
        now = time.monotonic() - self.begin
        points = map(tuple, settings.tolist())
        for start, point, value in zip(starts or [0] * len(values), points, values, strict=True):
            if not self.repeats and point in self._row:
                self.values[self._row[point]] = value
                continue
            self._row[point] = len(self.settings)
            self.settings.append(point)
            self.values.append(value)
            self.starts.append(start)
            self.steps.append(step)
            self.seconds.append(now)

    def __contains__(self, point: Point) -> bool:
        """Return whether a setting has been measured."""
        return point in self._row

    def __getitem__(self, point: Point) -> float:
        """Return the mean at a setting."""
        return self.values[self._row[point]]

    @property
    def best(self) -> int:
        """The row with the highest mean, or the lowest cost; the first of equal ones."""
        return int(np.argmin(self.values) if self.measure is None else np.argmax(self.values))

    def close(self, tuner: Tuner) -> None:
        """Set a tuner's attributes from the record."""
        tuner.columns_ = {
            "start": np.array(self.starts),
            "step": np.array(self.steps),
            **dict(zip(self.space.names, np.array(self.settings).T, strict=True)),
            str(self.measure or "cost"): np.array(self.values),
        }
        tuner.n_evaluations_ = len(self.values)
        tuner.seconds_ = self.seconds
        tuner.best_value_ = self.values[self.best]
        set_best_setting(tuner, self.space, self.settings[self.best])


class SearchRecord(SettingRecord):
    """Measures settings on training topics of a pool, and stores them.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    measure, repeats
        As for `SettingRecord`.
    space : ParameterSpace, optional
        The range of each parameter; the formula's own ranges by default.
    topics : sequence of str, optional
        Topics to average over; all judged ones by default.
    depth : int
        Run depth.
    threads : int, optional
        Threads over topics; the number of cores by default.

    Attributes
    ----------
    positions : numpy.ndarray of int64
        The topics' positions in the pool.
    """

    def __init__(
        self,
        pool: CandidatePool,
        measure: Measure | None,
        *,
        space: ParameterSpace | None,
        topics: Sequence[str] | None,
        depth: int = DEPTH,
        threads: int | None = None,
        repeats: bool = False,
    ) -> None:
        self.pool = pool
        self.positions = pool.judged_positions(topics)
        super().__init__(space_for(space, pool, self.positions), measure, repeats=repeats)
        self.depth = depth
        self.threads = threads

    def evaluate(self, settings: Doubles, *, starts: Sequence[int] = (), step: int = 0) -> list[float]:
        """Measure settings, shape (settings, parameters); record and return their means over the topics."""
        assert self.measure is not None
        values = measure_settings(
            self.pool, settings, [self.measure], topics=self.positions, depth=self.depth, threads=self.threads
        )
        means: list[float] = self.pool.mean(values[:, :, 0], self.positions).tolist()
        self.add(settings, means, starts=starts, step=step)
        return means


def set_best_setting(tuner: Tuner, space: ParameterSpace, point: Sequence[float]) -> None:
    """Set a tuner's attributes `best_params_` and `at_edge_` from a setting."""
    tuner.best_params_ = space.named(point)
    tuner.at_edge_ = space.at_edge(point)
