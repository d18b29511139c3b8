"""What an experiment found: the table's rows, with every topic's values behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lmtune.arrays import Doubles
from lmtune.collections.folds import Fold
from lmtune.measures.measure import Measure
from lmtune.models.model import known_model
from lmtune.showing import Plotted
from lmtune.tuning.direct import Surface

if TYPE_CHECKING:
    import pandas as pd

DIRECT, RANKNET, APPROX, STOPPED, OPTIMAL = "Direct", "RankNet", "Approx", "RankNet-val", "Optimal"
DEFAULT = "Default"
"""The row that nothing chose: the setting that all methods are compared with."""
ALSO = {"spsa": "SPSA", "fdsa": "FDSA"}
"""Further methods: what a plan calls them, and their rows."""

SIGNIFICANCE = 0.05

STAND_INS, EDGE = "stand-ins", "edge"
"""Cautions: Bpref where nothing is judged nonrelevant, so that it is no more than recall; RankNet where
unjudged documents stand in for nonrelevant ones, and where it ended on the edge of the range."""


@dataclass(frozen=True)
class Fit:
    """What one method chose on one fold.

    Attributes
    ----------
    params : dict of str to float
        The parameters by name.
    train_value, test_value : float
        The measure's means on the fold's training and test topics.
    evaluations : int
        Parameter settings that the choice took: costs with gradients for RankNet and Approx, measured
        ones for the others.
    at_edge : tuple of str
        Bounds of the space that the parameters lie on.
    bound : float or None
        For a certified Optimal: no setting in the range has a higher test value.
    step : str
        How much of a model's weights folds of the training topics chose; see `RidgeTuner`. Empty where
        nothing chose.
    """

    params: dict[str, float]
    train_value: float
    test_value: float
    evaluations: int
    at_edge: tuple[str, ...]
    bound: float | None = None
    step: str = ""


@dataclass(frozen=True)
class Row:
    """One method and measure on one collection.

    Attributes
    ----------
    measure : Measure
        What is reported, and what Direct and Optimal maximise.
    method : str
        ``"Default"``, ``"Direct"``, ``"RankNet"``, ``"Approx"``, ``"RankNet-val"``, ``"SPSA"``,
        ``"FDSA"`` or ``"Optimal"``.
    topics : tuple of str
        Test topics of all folds.
    values : numpy.ndarray of float64, shape (topics,)
        The measure on each test topic, with the parameters of its fold.
    fits : tuple of Fit
        One a fold.
    p_values : dict of str to float
        Two-sided paired t-tests against Direct and RankNet; none where the measure is undefined, or
        without a test.
    final : Fit or None
        What the method chose on the topics of all folds together, to be used: its training value is
        the mean over these, its test value the row's mean, as an estimate of what it gives on others.
    cautions : tuple of str
        Of ``"undefined"``, ``"stand-ins"`` and ``"edge"``.
    """

    measure: Measure
    method: str
    topics: tuple[str, ...]
    values: Doubles
    fits: tuple[Fit, ...]
    p_values: dict[str, float] = field(default_factory=dict)
    final: Fit | None = None
    cautions: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """The mean over test topics."""
        return float(self.values.mean())

    @property
    def in_sample(self) -> float:
        """The mean over folds of the means on their training topics."""
        return float(np.mean([fit.train_value for fit in self.fits]))

    def changes(self, other: Row) -> tuple[float, float]:
        """Return which shares of the topics are worse and better than by another row."""
        gains = self.values - other.values
        return float(np.mean(gains < 0.0)), float(np.mean(gains > 0.0))

    @property
    def evaluations(self) -> int:
        """The evaluations of all folds."""
        return sum(fit.evaluations for fit in self.fits)

    @property
    def setting(self) -> Fit | None:
        """The final fit, or the default, which is the same on all folds; None without a final fit."""
        return self.fits[0] if self.method == DEFAULT else self.final

    def beats(self, method: str, rows: Sequence[Row]) -> bool:
        """Say whether this row is significantly better than `method` on the same measure."""
        return self._lead(method, rows) > 0.0

    def trails(self, method: str, rows: Sequence[Row]) -> bool:
        """Say whether this row is significantly worse than `method` on the same measure."""
        return self._lead(method, rows) < 0.0

    def _lead(self, method: str, rows: Sequence[Row]) -> float:
        """Return by how much this row's mean is above that of `method`; 0 where that may be chance."""
        other = next((r for r in rows if r.method == method and r.measure == self.measure), None)
        if other is None or self.p_values.get(method, 1.0) >= SIGNIFICANCE:
            return 0.0
        return self.mean - other.mean


