"""What a sweep's tables say: means, differences in words, and which are significant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lmtune.laboratory.experiment import Tables
from lmtune.reporting.figures.style import short

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.05
"""A difference with a smaller p-value, corrected by Holm, is called significant."""


def mean_of(made: Tables, value: str, cutoff: int, queries: str = "validation") -> float:
    """Return a mean of the summary."""
    return float(_row(made["summary"], value=value, cutoff=cutoff, queries=queries)["mean"])


def difference_of(made: Tables, a: str, b: str, cutoff: int, queries: str = "validation") -> dict[str, float]:
    """Return a row of the differences: ``difference``, ``low``, ``high``, ``p``, ``p_holm``."""
    row = _row(made["differences"], a=a, b=b, cutoff=cutoff, queries=queries)
    return {name: float(row[name]) for name in ("difference", "low", "high", "p", "p_holm")}


def _row(table: pd.DataFrame, **wanted: Any) -> pd.Series:
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table.iloc[0]


def in_words(row: Mapping[str, float]) -> str:
    """Print a row of the differences."""
    p = "p < .001" if row["p_holm"] < 0.001 else f"p = {row['p_holm']:.3f}".replace("0.", ".")
    sign = "+" if row["difference"] >= 0 else ""
    low, high = short(row["low"]), short(row["high"])
    return f"{sign}{short(row['difference'])} (95% interval {low} to {high}, {p})"


def verdict(row: Mapping[str, float]) -> str:
    """Say whether a is better than b: "better", "worse" or "not significantly different"."""
    if row["p_holm"] >= LEVEL:
        return "not significantly different"
    return "better" if row["difference"] > 0 else "worse"


def compared(made: Tables, a: str, b: str, cutoff: int, queries: str = "validation") -> str:
    """Say by how much a differs from b, and whether it is better."""
    row = difference_of(made, a, b, cutoff, queries)
    return f"{in_words(row)}, {verdict(row)}"


def at_end(made: Tables, value: str, course: str) -> float:
    """Return a course's mean over trials in the last epoch."""
    own = made["courses"][made["courses"]["value"] == value]
    return float(own[own["epoch"] == own["epoch"].max()][course].mean())
