"""Pictures of experiments: lines with bands or points with intervals of a long table, declared as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lmtune.measures.significance.effects import confidence_interval
from lmtune.reporting.figures.style import (
    PAGE,
    Look,
    Picture,
    drawable,
    finish,
    in_style,
    legend_below,
    log_ticks,
    looks,
    new_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VALUE = ""
"""The column of what `stacked` puts below each other, whose label is its panel's."""

# From the lowest to the highest of what is shown on a logarithmic axis.
_MANY = 50.0
_ROOM = 0.8
_TICKS = 8
_LISTED, _DESCRIBED = 8, 40
# Letters of a name that goes beside others.
_SHORT, _LONGEST = 8, 24
_THIN: dict[str, Any] = {"color": "#0072B2", "lw": 0.5, "alpha": 0.45}


@dataclass(frozen=True)
class Chart:
    """How a long table is drawn: a panel a name, and in it a line a name.

    Names of columns are the axes' labels. An axis is logarithmic where all of a panel's values are
    positive and wide apart, and words stand side by side.

    Attributes
    ----------
    x, y : str
        Columns.
    line, panel : str
        Columns of the lines' and of the panels' names; empty for one alone.
    low, high : str
        Columns of a band about lines, of an interval about points.
    dots : bool
        Points, those of different lines side by side, instead of lines.
    bold : str, optional
        The line that stands out; the others are thin and have no names.
    levels : mapping of str to sequence of float
        By panel, and by "" for the rest, heights to compare with.
    symlog : float
        Where an axis across zero begins to be logarithmic; 0 for nowhere.
    late : bool
        Whether the second half of the lines chooses what is shown.
    wide : int
        Panels side by side.
    same : bool
        Whether all panels have one scale.
    """

    x: str
    y: str = VALUE
    line: str = ""
    panel: str = ""
    low: str = ""
    high: str = ""
    dots: bool = False
    bold: str | None = None
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)
    symlog: float = 0.0
    late: bool = False
    wide: int = 3
    same: bool = False

    @in_style
    def draw(self, table: pd.DataFrame, name: str, caption: str, group: str = "", says: str = "") -> Picture:
        """Draw a table; ``says`` begins the alternative text after the caption."""
        panels, lines = _parts(table, self.panel), _parts(table, self.line)
        words = _words(table[self.x])
        sideways = self.dots and max(map(len, words), default=0) > _SHORT
        height = 1.0 + 0.2 * len(words) if sideways else 1.8
        figure, axes, wide = new_panels(
            len(panels), height, above=0.8, width=PAGE, most=self.wide, sharey=self.same
        )
        for ax, (title, part) in zip(axes, panels.items(), strict=True):
            self._panel(ax, title, part, looks(list(lines)), words if sideways else [])
        below, beside = (self.y, self.x) if sideways else (self.x, self.y)
        for ax in axes[-wide:]:
            ax.set_xlabel(below)
        figure.supylabel(fill(beside, 12 + 22 * -(-len(axes) // wide)), fontsize=8.0)
        if self.line:
            legend_below(figure, 4)
        alt = " ".join([f"{caption}.", *([says] if says else []), *self._described(panels)])
        return Picture(name, caption, finish(figure, alt), group)

    def _panel(
        self, ax: Axes, title: str, part: pd.DataFrame, look: Mapping[str, Look], upright: list[str]
    ) -> None:
        words = _words(part[self.x])
        if self.symlog:
            (ax.set_xscale if upright else ax.set_yscale)("symlog", linthresh=self.symlog)
        for number, (name, points) in enumerate(_parts(part, self.line).items()):
            column = points[self.x]
            places: NDArray[Any] = np.array([*map(words.index, column)]) if words else column.to_numpy()
            if self.dots:
                places = places + 0.7 * ((number + 0.5) / len(look) - 0.5)
            self._draw(ax, name, look[name], (places, points), number, upright=bool(upright))
        for height in self.levels.get(title, self.levels.get("", ())):
            (ax.axvline if upright else ax.axhline)(height, color="0.4", lw=0.6, ls=(0, (3, 2)), zorder=0.5)
        ax.set_title(title, loc="left")
        if words:
            (ax.yaxis if upright else ax.xaxis).set_ticks(
                range(len(words)), [drawable(word, _LONGEST) if upright else fill(word, 16) for word in words]
            )
            if upright:
                ax.set_ylim(len(words) - 0.5, -0.5)
        elif not _scaled(ax, "x", part[self.x]) and part[self.x].nunique() <= _TICKS:
            ax.set_xticks(sorted(part[self.x].unique().tolist()))
        if self.symlog:
            # Panels with one axis: the first that goes below 0 has it do so.
            ax.set_ylim(0.0 if part[self.y].min() >= 0.0 and ax.get_ylim()[0] >= 0.0 else None)
        elif self.late:
            _to_end(ax, part[self.x], part[[self.low or self.y, self.high or self.y]])
        else:
            _scaled(ax, "x" if upright else "y", part[self.y])

    def _draw(
        self,
        ax: Axes,
        name: str,
        look: Look,
        at: tuple[NDArray[Any], pd.DataFrame],
        number: int,
        *,
        upright: bool,
    ) -> None:
        """Draw a line or its points, with what is about it."""
        places, points = at
        values = points[self.y].to_numpy(np.float64)
        ends = points[[self.low, self.high]].to_numpy(np.float64).T if self.low else None
        if self.dots:
            x, y = (values, places) if upright else (places, values)
            error = {} if ends is None else {"xerr" if upright else "yerr": np.abs(ends - values)}
            drawn = {**look.options(), "ls": "none", "ms": 3.5, "elinewidth": 0.8, **error}
            ax.errorbar(x, y, label=name, **drawn)
        elif self.bold not in (None, name):
            ax.plot(places, values, **_THIN)
        else:
            if ends is not None:
                ax.fill_between(places, *ends, color=look.color, alpha=0.15, lw=0)
            # Markers of different lines stand at different places.
            step = max(1, len(values) // _TICKS)
            every = (min(number % step, len(values) - 1), step)
            ax.plot(places, values, label=name, markevery=every, ms=3.5, **look.options())

    def _described(self, panels: Mapping[str, pd.DataFrame]) -> list[str]:
        """Say what each line shows: all points of a few, the ends and the range of many."""
        said = []
        for title, part in panels.items():
            for name, points in _parts(part, self.line).items():
                if self.bold in (None, name):
                    pairs = list(zip(points[self.x].map(_short), points[self.y].map(_short), strict=True))
                    few = ", ".join(f"{value} ({at})" for at, value in pairs)
                    low, high = points[self.y].min(), points[self.y].max()
                    many = f"{pairs[0][1]} at {pairs[0][0]}, {pairs[-1][1]} at {pairs[-1][0]}"
                    many += f", between {_short(low)} and {_short(high)}"
                    lead = ", ".join(word for word in (" ".join(title.split()), name) if word)
                    said.append(f"{lead}: {few if len(pairs) <= _LISTED else many}.".lstrip(": "))
        return said[:_DESCRIBED]


def stacked(table: pd.DataFrame, keys: Sequence[str], columns: Mapping[str, str]) -> pd.DataFrame:
    """Put columns below each other, as the panels of a `Chart`: their titles in a column ``panel``."""
    renamed = table.rename(columns=dict(columns))
    return renamed.melt([*keys], [*columns.values()], "panel", VALUE)


def intervals(table: pd.DataFrame, keys: Sequence[str], column: str) -> pd.DataFrame:
    """Average a column by some others: its mean with the 95% interval's half, ends, and count."""
    rows = []
    for values, group in table.groupby([*keys], sort=False):
        mean, half = confidence_interval(group[column].tolist())
        rows.append((*values, mean, half, mean - half, mean + half, len(group)))
    return pd.DataFrame(rows, columns=[*keys, "mean", "half", "low", "high", "count"])


def _parts(table: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    if not column:
        return {"": table}
    return {str(name): part for name, part in table.groupby(column, sort=False)}


def _words(column: pd.Series[Any]) -> list[str]:
    """Return the different words of a column, none of one of numbers."""
    return [] if pd.api.types.is_numeric_dtype(column) else list(dict.fromkeys(column))


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _scaled(ax: Axes, axis: str, values: pd.Series[Any]) -> bool:
    """Make an axis logarithmic where its values are positive and far apart."""
    low, high = values.min(), values.max()
    if not 0.0 < _MANY * low <= high < np.inf:
        return False
    ax.set(**{f"{axis}scale": "log"})
    log_ticks(getattr(ax, f"{axis}axis"), *getattr(ax, f"get_{axis}lim")(), most=4)
    return True


def _to_end(ax: Axes, x: pd.Series[Any], ends: pd.DataFrame) -> None:
    """Show what the second half needs, and some of the way there."""
    late = ends[x >= (x.min() + x.max()) / 2.0]
    low, high = float(late.min().min()), float(late.max().max())
    room = _ROOM * ((high - low) or 1e-3)
    ax.set_ylim(max(low - room, ax.get_ylim()[0]), min(high + room, ax.get_ylim()[1]))
