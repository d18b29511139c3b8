"""Each method's mean beside Direct's: differences, intervals and their plots on a page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.reporting.comparison_tables import DASH
from lmtune.tuning.experiment.result import DIRECT, RANKNET, UNDEFINED, CollectionResult, Row

_PLOT_WIDTH, _PLOT_MARGIN = 200, 6  # pixels
_MINUS, _THIN_SPACE = "−", "\u2009"


@dataclass(frozen=True)
class Interval:
    """A mean difference and its confidence interval."""

    low: float
    mean: float
    high: float

    def __str__(self) -> str:
        return f"{_signed(self.low)} to {_signed(self.high)}"


@dataclass(frozen=True)
class PlotScale:
    """Where differences stand in a row's plot."""

    low: float
    high: float

    def x(self, value: float) -> str:
        """Return a difference's place in pixels."""
        width = (self.high - self.low) or 1.0
        place = (value - self.low) / width * (_PLOT_WIDTH - 2 * _PLOT_MARGIN) + _PLOT_MARGIN
        return f"{place:.1f}"

    @property
    def width(self) -> int:
        """The width of a plot in pixels."""
        return _PLOT_WIDTH


def differences(result: CollectionResult) -> dict[str, Any]:
    """Return each method's mean beside Direct's, by measure, and the scale of the intervals."""
    measures: list[dict[str, Any]] = []
    for measure, group in groupby(result.rows, key=lambda row: row.measure):
        rows = list(group)
        baseline = next((row for row in rows if row.method == DIRECT), rows[0])
        measures.append({"title": measure.title, "lines": [_difference(row, baseline) for row in rows]})
    intervals = [interval for own in measures for line in own["lines"] if (interval := line["interval"])]
    low = min([0.0, *(interval.low for interval in intervals)])
    high = max([0.0, *(interval.high for interval in intervals)])
    return {"name": result.name, "measures": measures, "scale": PlotScale(low, high)}


def _difference(row: Row, baseline: Row) -> dict[str, Any]:
    by_topic = row.values - baseline.values
    counts = [int(np.sum(np.sign(by_topic) == sign)) for sign in (1, 0, -1)]
    own = row is baseline or UNDEFINED in row.cautions
    return {
        "method": row.method,
        "mean": DASH if UNDEFINED in row.cautions else f"{row.mean:.4f}",
        "interval": None if own else _interval(by_topic),
        "difference": "" if own else _signed(row.mean - baseline.mean),
        "counts": ["", "", ""] if own else [f"{count:,}" for count in counts],
        "p_direct": _p_value(row.p_values.get(DIRECT)),
        "p_ranknet": _p_value(row.p_values.get(RANKNET)),
    }


def _interval(by_topic: NDArray[np.float64]) -> Interval:
    """Return the mean difference with its 95% confidence interval, from Student's t."""
    mean, size = float(by_topic.mean()), by_topic.size
    if size < 2:
        return Interval(mean, mean, mean)
    # scipy.stats would take a second to import.
    from scipy.special import stdtrit

    half = float(stdtrit(size - 1, 0.975)) * float(by_topic.std(ddof=1)) / math.sqrt(size)
    return Interval(mean - half, mean, mean + half)


def _signed(number: float) -> str:
    text = f"{abs(number):.4f}"
    return text if number == 0 else f"{_MINUS if number < 0 else '+'}{text}"


def _p_value(p: float | None) -> str:
    if p is None:
        return ""
    return f"{p:.4f}" if p >= 0.00005 else f"<{_THIN_SPACE}0.0001"
