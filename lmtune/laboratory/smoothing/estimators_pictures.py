"""What each method's choices lose against the best known, fold by fold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lmtune.measures.measure import parse_measure
from lmtune.reporting.figures.style import PAGE, finish, in_style, legend_below, looks, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@in_style
def losses(table: pd.DataFrame, *, what: str) -> Figure:
    """Draw each fold's loss, method beside method, joined where they are of one fold.

    Parameters
    ----------
    table : pandas.DataFrame
        From `lmtune.laboratory.smoothing.estimators.relative_losses`.
    what : str
        What the folds are, for the alternative text.

    Returns
    -------
    matplotlib.figure.Figure
        A panel a measure; black bars are means.
    """
    measures = table["measure"].unique().tolist()
    datasets = table["dataset"].unique().tolist()
    methods = table["method"].unique().tolist()
    figure, [axes] = new_figure(PAGE, 2.6, columns=len(measures), sharey=True)
    look = looks(methods)
    described = []
    for ax, measure in zip(axes, measures, strict=True):
        for place, dataset in enumerate(datasets):
            own = table[(table["measure"] == measure) & (table["dataset"] == dataset)]
            at = [place * (len(methods) + 1) + number for number in range(len(methods))]
            values = np.array([100.0 * own[own["method"] == method]["loss"].to_numpy() for method in methods])
            ax.plot(at, values, color="#999999", lw=0.5, zorder=1)
            for x, method, losses_ in zip(at, methods, values, strict=True):
                dots = {**look[method].options(), "ls": "none", "mfc": "none", "zorder": 2}
                label = method if place == 0 else None
                ax.plot(np.full(losses_.size, x), losses_, label=label, **dots)
                bar = "mean" if place == 0 and method == methods[-1] else None
                ax.plot(
                    [x - 0.28, x + 0.28], [losses_.mean()] * 2, color="black", lw=1.6, zorder=3, label=bar
                )
                described.append(
                    f"{dataset} {parse_measure(measure).title} {method}: {losses_.mean():.2f} % on "
                    f"average, at worst {losses_.max():.2f} %."
                )
        middle = [place * (len(methods) + 1) + 0.5 * (len(methods) - 1) for place in range(len(datasets))]
        ax.set_xticks(middle, datasets)
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.7, len(datasets) * (len(methods) + 1) - 1.3)
        ax.set_title(parse_measure(measure).title)
    axes[0].set_ylim(bottom=min(0.0, axes[0].get_ylim()[0]))
    axes[0].set_ylabel("below Optimal, %")
    legend_below(figure, len(methods) + 1)
    return finish(
        figure,
        f"How far {', '.join(methods)} are below Optimal on the test topics, over {what}. "
        + " ".join(described),
    )
