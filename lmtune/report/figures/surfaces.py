"""The measure over two parameters, with optimisers' paths and certified regions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.report.figures.style import (
    COLUMN,
    PAGE,
    TWO_STAGE,
    ParameterAxis,
    canvas,
    finish,
    in_style,
    legend_below,
    log_ticks,
    looks,
    new_figure,
    setting,
    short,
    thin_outline,
)
from lmtune.tuning.experiment.result import DEFAULT

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# How far below the best, in percent; bands, because equal steps of colour hide the summit.
_BANDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 100.0)
_RASTERIZED = 20_000


@dataclass(frozen=True)
class SurfacePanel:
    """A measure over a grid, and what to draw on it.

    Attributes
    ----------
    title : str
        Such as ``"training topics"``.
    x, y, values : array_like, shape (settings,)
        A full grid in any order, as `Surface` and ``surfaces/*.csv`` have it.
    paths : mapping of str to sequence of (x, y)
        Search paths of optimisers, several a name: iterates joined by lines.
    evaluations : mapping of str to (x, y)
        Settings that were measured, as dots.
    points : mapping of str to (x, y)
        What methods chose.
    boxes : pandas.DataFrame, optional
        `CertifiedOptimum.boxes_`: the region that may hold a better setting; all else is
        excluded, and drawn pale.
    near : (low x, high x), (low y, high y), optional
        The box in which no grid point is significantly worse than the recommended setting.
    """

    title: str
    x: ArrayLike
    y: ArrayLike
    values: ArrayLike
    paths: Mapping[str, Sequence[tuple[ArrayLike, ArrayLike]]] = field(default_factory=dict)
    evaluations: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    boxes: pd.DataFrame | None = None
    near: tuple[tuple[float, float], tuple[float, float]] | None = None

    @property
    def best(self) -> tuple[float, float, float]:
        """The grid's best point: x, y, value; the first of equals."""
        values = np.asarray(self.values, np.float64)
        at = int(values.argmax())
        return float(np.asarray(self.x)[at]), float(np.asarray(self.y)[at]), values[at]

    def matrix(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the axes and the values, shape (rows, columns).

        Raises
        ------
        InputError
            Where the settings are no full grid.
        """
        xs, column = np.unique(np.asarray(self.x, np.float64), return_inverse=True)
        ys, row = np.unique(np.asarray(self.y, np.float64), return_inverse=True)
        matrix = np.full((ys.size, xs.size), np.nan)
        matrix[row, column] = self.values
        if row.size != matrix.size or not row.size or np.isnan(matrix).any():
            raise InputError(
                "the settings of a surface are no full grid",
                value=f"{row.size} settings, {xs.size} by {ys.size} values",
                accepted="every value of one parameter with every value of the other",
            )
        return xs, ys, matrix


@in_style
def surface(
    panels: Sequence[SurfacePanel],
    axes: Sequence[ParameterAxis] = TWO_STAGE,
    *,
    measure: str,
    title: str = "",
) -> Figure:
    """Draw how far below its best a measure is, over two parameters.

    Parameters
    ----------
    panels : sequence of SurfacePanel
        Drawn side by side, on the same axes and colours.
    axes : sequence of two ParameterAxis
        What x and y are; the columns of boxes are called by their names.
    measure : str
        The measure's title, such as ``"MAP"``.
    title : str
        Put above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        For a panel that is no full grid.
    """
    width = COLUMN if len(panels) == 1 else PAGE
    figure, [panes] = new_figure(width, 3.1, columns=len(panels), sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    for ax, panel in zip(panes, panels, strict=True):
        ax.set(**{f"{which}scale": "log" for which, axis in zip("xy", axes, strict=True) if axis.is_log})
        _heat(ax, panel, axes)
        _overlay(ax, panel, handles)
        ax.set_title(f"{panel.title}: best on the grid {short(panel.best[2])}", loc="left")
        ax.set_xlabel(axes[0].label)
    for ticks, axis in ((panes[0].xaxis, axes[0]), (panes[0].yaxis, axes[1])):
        if axis.is_log:
            log_ticks(ticks, *ticks.get_view_interval())
    panes[0].set_ylabel(axes[1].label)
    _colour_bar(figure, panes, f"{measure} below the grid's best")
    if handles:
        legend_below(figure, 2 if len(panels) == 1 else 3, handles)
    over = f"{measure} over {axes[0].label} and {axes[1].label}. "
    return finish(figure, over + " ".join(_alt(panel, axes) for panel in panels), title)


def _below(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far values are below the highest, in percent of it."""
    best = float(values.max())
    loss = np.zeros_like(values) if best == 0.0 else 100.0 * (best - values) / abs(best)
    return np.clip(loss, 0.0, 100.0)


def _colour_bar(figure: Figure, panes: Sequence[Axes], label: str) -> None:
    from matplotlib.cm import ScalarMappable

    drawn = ScalarMappable(**_colours())
    bar = figure.colorbar(drawn, ax=panes, spacing="uniform", ticks=_BANDS[1:-1], pad=0.02)
    bar.ax.set_yticklabels([f"{band:g} %" for band in _BANDS[1:-1]])
    bar.ax.invert_yaxis()
    bar.ax.tick_params(length=0)
    bar.set_label(label)


def _colours() -> dict[str, Any]:
    """Return matplotlib's options of a colour a band."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm, ListedColormap

    asked = canvas()
    asked.is_coloured = True
    try:
        cmap = colormaps.get_cmap(asked.cmap or "cividis")
    except ValueError:
        raise InputError("unknown cmap", value=asked.cmap, accepted="a colour map of matplotlib") from None
    # The best is brightest: what is drawn on it is dark.
    shades = cmap(np.linspace(1.0, 0.12, len(_BANDS) - 1))
    return {"cmap": ListedColormap(shades), "norm": BoundaryNorm(_BANDS, len(_BANDS) - 1)}


def _heat(ax: Axes, panel: SurfacePanel, axes: Sequence[ParameterAxis]) -> None:
    xs, ys, matrix = panel.matrix()
    loss = _below(matrix)

    def draw() -> Any:
        drawn: Any
        look = {**_colours(), "zorder": 1}
        if min(matrix.shape) > 1:
            drawn = ax.contourf(xs, ys, loss, levels=_BANDS, antialiased=False, **look)
        else:
            edges = (_edges(values, log=axis.is_log) for values, axis in zip((xs, ys), axes, strict=True))
            drawn = ax.pcolormesh(*edges, loss, **look)
        drawn.set_rasterized(matrix.size > _RASTERIZED)
        return drawn

    draw()
    limits = ax.get_xlim(), ax.get_ylim()
    if panel.boxes is not None and len(panel.boxes):
        from matplotlib.patches import PathPatch, Rectangle

        region = _region(_corners(panel.boxes, axes))
        pale = Rectangle((0, 0), 1, 1, transform=ax.transAxes, facecolor="white", alpha=0.65)
        pale.set_zorder(1.1)
        ax.add_patch(pale)
        # The inner half of the outline, and all lines between boxes, vanish below the heat map
        # that is drawn once more inside the region.
        ax.add_patch(PathPatch(region, facecolor="none", edgecolor="black", lw=1.1, zorder=1.2))
        inner = draw()
        inner.set_zorder(1.3)
        inner.set_clip_path(region, ax.transData)
        inner.set_gid("certified region")
    ax.set_xlim(limits[0])
    ax.set_ylim(limits[1])


def _edges(axis: NDArray[np.float64], *, log: bool) -> NDArray[np.float64]:
    """Return the edges of cells around an axis' points."""
    points: NDArray[np.float64] = np.log(axis) if log else axis
    if points.size == 1:
        edges = np.array([points[0] - 0.05, points[0] + 0.05])
    else:
        middle = 0.5 * (points[1:] + points[:-1])
        edges = np.concatenate((points[:1], middle, points[-1:]))
    if log:
        np.exp(edges, out=edges)
    return edges


def _corners(boxes: pd.DataFrame, axes: Sequence[ParameterAxis]) -> NDArray[np.float64]:
    """Return the lower and upper bounds of boxes, shape (axes, 2, boxes)."""
    return np.array(
        [[boxes[f"{axis.name}_{end}"].to_numpy() for end in ("low", "high")] for axis in axes], np.float64
    )


def _region(corners: NDArray[np.float64]) -> Any:
    """Return the union of boxes as a compound path; all turn the same way."""
    from matplotlib.path import Path

    (x0, x1), (y0, y1) = corners
    vertices = np.stack([x0, y0, x1, y0, x1, y1, x0, y1, x0, y0], axis=1).reshape(-1, 2)
    codes = np.tile([Path.MOVETO, *3 * [Path.LINETO], Path.CLOSEPOLY], x0.size)
    return Path(vertices, codes)


def _overlay(ax: Axes, panel: SurfacePanel, handles: dict[str, Any]) -> None:
    names = [*panel.evaluations, *panel.paths, *panel.points]
    look = looks(list(dict.fromkeys(name.partition(":")[0] for name in names)))

    def draw(name: str, x: ArrayLike, y: ArrayLike, outline: float = 0.0, **options: Any) -> None:
        style = look[name.partition(":")[0]]
        options = {"marker": style.marker, "color": style.color, "ls": "none"} | options
        if outline:
            options["path_effects"] = thin_outline(outline)
        [line] = ax.plot(np.asarray(x), np.asarray(y), **options)
        handles.setdefault(name.replace(":", ""), line)

    for name, points in panel.evaluations.items():
        draw(name, *points, marker=".", ms=3.0, mew=0, zorder=3)
    for name, paths in panel.paths.items():
        for path in paths:
            draw(name, *path, outline=1.5, ls="-", lw=0.9, ms=2.4, mew=0, zorder=4)
    # Each smaller than the one below it, so that all that chose the same are seen.
    for size, (name, point) in zip(itertools.count(10.5, -2.3), panel.points.items(), strict=False):
        draw(name, *point, outline=2.4, ms=max(size, 3.0), mec="black", mew=0.9, zorder=6, clip_on=False)
    if panel.near is not None:
        from matplotlib.patches import Rectangle

        corners = list(zip(*panel.near, strict=True))
        extent = [high - low for low, high in panel.near]
        box = Rectangle(corners[0], *extent, fill=False, ls="--", lw=1.1, zorder=5, edgecolor="black")
        box.set_path_effects(thin_outline(2.4))
        handles.setdefault("not significantly worse, on all topics", ax.add_patch(box))
    if panel.boxes is not None:
        from matplotlib.patches import Patch

        patch = Patch(facecolor="none", edgecolor="black", lw=1.1)
        handles.setdefault("a better setting is not excluded", patch)


def _alt(panel: SurfacePanel, axes: Sequence[ParameterAxis]) -> str:
    *best, value = panel.best
    values = np.asarray(panel.values, np.float64)
    text = (
        f"On the {panel.title} the best of {values.size} grid points is {short(value)} at "
        f"{setting(axes, best)}; {np.mean(values >= 0.99 * value):.0%} of them are within 1 % "
        f"of it, and the worst is {short(float(values.min()))}."
    )
    for name, point in panel.points.items():
        text += f" {name} {'is' if name == DEFAULT else 'chose'} {setting(axes, point)}."
    if panel.near is not None:
        ends = [setting(axes, corner) for corner in zip(*panel.near, strict=True)]
        text += f" No point from {ends[0]} to {ends[1]} is significantly worse than the recommended setting."
    if panel.boxes is not None:
        text += f" {_left(panel, panel.boxes, axes)}"
    return text


def _left(panel: SurfacePanel, boxes: pd.DataFrame, axes: Sequence[ParameterAxis]) -> str:
    if not len(boxes):
        return "The certificate excludes that any setting of the range is better than Optimal."
    corners = _corners(boxes, axes)
    ranges = ", ".join(
        f"{axis.label} from {axis.text(low.min())} to {axis.text(high.max())}"
        for axis, (low, high) in zip(axes, corners, strict=True)
    )
    sides = [
        np.log(high / low) if a.is_log else high - low for a, (low, high) in zip(axes, corners, strict=True)
    ]
    whole = math.prod(
        float(np.ptp(np.log(values) if axis.is_log else values))
        for axis, values in zip(axes, panel.matrix(), strict=False)
    )
    area = f" ({float((sides[0] * sides[1]).sum()) / whole:.1%} of the area)" if whole > 0.0 else ""
    return f"The certificate leaves {len(boxes):,} boxes{area} for a better setting, {ranges}."
