"""Pictures of parameters: surfaces, choices of folds, the measure along parameters and weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles
from lmtune.errors import InputError
from lmtune.fusion.fusing import FusedRow, FusionResult
from lmtune.fusion.methods import fused_pool
from lmtune.fusion.runs import RunSet, prune_for_measure
from lmtune.fusion.search import Line, Steps, coordinate_line, join_steps
from lmtune.io.result_folders import file_name
from lmtune.io.rows import Qrels
from lmtune.report.figures.style import (
    COLUMN,
    PAGE,
    TWO_STAGE,
    Look,
    ParameterAxis,
    Picture,
    canvas,
    drawable,
    finish,
    in_style,
    legend_below,
    log_ticks,
    looks,
    new_figure,
    new_panels,
    setting,
    short,
    thin_outline,
)
from lmtune.report.table import listed
from lmtune.tuning.experiment.result import DEFAULT
from lmtune.tuning.experiment.run import BEST

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Percent below the best. The bands have unequal width: equal steps would hide the summit.
_BANDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 100.0)
_RASTERIZED = 20_000


@dataclass(frozen=True)
class SurfacePanel:
    """A measure over a grid, with paths, points and regions to draw on it.

    Attributes
    ----------
    title : str
        The title, such as ``"training topics"``.
    x, y, values : array_like, shape (settings,)
        A full grid in any order, as in `Surface` and ``surfaces/*.csv``.
    paths : mapping of str to sequence of (x, y)
        Search paths by method, drawn as iterates joined by lines.
    evaluations : mapping of str to (x, y)
        Evaluated settings by method, drawn as dots.
    points : mapping of str to (x, y)
        The chosen setting of each method.
    boxes : pandas.DataFrame, optional
        `CertifiedOptimum.boxes_`: the region that may have a better setting. The rest is excluded, and
        drawn pale.
    near : array_like of bool, shape (settings,), optional
        The mask of the near-optimal region: settings that are proven to be near the best one.
    """

    title: str
    x: ArrayLike
    y: ArrayLike
    values: ArrayLike
    paths: Mapping[str, Sequence[tuple[ArrayLike, ArrayLike]]] = field(default_factory=dict)
    evaluations: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    boxes: pd.DataFrame | None = None
    near: ArrayLike | None = None

    @property
    def best(self) -> tuple[float, float, float]:
        """The best point of the grid: x, y, value; the first of ties."""
        values = np.asarray(self.values, np.float64)
        at = int(values.argmax())
        return float(np.asarray(self.x)[at]), float(np.asarray(self.y)[at]), values[at]

    def matrix(self, values: ArrayLike | None = None) -> tuple[Doubles, Doubles, Doubles]:
        """Return the two axes and the values, shape (y, x), or other values of the same settings.

        Raises
        ------
        InputError
            If the settings are not a full grid.
        """
        xs, column = np.unique(np.asarray(self.x, np.float64), return_inverse=True)
        ys, row = np.unique(np.asarray(self.y, np.float64), return_inverse=True)
        matrix = np.full((ys.size, xs.size), np.nan)
        matrix[row, column] = self.values if values is None else values
        if row.size != matrix.size or not row.size or np.isnan(matrix).any():
            raise InputError(
                "the settings of a surface are not a full grid",
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
    """Draw a measure over two parameters, in percent below its best value.

    Parameters
    ----------
    panels : sequence of SurfacePanel
        Drawn side by side, with the same axes and colours.
    axes : sequence of two ParameterAxis
        The parameters x and y; their names are in the columns of boxes.
    measure : str
        The measure's title, such as ``"MAP"``.
    title : str
        The title above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        If a panel is not a full grid.
    """
    width = COLUMN if len(panels) == 1 else PAGE
    figure, [panes] = new_figure(width, 3.1, columns=len(panels), sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    for ax, panel in zip(panes, panels, strict=True):
        ax.set(**{f"{which}scale": "log" for which, axis in zip("xy", axes, strict=True) if axis.is_log})
        _heat(ax, panel, axes)
        _overlay(ax, panel, axes, handles)
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


def _below(values: Doubles) -> Doubles:
    """Return the distance of values from the highest, in percent of it."""
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
    """Return matplotlib's options for one colour a band."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm, ListedColormap

    asked = canvas()
    asked.is_coloured = True
    try:
        cmap = colormaps.get_cmap(asked.cmap or "cividis")
    except ValueError:
        raise InputError("unknown cmap", value=asked.cmap, accepted="a colour map of matplotlib") from None
    # The best band is the brightest, because points and lines on it are dark.
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
        # The heat map, drawn again inside the region, hides the inner half of the outline and the lines
        # between boxes.
        ax.add_patch(PathPatch(region, facecolor="none", edgecolor="black", lw=1.1, zorder=1.2))
        inner = draw()
        inner.set_zorder(1.3)
        inner.set_clip_path(region, ax.transData)
        inner.set_gid("certified region")
    ax.set_xlim(limits[0])
    ax.set_ylim(limits[1])


def _outline(panel: SurfacePanel, axes: Sequence[ParameterAxis]) -> list[tuple[Any, Any]]:
    """Return the sides of the cells in the near-optimal region that border on others."""
    xs, ys, mask = panel.matrix(panel.near)
    x, y = (_edges(values, log=axis.is_log) for values, axis in zip((xs, ys), axes, strict=True))
    inside = np.pad(mask > 0.0, 1)
    upright = np.argwhere(inside[1:-1, 1:] != inside[1:-1, :-1]).tolist()
    level = np.argwhere(inside[1:, 1:-1] != inside[:-1, 1:-1]).tolist()
    return [((x[c], y[r]), (x[c], y[r + 1])) for r, c in upright] + [
        ((x[c], y[r]), (x[c + 1], y[r])) for r, c in level
    ]


def _edges(axis: Doubles, *, log: bool) -> Doubles:
    """Return the edges of the cells around an axis' points."""
    points: Doubles = np.log(axis) if log else axis
    if points.size == 1:
        edges = np.array([points[0] - 0.05, points[0] + 0.05])
    else:
        middle = 0.5 * (points[1:] + points[:-1])
        edges = np.concatenate((points[:1], middle, points[-1:]))
    if log:
        np.exp(edges, out=edges)
    return edges


def _corners(boxes: pd.DataFrame, axes: Sequence[ParameterAxis]) -> Doubles:
    """Return the lower and upper bounds of boxes, shape (axes, 2, boxes)."""
    return np.array(
        [[boxes[f"{axis.name}_{end}"].to_numpy() for end in ("low", "high")] for axis in axes], np.float64
    )


def _region(corners: Doubles) -> Any:
    """Return the union of boxes as a compound path; all boxes have the same orientation."""
    from matplotlib.path import Path

    (x0, x1), (y0, y1) = corners
    vertices = np.stack([x0, y0, x1, y0, x1, y1, x0, y1, x0, y0], axis=1).reshape(-1, 2)
    codes = np.tile([Path.MOVETO, *3 * [Path.LINETO], Path.CLOSEPOLY], x0.size)
    return Path(vertices, codes)


def _overlay(ax: Axes, panel: SurfacePanel, axes: Sequence[ParameterAxis], handles: dict[str, Any]) -> None:
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
    # Sizes decrease, so that coinciding points remain visible.
    for size, (name, point) in zip(itertools.count(10.5, -2.3), panel.points.items(), strict=False):
        draw(name, *point, outline=2.4, ms=max(size, 3.0), mec="black", mew=0.9, zorder=6, clip_on=False)
    if panel.near is not None:
        from matplotlib.collections import LineCollection

        lines = LineCollection(_outline(panel, axes), ls="--", lw=1.1, zorder=5, color="black")
        lines.set_path_effects(thin_outline(2.4))
        handles.setdefault("proven near-optimal (all topics)", ax.add_collection(lines, autolim=False))
    if panel.boxes is not None:
        from matplotlib.patches import Patch

        patch = Patch(facecolor="none", edgecolor="black", lw=1.1)
        handles.setdefault("a better setting is possible", patch)


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
        text += f" The near-optimal region has {int(np.sum(panel.near))} of the grid points."
    if panel.boxes is not None:
        text += f" {_certificate_text(panel, panel.boxes, axes)}"
    return text


def _certificate_text(panel: SurfacePanel, boxes: pd.DataFrame, axes: Sequence[ParameterAxis]) -> str:
    if not len(boxes):
        return "The certificate proves that no setting in the range is better than Optimal."
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
    return f"A better setting is possible in {len(boxes):,} boxes{area}, {ranges}."


_MARK: dict[str, Any] = {"ls": "none", "mec": "black", "mew": 0.6, "ms": 5, "zorder": 5}


@in_style
def best_profiles(
    lines: pd.DataFrame,
    axes: Sequence[ParameterAxis],
    chosen: Mapping[str, Mapping[str, float]],
    *,
    measure: str,
    title: str = "",
) -> Figure:
    """Draw the measure along each parameter through Direct's choice, with the choices of other methods.

    Parameters
    ----------
    lines : pandas.DataFrame
        A table of `lmtune.tuning.experiment.run.measure_profiles`, or of ``lines/*.csv``.
    axes : sequence of ParameterAxis
        The parameters to draw.
    chosen : mapping of str to mapping of str to float
        By method, the chosen parameters, and the measure there as ``train``.
    measure : str
        The measure's title, such as ``"MAP"``.
    title : str
        The title above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A panel a parameter. Marks off the curves are settings that differ in other parameters too.

    Raises
    ------
    InputError
        If the table has no line through Direct's choice.
    """
    parts = {axis: lines[lines["line"] == f"{BEST}{axis.name}"].sort_values("position") for axis in axes}
    parts = {axis: part for axis, part in parts.items() if len(part)}
    if not parts:
        raise InputError("no line to draw", accepted="a table of lmtune.tuning.experiment.run")
    figure, panels, columns = new_panels(len(parts), 1.9, above=0.6, width=PAGE, sharey=True)
    look = looks(list(chosen))
    for ax, (axis, part) in zip(panels, parts.items(), strict=True):
        for column, style in (("train", "-"), ("test", "--")):
            label = f"measure, {column.replace('train', 'training')} topics"
            ax.plot(part["position"], part[column], color="#666666", lw=1.0, ls=style, label=label)
        for method, setting_ in chosen.items():
            options = look[method].options() | _MARK
            ax.plot(setting_[axis.name], setting_["train"], clip_on=False, label=method, **options)
        ax.set_xlabel(axis.label)
        if axis.is_log:
            ax.set_xscale("log")
            log_ticks(ax.xaxis, *ax.get_xlim(), most=4)
        ax.margins(x=0.02)
    for ax in panels[::columns]:
        ax.set_ylabel(measure)
    legend_below(figure, 4)
    sentences = [f"{measure} along each parameter through Direct's choice."]
    for axis, part in parts.items():
        best = part.iloc[int(part["train"].argmax())]
        others = ", ".join(f"{method} {axis.text(options[axis.name])}" for method, options in chosen.items())
        sentences.append(
            f"Along {axis.symbol} it is {short(float(part['train'].min()))} to {short(float(best['train']))} "
            f"on the training topics, highest at {axis.text(float(best['position']))}; chosen: {others}."
        )
    return finish(figure, " ".join(sentences), title)


_NUMBERED = 10
_BESIDE = 9.0  # width of a number, in pixels at 100 an inch
_WIDTH = 0.5
# Minimum lengths of an axis, because a shorter one exaggerates small differences.
_LEAST, _LEAST_RATIO = 0.2, 10.0
_OFFSETS = ((-5, 4, "right"), (5, 4, "left"), (-5, -9, "right"), (5, -9, "left"))


@in_style
def parameter_spread(
    parameters: pd.DataFrame, axes: Sequence[ParameterAxis] = TWO_STAGE, *, title: str = ""
) -> Figure:
    """Draw the parameters of each fold, method and measure.

    Parameters
    ----------
    parameters : pandas.DataFrame
        Columns measure, method, fold, and the parameters by name; for example one collection's rows of
        ``parameters.csv``.
    axes : sequence of ParameterAxis
        The parameters. Two are drawn as a plane with a point for each fold. Otherwise each parameter has
        a row of panels, with a column of points for each method.
    title : str
        The title above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A column of panels for each measure, on the same axes. The points of a plane have fold numbers if
        there are at most 10 folds. `alt_text` describes it.

    Raises
    ------
    InputError
        If the table is empty.
    """
    if not len(parameters):
        raise InputError("no parameters to draw", accepted="one fold or more")
    measures = list(dict.fromkeys(parameters["measure"]))
    look = looks(list(dict.fromkeys(parameters["method"])))
    width = COLUMN if len(measures) == 1 else PAGE
    plane = len(axes) == 2
    rows_of = axes[1:] if plane else axes
    height = 2.7 if plane else 0.9 + 1.2 * len(axes)
    shape = {"rows": len(rows_of), "columns": len(measures)}
    figure, rows = new_figure(width, height, sharex=True, sharey="row", **shape)
    for column, measure in enumerate(measures):
        rows[0][column].set_title(measure, loc="left")
        rows[-1][column].set_xlabel(axes[0].label if plane else "each method's folds")
        of_measure = parameters[parameters["measure"].eq(measure)]
        for number, (method, style) in enumerate(look.items()):
            part = of_measure[of_measure["method"].eq(method)]
            if plane:
                across, up = (part[axis.name] for axis in axes)
                # Sizes decrease, so that coinciding points remain visible.
                _points(rows[0][column], across, up, method, style, max(8.0 - 1.3 * number, 3.0))
            else:
                places = number + _WIDTH * (np.arange(len(part)) / max(len(part) - 1, 1) - 0.5)
                for row, axis in zip(rows, axes, strict=True):
                    _points(row[column], places, part[axis.name], method, style, 4.0)
    for row, axis in zip(rows, rows_of, strict=True):
        row[0].set_ylabel(axis.label)
        _set_range(row[0], "y", parameters, axis)
    if plane:
        _set_range(rows[0][0], "x", parameters, axes[0])
        if parameters["fold"].max() <= _NUMBERED:
            for names, part in parameters.groupby(["measure", "method"], sort=False):
                title_, method = map(str, names)
                number = list(look).index(method)
                _number_folds(rows[0][measures.index(title_)], part, axes, number, look[method])
    else:
        rows[0][0].set(xlim=(-0.5, len(look) - 0.5), xticks=[])
    legend_below(figure, 6 if width > COLUMN else 3)
    return finish(figure, _spread_alt(parameters, axes), title)


def _number_folds(
    ax: Axes, part: pd.DataFrame, axes: Sequence[ParameterAxis], number: int, look: Look
) -> None:
    """Write fold numbers beside the points; coinciding points share one text."""
    right, above, align = _OFFSETS[number % len(_OFFSETS)]
    near: dict[str, Any] = {"textcoords": "offset points", "ha": align, "color": look.color}
    points = part[[axis.name for axis in axes]].to_numpy(np.float64)
    pixels = ax.transData.transform(points)
    left = list(range(len(points)))
    while left:
        beside = [point for point in left if np.hypot(*(pixels[point] - pixels[left[0]])) < _BESIDE]
        text = ", ".join(str(fold) for fold in part["fold"].iloc[beside])
        ax.annotate(text, tuple(points[left[0]]), (right, above), **near, fontsize=6.5)
        left = [point for point in left if point not in beside]


def _points(ax: Axes, x: ArrayLike, y: ArrayLike, method: str, look: Look, size: float) -> None:
    hollow: dict[str, Any] = {"ls": "none", "markerfacecolor": "none", "ms": size, "mew": 1.2}
    ax.plot(np.asarray(x), np.asarray(y), **look.options() | hollow, label=method)


def _set_range(ax: Axes, which: str, parameters: pd.DataFrame, axis: ParameterAxis) -> None:
    """Set the range of an axis, x or y, to the chosen values, widened if small."""
    values = parameters[axis.name].to_numpy()
    if axis.is_log and values.min() > 0.0:
        low, high = np.exp(_limits(np.log(values), np.log(_LEAST_RATIO)))
        ax.set(**{f"{which}scale": "log"})
        ax.set(**{f"{which}lim": (low, high)})
        log_ticks(ax.yaxis if which == "y" else ax.xaxis, low, high)
    elif axis.is_log:  # fixed at 0, as by Jelinek-Mercer smoothing
        ax.set(**{f"{which}ticks": [0.0]})
    else:
        ax.set(**{f"{which}lim": _limits(values, _LEAST)})


def _limits(values: Doubles, least: float) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    more = max(0.5 * (least - (high - low)), 0.12 * (high - low))
    return low - more, high + more


def _spread_alt(parameters: pd.DataFrame, axes: Sequence[ParameterAxis]) -> str:
    folds = parameters["fold"].nunique()
    sentences = [f"Chosen {listed([axis.label for axis in axes])} over {folds} folds."]
    for (measure, method), part in parameters.groupby(["measure", "method"], sort=False):
        ranges = ", ".join(_range_text(part[axis.name].to_numpy(), axis) for axis in axes)
        sentences.append(f"{method} for {measure}: {ranges}.")
    return " ".join(sentences)


def _range_text(values: Doubles, axis: ParameterAxis) -> str:
    text = f"{axis.label} from {axis.text(values.min())} to {axis.text(values.max())}"
    if not axis.is_log:
        return text
    spread = float(np.exp(np.std(np.log(values)))) if values.min() > 0.0 else 1.0
    return f"{text} (geometric standard deviation {spread:.2f})"


_LONGEST_NAME = 24
_DRAWN = 1000  # steps of a line; with more, as many intervals with their ranges
CHOSEN, FOLDS = "all topics' choice", "folds' choices"


def fusion_pictures(result: FusionResult, runs: RunSet, qrels: Qrels) -> Iterator[Picture]:
    """Draw the measure along each run's weight, for each tuned row.

    Parameters
    ----------
    result : FusionResult
        The result of `lmtune.fusion.fusing.fuse_runs`.
    runs, qrels
        The runs and judgments of the result.
    """
    for row in result.rows:
        if not row.flat:
            continue
        whole = fused_pool(runs, row.chosen, result.options, qrels, result.topics)
        pool, depth = prune_for_measure(whole, row.measure, result.options.depth)
        line = Line(pool, row.measure, pool.positions(), depth)
        here = np.array([row.chosen.shares[name] for name in runs.names])
        lines = {
            name: join_steps(line.steps(*coordinate_line(here, run)))
            for run, name in enumerate(runs.names[: None if here.size > 2 else 1])
        }
        title = f"{row.measure.title}, {row.chosen.method}"
        stem = file_name(f"{row.measure}-{row.chosen.method}-weights")
        yield Picture(stem, f"{title}: weights", weight_profiles(lines, row, title=title))


@in_style
def weight_profiles(lines: Mapping[str, Steps], row: FusedRow, *, title: str = "") -> Figure:
    """Draw the in-sample mean along each run's weight share, with the other runs in proportion.

    Parameters
    ----------
    lines : mapping of str to Steps
        By run, the mean over its share from 0 to 1.
    row : FusedRow
        The weights of all topics and of each fold, the flat range, and the interval.
    title : str
        The title above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A panel a run. Lines with more than 1,000 steps are drawn as ranges over thousandths of the line.
    """
    figure, panels, columns = new_panels(len(lines), 1.9, sharey=True)
    for ax, (name, steps) in zip(panels, lines.items(), strict=True):
        _draw_weight(ax, name, steps, row)
        ax.set_xlabel(f"share of {drawable(name, _LONGEST_NAME)}")
    for ax in panels[::columns]:
        ax.set_ylabel(f"{row.measure.title}, in sample")
    legend_below(figure, 2 if columns == 1 else 5)
    text = f"{row.measure.title} in sample along each run's share, with the other runs in proportion."
    for name, steps in lines.items():
        best = int(steps.value.argmax())
        text += (
            f" {name}: {short(float(steps.value[0]))} at 0, {short(float(steps.value[-1]))} at 1, "
            f"{steps.at.size:,} steps, highest {short(float(steps.value[best]))}; "
            f"chosen {short(row.chosen.shares[name])}."
        )
    return finish(figure, text, title)


def _draw_weight(ax: Axes, name: str, steps: Steps, row: FusedRow) -> None:
    look = looks([CHOSEN, FOLDS])
    low, high = row.flat[name]
    ax.axvspan(low, high, color="#F0E442", alpha=0.45, lw=0, zorder=0, label="at most 0.001 below")
    if name in row.interval:
        end: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "solid_capstyle": "butt"}
        ax.plot(
            row.interval[name],
            (0.02, 0.02),
            color="#56B4E9",
            lw=3,
            label="95% CI (jackknife over folds)",
            **end,
        )
    if steps.at.size <= _DRAWN:
        edges = np.repeat(np.append(steps.at, steps.end), 2)[1:-1]
        ax.plot(edges, np.repeat(steps.value, 2), color="#555555", lw=0.7, label="the measure")
    else:
        ax.fill_between(*_ranges(steps), color="#555555", lw=0.5, label="the measure")
    if row.folds:
        shares = [fold.shares[name] for fold in row.folds]
        down: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ls": "none", "clip_on": False}
        ax.plot(shares, [0.07] * len(shares), marker="^", ms=4, color=look[FOLDS].color, label=FOLDS, **down)
    point: dict[str, Any] = look[CHOSEN].options() | {"ls": "none", "ms": 4.5, "zorder": 5, "clip_on": False}
    ax.plot(row.chosen.shares[name], row.in_sample, label=CHOSEN, **point)
    ax.set_xlim(0.0, 1.0)
    ax.margins(y=0.12)


def _ranges(steps: Steps) -> tuple[Doubles, Doubles, Doubles]:
    """Return the midpoints of the intervals of the line, and the lowest and highest value on each."""
    edges = np.linspace(0.0, 1.0, _DRAWN + 1)[:-1]
    at_edges = steps.value[np.searchsorted(steps.at, edges, "right") - 1]
    at = np.concatenate((edges, steps.at))
    order = np.argsort(at, kind="stable")
    value = np.concatenate((at_edges, steps.value))[order]
    first = np.flatnonzero(order < _DRAWN)
    lowest, highest = np.minimum.reduceat(value, first), np.maximum.reduceat(value, first)
    return edges + 0.5 / _DRAWN, lowest, highest
