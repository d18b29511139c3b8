"""How far surrogates' choices are from direct search's, and why RankNet's are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lmtune.laboratory.pictures import draw_panels
from lmtune.laboratory.surrogates.causes import PAIRS, SMOOTH
from lmtune.laboratory.surrogates.dimensions import HIDDEN
from lmtune.measures.measure import parse_measure
from lmtune.reporting.figures.style import PAGE, Picture, finish, in_style, legend_below, looks, new_figure
from lmtune.reporting.figures.surfaces import SurfacePanel, surface
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL, RANKNET

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@in_style
def differences(table: pd.DataFrame, *, margin: float) -> Figure:
    """Draw the differences to Direct with their intervals, a panel a collection.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of the table ``equivalence`` of one measure.
    margin : float
        Drawn as a band about 0; beyond five times as much the axis is logarithmic.

    Returns
    -------
    matplotlib.figure.Figure
        Intervals are those with topics and training sets crossed, of 90%.
    """
    from matplotlib.ticker import NullLocator

    datasets = table["dataset"].unique().tolist()
    judged = table[~table["method"].isin([DIRECT, OPTIMAL])]
    methods = judged["method"].unique().tolist()
    columns = min(len(datasets), 3)
    rows = -(-len(datasets) // columns)
    figure, panes = new_figure(PAGE, 2.3 * rows + 0.6, rows=rows, columns=columns, sharey=True)
    axes = [ax for line in panes for ax in line]
    look = looks(methods)
    described = []
    for ax, dataset in zip(axes, datasets, strict=False):
        here = judged[judged["dataset"] == dataset]
        sizes = here["topics"].unique().tolist()
        ax.axhspan(-margin, margin, color="#eeeeee", zorder=0)
        ax.axhline(0.0, color="#666666", lw=0.6, zorder=1)
        for number, method in enumerate(methods):
            mine = here[here["method"] == method]
            at = [sizes.index(topics) for topics in mine["topics"]]
            x = np.array(at) + 0.7 * ((number + 0.5) / len(methods) - 0.5)
            ends = np.abs(mine[["low_crossed", "high_crossed"]].to_numpy().T - mine["difference"].to_numpy())
            drawn = {**look[method].options(), "ls": "none", "ms": 3.0, "lw": 0.8}
            ax.errorbar(x, mine["difference"], yerr=ends, elinewidth=0.6, label=method, **drawn)
            shown = ", ".join(
                f"{difference:+.4f} with {topics}"
                for difference, topics in zip(mine["difference"], mine["topics"], strict=True)
            )
            described.append(f"{dataset}, {method}: {shown}.")
        ax.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        ax.set_xlabel("training topics")
        ax.set_title(dataset)
    axes[0].set_yscale("symlog", linthresh=5.0 * margin, linscale=2.0)
    ends = [-0.2, -0.05, -0.01, -margin, 0.0, margin, 0.01, 0.05]
    axes[0].set_yticks(ends, [f"{end:+.3g}" if end else "0" for end in ends])
    axes[0].yaxis.set_minor_locator(NullLocator())
    for ax in axes[len(datasets) :]:
        ax.set_visible(False)
    name = parse_measure(str(table["measure"].iloc[0])).title
    for line in panes:
        line[0].set_ylabel(f"{name} minus Direct's")
    legend_below(figure, 3)
    return finish(
        figure,
        f"{name} on test topics minus Direct's, with intervals of 90 %; the band is {margin:g} wide on "
        "either side. " + " ".join(described),
    )


def mends(table: pd.DataFrame) -> Picture:
    """Draw the loss at the lowest point of each objective, a line a collection, from the table ``causes``."""
    losses = table.assign(loss=100.0 * (1.0 - table["AP"] / table["best"]))
    labels = {"loss": "MAP below the grid's best, %"}
    caption = "RankNet's cost mended step by step"
    return draw_panels(losses, "causes", caption, x="objective", y=labels, lines="dataset")


def cost_surfaces(table: pd.DataFrame) -> Figure:
    """Draw MAP, RankNet's cost and the smooth AP over the parameters, with their best points.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of the table ``surfaces`` of one collection.

    Returns
    -------
    matplotlib.figure.Figure
        Of RankNet its lowest cost over its cost, so that higher is better on all panels; each best
        point is drawn on its own panel, RankNet's and Direct's on the other's too.
    """
    settings = list(zip(table["lambda"], table["mu"], strict=True))
    direct = {DIRECT: settings[int(table["AP"].argmax())]}
    ranknet = {RANKNET: settings[int(table[PAIRS].argmin())]}
    smooth = {SMOOTH: settings[int(table[SMOOTH].argmin())]}
    x, y = table["lambda"], table["mu"]
    panels = [
        SurfacePanel("MAP", x, y, table["AP"], points={**ranknet, **direct}),
        SurfacePanel(RANKNET, x, y, table[PAIRS].min() / table[PAIRS], points={**direct, **ranknet}),
        SurfacePanel(SMOOTH, x, y, -table[SMOOTH], points={**ranknet, **smooth}),
    ]
    return surface(panels, measure="each objective", title=str(table["dataset"].iloc[0]))


def dimensions(table: pd.DataFrame) -> Picture:
    """Draw the measure reached on made-up models, and evaluations, from the table ``parameters``."""
    means = table.groupby(["parameters", "method"], sort=False).mean(numeric_only=True).reset_index()
    hidden = means[means["method"] == HIDDEN].set_index("parameters")
    rest = means[means["method"] != HIDDEN].copy()
    for part in ("train", "test"):
        rest[part] -= hidden.loc[rest["parameters"], part].to_numpy()
    labels = {
        "train": "MAP minus the hidden weights'",
        "test": "the same, other topics",
        "evaluations": "evaluations",
    }
    caption = "MAP on made-up models as parameters grow in number"
    axes: dict[str, Any] = {"log": ("parameters", "evaluations"), "zero": ("train", "test")}
    return draw_panels(rest, "parameters", caption, x="parameters", y=labels, lines="method", **axes)
