"""The measure over (lambda, log mu), with the optimisers' paths and the certified region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    setting,
    short,
    thin_outline,
    tokens,
)

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
    lambdas, mus, values : array_like, shape (settings,)
        A full grid in any order, as `Surface` and ``surfaces/*.csv`` have it.
    paths : mapping of str to sequence of (lambdas, mus)
        Ways of optimisers, several a name: iterates joined by lines.
    evaluations : mapping of str to (lambdas, mus)
        Settings that were measured, as dots.
    points : mapping of str to (lambda, mu)
        What methods chose.
    boxes : pandas.DataFrame, optional
        `CertifiedOptimum.boxes_`: the region that may hold a better setting; all else is
        excluded, and drawn pale.
    """

    title: str
    lambdas: ArrayLike
    mus: ArrayLike
    values: ArrayLike
    paths: Mapping[str, Sequence[tuple[ArrayLike, ArrayLike]]] = field(default_factory=dict)
    evaluations: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    boxes: pd.DataFrame | None = None

    @property
    def best(self) -> tuple[float, float, float]:
        """The grid's best point: lambda, mu, value; the first of equals."""
        values = np.asarray(self.values, np.float64)
        at = int(values.argmax())
        return float(np.asarray(self.lambdas)[at]), float(np.asarray(self.mus)[at]), values[at]

    def matrix(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the axes and the values, shape (mus, lambdas).

        Raises
        ------
        InputError
            Where the settings are no full grid.
        """
        lambdas, column = np.unique(np.asarray(self.lambdas, np.float64), return_inverse=True)
        mus, row = np.unique(np.asarray(self.mus, np.float64), return_inverse=True)
        matrix = np.full((mus.size, lambdas.size), np.nan)
        matrix[row, column] = self.values
        if row.size != matrix.size or not row.size or np.isnan(matrix).any():
            raise InputError(
                "the settings of a surface are no full grid",
                value=f"{row.size} settings, {lambdas.size} lambdas, {mus.size} mus",
                accepted="every lambda with every mu",
            )
        return lambdas, mus, matrix


@in_style
def surface(panels: Sequence[SurfacePanel], *, measure: str, title: str = "") -> Figure:
    """Draw how far below its best a measure is, over lambda and log mu.

    Parameters
    ----------
    panels : sequence of SurfacePanel
        Drawn side by side, on the same axes and colours.
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
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm

    width = COLUMN if len(panels) == 1 else PAGE
    figure, [axes] = new_figure(width, 3.1, columns=len(panels), sharex=True, sharey=True)
    colours = _colours()
    norm = BoundaryNorm(_BANDS, len(_BANDS) - 1)
    handles: dict[str, Any] = {}
    for ax, panel in zip(axes, panels, strict=True):
        _heat(ax, panel, colours, norm)
        _overlay(ax, panel, handles)
        ax.set_title(f"{panel.title}: best on the grid {short(panel.best[2])}", loc="left")
        ax.set_xlabel(LAMBDA)
    log_ticks(axes[0].yaxis, *axes[0].get_ylim())
    axes[0].set_ylabel(MU_LABEL)
    bar = figure.colorbar(
        ScalarMappable(norm, colours), ax=axes, spacing="uniform", ticks=_BANDS[1:-1], pad=0.02
    )
    bar.ax.set_yticklabels([f"{band:g} %" for band in _BANDS[1:-1]])
    bar.ax.invert_yaxis()
    bar.ax.tick_params(length=0)
    bar.set_label(f"{measure} below the grid's best")
    if handles:
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=2 if len(panels) == 1 else 3
        )
    if title:
        figure.suptitle(title, fontsize="medium")
    return finish(figure, f"{measure} over {LAMBDA} and {MU_LABEL}. " + " ".join(map(_alt, panels)))


def _colours() -> Any:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    # The best is brightest: what is drawn on it is dark.
    return ListedColormap(colormaps["cividis"](np.linspace(1.0, 0.12, len(_BANDS) - 1)))


