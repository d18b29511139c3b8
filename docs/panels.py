"""Shared by the pictures of the concept pages: the collection, and panels as wide as a phone."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import lmtune
from lmtune.report.figures.style import COLUMN, new_figure

ROOT = Path(__file__).resolve().parents[1]
BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777"

_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+")


@functools.cache
def collection() -> tuple[lmtune.Dataset, lmtune.ColumnarIndex]:
    """Return pydocs and its index."""
    data = lmtune.load("pydocs")
    return data, lmtune.index_for(data.documents)


def pool_of(topics: Sequence[str]) -> lmtune.CandidatePool:
    """Return some topics' candidates."""
    data, index = collection()
    queries = {topic: data.topics[topic] for topic in topics}
    return lmtune.CandidatePool.build(index, queries, {topic: data.qrels[topic] for topic in topics})


def panel(height: float = 2.5) -> tuple[Figure, Axes]:
    """Make a figure of one panel: full size on a phone, two side by side on wider pages."""
    figure, [[ax]] = new_figure(COLUMN, height)
    return figure, ax


def reported(page: str, row: str) -> list[list[float]]:
    """Read the numbers in each cell of the table row of a page that starts with `row`."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith(f"| {row}")]
    cells = line.strip("|").split(" | ")[1:]
    return [[float(number.replace(",", "")) for number in _NUMBER.findall(cell)] for cell in cells]
