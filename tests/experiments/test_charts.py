"""Pictures as data: what a table's values and a chart's declaration make of the axes, lines and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.pictures import VALUE, Chart, intervals, stacked

TABLE = pd.DataFrame(
    {
        "step": [1, 10, 100] * 4,
        "net": ["a"] * 6 + ["b"] * 6,
        "by": (["x"] * 3 + ["y"] * 3) * 2,
        "cost": [1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 1.0, 20.0, 400.0, 2.0, 3.0, 4.0],
    }
)


def axes(chart: Chart, table: pd.DataFrame = TABLE) -> Any:
    return chart.draw(table, "name", "Caption").figure.axes


def test_a_panel_and_a_line_a_name_with_the_tables_values() -> None:
    first, second = axes(Chart("step", "cost", "by", "net"))
    assert [first.get_title("left"), second.get_title("left")] == ["a", "b"]
    assert [line.get_label() for line in first.get_lines()] == ["x", "y"]
    assert second.get_lines()[0].get_ydata().tolist() == [1.0, 20.0, 400.0]
    # Hundredfold along x in both, along y in the second alone.
    assert [ax.get_xscale() for ax in (first, second)] == ["log", "log"]
    assert [ax.get_yscale() for ax in (first, second)] == ["linear", "log"]


def test_only_the_bold_line_has_a_name_and_is_described() -> None:
    picture = Chart("step", "cost", "by", "net", bold="y").draw(TABLE, "name", "Caption", says="Said.")
    legend = picture.figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["y"]
    assert picture.alt == "Caption. Said. a, y: 5 (1), 6 (10), 7 (100). b, y: 2 (1), 3 (10), 4 (100)."


def test_levels_are_a_panels_own_or_the_rests() -> None:
    first, second = axes(Chart("step", "cost", "by", "net", levels={"a": (4.0,), "": (0.0, 9.0)}))
    heights = [[line.get_ydata()[0] for line in ax.get_lines()[2:]] for ax in (first, second)]
    assert heights == [[4.0], [0.0, 9.0]]


def test_points_of_different_lines_stand_side_by_side_with_their_intervals() -> None:
    table = TABLE.assign(
        step=TABLE["step"].astype(str), low=TABLE["cost"] - 0.5, high=TABLE["cost"] + 0.25
    ).query("net == 'a'")
    [ax] = axes(Chart("step", "cost", "by", low="low", high="high", dots=True), table)
    x, y = (container.lines[0].get_xdata() for container in ax.containers)
    assert (y - x).tolist() == pytest.approx([0.35] * 3)
    segments = ax.containers[0].lines[2][0].get_segments()
    assert [segment[:, 1].tolist() for segment in segments] == [[0.5, 1.25], [1.5, 2.25], [2.5, 3.25]]


def test_the_end_chooses_what_is_shown() -> None:
    course = pd.DataFrame({"epoch": range(20), "cost": [1000.0, 100.0, *np.linspace(2.0, 1.0, 18)]})
    [ax] = axes(Chart("epoch", "cost", late=True), course)
    assert ax.get_ylim()[1] < 3.0
    [ax] = axes(Chart("epoch", "cost"), course)
    assert ax.get_ylim()[1] > 1000.0


def test_columns_become_panels_and_repetitions_intervals() -> None:
    long = stacked(TABLE.assign(twice=2 * TABLE["cost"]), ["step", "by"], {"cost": "Cost", "twice": "Twice"})
    assert long["panel"].unique().tolist() == ["Cost", "Twice"]
    assert long[VALUE].sum() == pytest.approx(3 * TABLE["cost"].sum())
    means = intervals(long, ["panel", "by"], VALUE)
    row = means.query("panel == 'Twice' and by == 'y'").iloc[0]
    values = 2 * TABLE.query("by == 'y'")["cost"]
    assert row["mean"] == pytest.approx(values.mean())
    assert row["high"] - row["low"] == pytest.approx(2 * row["half"])
    assert row["count"] == 6
