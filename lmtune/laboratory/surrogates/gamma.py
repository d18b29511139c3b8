"""SONG's gamma, the weight of the new value in its running estimates (Qiu et al. 2022, D.3)."""

from __future__ import annotations

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
from lmtune.laboratory.surrogates.pictures import course_picture, value_picture
from lmtune.laboratory.surrogates.sweep_words import at_end, difference_of, in_words, mean_of, verdict
from lmtune.laboratory.surrogates.sweeps import number, tables, units
from lmtune.options import option
from lmtune.reporting.figures.style import Picture, short


@dataclass(frozen=True)
class Gamma(LongLists):
    """What to sweep, and how."""

    name: ClassVar[str] = "gamma"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "gammas": (0.3, 1.0)}

    gammas: tuple[float, ...] = option((0.1, 0.3, 0.5, 0.7, 0.9, 1.0), "in (0, 1]; two or more")

    def units(self) -> list[Unit]:
        """Make one training a gamma and trial."""
        if len(self.gammas) < 2:
            raise InputError("too few gammas", value=self.gammas, accepted="2 or more")
        check_gammas(*self.gammas)
        cases = [song_case(self, number(own), {"gamma": own}) for own in self.gammas]
        return units(cases, self.trials, self.seed)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Gather them; every gamma is compared with the largest."""
        labels = [number(own) for own in self.gammas]
        last = number(max(self.gammas))
        return tables(
            labels,
            results,
            trials=self.trials,
            cutoffs=cutoffs_of(self),
            pairs=[(label, last) for label in labels if label != last],
        )

    def pictures(self, made: Tables) -> list[Picture]:
        """Draw courses, and what they reach."""
        return [
            course_picture(
                made,
                name="gamma-courses",
                title="SONG by epoch at several gammas",
                axis="gamma",
                courses=("objective", "validation"),
                cutoff=MAIN,
            ),
            value_picture(
                made, name="gamma", title="nDCG by SONG's gamma", axis="gamma", cutoffs=cutoffs_of(self)
            ),
        ]

    def conclusions(self, made: Tables) -> list[str]:
        """Say which gamma is best, and whether the largest is worst."""
        labels = [number(own) for own in self.gammas]
        last = number(max(self.gammas))
        objective = {label: at_end(made, label, "objective") for label in labels}
        lowest, highest = min(labels, key=objective.__getitem__), max(labels, key=objective.__getitem__)
        said = [
            f"Objective over all training items after {self.epochs} epochs, lower is better: "
            + ", ".join(f"{short(objective[label])} with gamma {label}" for label in labels)
            + f". Best: {lowest}; worst: {highest}."
        ]
        for queries in ("validation", "test"):
            means = {label: mean_of(made, label, MAIN, queries) for label in labels}
            best = max(labels, key=means.__getitem__)
            worst = min(labels, key=means.__getitem__)
            text = (
                f"nDCG@{MAIN} on the {queries} queries: best with gamma {best} ({short(means[best])}), "
                f"worst with {worst} ({short(means[worst])})."
            )
            if best != last:
                row = difference_of(made, best, last, MAIN, queries)
                text += f" Gamma {best} minus {last}: {in_words(row)}, {verdict(row)}."
            said.append(text)
        return said
