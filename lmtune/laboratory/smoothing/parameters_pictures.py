"""What tuning takes and reaches by the number of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmtune.reporting.figures.style import PAGE, finish, in_style, legend_below, log_ticks, looks, new_figure
from lmtune.tuning.experiment.result import OPTIMAL

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@in_style
def growth(methods: pd.DataFrame, measure: str) -> Figure:
    """Draw settings, documents, seconds and the difference to Direct against the number of parameters.

    Parameters
    ----------
    methods : pandas.DataFrame
        The table ``methods`` of `lmtune.laboratory.smoothing.parameters.Parameters`.
    measure : str
        Its title.

    Returns
    -------
    matplotlib.figure.Figure
        Means over collections and models of as many free parameters.
    """
    means = (
        methods[methods["method"] != OPTIMAL]
        .groupby(["method", "parameters"], sort=False)
        .mean(numeric_only=True)
        .reset_index()
        .sort_values("parameters", kind="stable")
    )
    figure, rows = new_figure(PAGE, 4.4, rows=2, columns=2, sharex=True)
    axes = [ax for row in rows for ax in row]
    labels = {
        "evaluations": "settings a fold",
        "documents": "documents scored a fold",
        "seconds": "seconds a fold",
        "difference": f"{measure} held out, minus Direct's",
    }
    look = looks(means["method"].unique().tolist())
    described = []
    for method, own in means.groupby("method", sort=False):
        for ax, column in zip(axes, labels, strict=True):
            ax.plot(own["parameters"], own[column], label=method, **look[str(method)].options())
        shown = (
            f"{row['evaluations']:,.0f} settings and {row['difference']:+.4f} with {row['parameters']:.0f}"
            for row in own.to_dict("records")
        )
        described.append(f"{method}: {', '.join(shown)}.")
    for ax, label in zip(axes, labels.values(), strict=True):
        ax.set_ylabel(label)
    for ax in axes[:3]:
        ax.set_yscale("log")
        log_ticks(ax.yaxis, *ax.get_ylim())
    axes[3].axhline(0.0, color="#666666", lw=0.6, zorder=0)
    for ax in rows[1]:
        ax.set_xticks(sorted(means["parameters"].unique().tolist()))
        ax.set_xlabel("free parameters")
    legend_below(figure, 3)
    return finish(figure, f"Tuning by the number of free parameters, {measure}. " + " ".join(described))
