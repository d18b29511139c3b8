"""SONG on samples against training on all items (Qiu et al. 2022, section 7.3, figure 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Tables, Unit
from lmtune.laboratory.surrogates.long_list_sweeps import (
    MAIN,
    QUICK,
    LongLists,
    check_gammas,
    cutoffs_of,
    song_case,
)
from lmtune.laboratory.surrogates.pictures import course_picture
from lmtune.laboratory.surrogates.sweep_words import at_end, difference_of, in_words, verdict
from lmtune.laboratory.surrogates.sweeps import number, tables, units
from lmtune.options import option
from lmtune.reporting.figures.style import Picture, short

FULL = "all items"
BIASED = "biased mini-batch"


@dataclass(frozen=True)
class FullItems(LongLists):
    """What to compare, and how."""

    name: ClassVar[str] = "full-items"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "gammas": (0.3,), "epochs": 20}

    gammas: tuple[float, ...] = option((0.1, 0.3), "SONG's, below 1; the best is taken")

    def units(self) -> list[Unit]:
        """Make one training a method and trial."""
        if not self.gammas:
            raise InputError("no gamma for SONG", accepted="one or more")
        check_gammas(*self.gammas, most=math.nextafter(1.0, 0.0))
        cases = [
            song_case(self, FULL, {"gamma": 1.0}, whole=True),
            song_case(self, BIASED, {"gamma": 1.0}),
            *(song_case(self, _song(own), {"gamma": own}) for own in self.gammas),
        ]
        return units(cases, self.trials, self.seed)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Gather them; every pair of methods is compared."""
        labels = [FULL, BIASED, *map(_song, self.gammas)]
        songs = labels[2:]
        pairs = [*((song, other) for song in songs for other in (BIASED, FULL)), (BIASED, FULL)]
        return tables(labels, results, trials=self.trials, cutoffs=cutoffs_of(self), pairs=pairs)

    def pictures(self, made: Tables) -> list[Picture]:
        """Draw courses."""
        return [
            course_picture(
                made,
                name="full-items",
                title="Training on all items and on samples, by epoch",
                courses=("objective", "training", "validation"),
                cutoff=MAIN,
            )
        ]

    def conclusions(self, made: Tables) -> list[str]:
        """Say how near SONG comes to training on all items."""
        objective = {
            label: at_end(made, label, "objective") for label in (FULL, BIASED, *map(_song, self.gammas))
        }
        best = min(map(_song, self.gammas), key=objective.__getitem__)
        gap = objective[BIASED] - objective[FULL]
        closed = (objective[BIASED] - objective[best]) / gap if gap else float("nan")
        said = [
            f"Objective over all training items after {self.epochs} epochs, lower is better: "
            + ", ".join(f"{label} {short(value)}" for label, value in objective.items())
            + f". {best} closes {100 * closed:.0f}% of the gap between the biased mini-batch gradient"
            " and training on all items."
        ]
        for queries in ("validation", "test"):
            for a, b in ((best, BIASED), (best, FULL)):
                row = difference_of(made, a, b, MAIN, queries)
                said.append(
                    f"nDCG@{MAIN} on the {queries} queries, {a} minus {b}: {in_words(row)}, {verdict(row)}."
                )
        return said


def _song(gamma: float) -> str:
    return f"SONG, gamma {number(gamma)}"
