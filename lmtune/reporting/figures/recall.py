"""Recall-precision curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lmtune.errors import InputError
from lmtune.measures.recall_precision import LEVELS
from lmtune.reporting.figures.style import COLUMN, finish, in_style, legend_below, looks, new_figure, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@in_style
def recall_precision_curves(curves: Mapping[str, ArrayLike], *, title: str = "") -> Figure:
    """Draw eleven-point interpolated precision of several systems.

    Parameters
    ----------
    curves : mapping of str to array_like of float, shape (11,)
        By system, the precision at recall 0, 0.1, ..., 1; see
        `lmtune.measures.recall_precision.recall_precision`.
    title : str
        Put above.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        For no curve, or one with another number of points.
    """
    if not curves:
        raise InputError("no recall-precision curve", accepted="one system or more")
    figure, [[ax]] = new_figure(COLUMN, 2.6)
    look = looks(list(curves))
    drawn = {name: np.asarray(values, np.float64) for name, values in curves.items()}
    for name, precision in drawn.items():
        if precision.shape != LEVELS.shape:
            raise InputError(f"{name} has no precision at eleven recall levels", value=precision.shape)
        hollow: dict[str, Any] = {"ms": 3.5, "markerfacecolor": "white", "mew": 0.9}
        ax.plot(LEVELS, precision, **look[name].options(), **hollow, label=name, clip_on=False)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, min(1.0, 1.08 * max(float(own.max()) for own in drawn.values())) or 1.0)
    ax.set_xticks(LEVELS[::2])
    ax.set_xlabel("recall")
    ax.set_ylabel("interpolated precision")
    legend_below(figure, 3)
    ax.set_title(title, loc="left")
    listed = "; ".join(
        f"{name} {', '.join(short(float(precision[place])) for place in (0, 5, 10))}"
        for name, precision in drawn.items()
    )
    return finish(figure, f"Interpolated precision at recall 0, 0.5 and 1: {listed}.")
