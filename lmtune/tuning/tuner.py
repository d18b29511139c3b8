"""What every tuner has: parameters kept as they were given, and the record of its search."""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import check_choice
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure
from lmtune.progress import Count, counted, unseen
from lmtune.showing import Plotted
from lmtune.tuning.space import ParameterSpace, space_for

if TYPE_CHECKING:
    import pandas as pd

Point = tuple[float, ...]
"""A setting as a vector that a dictionary can hold."""

EVALUATIONS = 200
"""How many settings a gradient-free search measures by default."""

FEWEST = 8
"""Enough for FDSA in two coordinates: the gains, the two ends and a step."""

FitProgress = Count | bool | None
"""Called with how much of a search is done, and how much there is; True draws a bar."""


class Tuner(Plotted, ABC, by="summaries.tuner"):
    """A tuner in scikit-learn's manner: constructor arguments are kept as given, `fit` reads them.

    Attributes
    ----------
    best_params_ : dict of str to float
        The best setting, such as ``{"lambda": 0.5, "mu": 100.0}``; the first of equally good ones.
    best_value_ : float
        What the search found there: the mean of its measure, or RankNet's cost.
    at_edge_ : list of str
        Bounds of the space that the best setting lies on, such as ``"mu = 100000"``.
    results_ : pandas.DataFrame
        A row a setting that was tried: ``start`` and ``step``, which number the search's starts and
        its steps from each, the parameters by name, then the values found there.
    n_evaluations_ : int
        Evaluations that the search took.
    seconds_ : list of float
        When each row was known, since the start of the fit.
    """

    best_params_: dict[str, float]
    best_value_: float
    at_edge_: list[str]
    results_: pd.DataFrame
    n_evaluations_: int
    seconds_: list[float]

    @abstractmethod
    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Search on topics of a pool (all judged ones by default)."""

    def _report(self, progress: FitProgress) -> Count:
        """Return what shows how much of a fit is done."""
        return counted(progress, type(self).__name__) or unseen

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's signature
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name.

        Raises
        ------
        InputError
            For a name that the constructor does not have.
        """
        known = self.get_params()
        for name, value in params.items():
            check_choice(f"{type(self).__name__} has no such parameter", name, known)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Name the arguments that differ from their defaults."""
        defaults = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class SearchRecord:
    """Measures settings on training topics, remembers, counts and times them, and closes a fit.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    measure : Measure, optional
        What to measure; None for a record of costs, of which the lowest is the best.
    space : ParameterSpace, optional
        The range of each parameter; the formula's own by default.
    topics : sequence of str, optional
        Topics to take means over; all that are judged by default.
    depth : int
        Run depth.
    threads : int, optional
        Threads over topics; the number of cores by default.
    repeats : bool
        Whether a setting that comes again has another row, and counts again.

    Attributes
    ----------
    begin : float
        When the search began, on `time.monotonic`'s clock.
    places : numpy.ndarray of int64
        The topics' places in the pool.
    settings, values, starts, steps, seconds : list
        The rows: a setting, its mean, and `Tuner.results_`' and `Tuner.seconds_`' columns.
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
        self.begin = time.monotonic()
        self.pool = pool
        self.what = measure
        self.places = pool.judged_positions(topics)
        self.space = space_for(space, pool, self.places)
        self.depth = depth
        self.threads = threads
        self.repeats = repeats
        self.settings: list[Point] = []
        self.values: list[float] = []
        self.starts: list[int] = []
        self.steps: list[int] = []
        self.seconds: list[float] = []
        self._row: dict[Point, int] = {}

    def measure(self, settings: Doubles, *, starts: Sequence[int] = (), step: int = 0) -> list[float]:
        """Return the means at settings, shape (settings, parameters), and add them to the record."""
        assert self.what is not None
        values = measure_settings(
            self.pool, settings, [self.what], topics=self.places, depth=self.depth, threads=self.threads
        )
        means: list[float] = self.pool.mean(values[:, :, 0], self.places).tolist()
        self.add(settings, means, starts=starts, step=step)
        return means

    def add(
        self, settings: Doubles, values: Sequence[float], *, starts: Sequence[int] = (), step: int = 0
    ) -> None:
        """Add what is known of settings; they are of start 0 unless ``starts`` has others."""
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
        """Say whether a setting has been measured."""
        return point in self._row

    def __getitem__(self, point: Point) -> float:
        """Return the mean at a setting."""
        return self.values[self._row[point]]

    @property
    def best(self) -> int:
        """The row with the highest mean, or the lowest cost; the first of equals."""
        return int(np.argmin(self.values) if self.what is None else np.argmax(self.values))

    def close(self, tuner: Tuner) -> None:
        """Give a tuner what the record knows."""
        import pandas as pd

        table = pd.DataFrame(np.array(self.settings), columns=self.space.names)
        table.insert(0, "start", self.starts)
        table.insert(1, "step", self.steps)
        tuner.results_ = table.assign(**{str(self.what or "cost"): self.values})
        tuner.n_evaluations_ = len(self.values)
        tuner.seconds_ = self.seconds
        tuner.best_value_ = self.values[self.best]
        choose(tuner, self.space, self.settings[self.best])


def choose(tuner: Tuner, space: ParameterSpace, point: Sequence[float]) -> None:
    """Let a setting be a tuner's best one."""
    tuner.best_params_ = space.named(point)
    tuner.at_edge_ = space.at_edge(point)
