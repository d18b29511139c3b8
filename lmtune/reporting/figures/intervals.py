"""A comparison of systems: mean differences with their intervals, and differences on each topic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lmtune.errors import InputError
from lmtune.measures.significance.contrasts import Comparison, Contrast
from lmtune.reporting.figures.style import (
    COLUMN,
    PAGE,
    Picture,
    drawable,
    finish,
    in_style,
    looks,
    new_figure,
    short,
)
from lmtune.reporting.figures.topics import topic_differences
from lmtune.reporting.result_folder import file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST_NAME = 24
_MOST_PANELS = 3  # side by side


@in_style
def difference_intervals(comparison: Comparison, *, title: str = "") -> Figure:
    """Draw each contrast's mean difference and its confidence interval.

    Parameters
    ----------
    comparison : Comparison
        What `lmtune.compare` returns.
    title : str
        Put above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A panel a measure, a line a contrast; points are full where the difference is significant
        after correction. `alt_text` describes it.
    """
    measures = comparison.measures
    columns = min(len(measures), _MOST_PANELS)
    rows = -(-len(measures) // columns)
    height = rows * (0.9 + 0.24 * comparison.family) + 0.2
    width = COLUMN if columns == 1 else PAGE
    figure, panes = new_figure(width, height, rows=rows, columns=columns, sharey=True)
    places = [ax for row in panes for ax in row]
    for ax, measure in zip(places, measures, strict=False):
        own = [contrast for contrast in comparison.contrasts if contrast.measure == measure]
        _draw(ax, own, comparison)
        ax.set_title(measure, loc="left")
    for ax in places[len(measures) :]:
        ax.set_axis_off()
    share = f"{100 * comparison.options.confidence:g}% interval"
    together = " (together)" if comparison.interval_confidence > comparison.options.confidence else ""
    figure.supxlabel(f"mean difference, {share}{together}; full: significant", fontsize="medium")
    return finish(figure, " ".join(_alt(own, comparison, share) for own in comparison.contrasts), title)


def contrast_differences(
    comparison: Comparison,
    system: str | None = None,
    *,
    against: str | None = None,
    measure: str | None = None,
    title: str = "",
) -> Figure:
    """Draw one contrast's differences on each topic; see `topic_differences`.

    Parameters
    ----------
    comparison : Comparison
        What `lmtune.compare` returns.
    system, against, measure : str, optional
        Of the contrast; by default the first that there is.
    title : str
        Put above the counts.

    Raises
    ------
    InputError
        For a contrast that was not made.
    """
    wanted = (system, against, measure)
    for own in comparison.contrasts:
        names = (own.system, own.against, own.measure)
        if all(given in (None, name) for given, name in zip(wanted, names, strict=True)):
            return _topics(comparison, own, title)
    pairs = dict.fromkeys(f"{own.system} on {own.measure}" for own in comparison.contrasts)
    raise InputError("no such contrast", value=wanted, accepted=", ".join(pairs))


def comparison_pictures(comparison: Comparison) -> Iterator[Picture]:
    """Draw all intervals, then each contrast's differences on each topic."""
    figure = difference_intervals(comparison)
    yield Picture("intervals", "Mean differences and their intervals", figure)
    for own in comparison.contrasts:
        title = f"{own.measure}: {own.system} minus {own.against}"
        figure = _topics(comparison, own, "")
        name = file_name(f"{own.measure}-{own.system}-{own.against}-topics")
        yield Picture(name, f"{title} on each topic", figure)


def _topics(comparison: Comparison, contrast: Contrast, title: str) -> Figure:
    values = comparison.values[:, :, comparison.measures.index(contrast.measure)]
    names = contrast.system, contrast.against
    own, other = (values[comparison.systems.index(name)] for name in names)
    short_names = drawable(names[0], _LONGEST_NAME), drawable(names[1], _LONGEST_NAME)
    return topic_differences(
        own, other, measure=contrast.measure, names=short_names, topics=comparison.topics, title=title
    )


def _draw(ax: Axes, contrasts: list[Contrast], comparison: Comparison) -> None:
    look = looks(["differences"])["differences"]
    ups = np.arange(len(contrasts))[::-1]
    for up, own in zip(ups.tolist(), contrasts, strict=True):
        significant = own.adjusted[comparison.options.tests[0]] < comparison.options.level
        ax.plot(own.interval, (up, up), color=look.color, lw=1.2, solid_capstyle="butt")
        face = look.color if significant else "white"
        ax.plot(own.difference, up, marker="o", ms=5, mew=1.1, color=look.color, markerfacecolor=face)
    ax.axvline(0.0, color="black", lw=0.6, zorder=0)
    ax.set_yticks(ups, [_name(own, comparison) for own in contrasts])
    ax.set_ylim(-0.6, len(contrasts) - 0.4)
    ax.margins(x=0.08)
    ax.locator_params(axis="x", nbins=4)


def _name(contrast: Contrast, comparison: Comparison) -> str:
    names = [contrast.system, contrast.against] if comparison.options.pairwise else [contrast.system]
    return " − ".join(drawable(name, _LONGEST_NAME) for name in names)


def _alt(contrast: Contrast, comparison: Comparison, share: str) -> str:
    p = contrast.adjusted[comparison.options.tests[0]]
    said = f"{contrast.measure}: {contrast.system} minus {contrast.against} {short(contrast.difference)}"
    low, high = contrast.interval
    between = "no interval" if math.isnan(low) else f"{share} {short(low)} to {short(high)}"
    return f"{said}, {between}, {'no test' if math.isnan(p) else f'p {short(p)}'}."
