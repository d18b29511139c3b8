"""What a comparison of systems found, with every topic's values behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.measures.significance.options import ComparisonOptions
from lmtune.measures.significance.tests import Tested, adjusted_confidence
from lmtune.showing import Plotted

NOT_WORSE, EQUIVALENT = "not worse", "equivalent"


@dataclass(frozen=True)
class Contrast:
    """One system against another on one measure.

    Attributes
    ----------
    measure, system, against : str
        Names; differences are system minus against.
    mean, against_mean, difference : float
        Means over topics, and their difference.
    relative : float or None
        The difference over the other's mean; None where that is 0.
    wins, ties, losses : int
        Topics on which the system is better, equal and worse.
    tested : dict of str to Tested
        By test; with a margin also ``"not worse"`` and ``"equivalent"`` (by t).
    adjusted : dict of str to float
        The same p-values, corrected for the number of contrasts on this measure.
    effect_size : float
        Cohen's d_z (or Hedges'); 0 where no topic differs, NaN where all differ equally.
    interval : tuple of float
        Confidence interval of the mean difference, from Student's t, of `Comparison.interval_confidence`.
    possible : tuple of float or None
        The lowest and the highest difference over all ways to judge what either system ranks without a
        judgement, where that was asked for; see `lmtune.measures.residual_bounds`.
    """

    measure: str
    system: str
    against: str
    mean: float
    against_mean: float
    difference: float
    relative: float | None
    wins: int
    ties: int
    losses: int
    tested: dict[str, Tested]
    adjusted: dict[str, float]
    effect_size: float
    interval: tuple[float, float]
    possible: tuple[float, float] | None = None

    @property
    def could_turn(self) -> bool:
        """Whether judging could leave no difference, or one of the other sign."""
        return self.possible is not None and self.possible[0] <= 0.0 <= self.possible[1]


@dataclass(frozen=True, repr=False)
class Comparison(Plotted):
    """Several systems compared on the same topics.

    Attributes
    ----------
    systems : tuple of str
        The baseline first.
    measures : tuple of str
        What was measured.
    topics : tuple of str
        On which topics.
    values : numpy.ndarray of float64, shape (systems, topics, measures)
        What was compared.
    contrasts : tuple of Contrast
        Measure by measure: each run against the baseline, or all pairs.
    options : ComparisonOptions
        How.
    notes : tuple of str
        What a reader must know: constant differences, undefined figures.
    judged : tuple of float
        Each system's mean Judged@10; empty where no runs stand behind the values.
    """

    systems: tuple[str, ...]
    measures: tuple[str, ...]
    topics: tuple[str, ...]
    values: NDArray[np.float64]
    contrasts: tuple[Contrast, ...]
    options: ComparisonOptions
    notes: tuple[str, ...] = ()
    judged: tuple[float, ...] = ()

    @property
    def family(self) -> int:
        """The number of contrasts on each measure, which the correction allows for."""
        return len(self.contrasts) // len(self.measures)

    @property
    def interval_confidence(self) -> float:
        """The confidence of each contrast's interval, such that those on a measure hold together."""
        return adjusted_confidence(self.options.confidence, self.family, self.options.correction)

    def means(self, system: str) -> list[float]:
        """Give a system's mean on each measure."""
        return [float(mean) for mean in self.values[self.systems.index(system)].mean(axis=0)]

    def beats(self, measure: str, system: str, other: str) -> bool:
        """Say whether `system` is significantly better than `other`, after correction."""
        for contrast in self.contrasts:
            if contrast.measure == measure and {contrast.system, contrast.against} == {system, other}:
                sign = 1.0 if contrast.system == system else -1.0
                p = contrast.adjusted[self.options.tests[0]]
                return sign * contrast.difference > 0.0 and p < self.options.level
        return False
