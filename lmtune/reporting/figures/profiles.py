"""The measure along lines through the parameters, alone and above the RankNet cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lmtune.errors import InputError
from lmtune.reporting.figures.style import (
    MOST_PANELS,
    PAGE,
    TWO_STAGE,
    ParameterAxis,
    finish,
    in_style,
    legend_below,
    log_ticks,
    looks,
    new_figure,
    new_panels,
    setting,
    short,
)
from lmtune.reporting.table import listed
from lmtune.tuning.experiment.profiles import ACROSS, BEST

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

K = TypeVar("K")

_MEASURE, _TEST, _COST = "#0072B2", "#56B4E9", "#D55E00"


@in_style
def cost_and_measure(
    lines: pd.DataFrame, axes: Sequence[ParameterAxis] = TWO_STAGE, *, measure: str, title: str = ""
) -> Figure:
    """Draw the measure above the RankNet cost, to see whether their best places agree.

    Parameters
    ----------
    lines : pandas.DataFrame
        One of `lmtune.tuning.experiment.profiles.measure_profiles`' tables, or of ``lines/*.csv``;
        ``test`` may be missing.
    axes : sequence of ParameterAxis
        The model's parameters, columns of the table.
    measure : str
        The measure's title, such as ``"MAP"``.
    title : str
        Put above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels for each line, three lines a row: the one between the two choices, and one
        along each free parameter. Triangles mark the cost's minimum and circles the measure's
        maximum on the training topics. `alt_text` describes it.

    Raises
    ------
    InputError
        For an empty table.
    """
    parts = _by_line(lines, {name: name for name in (ACROSS, *(axis.name for axis in axes))})
    columns, bands = min(len(parts), MOST_PANELS), -(-len(parts) // MOST_PANELS)
    figure, rows = new_figure(
        PAGE * (columns + 0.3) / 3.3,
        3.1 * bands,
        rows=2 * bands,
        columns=columns,
        sharex="col" if bands == 1 else "none",
        height_ratios=(1.2, 1.0) * bands,
    )
    above, below = ([ax for row in rows[first::2] for ax in row] for first in (0, 1))
    for (name, part), upper, lower in zip(parts.items(), above, below, strict=False):
        _draw(upper, lower, part)
        lower.set_xlabel(_label(name, part, axes))
        if bands > 1:
            upper.sharex(lower)
            upper.tick_params(labelbottom=False)
        if any(axis.name == name and axis.is_log for axis in axes):
            lower.set_xscale("log")
            log_ticks(lower.xaxis, *lower.get_xlim(), most=4)
    for ax in (*above[len(parts) :], *below[len(parts) :]):
        ax.set_axis_off()
    for upper, lower in zip(above[::MOST_PANELS], below[::MOST_PANELS], strict=True):
        upper.set_ylabel(measure)
        lower.set_ylabel("cost per pair")
    legend_below(figure, columns)
    figure.align_ylabels()
    return finish(figure, _alt(parts, axes, measure), title)


@in_style
def best_profiles(
    lines: pd.DataFrame,
    axes: Sequence[ParameterAxis],
    chosen: Mapping[str, Mapping[str, float]],
    *,
    measure: str,
    title: str = "",
) -> Figure:
    """Draw the measure along each parameter through Direct's choice, and what other methods chose.

    Parameters
    ----------
    lines : pandas.DataFrame
        As for `cost_and_measure`, with lines called `BEST` and a parameter's name.
    axes : sequence of ParameterAxis
        The parameters to draw.
    chosen : mapping of str to mapping of str to float
        By method the parameters that it chose, and as ``train`` the measure there.
    measure, title : str
        As for `cost_and_measure`.

    Returns
    -------
    matplotlib.figure.Figure
        A panel a parameter. Marks off the curves are settings that differ in other parameters too.

    Raises
    ------
    InputError
        For a table without such a line.
    """
    parts = _by_line(lines, {axis: f"{BEST}{axis.name}" for axis in axes})
    figure, panels, columns = new_panels(len(parts), 1.9, above=0.6, width=PAGE, sharey=True)
    look = looks(list(chosen))
    for ax, (axis, part) in zip(panels, parts.items(), strict=True):
        for column, style in (("train", "-"), ("test", "--")):
            label = f"measure, {column.replace('train', 'training')} topics"
            ax.plot(part["position"], part[column], color="#666666", lw=1.0, ls=style, label=label)
        for method, setting_ in chosen.items():
            marks: dict[str, Any] = {"ls": "none", "mec": "black", "mew": 0.6, "ms": 5, "zorder": 5}
            options = look[method].options() | marks
            ax.plot(setting_[axis.name], setting_["train"], clip_on=False, label=method, **options)
        ax.set_xlabel(axis.label)
        if axis.is_log:
            ax.set_xscale("log")
            log_ticks(ax.xaxis, *ax.get_xlim(), most=4)
        ax.margins(x=0.02)
    for ax in panels[::columns]:
        ax.set_ylabel(measure)
    legend_below(figure, 4)
    sentences = [f"{measure} along each parameter through Direct's choice."]
    for axis, part in parts.items():
        best = part.iloc[int(part["train"].argmax())]
        others = ", ".join(f"{method} {axis.text(options[axis.name])}" for method, options in chosen.items())
        sentences.append(
            f"Along {axis.symbol} it is {short(float(part['train'].min()))} to {short(float(best['train']))} "
            f"on the training topics, highest at {axis.text(float(best['position']))}; chosen: {others}."
        )
    return finish(figure, " ".join(sentences), title)


def _by_line(lines: pd.DataFrame, names: Mapping[K, str]) -> dict[K, pd.DataFrame]:
    """Return the table's part of each line that it has."""
    parts = {key: lines[lines["line"] == name].sort_values("position") for key, name in names.items()}
    present = {key: part for key, part in parts.items() if len(part)}
    if not present:
        raise InputError("no line to draw", accepted="a table of lmtune.tuning.experiment.profiles")
    return present


