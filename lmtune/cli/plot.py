"""``lmtune plot``: the pictures of a results folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmtune.cli.screen import note, stages
from lmtune.errors import InputError


def plot(
    results: Annotated[Path, typer.Argument(help="A folder that lmtune tune --output wrote.")],
    output: Annotated[
        Path | None, typer.Option(help="The pictures' folder.", show_default="pictures in the results folder")
    ] = None,
    style: Annotated[str, typer.Option("--format", help="svg, pdf or png.")] = "svg",
) -> None:
    """Draw surfaces, costs, differences between topics, recall, convergence and parameters."""
    from lmtune.reporting.figures import FORMATS, draw, save
    from lmtune.reporting.results_files import PICTURES
    from lmtune.reporting.results_reader import read_results

    if style not in FORMATS:
        raise InputError("unknown --format", value=style, accepted=", ".join(FORMATS))
    target = results / PICTURES if output is None else output
    stored = read_results(results)
    count = 0
    with stages() as report:
        for count, picture in enumerate(draw(results, stored.results), 1):
            save(picture.figure, target / f"{picture.name}.{style}")
            report(f"drawing {picture.name}", count, 0)
    note(f"drew {count} pictures in {target}")