@dataclass(frozen=True, repr=False)
class CollectionResult(Plotted, by="tuning_tables.result"):
    """All rows of one collection.

    Attributes
    ----------
    name : str
        The collection.
    folds : tuple of Fold
        Training and test topics.
    rows : tuple of Row
        Measure by measure, Default if asked for, Direct, RankNet, Approx, what else was asked for, Optimal.
    traces : dict of str to pandas.DataFrame
        RankNet's and Approx's iterates, the others' evaluations, certificates' progress and the
        boxes that they did not exclude, by file-name-like key.
    notes : tuple of str
        What a reader must know: rules applied, topics skipped, edges reached.
    model : str
        A name in `lmtune.models.model.MODELS`.
    surface : Surface, optional
        The grid that Direct and Optimal began with.
    near : dict of str to (low, high)
        A box of grid points around the recommended setting, none of them significantly worse on all
        topics; see `lmtune.tuning.experiment.run.near_optimal`.
    selected : str, optional
        The method to use for the first measure, where choosing among models decided it.
    """

    name: str
    folds: tuple[Fold, ...]
    rows: tuple[Row, ...]
    traces: dict[str, pd.DataFrame]
    notes: tuple[str, ...]
    model: str = "two-stage"
    surface: Surface | None = None
    near: dict[str, tuple[float, float]] = field(default_factory=dict)
    selected: str | None = None

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of the rows: those of the plan that the judgments define."""
        return tuple(dict.fromkeys(row.measure for row in self.rows))

    @property
    def topics(self) -> set[str]:
        """The topics of all folds."""
        return {topic for fold in self.folds for topic in (*fold.train, *fold.test)}

    @property
    def recommended(self) -> Row | None:
        """The row to use for the first measure; None without rows."""
        return self.recommended_for(self.measures[0]) if self.rows else None

    def recommended_for(self, measure: Measure) -> Row | None:
        """Return the row to use for a measure; None where it has no row.

        It has the best held-out mean; of those equal to four digits, it took the fewest evaluations.
        Optimal, which is chosen on test topics, is never recommended. `selected` overrides this.
        """
        rows = [row for row in self.rows if row.measure == measure and row.method != OPTIMAL]
        if self.selected is not None and measure == self.measures[0]:
            rows = [row for row in rows if row.method == self.selected]
        return max(rows, key=lambda row: (round(row.mean, 4), -row.evaluations), default=None)

    def bound(self, row: Row) -> float | None:
        """Return what no settings, one a fold, exceed in a row's mean; None where that is not proven."""
        bounds = [fit.bound for fit in row.fits if fit.bound is not None]
        if len(bounds) < len(row.fits):
            return None
        return float(np.average(bounds, weights=[len(fold.test) for fold in self.folds]))


def at_most(bound: float) -> str:
    """Print four digits of a bound, rounded up."""
    return f"{math.ceil(bound * 1e4 - 1e-6) / 1e4:.4f}"


_DIGITS = {"lambda": ".4f", "mu": ".2f"}


def parameter_text(name: str, value: float, thousands: str = "") -> str:
    """Print a parameter's value."""
    return f"{value:{thousands}{_DIGITS.get(name, '.4g')}}"


def setting_values(result: CollectionResult, params: Mapping[str, float]) -> dict[str, str]:
    """Print the parameters that the model does not fix, with three digits or more, by name."""
    known = known_model(result.model)
    fixed = known.fixed if known else {}
    shown = {name: value for name, value in params.items() if name not in fixed}
    return {n: f"{v:.0f}" if abs(v) >= 1000.0 else f"{v:.3g}" for n, v in shown.items()}
