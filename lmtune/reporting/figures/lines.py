"""The RankNet cost below the measure, along the same lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lmtune.errors import InputError
from lmtune.reporting.figures.style import (
    LAMBDA,
    MU,
    MU_LABEL,
    PAGE,
    finish,
    in_style,
    log_ticks,
    new_figure,
    setting,
    short,
    tokens,
)
from lmtune.tuning.lines import ACROSS, ALONG_LAMBDA, ALONG_MU

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MEASURE, _TEST, _COST = "#0072B2", "#56B4E9", "#D55E00"


@in_style
def cost_and_measure(lines: pd.DataFrame, *, measure: str, title: str = "") -> Figure:
    """Draw the measure above the RankNet cost, to see whether their best places agree.

    Parameters
    ----------
    lines : pandas.DataFrame
        One of `lmtune.tuning.lines.measure_lines`' tables, or of ``lines/*.csv``; ``test`` may be
        missing.
    measure : str
        The measure's title, such as ``"MAP"``.
    title : str
        Put above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A column of two panels for each line; triangles mark the cost's minimum and circles the
        measure's maximum on the training topics. `alt_text` describes it.

    Raises
    ------
    InputError
        For an empty table.
    """
    parts = {
        name: lines[lines["line"] == name].sort_values("position")
        for name in (ACROSS, ALONG_LAMBDA, ALONG_MU)
        if (lines["line"] == name).any()
    }
    if not parts:
        raise InputError("no line to draw", accepted="a table of lmtune.tuning.lines")
    figure, rows = new_figure(
        PAGE * (len(parts) + 0.3) / 3.3,
        3.1,
        rows=2,
        columns=len(parts),
        sharex="col",
        height_ratios=(1.2, 1.0),
    )
    for (name, part), above, below in zip(parts.items(), *rows, strict=True):
        _draw(above, below, part)
        below.set_xlabel(_label(name, part))
        if name == ALONG_MU:
            below.set_xscale("log")
            log_ticks(below.xaxis, *below.get_xlim(), most=4)
    rows[0][0].set_ylabel(measure)
    rows[1][0].set_ylabel("cost per pair")
    handles, labels = rows[0][0].get_legend_handles_labels()
    more, named = rows[1][0].get_legend_handles_labels()
    figure.legend(handles + more, labels + named, loc="outside lower center", ncols=min(len(parts), 3))
    figure.align_ylabels()
    if title:
        figure.suptitle(title, fontsize="medium")
    return finish(figure, _alt(parts, measure))


def _draw(above: Axes, below: Axes, part: pd.DataFrame) -> None:
    position = part["position"].to_numpy()
    train, cost = part["train"].to_numpy(), part["cost"].to_numpy()
    above.plot(position, train, color=_MEASURE, label="measure, training topics")
    if "test" in part:
        above.plot(position, part["test"].to_numpy(), color=_TEST, ls="--", label="measure, test topics")
    below.plot(position, cost, color=_COST, ls="-", label="RankNet cost, training topics")
    best, lowest = int(train.argmax()), int(cost.argmin())
    for ax, values in ((above, train), (below, cost)):
        for place, colour, style, marker, label in (
            (best, _MEASURE, (0, (1, 1.5)), "o", "measure's maximum"),
            (lowest, _COST, (0, (4, 2)), "^", "cost's minimum"),
        ):
            ax.axvline(position[place], color=colour, lw=0.8, ls=style, zorder=0.5)
            ax.plot(
                position[place],
                values[place],
                marker=marker,
                color=colour,
                mec="black",
                mew=0.6,
                ms=5,
                ls="none",
                zorder=5,
                clip_on=False,
                label=label if ax is above else None,
            )
    for ax in (above, below):
        ax.margins(x=0.02)
        ax.ticklabel_format(axis="y", useOffset=False)


def _label(name: str, part: pd.DataFrame) -> str:
    if name == ALONG_LAMBDA:
        return f"{LAMBDA}, with {MU} = {tokens(part['mu'].iloc[0])}"
    if name == ALONG_MU:
        return f"{MU_LABEL}, with {LAMBDA} = {part['lambda'].iloc[0]:.3f}"
    return f"{LAMBDA} and {MU}: RankNet's at 0, Direct's at 1"


def _alt(parts: Mapping[str, pd.DataFrame], measure: str) -> str:
    names = {ACROSS: "from RankNet's choice to Direct's", ALONG_LAMBDA: f"along {LAMBDA}"}
    sentences = [f"{measure} and the RankNet cost along the same lines."]
    for name, part in parts.items():
        lowest, best = part.iloc[int(np.argmin(part["cost"]))], part.iloc[part["train"].argmax()]
        here, there = float(lowest["train"]), float(best["train"])
        more = f", {100.0 * (there / here - 1.0):.1f} % more" if there > here > 0.0 else ""
        sentences.append(
            f"The line {names.get(name, f'along {MU}')}: the cost is lowest at "
            f"{setting(float(lowest['lambda']), float(lowest['mu']))}, where {measure} on the "
            f"training topics is {short(here)}; {measure} is highest at "
            f"{setting(float(best['lambda']), float(best['mu']))} with {short(there)}{more}."
        )
    return " ".join(sentences)
