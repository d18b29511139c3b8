"""SONG and K-SONG with and without a warm-up by cross-entropy (Qiu et al. 2022, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Tables, Unit
from lmtune.laboratory.surrogates.long_list_sweeps import (
    MAIN,
    QUICK,
    RATINGS,
    LongLists,
    check_gammas,
    cutoffs_of,
    song_case,
)
from lmtune.laboratory.surrogates.pictures import course_picture, value_picture
from lmtune.laboratory.surrogates.sweep_words import difference_of, in_words, mean_of, verdict
from lmtune.laboratory.surrogates.sweeps import tables, units
from lmtune.options import option
from lmtune.reporting.figures.style import Picture, short

LOSSES = {"song": "SONG", "k-song": "K-SONG"}


@dataclass(frozen=True)
class WarmUp(LongLists):
    """What to compare, and how."""

    name: ClassVar[str] = "warm-up"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "epochs": 18, "warm_up": 6}

    trials: int = option(7, "trials a value, with seeds that follow each other; 2 or more")
    warm_up: int = option(20, "of all epochs, those of cross-entropy; 1 or more")
    gamma: float = option(0.3, "of both losses")
    cutoff: int = option(50, "K-SONG's K")

    def units(self) -> list[Unit]:
        """Make one training a loss, with and without warm-up, and trial."""
        if self.warm_up < 1:
            raise InputError("no warm-up to compare with", value=self.warm_up, accepted="1 or more")
        check_gammas(self.gamma)
        cases = []
        for loss, name in LOSSES.items():
            options: dict[str, Any] = {"gamma": self.gamma}
            if loss == "k-song":
                options["cutoff"] = self.cutoff
            for label, epochs in ((_cold(name), 0), (_warm(name), self.warm_up)):
                cases.append(
                    song_case(
                        self,
                        label,
                        options,
                        loss=loss,
                        warm_up=epochs,
                        watched="" if self.data.startswith(RATINGS) else loss,
                    )
                )
        return units(cases, self.trials, self.seed)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Gather them; both forms of each loss are compared."""
        names = list(LOSSES.values())
        return tables(
            [label for name in names for label in (_cold(name), _warm(name))],
            results,
            trials=self.trials,
            cutoffs=cutoffs_of(self),
            pairs=[(_warm(name), _cold(name)) for name in names],
        )

    def pictures(self, made: Tables) -> list[Picture]:
        """Draw courses, and what they reach."""
        return [
            course_picture(
                made,
                name="warm-up-courses",
                title="With and without warm-up, by epoch",
                courses=("training", "validation"),
                cutoff=MAIN,
            ),
            value_picture(
                made,
                name="warm-up",
                title="nDCG with and without warm-up",
                axis="",
                cutoffs=cutoffs_of(self),
                sideways=True,
            ),
        ]

    def conclusions(self, made: Tables) -> list[str]:
        """Say what the warm-up brings."""
        said = []
        for queries in ("validation", "test"):
            for name in LOSSES.values():
                row = difference_of(made, _warm(name), _cold(name), MAIN, queries)
                cold, warm = (mean_of(made, own(name), MAIN, queries) for own in (_cold, _warm))
                said.append(
                    f"nDCG@{MAIN} of {name} on the {queries} queries: {short(cold)} without, "
                    f"{short(warm)} with {self.warm_up} of {self.epochs} epochs of warm-up; "
                    f"with minus without: {in_words(row)}, {verdict(row)}."
                )
        return said


def _cold(name: str) -> str:
    return f"{name}, cold"


def _warm(name: str) -> str:
    return f"{name}, warm-up"
