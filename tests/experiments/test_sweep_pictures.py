"""Pictures of sweeps: their values can be read."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.pictures import Chart


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        (["0.1", "0.3", "0.5", "0.7", "0.9", "1"], "gamma"),
        (["0.3, moving-average", "0.3, storm", "0.3, msvr", "0.3, msvr-sp"], "gamma"),
        (["all items", "biased mini-batch"], ""),
    ],
)
def test_values_do_not_overlap(values: list[str], axis: str) -> None:
    rows = [
        {
            axis: value,
            "line": f"{part} queries",
            "panel": f"nDCG@{cutoff}",
            "mean": 0.5,
            "low": 0.4,
            "high": 0.6,
        }
        for value in values
        for part in ("validation", "test")
        for cutoff in (1, 5, 10)
    ]
    chart = Chart(axis, "mean", "line", "panel", "low", "high", dots=True)
    made = chart.draw(pd.DataFrame(rows), "x", "X")
    made.figure.canvas.draw()
    for ax in made.figure.axes:
        texts = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label]
        boxes = [text.get_window_extent() for text in texts if text.get_text() and text.get_visible()]
        assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
    shown = {
        text.get_text() for ax in made.figure.axes for text in (*ax.get_xticklabels(), *ax.get_yticklabels())
    }
    assert shown >= set(values)
