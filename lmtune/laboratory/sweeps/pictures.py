"""Pictures of sweeps: measures by value with intervals, and courses by epoch with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lmtune.measures.measure import exponential_ndcg
from lmtune.reporting.figures.style import (
    PAGE,
    Look,
    Picture,
    finish,
    in_style,
    legend_below,
    looks,
    new_figure,
    short,
)
from lmtune.reporting.figures.training import draw_course

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_PARTS = {"validation": Look("#0072B2", "-", "o"), "test": Look("#D55E00", "--", "s")}
_NAMES = {
    "objective": "objective, all training items",
    "training": "{}, training queries",
    "validation": "{}, validation",
}
# Room on the side where trainings begin, and on the other, to the range of their second half.
_WAY, _MARGIN = 0.8, 0.1
_APART = 0.16
# Letters of a value that go beside others.
_SHORT = 8


def value_picture(
    summary: pd.DataFrame,
    *,
    name: str,
    title: str,
    cutoffs: Sequence[int],
    queries: Sequence[str],
    axis: str = "",
    over: str = "trials",
) -> Picture:
    """Draw means with 95% intervals by value, a panel a cutoff.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `lmtune.laboratory.sweeps.sweep.summary`.
    name, title : str
        The picture's.
    cutoffs : sequence of int
        Panels, from left to right.
    queries : sequence of str
        Parts of the queries to draw.
    axis : str
        What the values are, such as ``"alpha"``; empty where they speak for themselves. Long values
        stand below each other.
    over : str
        What the intervals are over.
    """
    last = summary[summary["cutoff"] == cutoffs[-1]]
    words = []
    for part in queries:
        rows = last[last["queries"] == part]
        means = ", ".join(
            f"{value} {short(mean)} ± {short(half)}"
            for value, mean, half in zip(rows["value"], rows["mean"], rows["half"], strict=True)
        )
        words.append(f"{exponential_ndcg(cutoffs[-1])} on the {part} queries: {means}.")
    lead = (
        f"Mean nDCG{f' by {axis}' if axis else ''} with 95% intervals over {last['trials'].iloc[0]} {over}."
    )
    alt = " ".join([lead, *words])
    return Picture(name, title, _values(summary, axis, cutoffs, queries, alt))


@in_style
def _values(
    summary: pd.DataFrame, axis: str, cutoffs: Sequence[int], queries: Sequence[str], alt: str
) -> Figure:
    values = list(summary["value"].unique())
    places = np.arange(len(values), dtype=np.float64)
    sideways = not axis or max(map(len, values)) > _SHORT
    height = 1.1 + 0.22 * len(values) if sideways else 2.5
    figure, [panels] = new_figure(PAGE, height, columns=len(cutoffs), sharey=sideways, sharex=not sideways)
    shifts = np.linspace(-_APART, _APART, len(queries)) if len(queries) > 1 else [0.0]
    for ax, cutoff in zip(panels, cutoffs, strict=True):
        for part, shift in zip(queries, shifts, strict=True):
            rows = summary[(summary["queries"] == part) & (summary["cutoff"] == cutoff)]
            _intervals(ax, rows, part, places + shift, sideways=sideways)
        along, across = (ax.yaxis, ax.xaxis) if sideways else (ax.xaxis, ax.yaxis)
        along.set_ticks(places, values)
        across.grid(visible=True, color="0.9", lw=0.5)
        ax.set_axisbelow(True)
        ax.set_title(str(exponential_ndcg(cutoff)))
        if sideways:
            ax.set_ylim(len(values) - 0.5, -0.5)
        else:
            ax.set_xlim(-0.6, len(values) - 0.4)
            ax.set_xlabel(axis)
    if sideways:
        panels[0].set_ylabel(axis)
    if len(queries) > 1:
        legend_below(figure, len(queries))
    return finish(figure, alt)


def _intervals(
    ax: Axes, rows: pd.DataFrame, part: str, places: NDArray[np.float64], *, sideways: bool
) -> None:
    look = _PARTS[part]
    mean, half = rows["mean"].to_numpy(), rows["half"].to_numpy()
    x, y = (mean, places) if sideways else (places, mean)
    bars: dict[str, Any] = {"xerr" if sideways else "yerr": half, "capsize": 2.5, "lw": 0, "elinewidth": 1.2}
    ax.errorbar(x, y, color=look.color, marker=look.marker, ms=4, label=f"{part} queries", **bars)


def course_picture(
    table: pd.DataFrame, *, name: str, title: str, courses: Sequence[str], cutoff: int, axis: str = ""
) -> Picture:
    """Draw means by epoch with 95% intervals as bands, a panel a course, a line a value.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``courses`` of `lmtune.laboratory.sweeps.sweep.Sweep`.
    name, title : str
        The picture's.
    courses : sequence of str
        Of ``"objective"``, ``"training"`` and ``"validation"``; those that the table lacks are
        left out.
    cutoff : int
        Of the courses' NDCG.
    axis : str
        What the values are.
    """
    there = [course for course in courses if course in table.columns]
    last = table[table["epoch"] == table["epoch"].max()]
    words = [
        f"{_NAMES[course].format(exponential_ndcg(cutoff))} in the last epoch: "
        + ", ".join(
            f"{value} {short(float(rows[course].mean()))}"
            for value, rows in last.groupby("value", sort=False)
        )
        + "."
        for course in there
    ]
    alt = " ".join([f"Courses over {table['epoch'].max()} epochs, means over trials.", *words])
    return Picture(name, title, _courses(table, there, cutoff, axis, alt))


@in_style
def _courses(table: pd.DataFrame, courses: Sequence[str], cutoff: int, axis: str, alt: str) -> Figure:
    from matplotlib.ticker import MaxNLocator

    values = list(table["value"].unique())
    drawn = looks(values)
    figure, [panels] = new_figure(PAGE, 2.9, columns=len(courses))
    for ax, course in zip(panels, courses, strict=True):
        ends = [
            _course(ax, table, value, course, drawn[value], number) for number, value in enumerate(values)
        ]
        # Where trainings begin, or begin again after a warm-up, is far from where they end.
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        room = (high - low) or 1e-3
        upwards = table[course].iloc[0] < low
        ax.set_ylim(low - (_WAY if upwards else _MARGIN) * room, high + (_MARGIN if upwards else _WAY) * room)
        ax.set_ylabel(_NAMES[course].format(exponential_ndcg(cutoff)).replace(", ", ",\n"))
        ax.set_xlabel("epoch")
        ax.margins(x=0.02)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    handles, labels = panels[0].get_legend_handles_labels()
    named = [f"{axis} {label}".strip() for label in labels]
    figure.legend(handles, named, loc="outside lower center", ncols=min(6, len(named)))
    return finish(figure, alt)


def _course(
    ax: Axes, table: pd.DataFrame, value: str, course: str, look: Look, number: int
) -> tuple[float, float]:
    """Draw one, and return the range of its second half."""
    from scipy.special import stdtrit

    rows = table[table["value"] == value].pivot(index="trial", columns="epoch", values=course)
    trials = rows.to_numpy()
    mean, count = trials.mean(axis=0), len(trials)
    half = trials.std(axis=0, ddof=1) / np.sqrt(count) * stdtrit(count - 1, 0.975)
    draw_course(ax, value, look, number, np.array([mean, mean - half, mean + half]))
    late = slice(mean.size // 2, None)
    return float((mean - half)[late].min()), float((mean + half)[late].max())
