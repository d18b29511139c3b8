"""Pictures of models with one parameter, and with five."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lmtune.errors import InputError
from lmtune.report.figures import (
    alt_text,
    best_profiles,
    parameter_spread,
    recall_precision_curves,
    render,
    topic_differences,
)
from lmtune.report.figures.style import ParameterAxis

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
    """Make a line along each parameter, with known best places."""
    rng = np.random.default_rng(1)
    at = {axis.name: 100.0 if axis.is_log else 0.5 for axis in axes}
    rows: list[dict[str, object]] = []
    for axis in axes:
        along = np.geomspace(1, 1e5, 11) if axis.is_log else np.linspace(0, 1, 11)
        rows += [{"line": f"best {axis.name}", "position": x, **at, axis.name: x} for x in along]
    table = pd.DataFrame(rows)
    height = rng.random(len(table))
    return table.assign(train=0.2 + 0.1 * height, test=0.2 + 0.1 * rng.random(len(table)))


@pytest.mark.first_case
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


@pytest.mark.first_case
@MODELS
def test_every_parameter_has_a_profile(axes: tuple[ParameterAxis, ...]) -> None:
    table = lines(axes)
    at = {"Direct": {axis.name: 2.0 for axis in axes} | {"train": 0.25}}
    figure = best_profiles(table, axes, at, measure="MAP")
    assert figure.get_figwidth() <= 7.0
    shown = [ax for ax in figure.axes if ax.axison]
    for axis, ax in zip(axes, shown, strict=True):
        own = table[table["line"] == f"best {axis.name}"]
        drawn = {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in ax.lines}
        assert drawn["measure, training topics"] == own[["position", "train"]].to_numpy().tolist()
        assert drawn["measure, test topics"] == own[["position", "test"]].to_numpy().tolist()
        assert drawn["Direct"] == [[2.0, 0.25]]
        assert ax.get_xlabel() == axis.label
        assert ax.get_xscale() == ("log" if axis.is_log else "linear")
        best = axis.text(float(own["position"].iloc[own["train"].argmax()]))
        assert f"Along {axis.symbol} it is " in alt_text(figure)
        assert f"highest at {best}; chosen: Direct " in alt_text(figure)
    assert render(figure, "png")
    with pytest.raises(InputError, match="no line"):
        best_profiles(table.iloc[:0], axes, at, measure="MAP")


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
