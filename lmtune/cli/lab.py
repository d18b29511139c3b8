"""``lmtune lab`` and ``lmtune paper``: experiments, each a command of its own options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from lmtune.cli.forms import Command, Member, docstring_of
from lmtune.cli.screen import stages, utf8_output
from lmtune.laboratory import catalogue
from lmtune.options import option
from lmtune.parallel import Workers
from lmtune.progress import note
from lmtune.reporting.table import RENDERED
from lmtune.threads import cores

ALL = "all"


@dataclass(frozen=True)
class Running:
    """Running."""

    output: Path = option(
        ...,
        "The folder for pictures and numbers; with `all`, each experiment has its own in it.",
        metavar="DIR",
    )
    quick: bool = option(False, "A small run of the same shape.")


@dataclass(frozen=True)
class Drawing:
    """All experiments."""

    seed: int = option(0, "Of everything drawn.", low=0)


@dataclass(frozen=True)
class Printing:
    """Running."""

    output: Path | None = option(
        None, "Keep table, numbers and what is done so far, so that an ended run goes on.", metavar="DIR"
    )
    quick: bool = option(False, "A small run of the same shape; the table says what is smaller.")
    style: str = option("table", "table, markdown or latex.", flag="--format", choices=RENDERED)


def members() -> Iterator[Member]:
    """Yield a command for each experiment, and one for all of them."""
    for name in catalogue.NAMES:
        yield Member(name, partial(summary, name), partial(_experiment, name))
    yield Member(ALL, lambda: (_every.__doc__ or "").partition("\n")[0], lambda: Command(_every, ALL))


def papers() -> Iterator[Member]:
    """Yield a command for each paper."""
    for name in catalogue.PAPERS:
        yield Member(name, partial(summary, name), partial(_paper, name))


def _experiment(name: str) -> Command:
    experiment = catalogue.find_experiment(name)

    def run(running: Running, workers: Workers, values: dict[str, Any]) -> None:
        with workers.engaged(cores()):
            _run([(experiment, running.output)], values, running)

    run.__annotations__["values"] = Annotated[dict, experiment]
    return _command(run, name, f"lmtune lab {name} --output results", " --quick", "")


def _paper(name: str) -> Command:
    experiment = catalogue.find_experiment(name)

    def run(printing: Printing, workers: Workers, values: dict[str, Any]) -> None:
        with workers.engaged(cores() if values.get("device", "cpu") == "cpu" else 1):
            _run([(experiment, printing.output)], values, printing)

    def run_collections(datasets: list[str] | None, printing: Printing, values: dict[str, Any]) -> None:
        given = {"datasets": tuple(datasets)} if datasets else {}
        _run([(experiment, printing.output)], values | given, printing)

    several = any(field.name == "datasets" for field in fields(experiment))
    chosen = run_collections if several else run
    chosen.__annotations__["values"] = Annotated[dict, experiment, "datasets"]
    if several:
        words = "pydocs, folders, ap, wsj, robust04, wt10g, irds:ID; pydocs by default."
        chosen.__annotations__["datasets"] = Annotated[list[str] | None, words, "COLLECTION"]
    return _command(chosen, name, f"lmtune paper {name}", " --quick", " --output results")


def summary(name: str) -> str:
    """Say what an experiment shows: the second paragraph of its class."""
    module, kind, _ = catalogue.ALL[name]
    return docstring_of(f"lmtune.laboratory.{module}", kind).split("\n")[2].rstrip(".")


def _command(run: Any, name: str, line: str, *ends: str) -> Command:
    """Make an experiment's command, with an example line for each end."""
    examples = "\n".join(line + end for end in ends)
    run.__doc__ = f"{summary(name)}\n\nExamples\n--------\n{examples}"
    return Command(run, name, whole=True)


def _every(running: Running, workers: Workers, values: Annotated[dict[str, Any], Drawing]) -> None:
    """Run every experiment on the data that come with lmtune.

    Examples
    --------
    lmtune lab all --output results --quick
    lmtune lab all --output results
    """
    all_of_them = [(catalogue.find_experiment(name), running.output / name) for name in catalogue.NAMES]
    with workers.engaged(cores()):
        _run(all_of_them, values, running)


def _run(
    wanted: Sequence[tuple[Any, Path | None]], values: Mapping[str, Any], how: Running | Printing
) -> None:
    """Run experiments and print what each shows: a paper's table in a style, then conclusions."""
    from lmtune.laboratory.running import Order, run_all, settings_of
    from lmtune.reporting.result_folder import command as command_line
    from lmtune.reporting.table import render

    made = {"command": command_line()}
    orders = [
        Order(settings_of(experiment, values, quick=how.quick), folder, made) for experiment, folder in wanted
    ]
    with stages() as report:
        for order, result in run_all(orders, progress=report):
            name, tables = order.experiment.name, [] if result.table is None else [result.table]
            shown = "".join(f"{table.caption}\n\n" for table in tables)
            if isinstance(how, Printing):
                shown += f"{render(how.style, partial(list, tables), list)}\n"
                lines = result.conclusions
            else:
                shown += "".join(f"{table.text()}\n" for table in tables)
                lines = [f"{name}:", *(f"  {text}" for text in result.conclusions)]
            with utf8_output() as stream:
                stream.write(shown + "".join(f"{line}\n" for line in lines))
            if isinstance(how, Running):
                note(f"{name}: pictures and numbers are in {order.folder}")
