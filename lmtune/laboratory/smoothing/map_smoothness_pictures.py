"""A measure along lambda and mu by number of topics, and how rough it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmtune.reporting.figures.style import (
    LAMBDA,
    MU,
    MU_LABEL,
    PAGE,
    finish,
    in_style,
    log_ticks,
    looks,
    new_figure,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = "topics_"
"""What columns of the table ``curves`` begin with; the number of topics follows."""

_LINES = {"lambda": LAMBDA, "mu": MU_LABEL}
_CURVE = "#0072B2"


@in_style
def curves(table: pd.DataFrame, measure: str) -> Figure:
    """Draw curves of a few, of more and of all topics, each with a section blown up.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``curves`` of one measure.
    measure : str
        Its title.

    Returns
    -------
    matplotlib.figure.Figure
    """
    sizes = [int(name[len(COLUMN) :]) for name in map(str, table) if name.startswith(COLUMN)]
    shown = sorted({sizes[0], sizes[(len(sizes) - 1) // 2], sizes[-1]})
    figure, rows = new_figure(PAGE, 4.4, rows=2, columns=len(shown), sharex="row")
    described = []
    for axes, line in zip(rows, _LINES, strict=True):
        for ax, topics in zip(axes, shown, strict=True):
            own = table[table["line"] == line].rename(columns={f"{COLUMN}{topics}": "value"})
            whole, section = (own[own["part"] == part] for part in ("whole", "section"))
            _curve(ax, whole, section, line)
            ax.set_title(f"{topics:,} topics")
            value = whole["value"]
            described.append(
                f"{topics:,} topics along {_LINES[line]}: from {value.min():.4f} to {value.max():.4f}."
            )
        axes[0].set_ylabel(measure)
        axes[len(shown) // 2].set_xlabel(_LINES[line])
    figure.align_ylabels()
    return finish(
        figure,
        f"{measure} along {LAMBDA} and {MU_LABEL} through the best grid point, with a section "
        f"around it blown up. {' '.join(described)} The curves get smoother with more topics; "
        "the sections show that steps remain.",
    )


def _curve(ax: Axes, whole: pd.DataFrame, section: pd.DataFrame, line: str) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.plot(whole["position"], whole["value"], color=_CURVE, lw=0.8)
    low, high = whole["value"].min(), whole["value"].max()
    span = (high - low) or max(high, 1.0) * 0.01
    # The lower half of the panel is the section's.
    ax.set_ylim(low - 1.15 * span, high + 0.08 * span)
    ticks = MaxNLocator(4).tick_values(low, high)
    ax.set_yticks(ticks[(ticks >= low - 0.1 * span) & (ticks <= high + 0.08 * span)])
    inset = ax.inset_axes((0.25, 0.09, 0.73, 0.36))
    inset.plot(section["position"], section["value"], color=_CURVE, lw=0.8)
    inset.margins(x=0)
    bottom, top = section["value"].min(), section["value"].max()
    # A flat section is drawn no higher than the panel.
    room = 0.1 * (top - bottom) or 0.01 * span
    inset.set_ylim(bottom - room, top + room)
    inset.tick_params(labelsize=5.5, pad=1.5)
    inset.ticklabel_format(axis="y", useOffset=False)
    inset.yaxis.set_major_locator(MaxNLocator(3))
    for spine in inset.spines.values():
        spine.set_visible(True)
    if line == "mu":
        ax.set_xscale("log")
        log_ticks(ax.xaxis, *ax.get_xlim(), most=4)
    inset.xaxis.set_major_locator(MaxNLocator(3))
    ax.margins(x=0.02)
    ax.indicate_inset_zoom(inset, edgecolor="black", alpha=0.6, lw=0.6)


@in_style
def roughness_by_topics(table: pd.DataFrame, measure: str, smooth: float) -> Figure:
    """Draw the variation beyond one hill by number of topics, a line a step.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``roughness`` of one measure.
    measure : str
        Its title.
    smooth : float
        What is called smooth, as a share.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, [axes] = new_figure(PAGE, 2.9, columns=2, sharey=True)
    described = []
    for ax, line in zip(axes, _LINES, strict=True):
        own = table[table["line"] == line]
        steps = sorted(own["step"].unique().tolist())
        look = looks([str(step) for step in steps])
        for step in steps:
            part = own[own["step"] == step].sort_values("topics")
            drawn = {**look[str(step)].options(), "clip_on": False}
            ax.plot(part["topics"], 100.0 * part["excess"], label=f"{step:.2g}", **drawn)
            described.append(
                f"Along {_LINES[line]} at steps of {step:.2g}: "
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
        name = LAMBDA if line == "lambda" else f"log {MU}"
        ax.legend(title=f"step in {name}", loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[0].set_ylabel(f"variation of {measure}\nbeyond one hill, %")
    axes[0].annotate(
        "smooth",
        (0.02, 100.0 * smooth),
        xycoords=("axes fraction", "data"),
        xytext=(0, -2),
        textcoords="offset points",
        va="top",
        color="#444444",
        fontsize=7,
        zorder=5,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
    )
    return finish(
        figure,
        f"How much more {measure} goes up and down than a single hill, by number of topics; "
        f"{100 * smooth:g} % or less is called smooth. {' '.join(described)}",
    )
