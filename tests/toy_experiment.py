"""An experiment small enough to watch every step of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Experiment, Tables, Unit, option
from lmtune.reporting.figures.style import COLUMN, Picture, finish, in_style, new_figure


@dataclass(frozen=True)
class Settings:
    """Numbers to square."""

    seed: int = option(0, "where to begin")
    powers: tuple[int, ...] = option((1, 2), "exponents")
    share: float = option(0.5, "a factor")
    log: str = option("", "`to FILE`: where each unit writes a line")
    data: str = option("", "a file that the numbers are thought to depend on")
    fail_at: int = option(-1, "the power that raises")
    upwards: bool = option(True, "whether to go up, 100% of the time")


def work(power: int, seed: int, share: float, log: str, fail_at: int) -> dict[str, Any]:
    if log:
        with Path(log.removeprefix("to ")).open("a") as file:
            file.write(f"{power}\n")
    if power == fail_at:
        raise InputError("cannot raise to this power", value=power)
    return {"value": share * float(seed + 3) ** power, "none": math.nan}


def units(settings: Settings) -> list[Unit]:
    if not settings.powers:
        raise InputError("nothing to do", value=settings.powers)
    return [
        Unit(
            f"power{power}",
            work,
            {
                "power": power,
                "seed": settings.seed,
                "share": settings.share,
                "log": settings.log,
                "fail_at": settings.fail_at,
            },
        )
        for power in settings.powers
    ]


def tables(settings: Settings, results: Mapping[str, Any]) -> Tables:
    rows = [{"power": key.removeprefix("power"), **found} for key, found in results.items()]
    return {"powers": pd.DataFrame(rows)}


@in_style
def draw(found: pd.DataFrame) -> Any:
    figure, [[ax]] = new_figure(COLUMN, 2.0)
    ax.plot(found["power"], found["value"])
    return finish(figure, "Powers.")


def pictures(settings: Settings, found: Tables) -> list[Picture]:
    figure = draw(found["powers"])
    return [Picture("powers", "Powers", figure, "Powers.")]


def conclusions(settings: Settings, found: Tables) -> list[str]:
    return [f"the highest power is {found['powers']['value'].max():g}"]


EXPERIMENT = Experiment("toy", Settings, {"powers": (1,)}, units, tables, pictures, conclusions)
