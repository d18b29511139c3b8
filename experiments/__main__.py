"""Run an experiment: ``python -m experiments NAME [options]``."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from experiments import catalogue
from experiments.running import run, settings_of


def main() -> None:
    """Read the options of an experiment from the command line, run it and print its results."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=main.__doc__)
    commands = parser.add_subparsers(dest="name", required=True)
    for name in catalogue.ALL:
        command = commands.add_parser(name)
        command.add_argument("--output", type=Path)
        command.add_argument("--quick", action="store_true")
        command.add_argument("--workers", type=int, default=1)
        for field in dataclasses.fields(catalogue.find_experiment(name)):
            command.add_argument(f"--{field.name.replace('_', '-')}", type=_reader(field.default))
    given = vars(parser.parse_args())
    kind = catalogue.find_experiment(given.pop("name"))
    output, quick, workers = (given.pop(name) for name in ("output", "quick", "workers"))
    options = {name: value for name, value in given.items() if value is not None}
    result = run(settings_of(kind, options, quick=quick), folder=output, workers=workers)
    if result.table is not None:
        print(result.table.text())
    print("\n".join(result.conclusions))


def _reader(default: Any) -> Any:
    """Return what reads an option of the type of its default."""
    if isinstance(default, tuple):
        kind = type(default[0])
        return lambda text: tuple(kind(word) for word in text.split(",") if word)
    if isinstance(default, bool):
        return lambda text: text == "true"
    return str if default is None else type(default)


if __name__ == "__main__":
    main()
