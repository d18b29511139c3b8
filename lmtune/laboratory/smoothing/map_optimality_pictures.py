"""How many directions ascend from a choice of parameters, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmtune.reporting.figures.style import PAGE, finish, in_style, legend_below, looks, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@in_style
def ascending(table: pd.DataFrame, *, measure: str) -> Figure:
    """Draw the share of directions that ascend, and the largest gain, by step size.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``ascents``.
    measure : str
        The measure's title.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.ticker import NullLocator

    figure, [[shares, gains]] = new_figure(PAGE, 2.6, columns=2)
    methods = table["method"].unique().tolist()
    look = looks(methods)
    steps = sorted(table["step"].unique().tolist())
    described = []
    for method in methods:
        own = table[(table["method"] == method) & (table["inside"] > 0)].sort_values("step")
        every, clear = (100.0 * own[count] / own["inside"] for count in ("ascents", "clear_ascents"))
        drawn = {**look[method].options(), "clip_on": False}
        shares.plot(own["step"], every, label=f"{method}: any ascent", **drawn)
        label = f"{method}: clearly, beyond the jumps"
        shares.plot(own["step"], clear, mfc="white", lw=0.7, label=label, **drawn)
        gains.plot(own["step"], own["largest"], **drawn)
        described.append(
            f"From {method}'s choice "
            + ", ".join(
                f"{share:.1f} % ({largest:+.5f} at most) at {step:g}"
                for share, largest, step in zip(every, own["largest"], own["step"], strict=True)
            )
            + "."
        )
    shares.set_ylim(0.0, None)
    shares.set_ylabel("directions that ascend, %")
    gains.axhline(0.0, color="#666666", lw=0.6, zorder=0.5)
    gains.set_ylabel(f"largest change of {measure}")
    for ax in (shares, gains):
        ax.set_xscale("log")
        ax.set_xticks(steps, [f"{step:g}" for step in steps])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("step in (logit λ, log μ)")
    legend_below(figure, 2)
    return finish(
        figure,
        f"Random directions in which {measure} ascends, by step size, and the largest change. "
        + " ".join(described),
    )
