"""Pictures of sweeps: their values can be read."""

from __future__ import annotations

import pandas as pd
import pytest

from lmtune.laboratory.sweeps.pictures import value_picture


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
        {"value": value, "queries": part, "cutoff": cutoff, "trials": 3, "mean": 0.5, "half": 0.1}
        for value in values
        for part in ("validation", "test")
        for cutoff in (1, 5, 10)
    ]
    parts = ["validation", "test"]
    made = value_picture(
        pd.DataFrame(rows), name="x", title="X", cutoffs=[1, 5, 10], queries=parts, axis=axis
    )
    made.figure.canvas.draw()
    for ax in made.figure.axes:
        texts = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label]
        boxes = [text.get_window_extent() for text in texts if text.get_text() and text.get_visible()]
        assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
    shown = {
        text.get_text() for ax in made.figure.axes for text in (*ax.get_xticklabels(), *ax.get_yticklabels())
    }
    assert shown >= set(values)
