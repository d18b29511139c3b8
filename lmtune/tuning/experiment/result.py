"""Results of an experiment: rows of methods and measures, with the values of every topic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lmtune.arrays import Booleans, Columns, Doubles
from lmtune.collections.folds import Fold
from lmtune.measures.measure import Measure
from lmtune.measures.significance.comparison import Gain, gains_over
from lmtune.measures.significance.near_best import MARGIN
from lmtune.models.model import known_model
from lmtune.showing import Plotted
from lmtune.tuning.direct import Surface

if TYPE_CHECKING:
    pass

DIRECT, RANKNET, APPROX, STOPPED, OPTIMAL = "Direct", "RankNet", "Approx", "RankNet-val", "Optimal"
BAGGED = "Bagged"
"""The row of the mean of the best grid settings of resampled topics; see `Plan.bags`."""
DEFAULT = "Default"
"""The baseline's row: a setting without tuning, with which all methods are compared."""
ALSO = {"spsa": "SPSA", "fdsa": "FDSA"}
"""Optional methods: their names in a plan, and their rows' names."""

SIGNIFICANCE = 0.05

SAMPLED_NEGATIVES, EDGE = "sampled-negatives", "edge"
"""Cautions of RankNet's rows: unjudged documents were sampled as negatives; a setting lies on an edge."""


@dataclass(frozen=True)
class Fit:
    """The setting that a method chose on a fold.

    Attributes
    ----------
    params : dict of str to float
        The parameters by name.
    train_value, test_value : float
        The measure's means on the fold's training and test topics.
    evaluations : int
        Number of evaluated settings: costs with gradients for RankNet and Approx, measured settings for the
        others.
    at_edge : tuple of str
        Bounds of the space that the parameters lie on.
    bound : float or None
        For a certified Optimal, the upper bound of the test value over the range.
    step : str
        The regularisation step that `RidgeTuner` selected; empty for models without weights.
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
        The reported measure, which Direct and Optimal also maximise.
    method : str
        ``"Default"``, ``"Direct"``, ``"Bagged"``, ``"RankNet"``, ``"Approx"``, ``"RankNet-val"``, ``"SPSA"``,
        ``"FDSA"`` or ``"Optimal"``.
    topics : tuple of str
        Test topics of all folds.
    values : numpy.ndarray of float64, shape (topics,)
        The measure on each test topic, with the parameters of its fold.
    fits : tuple of Fit
        One per fold.
    final : Fit or None
        The setting to use: the method's choice on the topics of all folds. Its training value is the mean
        over these topics. Its test value is the row's mean, an estimate for new topics.
    cautions : tuple of str
        The constants `SAMPLED_NEGATIVES` and `EDGE`, if they apply.
    """

    measure: Measure
    method: str
    topics: tuple[str, ...]
    values: Doubles
    fits: tuple[Fit, ...]
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
        """Return the shares of topics with a lower and with a higher value than in another row."""
        gains = self.values - other.values
        return float(np.mean(gains < 0.0)), float(np.mean(gains > 0.0))

    @property
    def evaluations(self) -> int:
        """The number of evaluations in all folds."""
        return sum(fit.evaluations for fit in self.fits)

    @property
    def setting(self) -> Fit | None:
        """The setting to use: the final fit, or the default; None without a final fit."""
        return self.fits[0] if self.method == DEFAULT else self.final


