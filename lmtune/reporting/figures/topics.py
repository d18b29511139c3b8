"""Per-topic differences of two systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.reporting.figures.style import COLUMN, drawable, finish, in_style, legend_below, new_figure, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMED = 30


@in_style
def topic_differences(
    system: ArrayLike,
    baseline: ArrayLike,
    *,
    measure: str,
    names: tuple[str, str] = ("system", "baseline"),
    topics: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Draw the sorted differences of two systems over the same topics.

    Parameters
    ----------
    system, baseline : array_like of float, shape (topics,)
        The measure on each topic; drawn is system - baseline.
    measure : str
        The measure's title, such as ``"AP"``.
    names : tuple of str
        What the two are called.
    topics : sequence of str, optional
        Topic identifiers; written below the bars where there are at most 30.
    title : str
        Put above the counts.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        For no topics, or different numbers of them.
    """
    first, second = np.asarray(system, np.float64), np.asarray(baseline, np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise InputError(
            "no values of two systems on the same topics",
            value=(first.shape, second.shape),
            accepted="two arrays of equal length, one value a topic",
        )
    if topics and len(topics) != first.size:
        raise InputError("another number of topics than values", value=len(topics))
    difference = first - second
    order = np.argsort(-difference, kind="stable")
    ranked = difference[order]
    wins, losses = int((ranked > 0.0).sum()), int((ranked < 0.0).sum())
    ties = ranked.size - wins - losses
    mean = float(ranked.mean())

    figure, [[ax]] = new_figure(COLUMN, 2.5)
    labels = [drawable(topics[place], 16) for place in order] if topics else []
    _bars(ax, ranked, names)
    ax.axhline(0.0, color="black", lw=0.6)
    ax.axhline(mean, color="black", lw=0.8, ls="--", label=f"mean {_signed(mean)}")
    ax.set_xlim(0.5, ranked.size + 0.5)
    ax.set_ylabel(f"{measure}: {names[0]} − {names[1]}")
    if labels and ranked.size <= _NAMED:
        ax.set_xticks(np.arange(1, ranked.size + 1), labels)
        ax.tick_params(axis="x", rotation=90, length=0)
        ax.set_xlabel("topic")
    else:
        ax.set_xlabel(f"topics, best for {names[0]} first")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    counts = f"{wins:,} wins, {ties:,} ties, {losses:,} losses"
    ax.set_title(f"{title}\n{counts}" if title else counts, loc="left")
    legend_below(figure, 2)
    first_topic, last_topic = (f" (topic {labels[place]})" if labels else "" for place in (0, -1))
    return finish(
        figure,
        f"{measure} of {names[0]} minus {names[1]} on {ranked.size:,} topics, sorted: {counts}, "
        f"mean difference {_signed(mean)}, from {_signed(ranked[0])}{first_topic} to "
        f"{_signed(ranked[-1])}{last_topic}.",
    )


def _bars(ax: Axes, ranked: NDArray[np.float64], names: tuple[str, str]) -> None:
    """Draw gains and losses, as bars that can be counted where they are few."""
    for values, colour, hatch, name in (
        (np.maximum(ranked, 0.0), "#0072B2", "", names[0]),
        (np.minimum(ranked, 0.0), "#E69F00", "/////", names[1]),
    ):
        look: dict[str, Any] = {"color": colour, "label": f"{name} better"}
        if ranked.size <= _NAMED:
            look |= {"hatch": hatch, "edgecolor": "white"}
            ax.bar(np.arange(1, ranked.size + 1), values, 0.8, linewidth=0.6, **look)
        else:
            ax.stairs(values, np.arange(ranked.size + 1) + 0.5, fill=True, linewidth=0.0, **look)


def _signed(value: float) -> str:
    return ("−" if value < 0.0 else "+") + short(abs(float(value)))
