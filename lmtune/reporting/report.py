"""The HTML page of a results folder, with all its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lmtune.progress import Progress, silent
from lmtune.reporting.figures import Picture, draw
from lmtune.reporting.page import page
from lmtune.reporting.results_files import KIND, RECORD
from lmtune.reporting.results_reader import read_results
from lmtune.storage.files import atomic_write
from lmtune.storage.folders import recorded
from lmtune.storage.outputs import check_file


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
    check_file(target, reads=[results / name for name in (RECORD, *recorded(results, KIND))])
    stored = read_results(results)

    def pictures() -> Iterator[Picture]:
        for number, picture in enumerate(draw(results, stored.results)):
            progress("drawing pictures", number, 0)
            yield picture

    text = page(stored, pictures())
    with atomic_write(target) as file:
        file.write(text)
