"""``lmtune plot``: the pictures of a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note
from lmtune.cli.screen import stages
from lmtune.options import option


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
    from lmtune.reporting.results_files import PICTURES
    from lmtune.reporting.results_reader import read_results

    target = pictures.output or results / PICTURES
    count = 0
    with stages() as progress:
        for count, picture in enumerate(draw(results, read_results(results).results), 1):
            save(picture.figure, target / f"{picture.name}.{pictures.style}")
            progress(f"drawing {picture.name}", count, 0)
    note(f"drew {count} pictures in {target}")