def _heat(ax: Axes, panel: SurfacePanel, colours: Any, norm: Any) -> None:
    lambdas, mus, matrix = panel.matrix()
    best = panel.best[2]
    loss = np.zeros_like(matrix) if best == 0.0 else 100.0 * (best - matrix) / abs(best)
    loss = np.clip(loss, 0.0, 100.0)

    def draw() -> Any:
        drawn: Any
        if min(matrix.shape) > 1:
            drawn = ax.contourf(
                lambdas, mus, loss, levels=_BANDS, cmap=colours, norm=norm, zorder=1, antialiased=False
            )
        else:
            edges = _edges(lambdas, log=False), _edges(mus, log=True)
            drawn = ax.pcolormesh(*edges, loss, cmap=colours, norm=norm, zorder=1)
        drawn.set_rasterized(matrix.size > _RASTERIZED)
        return drawn

    ax.set_yscale("log")
    draw()
    limits = ax.get_xlim(), ax.get_ylim()
    if panel.boxes is not None and len(panel.boxes):
        from matplotlib.patches import PathPatch, Rectangle

        region = _region(panel.boxes)
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


def _region(boxes: pd.DataFrame) -> Any:
    """Return the union of boxes as a compound path; all turn the same way."""
    from matplotlib.path import Path

    x0, x1, y0, y1 = boxes[["lambda_low", "lambda_high", "mu_low", "mu_high"]].to_numpy().T
    corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1, x0, y0], axis=1).reshape(-1, 2)
    codes = np.tile([Path.MOVETO, *3 * [Path.LINETO], Path.CLOSEPOLY], len(boxes))
    return Path(corners, codes)


def _overlay(ax: Axes, panel: SurfacePanel, handles: dict[str, Any]) -> None:
    names = [*panel.evaluations, *panel.paths, *panel.points]
    look = looks(list(dict.fromkeys(name.partition(":")[0] for name in names)))
    for name, (lambdas, mus) in panel.evaluations.items():
        own = look[name.partition(":")[0]]
        [line] = ax.plot(np.asarray(lambdas), np.asarray(mus), ".", color=own.color, ms=3.0, mew=0, zorder=3)
        handles.setdefault(name.replace(":", ""), line)
    for name, ways in panel.paths.items():
        own = look[name.partition(":")[0]]
        for lambdas, mus in ways:
            [line] = ax.plot(
                np.asarray(lambdas),
                np.asarray(mus),
                "-",
                color=own.color,
                lw=0.9,
                marker=own.marker,
                ms=2.4,
                mew=0,
                zorder=4,
                path_effects=thin_outline(1.5),
            )
            handles.setdefault(name.replace(":", ""), line)
    for name, (lambda_, mu) in panel.points.items():
        own = look[name]
        [line] = ax.plot(
            lambda_,
            mu,
            linestyle="none",
            marker=own.marker,
            color=own.color,
            ms=6.5,
            mec="black",
            mew=0.9,
            zorder=6,
            path_effects=thin_outline(2.4),
            clip_on=False,
        )
        handles.setdefault(name, line)
    if panel.boxes is not None:
        from matplotlib.patches import Patch

        patch = Patch(facecolor="none", edgecolor="black", lw=1.1)
        handles.setdefault("a better setting is not excluded", patch)


def _alt(panel: SurfacePanel) -> str:
    lambda_, mu, value = panel.best
    values = np.asarray(panel.values, np.float64)
    text = (
        f"On the {panel.title} the best of {values.size} grid points is {short(value)} at "
        f"{setting(lambda_, mu)}; {np.mean(values >= 0.99 * value):.0%} of them are within 1 % "
        f"of it, and the worst is {short(float(values.min()))}."
    )
    for name, point in panel.points.items():
        text += f" {name} chose {setting(*point)}."
    if panel.boxes is not None:
        text += f" {_left(panel)}"
    return text


def _left(panel: SurfacePanel) -> str:
    boxes = panel.boxes
    if boxes is None or not len(boxes):
        return "The certificate excludes that any setting of the range is better than Optimal."
    low, high = boxes[["lambda_low", "mu_low"]].min(), boxes[["lambda_high", "mu_high"]].max()
    lambdas, mus, _ = panel.matrix()
    whole = np.ptp(lambdas) * np.ptp(np.log(mus))
    area = (boxes["lambda_high"] - boxes["lambda_low"]) * np.log(boxes["mu_high"] / boxes["mu_low"])
    share = f" ({float(area.sum()) / whole:.1%} of the area)" if whole > 0.0 else ""
    return (
        f"The certificate leaves {len(boxes):,} boxes{share} for a better setting, {LAMBDA} from "
        f"{low['lambda_low']:.3f} to {high['lambda_high']:.3f}, {MU_LABEL} from "
        f"{tokens(low['mu_low'])} to {tokens(high['mu_high'])}."
    )
