"""``lmtune lab``: the laboratory's experiments, each a command of its own options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from lmtune.cli.forms import Command
from lmtune.cli.groups import Member
from lmtune.cli.screen import stages, utf8_output
from lmtune.laboratory import catalogue
from lmtune.options import option
from lmtune.parallel import Workers
from lmtune.progress import note
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


def members() -> Iterator[Member]:
    """Yield a command for each experiment, and one for all of them."""
    for name in catalogue.NAMES:
        yield Member(name, partial(catalogue.summary, name), partial(_experiment, name))
    yield Member(ALL, lambda: (_every.__doc__ or "").partition("\n")[0], lambda: Command(_every, ALL))


def _experiment(name: str) -> Any:
    experiment = catalogue.find_experiment(name)

    def run(running: Running, workers: Workers, values: dict[str, Any]) -> None:
        with workers.engaged(cores()):
            _run([(experiment, running.output)], values, running)

    line = f"lmtune lab {name} --output results"
    run.__doc__ = f"{catalogue.summary(name)}\n\nExamples\n--------\n{line} --quick\n{line}"
    run.__annotations__["values"] = Annotated[dict, experiment]
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


def _run(wanted: Sequence[tuple[Any, Path]], values: Mapping[str, Any], running: Running) -> None:
    from lmtune.laboratory.running import Order, run_all, settings_of
    from lmtune.reporting.provenance import command as command_line

    made = {"command": command_line()}
    orders = [
        Order(settings_of(experiment, values, quick=running.quick), folder, made)
        for experiment, folder in wanted
    ]
    with stages() as report:
        for order, result in run_all(orders, progress=report):
            lines = [f"{order.experiment.name}:", *(f"  {text}" for text in result.conclusions)]
            with utf8_output() as stream:
                if result.table is not None:
                    stream.write(f"{result.table.caption}\n\n{result.table.text()}\n")
                stream.write("\n".join(lines) + "\n")
            note(f"{order.experiment.name}: pictures and numbers are in {order.folder}")
