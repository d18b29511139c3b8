"""Whether two runs of an experiment gave the same bits.

`make attack` runs every experiment twice, `make check` the cheap ones: ``LMTUNE_TWICE`` says which.
"""

from __future__ import annotations

import os

import pandas as pd
import pytest

from experiments.running import Result
from lmtune.reporting.figures.style import render

run_twice = pytest.mark.skipif(
    "LMTUNE_TWICE" not in os.environ, reason="`make attack` runs the dear experiments twice"
)


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


def assert_drawn(result: Result, names: list[str]) -> None:
    """Check the pictures' names, and that each can be drawn."""
    assert [picture.name for picture in result.pictures] == names
    assert all(render(picture.figure, "svg") for picture in result.pictures)