@dataclass(frozen=True, eq=False)
class NearOptimal:
    """The near-optimal region: grid settings that are proven to be within a margin of the best one.

    Attributes
    ----------
    names : tuple of str
        The parameters' names.
    settings : numpy.ndarray of float64, shape (settings, parameters)
        The grid.
    bounds : numpy.ndarray of float64, shape (settings,)
        Upper bounds of the losses against the best grid setting. They hold together with a probability of
        95%; see `lmtune.measures.significance.near_best.loss_bounds`.
    margin : float
        The margin, in the unit of the measure.
    """

    names: tuple[str, ...]
    settings: Doubles
    bounds: Doubles
    margin: float = MARGIN

    @property
    def inside(self) -> Booleans:
        """The mask of the region, shape (settings,)."""
        return self.bounds <= self.margin

    @property
    def closest(self) -> int:
        """The row with the smallest bound; the first of equal ones."""
        return int(self.bounds.argmin())


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
        Measure by measure: Default if requested, Direct, RankNet, Approx, optional methods, Optimal.
    traces : dict of str to dict of str to numpy.ndarray
        Iterates of RankNet and Approx, evaluations of the others, progress of certificates, and the boxes
        that they did not exclude. The keys are names of files without extension.
    notes : tuple of str
        Notes for readers: rules that applied, skipped topics, settings on an edge.
    model : str
        A name in `lmtune.models.model.MODELS`.
    surface : Surface, optional
        The grid of Direct and Optimal.
    near : NearOptimal, optional
        The near-optimal region for the first measure on all topics; see
        `lmtune.tuning.experiment.run.near_optimal`.
    fixed_method : str
        The method that may be recommended, fixed before any result is known; see `Plan.fixed_method`.
    selected : str, optional
        The recommended method for the first measure, if the selection among cases determined it.
    """

    name: str
    folds: tuple[Fold, ...]
    rows: tuple[Row, ...]
    traces: dict[str, Columns]
    notes: tuple[str, ...]
    model: str = "two-stage"
    surface: Surface | None = None
    near: NearOptimal | None = None
    fixed_method: str = DIRECT
    selected: str | None = None

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of the rows: the plan's measures that the judgments define."""
        return tuple(dict.fromkeys(row.measure for row in self.rows))

    @property
    def topics(self) -> set[str]:
        """The topics of all folds."""
        return {topic for fold in self.folds for topic in (*fold.train, *fold.test)}

    @property
    def recommended(self) -> Row | None:
        """The recommended row for the first measure; None without rows."""
        return self.recommended_for(self.measures[0]) if self.rows else None

    def recommended_for(self, measure: Measure) -> Row | None:
        """Return the recommended row for a measure; None if the measure has no row.

        It is the row of `fixed_method` if this is significantly better than the default, or if there is no
        default; otherwise the default. No method is chosen by its held-out mean, so the mean has no
        selection bias. For the first measure, `selected` overrides this rule.
        """
        if self.selected is not None and measure == self.measures[0]:
            return self.row(measure, self.selected)
        default, tuned = self.row(measure, DEFAULT), self.row(measure, self.fixed_method)
        is_better = tuned is not None and self.significance(tuned) > 0
        return tuned if default is None or is_better else default

    def row(self, measure: Measure, method: str) -> Row | None:
        """Return the row of a measure and method, or None."""
        return next((row for row in self.rows if (row.measure, row.method) == (measure, method)), None)

    @cached_property
    def gains(self) -> dict[tuple[Measure, str], Gain]:
        """The difference of each tuned row from the default; empty without a default.

        Optimal was chosen on the test topics: its difference has no test.
        """
        gains: dict[tuple[Measure, str], Gain] = {}
        for measure in self.measures:
            if (default := self.row(measure, DEFAULT)) is None:
                continue
            rows = {row.method: row for row in self.rows if row.measure == measure and row is not default}
            values = {method: row.values for method, row in rows.items() if method != OPTIMAL}
            own = gains_over(default.values, values, self.fixed_method)
            own |= {OPTIMAL: Gain(rows[OPTIMAL].mean - default.mean)} if OPTIMAL in rows else {}
            gains |= {(measure, method): own[method] for method in rows}
        return gains

    def significance(self, row: Row) -> int:
        """Return 1 if a row is significantly better than the default, -1 if it is worse, and else 0."""
        return self.gains.get((row.measure, row.method), Gain(0.0)).significance

    def bound(self, row: Row) -> float | None:
        """Return the upper bound of a row's mean over all settings, one per fold; None if not proven."""
        bounds = [fit.bound for fit in row.fits if fit.bound is not None]
        if len(bounds) < len(row.fits):
            return None
        return float(np.average(bounds, weights=[len(fold.test) for fold in self.folds]))


def at_most(bound: float) -> str:
    """Format an upper bound with four digits, rounded up."""
    return f"{math.ceil(bound * 1e4 - 1e-6) / 1e4:.4f}"


_DIGITS = {"lambda": ".4f", "mu": ".2f"}


def parameter_text(name: str, value: float, thousands: str = "") -> str:
    """Format a parameter's value."""
    return f"{value:{thousands}{_DIGITS.get(name, '.4g')}}"


def setting_values(result: CollectionResult, params: Mapping[str, float]) -> dict[str, str]:
    """Format the parameters that the model does not fix, with three or more digits, by name."""
    known = known_model(result.model)
    fixed = known.fixed if known else {}
    shown = {name: value for name, value in params.items() if name not in fixed}
    return {n: f"{v:.0f}" if abs(v) >= 1000.0 else f"{v:.3g}" for n, v in shown.items()}
