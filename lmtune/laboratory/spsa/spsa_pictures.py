"""Pictures of SPSA against finite differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.reporting.figures.style import (
    COLUMN,
    Look,
    Picture,
    finish,
    in_style,
    legend_below,
    log_ticks,
    looks,
    new_figure,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def draw_range(ax: Axes, x: NDArray[np.int64], part: pd.DataFrame, look: Look) -> None:
    """Draw a band from the columns ``lowest`` to ``highest``."""
    low, high = part["lowest"].to_numpy(), part["highest"].to_numpy()
    ax.fill_between(x, low, high, color=look.color, alpha=0.15, lw=0)


@in_style
def draw_costs(costs: pd.DataFrame, methods: pd.DataFrame, data: str) -> Picture:
    """Draw mean costs by evaluations, with the range of the runs.

    Parameters
    ----------
    costs : pandas.DataFrame
        Columns method, evaluations, cost, lowest, highest.
    methods : pandas.DataFrame
        Columns method, minimum, final, evaluations_to_95, a row a method.
    data : str
        What the net was trained on.
    """
    figure, [[ax]] = new_figure(1.4 * COLUMN, 3.0)
    look = looks(list(methods["method"]))
    minimum = float(methods["minimum"].iloc[0])
    for name, part in costs.groupby("method", sort=False):
        own = look[str(name)]
        x, y = part["evaluations"].to_numpy(), part["cost"].to_numpy()
        draw_range(ax, x, part, own)
        ax.plot(x, y, markevery=10, ms=3.5, label=name, **own.options())
    ax.axhline(minimum, color="black", lw=0.7, ls=":", label="minimum")
    start = float(costs.loc[costs["evaluations"] == 0, "cost"].max())
    margin = 0.05 * (start - minimum)
    # Runs that go up at first do not squeeze the others.
    ax.set_ylim(minimum - margin, start + 4 * margin)
    ax.set_xlim(0, float(costs["evaluations"].max()))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlabel("function evaluations")
    ax.set_ylabel("pair-wise cross-entropy (nats)")
    legend_below(figure, min(5, len(look) + 1))
    text = f"Pair-wise cross-entropy of a linear net on {data} by function evaluations. "
    for row in methods.to_dict("records"):
        count = row["evaluations_to_95"]
        there = "not within the run" if np.isnan(count) else f"after {count:,.0f} evaluations"
        text += (
            f"{row['method']} ends at {row['final']:.4f} and has gone 95% of the way to the minimum {there}. "
        )
    finish(figure, f"{text}The minimum is {minimum:.4f}.", f"A linear net on {data}")
    title = "Cross-entropy by function evaluations: mean of the runs, and their range"
    return Picture("costs", title, figure)


@in_style
def draw_steps(steps: pd.DataFrame) -> Picture:
    """Draw a step's evaluations by the number of weights.

    Parameters
    ----------
    steps : pandas.DataFrame
        Columns method, features, evaluations.
    """
    figure, [[ax]] = new_figure(COLUMN, 2.6)
    names = list(dict.fromkeys(steps["method"]))
    look = looks(names)
    text = "Function evaluations a step by the number of weights. "
    for name in names:
        part = steps[steps["method"] == name]
        x, y = part["features"].to_numpy(), part["evaluations"].to_numpy()
        own = look[name]
        ax.plot(x, y, label=name, **own.options())
        text += f"{name}: {y[0]:,} for {x[0]:,} weights, {y[-1]:,} for {x[-1]:,}. "
    ax.set_xscale("log")
    ax.set_yscale("log")
    log_ticks(ax.xaxis, float(steps["features"].min()), float(steps["features"].max()))
    log_ticks(ax.yaxis, 1.0, float(steps["evaluations"].max()))
    ax.set_xlabel("weights")
    ax.set_ylabel("function evaluations a step")
    ax.legend(loc="upper left")
    finish(figure, text)
    return Picture("steps", "Function evaluations a step", figure)
