"""Fused runs: the measure along each run's weight, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmtune.fusion.fusing import FusedRow, FusionResult
from lmtune.fusion.lines import Line, Steps, joined
from lmtune.fusion.methods import fused_pool
from lmtune.fusion.runs import RunSet, pruned_for
from lmtune.fusion.search import coordinate_line
from lmtune.io.result_folders import file_name
from lmtune.report.figures.style import (
    Picture,
    drawable,
    finish,
    in_style,
    legend_below,
    looks,
    new_panels,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST_NAME = 24
_DRAWN = 1000  # steps of a line; of more, the range in each of so many stretches
CHOSEN, FOLDS = "all topics' choice", "folds' choices"


def fusion_pictures(
    result: FusionResult, runs: RunSet, qrels: Mapping[str, Mapping[str, int]]
) -> Iterator[Picture]:
    """Draw the measure along each run's weight, for each tuned row.

    Parameters
    ----------
    result : FusionResult
        What `lmtune.fusion.fusing.fuse_runs` returned.
    runs, qrels
        What it was given.
    """
    for row in result.rows:
        if not row.flat:
            continue
        whole = fused_pool(runs, row.chosen, result.options, qrels, result.topics)
        pool, depth = pruned_for(whole, row.measure, result.options.depth)
        line = Line(pool, row.measure, pool.positions(), depth)
        here = np.array([row.chosen.shares[name] for name in runs.names])
        lines = {
            name: joined(line.steps(*coordinate_line(here, run)))
            for run, name in enumerate(runs.names[: None if here.size > 2 else 1])
        }
        title = f"{row.measure.title}, {row.chosen.method}"
        stem = file_name(f"{row.measure}-{row.chosen.method}-weights")
        yield Picture(stem, f"{title}: weights", weight_profiles(lines, row, title=title))


@in_style
def weight_profiles(lines: Mapping[str, Steps], row: FusedRow, *, title: str = "") -> Figure:
    """Draw the mean in sample along each run's share of the weights, the other runs in their proportions.

    Parameters
    ----------
    lines : mapping of str to Steps
        By run, from no weight of its own to nothing else.
    row : FusedRow
        What was chosen on all topics and in each fold, where the mean is flat, and the interval.
    title : str
        Put above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A panel a run. Every step is drawn; of more than 1,000, the range of values on every
        thousandth of the line.
    """
    figure, panels, columns = new_panels(len(lines), 1.9, sharey=True)
    for ax, (name, steps) in zip(panels, lines.items(), strict=True):
        _draw(ax, name, steps, row)
        ax.set_xlabel(f"share of {drawable(name, _LONGEST_NAME)}")
    for ax in panels[::columns]:
        ax.set_ylabel(f"{row.measure.title}, in sample")
    legend_below(figure, 2 if columns == 1 else 5)
    text = f"{row.measure.title} in sample along each run's share, the other runs in their proportions."
    for name, steps in lines.items():
        best = int(steps.value.argmax())
        text += (
            f" {name}: {short(float(steps.value[0]))} at 0, {short(float(steps.value[-1]))} at 1, "
            f"{steps.at.size:,} steps, highest {short(float(steps.value[best]))}; "
            f"chosen {short(row.chosen.shares[name])}."
        )
    return finish(figure, text, title)


def _draw(ax: Axes, name: str, steps: Steps, row: FusedRow) -> None:
    look = looks([CHOSEN, FOLDS])
    low, high = row.flat[name]
    ax.axvspan(low, high, color="#F0E442", alpha=0.45, lw=0, zorder=0, label="within .001 of the best")
    if name in row.interval:
        end: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "solid_capstyle": "butt"}
        ax.plot(row.interval[name], (0.02, 0.02), color="#56B4E9", lw=3, label="95% over resamples", **end)
    if steps.at.size <= _DRAWN:
        edges = np.repeat(np.append(steps.at, steps.end), 2)[1:-1]
        ax.plot(edges, np.repeat(steps.value, 2), color="#555555", lw=0.7, label="the measure")
    else:
        ax.fill_between(*_ranges(steps), color="#555555", lw=0.5, label="the measure")
    if row.folds:
        shares = [fold.shares[name] for fold in row.folds]
        down: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ls": "none", "clip_on": False}
        ax.plot(shares, [0.07] * len(shares), marker="^", ms=4, color=look[FOLDS].color, label=FOLDS, **down)
    point: dict[str, Any] = look[CHOSEN].options() | {"ls": "none", "ms": 4.5, "zorder": 5, "clip_on": False}
    ax.plot(row.chosen.shares[name], row.in_sample, label=CHOSEN, **point)
    ax.set_xlim(0.0, 1.0)
    ax.margins(y=0.12)


def _ranges(steps: Steps) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles of stretches of the line, and the lowest and highest value on each."""
    edges = np.linspace(0.0, 1.0, _DRAWN + 1)[:-1]
    held = steps.value[np.searchsorted(steps.at, edges, "right") - 1]
    at = np.concatenate((edges, steps.at))
    order = np.argsort(at, kind="stable")
    value = np.concatenate((held, steps.value))[order]
    first = np.flatnonzero(order < _DRAWN)
    lowest, highest = np.minimum.reduceat(value, first), np.maximum.reduceat(value, first)
    return edges + 0.5 / _DRAWN, lowest, highest
