"""SONG and K-SONG with and without a warm-up by cross-entropy (Qiu et al. 2022, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.laboratory.surrogates.long_lists import QUICK, LongLists
from lmtune.laboratory.surrogates.sweeps import Case, Pair
from lmtune.options import option

# By a loss's title: without and with warm-up.
_LABELS = {name: (f"{name}, cold", f"{name}, warm-up") for name in ("SONG", "K-SONG")}


@dataclass(frozen=True)
class WarmUp(LongLists):
    """What to compare, and how."""

    name: ClassVar[str] = "warm-up"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "epochs": 18, "warm_up": 6}
    value_title: ClassVar[str] = "nDCG with and without warm-up"
    course_title: ClassVar[str] = "With and without warm-up, by epoch"
    courses: ClassVar[tuple[str, ...]] = ("training", "validation")

    trials: int = option(7, "trials a value, with seeds that follow each other; 2 or more", low=2)
    warm_up: int = option(20, "of all epochs, those of cross-entropy; 1 or more", low=1)
    gamma: float = option(0.3, "of both losses", above=0, high=1)
    cutoff: int = option(50, "K-SONG's K", low=1)

    def cases(self) -> list[Case]:
        """Return one training a loss, with and without warm-up."""
        cases: list[Case] = []
        for name, labels in _LABELS.items():
            loss = name.lower()
            options = {"gamma": self.gamma} | ({"cutoff": self.cutoff} if loss == "k-song" else {})
            cases += [
                self.song_case(label, options, loss=loss, warm_up=epochs)
                for label, epochs in zip(labels, (0, self.warm_up), strict=True)
            ]
        return cases

    def comparisons(self) -> list[list[Pair]]:
        """Compare both forms of each loss."""
        return [[(warm, cold) for cold, warm in _LABELS.values()]]
