"""``lmtune report``: a results folder as one HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note
from lmtune.cli.screen import stages
from lmtune.options import option
from lmtune.reporting.report import write_report
from lmtune.reporting.results_files import PAGE


@dataclass(frozen=True)
class Page:
    """The page."""

    output: Path | None = option(
        None, "The page; default: report.html in the results folder.", metavar="FILE"
    )


def report(
    results: Annotated[Path, "A folder that lmtune tune --output wrote.", "RESULTS"], page: Page
) -> None:
    """Make one HTML page of results: tables, pictures, topic by topic, how it was made."""
    target = page.output or results / PAGE
    with stages() as progress:
        write_report(results, target, progress=progress)
    note(f"wrote {target}")
