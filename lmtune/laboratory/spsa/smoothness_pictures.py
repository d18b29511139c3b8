"""The picture of smoothness: a measure against the shift of single weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmtune.reporting.figures.style import PAGE, Picture, finish, in_style, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_HEIGHT = 2.35
# Dark to light, told apart by lightness alone; the weights have no names of interest.
_SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_LINES = ("-", "--", "-.", ":")


@in_style
def draw_curves(curves: pd.DataFrame, rough: pd.DataFrame, *, title: str) -> Picture:
    """Draw a row of panels a network and a column a number of queries.

    Parameters
    ----------
    curves, rough : pandas.DataFrame
        The tables ``curves`` and ``roughness`` of `lmtune.laboratory.spsa.smoothness.Smoothness`.
    title : str
        The measure's.
    """
    networks = list(dict.fromkeys(curves["network"]))
    sizes = sorted(set(curves["queries"]))
    figure, axes = new_figure(
        PAGE, _HEIGHT * len(networks) + 0.2, rows=len(networks), columns=len(sizes), sharex=True, sharey="row"
    )
    words = []
    for row, network in zip(axes, networks, strict=True):
        for panel, size in zip(row, sizes, strict=True):
            here = curves[(curves["network"] == network) & (curves["queries"] == size)]
            numbers = rough[(rough["network"] == network) & (rough["queries"] == size)]
            numbers = numbers[numbers["part"] == "shift"]
            _panel(panel, here[here["part"] == "shift"])
            variation, optima = numbers["variation"].median(), numbers["optima"].median()
            panel.set_title(
                f"{network}, {size:,} {'query' if size == 1 else 'queries'}\n"
                f"variation / range {variation:.2f}, optima {optima:.0f}"
            )
            words.append(f"{network} on {size:,} queries {variation:.2f}")
        low, high = row[0].get_ylim()
        # Below the curves there is room for the section blown up.
        row[0].set_ylim(low - 0.55 * (high - low), high)
        for panel, size in zip(row, sizes, strict=True):
            here = curves[(curves["network"] == network) & (curves["queries"] == size)]
            _inset(panel, here[here["part"] == "zoom"])
        row[0].set_ylabel(f"mean {title}\non training queries")
    axes[-1][len(sizes) // 2].set_xlabel("shift of a weight (% of its trained value)")
    alt = (
        f"Mean {title} against the shift of single weights of trained nets, one line a weight, by "
        f"number of queries; insets show the discontinuities about the trained value. Total "
        f"variation over range, median over weights: {', '.join(words)}."
    )
    caption = f"{title} against the shift of single weights"
    return Picture("smoothness", caption, finish(figure, alt))


def _panel(panel: Axes, curves: pd.DataFrame) -> None:
    panel.axvline(0.0, color="0.8", linewidth=0.6, zorder=0)
    for number, (_, curve) in enumerate(curves.groupby("weight", sort=False)):
        panel.plot(
            curve["shift"],
            curve["value"],
            linewidth=0.8,
            color=_SHADES[number % len(_SHADES)],
            linestyle=_LINES[number // len(_SHADES)],
        )


def _inset(panel: Axes, curve: pd.DataFrame) -> None:
    """Blow up the curve about the trained value, in its own units."""
    inset = panel.inset_axes((0.2, 0.06, 0.6, 0.25))
    middle = float(curve["value"].iloc[len(curve) // 2])
    inset.plot(curve["shift"], (curve["value"] - middle) * 1e4, linewidth=0.6, color=_SHADES[0])
    inset.axvline(0.0, color="0.8", linewidth=0.6, zorder=0)
    inset.tick_params(labelsize=5.5, length=2, pad=1)
    inset.locator_params(nbins=3)
    inset.set_title(f"{curve['weight'].iloc[0]}: change × 10⁴", fontsize=5.5, pad=2)
