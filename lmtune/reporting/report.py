"""The HTML page of a results folder, with all its pictures."""

from __future__ import annotations

from pathlib import Path

from lmtune.formats.files import atomic_write, check_file
from lmtune.progress import Progress, silent
from lmtune.reporting.page import PagePicture, page
from lmtune.reporting.results_reader import read_results


def write_report(results: Path, target: Path, *, progress: Progress = silent) -> None:
    """Write one HTML page of a results folder.

    Parameters
    ----------
    results : path
        A folder that `lmtune.reporting.results_writer.write_results` wrote.
    target : path
        The page.
    progress : Progress
        Called after each picture.

    Raises
    ------
    InputError
        For a folder that is none of results, or a table in it that cannot be read.
    """
    from lmtune.reporting.figures import draw, render
    from lmtune.reporting.figures.style import COLUMN

    check_file(target)
    stored = read_results(results)
    pictures: list[PagePicture] = []
    for drawn in draw(results, stored.results):
        progress("drawing pictures", len(pictures), 0)
        wide = drawn.figure.get_figwidth() > COLUMN
        data = render(drawn.figure, "svg")
        pictures.append(PagePicture(drawn.title, data, drawn.alt, drawn.group, drawn.part, wide=wide))
    text = page(stored, pictures)
    with atomic_write(target) as file:
        file.write(text)
