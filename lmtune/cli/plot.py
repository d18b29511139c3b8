"""``lmtune plot``: the pictures of a results folder."""

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
    """Draw surfaces, costs, differences between topics, recall, convergence and parameters."""
    from lmtune.reporting.figures import draw, save
    from lmtune.reporting.results_files import PICTURES, record_pictures
    from lmtune.reporting.results_reader import read_results

    stored = read_results(results)
    target = pictures.output or results / PICTURES
    check_writable(target / f"picture.{pictures.style}")
    files: list[Path] = []
    with stages() as progress:
        for picture in draw(results, stored.results):
            files.append(target / f"{picture.name}.{pictures.style}")
            save(picture.figure, files[-1])
            progress(f"drawing {picture.name}", len(files), 0)
    if pictures.output is None:
        record_pictures(results, files)
    note(f"drew {quantity(len(files), 'picture')} in {target}")
