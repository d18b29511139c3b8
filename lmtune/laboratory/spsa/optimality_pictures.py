"""Pictures of local optimality: ascending directions, and single weights' sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lmtune.reporting.figures.style import PAGE, Picture, finish, in_style, log_ticks, looks, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_CLEARLY = 3.0


@in_style
def draw_directions(counts: pd.DataFrame, *, title: str, share: float) -> Picture:
    """Draw the share of directions that ascend by step size, and the largest ascent.

    Parameters
    ----------
    counts : pandas.DataFrame
        The table ``directions`` of `lmtune.laboratory.spsa.optimality.Optimality`.
    title : str
        The measure's.
    share : float
        The share that is to be bounded.
    """
    networks, losses = (list(dict.fromkeys(counts[name])) for name in ("network", "loss"))
    figure, axes = new_figure(
        PAGE,
        4.4,
        rows=2,
        columns=len(networks),
        sharex=True,
        sharey="row",
        gridspec_kw={"height_ratios": (1.3, 1.0)},
    )
    look, words = looks(losses), []
    for column, network in enumerate(networks):
        top, bottom = axes[0][column], axes[1][column]
        for loss in losses:
            own = counts[(counts["network"] == network) & (counts["loss"] == loss)]
            own = own.sort_values("step")
            style = {**look[loss].options(), "label": loss}
            inside = own["directions"] - own["outside"]
            top.plot(own["step"], 100.0 * own["ascents"] / inside, **style)
            with np.errstate(divide="ignore", invalid="ignore"):
                height = np.maximum(own["largest"], 0.0) / own["noise"]
            bottom.plot(own["step"], height, **style)
            listed = ", ".join(f"{n} at {s:g}" for n, s in zip(own["ascents"], own["step"], strict=True))
            words.append(f"{network} by {loss} {listed}")
        top.set_title(f"{network} net")
        _line(top, 100.0 * share, f"{100.0 * share:g}%", 1.0)
        _line(bottom, _CLEARLY, "what jumps come to", _CLEARLY)
        bottom.set_xscale("log")
        log_ticks(bottom.xaxis, float(counts["step"].min()), float(counts["step"].max()))
        bottom.set_xlabel("step, relative to the weights' norm")
    number = int(counts["directions"].iloc[0])
    axes[0][0].set_ylabel(f"% of {number} directions\nin which {title} ascends")
    axes[0][0].set_yscale("symlog", linthresh=1.0, linscale=0.4)
    axes[0][0].set_yticks([0, 1, 3, 10, 30, 100], ["0", "1", "3", "10", "30", "100"])
    axes[0][0].minorticks_off()
    axes[0][0].set_ylim(-0.25, 110)
    axes[1][0].set_ylabel("largest ascent\n(× noise of jumps)")
    axes[1][0].set_ylim(-0.15, None)
    axes[0][-1].legend(loc="upper right")
    alt = (
        f"Directions of {number} in which mean {title} of the training queries ascends from "
        f"trained nets, by step: {'; '.join(words)}."
    )
    caption = f"Random directions in which {title} ascends from trained nets"
    return Picture("directions", caption, finish(figure, alt))


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
        The table ``sweeps`` of `lmtune.laboratory.spsa.optimality.Optimality`.
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
            own = sweeps[(sweeps["network"] == network) & (sweeps["loss"] == loss)]
            panel.axhline(0.0, color="0.8", linewidth=0.6, zorder=0)
            panel.axvline(0.0, color="0.8", linewidth=0.6, zorder=0)
            for _, curve in own.groupby("weight", sort=False):
                [each] = panel.plot(curve["shift"], curve["gain"], linewidth=0.5, color="#0072B2", alpha=0.45)
            best = own.groupby("shift")["gain"].max()
            [highest] = panel.plot(best.index, best, linewidth=1.2, color="#D55E00")
            panel.set_title(f"{network}, {loss}")
            words.append(f"{network} by {loss} {own['gain'].max():.5f}")
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
