"""How many directions ascend from a choice of parameters, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lmtune.reporting.figures.style import PAGE, finish, in_style, looks, new_figure

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
        color, line, marker = look[method]
        every, clear = (100.0 * own[count] / own["inside"] for count in ("ascents", "clear_ascents"))
        drawn: dict[str, Any] = {"color": color, "ls": line, "clip_on": False}
        shares.plot(own["step"], every, marker=marker, label=f"{method}: any ascent", **drawn)
        shares.plot(
            own["step"],
            clear,
            marker=marker,
            mfc="white",
            lw=0.7,
            **drawn,
            label=f"{method}: clearly, beyond the jumps",
        )
        gains.plot(own["step"], own["largest"], marker=marker, label=method, **drawn)
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
    handles, labels = shares.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return finish(
        figure,
        f"Random directions in which {measure} ascends, by step size, and the largest change. "
        + " ".join(described),
    )
