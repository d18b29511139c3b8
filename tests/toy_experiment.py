"""An experiment small enough to watch every step of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.options import option
from lmtune.reporting.figures.style import COLUMN, Picture, finish, in_style, new_figure


def work(power: int, seed: int, share: float, log: str, fail_at: int) -> dict[str, Any]:
    if log:
        with Path(log.removeprefix("to ")).open("a") as file:
            file.write(f"{power}\n")
    if power == fail_at:
        raise InputError("cannot raise to this power", value=power)
    return {"value": share * float(seed + 3) ** power, "none": math.nan}


@in_style
def draw(found: pd.DataFrame) -> Any:
    figure, [[ax]] = new_figure(COLUMN, 2.0)
    ax.plot(found["power"], found["value"])
    return finish(figure, "Powers.")


@dataclass(frozen=True)
class Powers(Experiment):
    """Numbers to square."""

    name: ClassVar[str] = "toy"
    quick: ClassVar[Mapping[str, Any]] = {"powers": (1,)}

    seed: int = option(0, "where to begin")
    powers: tuple[int, ...] = option((1, 2), "exponents")
    share: float = option(0.5, "a factor")
    log: str = option("", "`to FILE`: where each unit writes a line")
    data: str = option("", "a file that the numbers are thought to depend on")
    fail_at: int = option(-1, "the power that raises")
    upwards: bool = option(True, "whether to go up, 100% of the time")

    def units(self) -> list[Unit]:
        if not self.powers:
            raise InputError("nothing to do", value=self.powers)
        common = {"seed": self.seed, "share": self.share, "log": self.log, "fail_at": self.fail_at}
        return [Unit(f"power{power}", work, {"power": power, **common}) for power in self.powers]

    def tables(self, results: Mapping[str, Any]) -> Tables:
        rows = [{"power": key.removeprefix("power"), **found} for key, found in results.items()]
        return {"powers": pd.DataFrame(rows)}

    def pictures(self, found: Tables) -> list[Picture]:
        return [Picture("powers", "Powers", draw(found["powers"]))]

    def conclusions(self, found: Tables) -> list[str]:
        return [f"the highest power is {found['powers']['value'].max():g}"]
