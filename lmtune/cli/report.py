"""``lmtune report``: a results folder as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmtune.cli.screen import note, stages


def report(
    results: Annotated[Path, typer.Argument(help="A folder that lmtune tune --output wrote.")],
    output: Annotated[
        Path | None, typer.Option(help="The page.", show_default="report.html in the results folder")
    ] = None,
) -> None:
    """Make one HTML page of results: tables, pictures, topic by topic, how it was made."""
    from lmtune.formats.files import atomic_write, check_file
    from lmtune.reporting.figures import draw, render
    from lmtune.reporting.figures.style import COLUMN
    from lmtune.reporting.page import PagePicture, page
    from lmtune.reporting.results_files import PAGE
    from lmtune.reporting.results_reader import read_results

    target = results / PAGE if output is None else output
    check_file(target)
    stored = read_results(results)
    pictures: list[PagePicture] = []
    with stages() as progress:
        for drawn in draw(results, stored.results):
            progress("drawing pictures", len(pictures), 0)
            wide = drawn.figure.get_figwidth() > COLUMN
            data = render(drawn.figure, "svg")
            pictures.append(PagePicture(drawn.title, data, drawn.alt, drawn.group, drawn.part, wide=wide))
    text = page(stored, pictures)
    with atomic_write(target) as file:
        file.write(text)
    note(f"wrote {target}")
