"""``lmtune paper``: the papers' tables, each by one command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from lmtune.cli.forms import Command
from lmtune.cli.groups import Member
from lmtune.cli.screen import stages, utf8_output
from lmtune.laboratory import catalogue
from lmtune.options import option
from lmtune.parallel import Workers
from lmtune.reporting.table import RENDERED
from lmtune.threads import cores


@dataclass(frozen=True)
class Printing:
    """Running."""

    output: Path | None = option(
        None, "Keep table, numbers and what is done so far, so that an ended run goes on.", metavar="DIR"
    )
    quick: bool = option(False, "A small run of the same shape; the table says what is smaller.")
    style: str = option("table", "table, markdown or latex.", flag="--format", choices=RENDERED)


def members() -> Iterator[Member]:
    """Yield a command for each paper."""
    for name in catalogue.PAPERS:
        yield Member(name, partial(catalogue.summary, name), partial(_paper, name))


def _paper(name: str) -> Any:
    experiment = catalogue.find_experiment(name)

    def run(printing: Printing, workers: Workers, values: dict[str, Any]) -> None:
        with workers.engaged(cores() if values.get("device", "cpu") == "cpu" else 1):
            _run(experiment, values, printing)

    def run_collections(datasets: list[str] | None, printing: Printing, values: dict[str, Any]) -> None:
        _run(experiment, {**values, **({"datasets": tuple(datasets)} if datasets else {})}, printing)

    several = any(field.name == "datasets" for field in fields(experiment))
    chosen = run_collections if several else run
    line = f"lmtune paper {name}"
    chosen.__doc__ = (
        f"{catalogue.summary(name)}\n\nExamples\n--------\n{line} --quick\n{line} --output results"
    )
    chosen.__annotations__["values"] = Annotated[dict, experiment, "datasets"]
    if several:
        words = "pydocs, folders, ap, wsj, robust04, wt10g, irds:ID; pydocs by default."
        chosen.__annotations__["datasets"] = Annotated[list[str] | None, words, "COLLECTION"]
    return Command(chosen, name, whole=True)


def _run(experiment: Any, values: dict[str, Any], printing: Printing) -> None:
    from lmtune.laboratory.running import Order, run_all, settings_of
    from lmtune.reporting.provenance import command as command_line
    from lmtune.reporting.table import render

    order = Order(
        settings_of(experiment, values, quick=printing.quick), printing.output, {"command": command_line()}
    )
    with stages() as report:
        [(_, result)] = run_all([order], progress=report)
    tables = [] if result.table is None else [result.table]
    lines = "".join(f"{text}\n" for text in result.conclusions)
    with utf8_output() as stream:
        stream.write("".join(f"{table.caption}\n\n" for table in tables))
        stream.write(f"{render(printing.style, lambda: tables, list)}\n{lines}")
