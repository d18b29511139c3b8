"""What was chosen: its gain on each topic, and how choices act together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from lmtune.reporting.figures.comparisons import topic_differences
from lmtune.reporting.figures.style import Picture
from lmtune.reporting.result_folder import file_name

if TYPE_CHECKING:
    from lmtune.reporting.choice_tables import StoredChoices


def choice_pictures(stored: StoredChoices) -> Iterator[Picture]:
    """Draw what choosing gains on each topic."""
    [result] = stored.results.results
    for number, (measure, rows) in enumerate(groupby(result.rows, key=lambda row: row.measure)):
        first, chosen = rows
        names = chosen.method, first.method
        figure = topic_differences(
            chosen.values,
            first.values,
            measure=measure.label,
            topics=chosen.topics,
            names=names,
            title=f"{result.name}, {' against '.join(names)}",
        )
        title = f"{result.name}, {measure.label}: {' minus '.join(names)} on each topic"
        yield Picture(
            file_name(f"{result.name}-{measure}-gains"), title, figure, result.name, lead=not number
        )
