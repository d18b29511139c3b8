"""Pictures of experiments: lines by method, curves by sample, directions that ascend, shifts of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lmtune.laboratory.landscape import CLEARLY
from lmtune.reporting.figures.style import (
    LAMBDA,
    MU,
    MU_LABEL,
    PAGE,
    Picture,
    finish,
    in_style,
    legend_below,
    log_ticks,
    looks,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = {"lambda": LAMBDA, "mu": MU_LABEL}
"""The labels of lines along parameters."""

# Dark to light, told apart by lightness alone; the weights have no names of interest.
_SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_DASHES = ("-", "--", "-.", ":")


@in_style
def draw_panels(
    table: pd.DataFrame,
    name: str,
    caption: str,
    *,
    x: str,
    y: Mapping[str, str],
    lines: str,
    rows: int = 1,
    log: Sequence[str] = (),
    zero: Sequence[str] = (),
    group: str = "",
) -> Picture:
    """Draw a line a method on a panel a figure.

    Parameters
    ----------
    table : pandas.DataFrame
        A row a point.
    name, caption, group : str
        The picture's.
    x : str
        The column along the panels, whose name is their label; words stand side by side.
    y : mapping of str to str
        The panels' columns and labels.
    lines : str
        The column of the lines' names.
    rows : int
        Of panels.
    log, zero : sequence of str
        Columns with a logarithmic axis, and those with a line at 0.
    """
    columns = len(y) // rows
    figure, grid = new_figure(PAGE, 0.8 + 1.9 * rows, rows=rows, columns=columns, sharex=True)
    axes = dict(zip(y, (ax for line in grid for ax in line), strict=True))
    look, words = looks(list(table[lines].unique())), []
    places = (
        list(dict.fromkeys(table[x])) if table[x].dtype == object or str(table[x].dtype) == "str" else None
    )
    for method, points in table.groupby(lines, sort=False):
        at = points[x] if places is None else [places.index(word) for word in points[x]]
        for column, ax in axes.items():
            ax.plot(at, points[column], label=method, **look[str(method)].options())
            shown = ", ".join(
                f"{value:.4g} ({word})" for word, value in zip(points[x], points[column], strict=True)
            )
            words.append(f"{y[column]}, {method}: {shown}.")
    for column, ax in axes.items():
        ax.set_ylabel(y[column])
        if column in log:
            ax.set_yscale("log")
            log_ticks(ax.yaxis, *ax.get_ylim())
        if column in zero:
            ax.axhline(0.0, color="#666666", lw=0.6, zorder=0)
        if x in log:
            ax.set_xscale("log")
            log_ticks(ax.xaxis, *ax.get_xlim())
        elif places is not None:
            ax.set_xticks(range(len(places)), [fill(word, 16) for word in places])
        else:
            ax.set_xticks(sorted(table[x].unique().tolist()))
    for ax in grid[-1]:
        ax.set_xlabel(x)
    legend_below(figure, 4)
    return Picture(name, caption, finish(figure, f"{caption}. {' '.join(words)}"), group)


@in_style
def draw_curves(
    curves: pd.DataFrame,
    name: str,
    caption: str,
    *,
    measure: str,
    titles: Mapping[Any, str],
    labels: Mapping[str, str],
    group: str = "",
) -> Picture:
    """Draw curves on panels, each with a section blown up.

    Parameters
    ----------
    curves : pandas.DataFrame
        A row a point: ``row`` and ``panel`` of the picture, ``curve``, ``part`` ("whole" or "section"), x, y.
    name, caption, group : str
        The picture's.
    measure : str
        What y is.
    titles : mapping
        Of panels, by row and panel.
    labels : mapping
        Of the x axes, by row; a row "mu" is logarithmic.
    """
    rows, panels = list(dict.fromkeys(curves["row"])), list(dict.fromkeys(curves["panel"]))
    shape: dict[str, Any] = {"rows": len(rows), "columns": len(panels), "sharex": "row"}
    figure, axes = new_figure(PAGE, 2.3 * len(rows) + 0.2, **shape)
    words = []
    for line, row in zip(axes, rows, strict=True):
        for ax, panel in zip(line, panels, strict=True):
            points = curves[(curves["row"] == row) & (curves["panel"] == panel)]
            whole, section = (points[points["part"] == part] for part in ("whole", "section"))
            for number, (_, curve) in enumerate(whole.groupby("curve", sort=False)):
                drawn: dict[str, Any] = {
                    "color": _SHADES[number % len(_SHADES)],
                    "ls": _DASHES[number // len(_SHADES)],
                }
                ax.plot(curve["x"], curve["y"], lw=0.8, **drawn)
            ax.set_title(titles[row, panel])
            # Below the curves there is room for the section.
            low, high = ax.get_ylim()
            ax.set_ylim(low - 0.7 * (high - low), high)
            if row == "mu":
                ax.set_xscale("log")
                log_ticks(ax.xaxis, *ax.get_xlim(), most=4)
            _inset(ax, section)
            low, high = whole["y"].min(), whole["y"].max()
            words.append(f"{' '.join(titles[row, panel].split())} ({row}): {low:.4f} to {high:.4f}.")
        line[0].set_ylabel(measure)
        line[len(panels) // 2].set_xlabel(labels[row])
    figure.align_ylabels()
    alt = f"{caption}; insets show steps about the middle. {' '.join(words)}"
    return Picture(name, caption, finish(figure, alt), group)


def _inset(ax: Axes, curve: pd.DataFrame) -> None:
    """Blow up a curve, as changes from its middle."""
    inset = ax.inset_axes((0.2, 0.08, 0.6, 0.25))
    middle = float(curve["y"].iloc[len(curve) // 2])
    inset.plot(curve["x"], (curve["y"] - middle) * 1e4, lw=0.6, color=_SHADES[0])
    inset.tick_params(labelsize=5.5, length=2, pad=1)
    inset.locator_params(nbins=3)
    inset.set_title(f"{curve['curve'].iloc[0]} change × 10⁴".strip(), fontsize=5.5, pad=2)


@in_style
def draw_roughness(table: pd.DataFrame, name: str, measure: str, smooth: float, group: str) -> Picture:
    """Draw the variation beyond one hill by number of topics, a line a step.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``roughness`` of one measure.
    name, group : str
        The picture's.
    measure : str
        Its title.
    smooth : float
        The share that is called smooth.
    """
    figure, [axes] = new_figure(PAGE, 2.9, columns=2, sharey=True)
    described = []
    for ax, line in zip(axes, LINES, strict=True):
        rows = table[table["line"] == line]
        steps = sorted(rows["step"].unique().tolist())
        look = looks([str(step) for step in steps])
        for step in steps:
            part = rows[rows["step"] == step].sort_values("topics")
            drawn = {**look[str(step)].options(), "clip_on": False}
            ax.plot(part["topics"], 100.0 * part["excess"], label=f"{step:.2g}", **drawn)
            described.append(
                f"Along {LINES[line]} at steps of {step:.2g}: "
                f"{100.0 * part['excess'].iloc[0]:.0f} % with {part['topics'].iloc[0]:,} topics, "
                f"{100.0 * part['excess'].iloc[-1]:.1f} % with {part['topics'].iloc[-1]:,}."
            )
        ax.axhline(100.0 * smooth, color="#666666", lw=0.8, ls=(0, (2, 2)), zorder=0.5)
        ax.set_xscale("log")
        # Linear below 1 %, for a single hill has 0.
        ax.set_yscale("symlog", linthresh=1.0, linscale=0.5)
        ax.set_ylim(bottom=0.0)
        ax.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
        log_ticks(ax.xaxis, *ax.get_xlim(), most=6)
        ax.set_xlabel("topics")
        label = LAMBDA if line == "lambda" else f"log {MU}"
        ax.legend(title=f"step in {label}", loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[0].set_ylabel(f"variation of {measure}\nbeyond one hill, %")
    axes[0].text(
        0.02, 100.0 * smooth, "smooth", transform=axes[0].get_yaxis_transform(), va="top", fontsize=7
    )
    alt = (
        f"How much more {measure} goes up and down than a single hill, by number of topics; "
        f"{100 * smooth:g} % or less is called smooth. {' '.join(described)}"
    )
    return Picture(name, f"{measure}: roughness by topics and step", finish(figure, alt), group)


@in_style
def draw_directions(counts: pd.DataFrame, name: str, *, title: str, share: float, step: str) -> Picture:
    """Draw the share of directions that ascend by step size, and the largest ascent.

    Parameters
    ----------
    counts : pandas.DataFrame
        A row a ``panel``, ``point`` and step, with `lmtune.laboratory.landscape.StepCounts`.
    name : str
        The picture's.
    title : str
        The measure's.
    share : float
        The share that is to be bounded.
    step : str
        The unit of steps.
    """
    panels, points = (list(dict.fromkeys(counts[column])) for column in ("panel", "point"))
    heights = {"height_ratios": (1.3, 1.0)}
    figure, axes = new_figure(
        PAGE, 4.4, rows=2, columns=len(panels), sharex=True, sharey="row", gridspec_kw=heights
    )
    look, words = looks(points), []
    number = int(counts.iloc[0][["ascents", "descents", "unchanged", "outside"]].sum())
    for column, panel in enumerate(panels):
        top, bottom = axes[0][column], axes[1][column]
        for point in points:
            rows = counts[(counts["panel"] == panel) & (counts["point"] == point)].sort_values("step")
            style = {**look[point].options(), "label": point}
            with np.errstate(divide="ignore", invalid="ignore"):
                top.plot(rows["step"], 100.0 * rows["ascents"] / (number - rows["outside"]), **style)
                bottom.plot(rows["step"], np.maximum(rows["largest"], 0.0) / rows["noise"], **style)
            listed = ", ".join(f"{n} at {s:g}" for n, s in zip(rows["ascents"], rows["step"], strict=True))
            words.append(f"{panel} by {point} {listed}")
        top.set_title(panel)
        _line(top, 100.0 * share, f"{100.0 * share:g}%", 1.0)
        _line(bottom, CLEARLY, "what jumps come to", CLEARLY)
        bottom.set_xscale("log")
        log_ticks(bottom.xaxis, float(counts["step"].min()), float(counts["step"].max()))
        bottom.set_xlabel(step)
    axes[0][0].set_ylabel(f"% of {number} directions\nin which {title} ascends")
    axes[0][0].set_yscale("symlog", linthresh=1.0, linscale=0.4)
    axes[0][0].set_yticks([0, 1, 3, 10, 30, 100], ["0", "1", "3", "10", "30", "100"])
    axes[0][0].minorticks_off()
    axes[0][0].set_ylim(-0.25, 110)
    axes[1][0].set_ylabel("largest ascent\n(× noise of jumps)")
    axes[1][0].set_ylim(-0.15, None)
    axes[0][-1].legend(loc="upper right")
    alt = f"Directions of {number} in which mean {title} ascends, by step: {'; '.join(words)}."
    return Picture(name, f"Random directions in which {title} ascends", finish(figure, alt))


def _line(panel: Axes, height: float, words: str, above: float) -> None:
    panel.axhline(height, color="0.6", linewidth=0.7, linestyle=(0, (3, 2)), zorder=0)
    panel.annotate(
        words,
        (1.0, above),
        xycoords=panel.get_yaxis_transform(),
        xytext=(0, 1.5),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=6.5,
        color="0.4",
    )


@in_style
def draw_sweeps(sweeps: pd.DataFrame, *, title: str) -> Picture:
    """Draw the gains of single weights by their shift.

    Parameters
    ----------
    sweeps : pandas.DataFrame
        The table ``sweeps`` of `lmtune.laboratory.optimality.Optimality`.
    title : str
        The measure's.
    """
    networks, losses = (list(dict.fromkeys(sweeps[name])) for name in ("network", "loss"))
    figure, axes = new_figure(
        PAGE, 1.75 * len(networks) + 0.3, rows=len(networks), columns=len(losses), sharex=True, sharey="row"
    )
    words = []
    for row, network in zip(axes, networks, strict=True):
        for panel, loss in zip(row, losses, strict=True):
            curves = sweeps[(sweeps["network"] == network) & (sweeps["loss"] == loss)]
            panel.axhline(0.0, color="0.8", linewidth=0.6, zorder=0)
            panel.axvline(0.0, color="0.8", linewidth=0.6, zorder=0)
            for _, curve in curves.groupby("weight", sort=False):
                [each] = panel.plot(curve["shift"], curve["gain"], linewidth=0.5, color="#0072B2", alpha=0.45)
            best = curves.groupby("shift")["gain"].max()
            [highest] = panel.plot(best.index, best, linewidth=1.2, color="#D55E00")
            panel.set_title(f"{network}, {loss}")
            words.append(f"{network} by {loss} {curves['gain'].max():.5f}")
        row[0].set_ylabel(f"change of mean\n{title}")
    figure.legend([each, highest], ["one weight", "the highest of all"], loc="outside upper right", ncols=2)
    figure.supxlabel("shift of one weight (% of its trained value)", fontsize=8.0)
    alt = (
        f"Change of mean {title} of the training queries as one weight of a trained net is "
        f"shifted, a line a weight, and the highest of all; the largest gains are "
        f"{', '.join(words)}."
    )
    caption = f"{title} through trained weights, one at a time"
    return Picture("sweeps", caption, finish(figure, alt))
