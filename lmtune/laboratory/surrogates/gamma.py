"""SONG's gamma, the weight of the new value in its running estimates (Qiu et al. 2022, D.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.surrogates.findings import at_end, compared, mean_of
from lmtune.laboratory.surrogates.long_lists import QUICK, LongLists
from lmtune.laboratory.surrogates.sweeps import QUERIES, Case, Pair, number
from lmtune.measures.measure import exponential_ndcg
from lmtune.options import option
from lmtune.reporting.figures.style import short


@dataclass(frozen=True)
class Gamma(LongLists):
    """What to sweep, and how."""

    name: ClassVar[str] = "gamma"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "gammas": (0.3, 1.0)}
    axis: ClassVar[str] = "gamma"
    value_title: ClassVar[str] = "nDCG by SONG's gamma"
    course_title: ClassVar[str] = "SONG by epoch at several gammas"
    courses: ClassVar[tuple[str, ...]] = ("objective", "validation")

    gammas: tuple[float, ...] = option(
        (0.1, 0.3, 0.5, 0.7, 0.9, 1.0), "in (0, 1]; two or more", above=0, high=1, fewest=2
    )

    def cases(self) -> list[Case]:
        """Return one training a gamma."""
        return [self.song_case(number(own), {"gamma": own}) for own in self.gammas]

    def comparisons(self) -> list[list[Pair]]:
        """Compare every gamma with the largest."""
        last = number(max(self.gammas))
        return [[(label, last) for label in map(number, self.gammas) if label != last]]

    def conclusions(self, found: Tables) -> list[str]:
        """Say which gamma is best, and whether the largest is worst."""
        labels = [number(own) for own in self.gammas]
        last = number(max(self.gammas))
        objective = {label: at_end(found, label, "objective") for label in labels}
        lowest, highest = min(labels, key=objective.__getitem__), max(labels, key=objective.__getitem__)
        said = [
            f"Objective over all training items after {self.epochs} epochs, lower is better: "
            + ", ".join(f"{short(objective[label])} with gamma {label}" for label in labels)
            + f". Best: {lowest}; worst: {highest}."
        ]
        for queries in QUERIES:
            means = {label: mean_of(found, label, self.main_cutoff, queries) for label in labels}
            best, worst = max(labels, key=means.__getitem__), min(labels, key=means.__getitem__)
            text = (
                f"{exponential_ndcg(self.main_cutoff)} on the {queries} queries: best with gamma {best} "
                f"({short(means[best])}), worst with {worst} ({short(means[worst])})."
            )
            if best != last:
                difference = compared(found, best, last, self.main_cutoff, queries)
                text += f" Gamma {best} minus {last}: {difference}."
            said.append(text)
        return said
