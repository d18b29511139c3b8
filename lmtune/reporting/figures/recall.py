"""Recall-precision curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.measures.recall_precision import LEVELS
from lmtune.reporting.figures.style import COLUMN, finish, in_style, legend_below, looks, new_figure, short
from lmtune.reporting.table import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAME = 0.004  # of the axis' height: a third of a line's width


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
    drawn = {name: np.asarray(values, np.float64) for name, values in curves.items()}
    look = looks(list(curves))
    for name, precision in drawn.items():
        if precision.shape != LEVELS.shape:
            raise InputError(f"{name} has no precision at eleven recall levels", value=precision.shape)
    top = min(1.0, 1.08 * max(float(own.max()) for own in drawn.values())) or 1.0
    groups = _alike(drawn, _SAME * top)
    for place, names in enumerate(groups):
        # Each line has marks at levels of its own, so that none covers another's.
        marks: dict[str, Any] = {"markevery": (place % LEVELS.size, min(len(groups), LEVELS.size))}
        marks |= {"ms": 3.5, "markerfacecolor": "white", "mew": 0.9, "clip_on": False}
        label = listed(names) + (", as one" if len(names) > 1 else "")
        ax.plot(LEVELS, drawn[names[0]], **look[names[0]].options(), **marks, label=label)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, top)
    ax.set_xticks(LEVELS[::2])
    ax.set_xlabel("recall")
    ax.set_ylabel("interpolated precision")
    legend_below(figure, 3 if len(groups) == len(drawn) else 2)
    ax.set_title(title, loc="left")
    values = "; ".join(
        f"{name} {', '.join(short(float(precision[place])) for place in (0, 5, 10))}"
        for name, precision in drawn.items()
    )
    alike = "".join(
        f" {listed(names)} are drawn as one: nowhere are they {short(_SAME * top)} apart."
        for names in groups
        if len(names) > 1
    )
    return finish(figure, f"Interpolated precision at recall 0, 0.5 and 1: {values}.{alike}")


def _alike(curves: Mapping[str, NDArray[np.float64]], apart: float) -> list[list[str]]:
    """Put curves together that are nowhere so far apart from the first of them that it could be seen."""
    groups: list[list[str]] = []
    for name, own in curves.items():
        near = (group for group in groups if np.abs(own - curves[group[0]]).max() < apart)
        group = next(near, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups
