"""A sweep's tables in words: means, differences and what is significant."""

from __future__ import annotations

from collections.abc import Mapping

from lmtune.laboratory.experiment import Tables
from lmtune.reporting.figures.style import short

LEVEL = 0.05
"""A difference with a smaller p-value, corrected by Holm, is called significant."""


def mean_of(made: Tables, value: str, cutoff: int, queries: str = "validation") -> float:
    """Return a mean of the summary."""
    table = made["summary"]
    row = table[(table["value"] == value) & (table["queries"] == queries) & (table["cutoff"] == cutoff)]
    return float(row["mean"].iloc[0])


def difference_of(made: Tables, a: str, b: str, cutoff: int, queries: str = "validation") -> dict[str, float]:
    """Return a row of the differences: ``difference``, ``low``, ``high``, ``p``, ``p_holm``."""
    table = made["differences"]
    row = table[
        (table["a"] == a) & (table["b"] == b) & (table["queries"] == queries) & (table["cutoff"] == cutoff)
    ].iloc[0]
    return {name: float(row[name]) for name in ("difference", "low", "high", "p", "p_holm")}


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


def at_end(made: Tables, value: str, course: str) -> float:
    """Return a course's mean over trials in the last epoch."""
    own = made["courses"][made["courses"]["value"] == value]
    return float(own[own["epoch"] == own["epoch"].max()][course].mean())
