"""Pictures of models with one parameter, and with five."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from lmtune.reporting.figures import (
    alt_text,
    cost_and_measure,
    parameter_spread,
    recall_precision_curves,
    render,
    topic_differences,
)
from lmtune.reporting.figures.style import ParameterAxis

ONE = (ParameterAxis("mu", "tokens", is_log=True),)
FIVE = (
    ParameterAxis("k1"),
    ParameterAxis("b"),
    ParameterAxis("weight", is_log=True),
    ParameterAxis("lambda"),
    ParameterAxis("delta"),
)
MODELS = pytest.mark.parametrize("axes", [ONE, FIVE], ids=["one", "five"])


def chosen(axes: tuple[ParameterAxis, ...]) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"measure": measure, "method": method, "fold": fold}
        | {axis.name: float(10 ** rng.uniform(1, 3) if axis.is_log else rng.random()) for axis in axes}
        for measure in ("MAP", "P@10")
        for method in ("Direct", "RankNet", "Optimal")
        for fold in (1, 2, 3)
    ]
    return pd.DataFrame(rows)


def lines(axes: tuple[ParameterAxis, ...]) -> pd.DataFrame:
    """Make the line between the choices and one along each parameter, with known best places."""
    rng = np.random.default_rng(1)
    at = {axis.name: 100.0 if axis.is_log else 0.5 for axis in axes}
    rows = [{"line": "across", "position": x, **at} for x in np.linspace(-0.5, 1.5, 9)]
    for axis in axes:
        along = np.geomspace(1, 1e5, 11) if axis.is_log else np.linspace(0, 1, 11)
        rows += [{"line": axis.name, "position": x, **at, axis.name: x} for x in along]
    table = pd.DataFrame(rows)
    height = rng.random(len(table))
    return table.assign(cost=1.0 - height, train=0.2 + 0.1 * height, test=0.2 + 0.1 * rng.random(len(table)))


def axes_of(figure: Figure) -> list[str]:
    return [ax.get_xlabel() for ax in figure.axes if ax.get_xlabel()]


@MODELS
def test_every_parameter_has_a_row_of_choices(axes: tuple[ParameterAxis, ...]) -> None:
    table = chosen(axes)
    figure = parameter_spread(table, axes, title="made up")
    panels = np.array(figure.axes).reshape(len(axes), 2)
    for axis, row in zip(axes, panels, strict=True):
        assert row[0].get_ylabel() == axis.label
        assert row[0].get_yscale() == ("log" if axis.is_log else "linear")
        for ax, measure in zip(row, ("MAP", "P@10"), strict=True):
            drawn = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in ax.lines}
            for method, own in table[table["measure"] == measure].groupby("method"):
                assert drawn[method] == own[axis.name].tolist()
                assert f"{method} for {measure}: " in alt_text(figure)
    assert all(f"{axis.label} from " in alt_text(figure) for axis in axes)
    assert [ax.get_title("left") for ax in panels[0]] == ["MAP", "P@10"]
    assert render(figure, "png")


@MODELS
def test_every_parameter_has_a_profile(axes: tuple[ParameterAxis, ...]) -> None:
    table = lines(axes)
    figure = cost_and_measure(table, axes, measure="MAP")
    assert figure.get_figwidth() <= 7.0
    symbols = [axis.label for axis in axes]
    assert axes_of(figure)[1:] == symbols
    shown = [ax for ax in figure.axes if ax.axison]
    assert len(shown) == 2 * (1 + len(axes))
    for axis in axes:
        own = table[table["line"] == axis.name]
        best = own.iloc[own["train"].argmax()]
        values = ", ".join(f"{other.symbol} = {other.text(best[other.name])}" for other in axes)
        assert f"The line along {axis.symbol}: " in alt_text(figure)
        assert f"MAP is highest at {values} with" in alt_text(figure)
        [upper] = [ax for ax in shown if ax.lines and [*ax.lines[0].get_xdata()] == [*own["position"]]][:1]  # type: ignore[misc]
        assert upper.get_xscale() == ("log" if axis.is_log else "linear")
    assert render(figure, "png")


def test_folds_that_coincide_stay_readable() -> None:
    rows = [("MAP", "Direct", fold, 0.5, 100.0) for fold in (1, 2, 4)] + [("MAP", "Direct", 3, 0.9, 2000.0)]
    table = pd.DataFrame(rows, columns=["measure", "method", "fold", "lambda", "mu"])
    figure = parameter_spread(table)
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["1, 2, 4", "3"]


def test_no_legend_covers_a_curve() -> None:
    precise = recall_precision_curves({"one": [1.0] * 11, "two": [0.99] * 11})
    won = topic_differences([0.9] * 40, [0.1] * 40, measure="AP")
    for figure in (precise, won):
        [legend], [ax] = figure.legends, figure.axes
        assert ax.get_legend() is None
        drawn = ax.get_tightbbox()
        assert drawn is not None
        assert not legend.get_window_extent().overlaps(drawn)


def test_notebooks_show_figures() -> None:
    figure = topic_differences([0.9, 0.3], [0.1, 0.4], measure="AP")
    shown = getattr(figure, "_repr_png_")()  # noqa: B009
    assert shown.startswith(b"\x89PNG")