def _draw(above: Axes, below: Axes, part: pd.DataFrame) -> None:
    position = part["position"].to_numpy()
    train, cost = part["train"].to_numpy(), part["cost"].to_numpy()
    above.plot(position, train, color=_MEASURE, label="measure, training topics")
    if "test" in part:
        above.plot(position, part["test"].to_numpy(), color=_TEST, ls="--", label="measure, test topics")
    below.plot(position, cost, color=_COST, ls="-", label="RankNet cost, training topics")
    for at, colour, style, marker, label in (
        (int(train.argmax()), _MEASURE, (0, (1, 1.5)), "o", "measure's maximum"),
        (int(cost.argmin()), _COST, (0, (4, 2)), "^", "cost's minimum"),
    ):
        point: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "mec": "black",
            "mew": 0.6,
            "ms": 5,
            "zorder": 5,
        }
        for ax, values, named in ((above, train, label), (below, cost, None)):
            ax.axvline(position[at], color=colour, lw=0.8, ls=style, zorder=0.5)
            ax.plot(position[at], values[at], ls="none", clip_on=False, label=named, **point)
    for ax in (above, below):
        ax.margins(x=0.02)
        ax.ticklabel_format(axis="y", useOffset=False)


def _label(name: str, part: pd.DataFrame, axes: Sequence[ParameterAxis]) -> str:
    if name == ACROSS:
        what = listed([axis.symbol for axis in axes]) if len(axes) < MOST_PANELS else "setting"
        return f"{what}: RankNet's at 0, Direct's at 1"
    fixed = [axis for axis in axes if axis.name != name]
    [along] = (axis for axis in axes if axis.name == name)
    if not 0 < len(fixed) < MOST_PANELS - 1:
        return along.label
    return f"{along.label}, with {setting(fixed, (part[axis.name].iloc[0] for axis in fixed))}"


def _alt(parts: Mapping[str, pd.DataFrame], axes: Sequence[ParameterAxis], measure: str) -> str:
    names = {axis.name: f"along {axis.symbol}" for axis in axes}
    names[ACROSS] = "from RankNet's choice to Direct's"
    sentences = [f"{measure} and the RankNet cost along the same lines."]
    for name, part in parts.items():
        lowest, best = part.iloc[int(np.argmin(part["cost"]))], part.iloc[part["train"].argmax()]
        here, there = float(lowest["train"]), float(best["train"])
        more = f", {100.0 * (there / here - 1.0):.1f} % more" if there > here > 0.0 else ""
        at, best_at = (setting(axes, (float(row[axis.name]) for axis in axes)) for row in (lowest, best))
        sentences.append(
            f"The line {names[name]}: the cost is lowest at {at}, where {measure} on the training "
            f"topics is {short(here)}; {measure} is highest at {best_at} with {short(there)}{more}."
        )
    return " ".join(sentences)
