"""SONG on samples against training on all items (Qiu et al. 2022, section 7.3, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.surrogates.findings import at_end, compared
from lmtune.laboratory.surrogates.long_lists import QUICK, LongLists
from lmtune.laboratory.surrogates.sweeps import QUERIES, Case, Pair, number
from lmtune.measures.measure import exponential_ndcg
from lmtune.options import option
from lmtune.reporting.figures.style import short

FULL = "all items"
BIASED = "biased mini-batch"


@dataclass(frozen=True)
class FullItems(LongLists):
    """What to compare, and how."""

    name: ClassVar[str] = "full-items"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "gammas": (0.3,), "epochs": 20}
    course_title: ClassVar[str] = "Training on all items and on samples, by epoch"
    courses: ClassVar[tuple[str, ...]] = ("objective", "training", "validation")

    gammas: tuple[float, ...] = option(
        (0.1, 0.3), "SONG's, below 1; the best is taken", above=0, below=1, fewest=1
    )

    def cases(self) -> list[Case]:
        """Return one training a method."""
        return [
            self.song_case(FULL, {"gamma": 1.0}, whole=True),
            self.song_case(BIASED, {"gamma": 1.0}),
            *(self.song_case(_song(own), {"gamma": own}) for own in self.gammas),
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare all methods."""
        songs = map(_song, self.gammas)
        return [[*((song, other) for song in songs for other in (BIASED, FULL)), (BIASED, FULL)]]

    def conclusions(self, found: Tables) -> list[str]:
        """Say how near SONG comes to training on all items."""
        songs = [_song(own) for own in self.gammas]
        objective = {label: at_end(found, label, "objective") for label in (FULL, BIASED, *songs)}
        best = min(songs, key=objective.__getitem__)
        gap = objective[BIASED] - objective[FULL]
        closed = (objective[BIASED] - objective[best]) / gap if gap else float("nan")
        said = [
            f"Objective over all training items after {self.epochs} epochs, lower is better: "
            + ", ".join(f"{label} {short(value)}" for label, value in objective.items())
            + f". {best} closes {100 * closed:.0f}% of the gap between the biased mini-batch gradient"
            " and training on all items."
        ]
        return said + [
            f"{exponential_ndcg(self.main_cutoff)} on the {queries} queries, {best} minus {other}: "
            f"{compared(found, best, other, self.main_cutoff, queries)}."
            for queries in QUERIES
            for other in (BIASED, FULL)
        ]


def _song(gamma: float) -> str:
    return f"SONG, gamma {number(gamma)}"
