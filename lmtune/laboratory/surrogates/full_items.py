"""SONG or its warm-up on samples against all items (Qiu et al. 2022, section 7.3, figures 3, 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.surrogates.findings import at_end
from lmtune.laboratory.surrogates.long_lists import QUICK, TRAINED, LongLists
from lmtune.laboratory.surrogates.sweeps import Case, Pair, number
from lmtune.options import option

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
        (0.1, 0.3), "of the running estimates, below 1; the best is taken", above=0, below=1, fewest=1
    )
    loss: str = option("song", "song, k-song, or cross-entropy, the warm-up's", choices=TRAINED)

    def cases(self) -> list[Case]:
        """Return one training a method."""
        return [
            self.song_case(FULL, {"gamma": 1.0}, loss=self.loss, whole=True),
            self.song_case(BIASED, {"gamma": 1.0}, loss=self.loss),
            *(self.song_case(_estimated(own), {"gamma": own}, loss=self.loss) for own in self.gammas),
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare all methods."""
        ours = map(_estimated, self.gammas)
        return [[*((own, other) for own in ours for other in (BIASED, FULL)), (BIASED, FULL)]]

    def conclusions(self, found: Tables) -> list[str]:
        """Say how near running estimates come to training on all items."""
        said = super().conclusions(found)
        ours = [_estimated(own) for own in self.gammas]
        objective = {label: at_end(found, label, "objective") for label in (FULL, BIASED, *ours)}
        best = min(ours, key=objective.__getitem__)
        gap = objective[BIASED] - objective[FULL]
        closed = (objective[BIASED] - objective[best]) / gap if gap else float("nan")
        return [
            *said,
            f"{best} closes {100 * closed:.0f}% of the gap in the objective between the biased mini-batch"
            " gradient and training on all items.",
        ]


def _estimated(gamma: float) -> str:
    return f"samples, gamma {number(gamma)}"
