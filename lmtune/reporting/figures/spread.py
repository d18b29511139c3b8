"""The parameters that each fold chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.reporting.figures.style import (
    COLUMN,
    LAMBDA,
    MU_LABEL,
    PAGE,
    finish,
    in_style,
    log_ticks,
    looks,
    new_figure,
    tokens,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_NUMBERED = 10
# A smaller part of the plane would make small differences look large.
_LEAST_LAMBDA, _LEAST_MU = 0.2, 10.0
_OFFSETS = ((-5, 4, "right"), (5, 4, "left"), (-5, -9, "right"), (5, -9, "left"))


@in_style
def parameter_spread(parameters: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw (lambda, mu) of every fold, method and measure.

    Parameters
    ----------
    parameters : pandas.DataFrame
        Columns measure, method, fold, lambda, mu, such as one collection's rows of
        ``parameters.csv``; a panel a measure, on the same axes.
    title : str
        Put above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A point a fold, its number beside it where there are at most 10. `alt_text` describes it.

    Raises
    ------
    InputError
        For an empty table.
    """
    if not len(parameters):
        raise InputError("no parameters to draw", accepted="one fold or more")
    measures = list(dict.fromkeys(parameters["measure"]))
    methods = list(dict.fromkeys(parameters["method"]))
    width = COLUMN if len(measures) == 1 else PAGE
    figure, [axes] = new_figure(width, 2.7, columns=len(measures), sharex=True, sharey=True)
    look = looks(methods)
    numbered = parameters["fold"].nunique() <= _NUMBERED
    for ax, measure in zip(axes, measures, strict=True):
        for place, method in enumerate(methods):
            chosen = parameters["measure"].eq(measure) & parameters["method"].eq(method)
            part = parameters[chosen]
            own = look[method]
            # Hollow, and smaller one by one: what lies on top of another leaves it in sight.
            ax.plot(
                part["lambda"].to_numpy(),
                part["mu"].to_numpy(),
                ls="none",
                marker=own.marker,
                color=own.color,
                markerfacecolor="none",
                ms=max(8.0 - 1.3 * place, 3.0),
                mew=1.2,
                label=method,
            )
            if numbered:
                right, up, align = _OFFSETS[place % len(_OFFSETS)]
                for fold, lambda_, mu in part[["fold", "lambda", "mu"]].itertuples(index=False):
                    ax.annotate(
                        str(fold),
                        (lambda_, mu),
                        (right, up),
                        textcoords="offset points",
                        ha=align,
                        color=own.color,
                        fontsize=6.5,
                    )
        ax.set_title(measure, loc="left")
        ax.set_xlabel(LAMBDA)
    axes[0].set_xlim(*_limits(parameters["lambda"].to_numpy(), _LEAST_LAMBDA))
    if parameters["mu"].min() > 0.0:
        axes[0].set_yscale("log")
        low, high = np.exp(_limits(np.log(parameters["mu"].to_numpy()), np.log(_LEAST_MU)))
        axes[0].set_ylim(low, high)
        log_ticks(axes[0].yaxis, low, high)
    else:  # Jelinek-Mercer smoothing: mu is 0
        axes[0].set_yticks([0.0])
    axes[0].set_ylabel(MU_LABEL)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(methods), 6 if width > COLUMN else 3)
    )
    if title:
        figure.suptitle(title, fontsize="medium")
    return finish(figure, _alt(parameters))


def _limits(values: NDArray[np.float64], least: float) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    more = max(0.5 * (least - (high - low)), 0.12 * (high - low))
    return low - more, high + more


def _alt(parameters: pd.DataFrame) -> str:
    folds = parameters["fold"].nunique()
    sentences = [f"Chosen {LAMBDA} and {MU_LABEL} over {folds} folds."]
    for (measure, method), part in parameters.groupby(["measure", "method"], sort=False):
        lambdas, mus = part["lambda"], part["mu"]
        spread = float(np.exp(np.std(np.log(mus)))) if mus.min() > 0.0 else 1.0
        sentences.append(
            f"{method} for {measure}: {LAMBDA} from {lambdas.min():.3f} to {lambdas.max():.3f}, "
            f"{MU_LABEL} from {tokens(mus.min())} to {tokens(mus.max())} (geometric standard "
            f"deviation {spread:.2f})."
        )
    return " ".join(sentences)
