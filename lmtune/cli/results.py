"""``lmtune plot`` and ``lmtune report``: the pictures of a results folder, and its page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note
from lmtune.cli.screen import stages
from lmtune.options import option
from lmtune.progress import quantity
from lmtune.storage.outputs import check_writable


@dataclass(frozen=True)
class Pictures:
    """The pictures."""

    output: Path | None = option(
        None, "The pictures' folder; default: pictures in the results folder.", metavar="DIR"
    )
    style: str = option("svg", "svg, pdf or png.", flag="--format", choices=("svg", "pdf", "png"))


def plot(
    results: Annotated[Path, "A folder that lmtune tune --output wrote.", "RESULTS"], pictures: Pictures
) -> None:
    """Draw surfaces, costs, differences between topics, recall, convergence, parameters, choices.

    Examples
    --------
    lmtune plot results
    lmtune plot results --format pdf --output pictures
    """
    from lmtune.reporting.choice_tables import is_choices, read_choices
    from lmtune.reporting.figures import choice_pictures, draw, save
    from lmtune.reporting.tuning_results import PICTURES, read_results, record_pictures

    if is_choices(results):
        pictured = choice_pictures(read_choices(results))
    else:
        pictured = draw(results, read_results(results).results)
    target = pictures.output or results / PICTURES
    check_writable(target / f"picture.{pictures.style}")
    files: list[Path] = []
    with stages() as progress:
        for picture in pictured:
            files.append(target / f"{picture.name}.{pictures.style}")
            save(picture.figure, files[-1])
            progress(f"drawing {picture.name}", len(files), 0)
    if pictures.output is None:
        record_pictures(results, files)
    note(f"drew {quantity(len(files), 'picture')} in {target}")


@dataclass(frozen=True)
class Page:
    """The page."""

    output: Path | None = option(
        None, "The page; default: report.html in the results folder.", metavar="FILE"
    )


def report(
    results: Annotated[Path, "A folder that lmtune tune --output wrote.", "RESULTS"], page: Page
) -> None:
    """Make one HTML page of results: tables, pictures, topic by topic, how it was made.

    Examples
    --------
    lmtune report results
    lmtune report results --output page.html
    """
    from lmtune.reporting.page import write_report
    from lmtune.reporting.tuning_results import PAGE

    target = page.output or results / PAGE
    with stages() as progress:
        write_report(results, target, progress=progress)
    note(f"wrote {target}")
