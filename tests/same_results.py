"""Whether two runs of an experiment gave the same bits."""

from __future__ import annotations

import pandas as pd

from lmtune.laboratory.running import Result
from lmtune.reporting.figures.style import render


def assert_same_results(one: Result, other: Result) -> None:
    """Compare all pictures as SVG, the last one as PNG too, tables and sentences."""
    assert one.conclusions == other.conclusions
    for first, second in zip(one.pictures, other.pictures, strict=True):
        assert first.name == second.name
        assert render(first.figure, "svg") == render(second.figure, "svg")
    for first, second in zip(one.pictures[-1:], other.pictures[-1:], strict=True):
        assert render(first.figure, "png") == render(second.figure, "png")
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, other.tables[name], check_exact=True)
