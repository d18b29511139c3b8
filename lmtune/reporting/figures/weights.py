"""How much weights of terms depend on each feature, by the folds of each method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lmtune.errors import InputError
from lmtune.measures.significance.effects import mean_interval
from lmtune.models.weighted import THETA
from lmtune.reporting.figures.style import COLUMN, finish, in_style, legend_below, looks, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_PREFIX = f"{THETA.name}_"
_APART = 0.7


@in_style
def feature_weights(parameters: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw the mean theta of each feature over folds, by method, with 95% intervals (Student's t).

    Parameters
    ----------
    parameters : pandas.DataFrame
        Columns method, fold, and the parameters by name, of which those that begin with ``theta_`` are
        drawn, such as one collection's and measure's rows of ``parameters.csv``.
    title : str
        Put above.

    Returns
    -------
    matplotlib.figure.Figure
        A line of points a feature; one fold has no interval. Folds share training topics, so that
        intervals are narrower than those of new topics. `alt_text` describes it.

    Raises
    ------
    InputError
        For a table without features.
    """
    features = [str(name) for name in parameters.columns if str(name).startswith(_PREFIX)]
    if not features or not len(parameters):
        raise InputError("no features of terms to draw", accepted="columns such as theta_idf")
    look, said = looks(list(dict.fromkeys(parameters["method"]))), []
    figure, [[ax]] = new_figure(COLUMN, 0.9 + 0.35 * len(features))
    for number, (method, style) in enumerate(look.items()):
        own = parameters.loc[parameters["method"].eq(method), features].to_numpy(np.float64)
        means, ends = own.mean(axis=0), np.tile(own[0], (2, 1))
        if len(own) > 1:
            ends = np.array([mean_interval(values, np.zeros(len(own))) for values in own.T]).T
            ends = np.where(np.isnan(ends), means, ends)
        up = np.arange(len(features)) + _APART * ((number + 0.5) / len(look) - 0.5)
        options = style.options() | {"ls": "none", "ms": 4.0, "mew": 1.0, "markerfacecolor": "none"}
        ax.errorbar(means, up, xerr=np.abs(ends - means), elinewidth=0.8, label=method, **options)
        names = (name.removeprefix(_PREFIX) for name in features)
        said.append(f"{method}: {', '.join(f'{n} {m:+.2f}' for n, m in zip(names, means, strict=True))}")
    ax.axvline(0.0, color="black", lw=0.6)
    ax.set_yticks(range(len(features)), [name.removeprefix(_PREFIX) for name in features])
    ax.set(ylim=(len(features) - 0.5, -0.5), xlabel="theta: above 0, the feature makes terms heavier")
    ax.set_title(title, loc="left")
    legend_below(figure, 3)
    return finish(
        figure, f"Mean theta by feature, {len(parameters['fold'].unique())} folds. {'; '.join(said)}."
    )
