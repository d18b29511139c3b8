"""Recall-precision curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lmtune.errors import InputError
from lmtune.measures.recall_precision import LEVELS
from lmtune.reporting.figures.style import COLUMN, finish, in_style, looks, new_figure, short

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
    highest = 0.0
    look = looks(list(curves))
    for name, values in curves.items():
        precision = np.asarray(values, np.float64)
        if precision.shape != LEVELS.shape:
            raise InputError(f"{name} has no precision at eleven recall levels", value=precision.shape)
        highest = max(highest, float(precision.max()))
        own = look[name]
        ax.plot(
            LEVELS,
            precision,
            color=own.color,
            ls=own.line,
            marker=own.marker,
            ms=3.5,
            markerfacecolor="white",
            mew=0.9,
            label=name,
            clip_on=False,
        )
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, min(1.0, 1.08 * highest) or 1.0)
    ax.set_xticks(LEVELS[::2])
    ax.set_xlabel("recall")
    ax.set_ylabel("interpolated precision")
    ax.legend(loc="upper right")
    if title:
        ax.set_title(title, loc="left")
    points = {
        name: [short(float(np.asarray(values)[place])) for place in (0, 5, 10)]
        for name, values in curves.items()
    }
    listed = "; ".join(f"{name} {', '.join(three)}" for name, three in points.items())
    return finish(figure, f"Interpolated precision at recall 0, 0.5 and 1: {listed}.")
