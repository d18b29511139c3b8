"""SONG and K-SONG with and without a warm-up by cross-entropy (Qiu et al. 2022, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.surrogates.findings import compared, mean_of
from lmtune.laboratory.surrogates.long_lists import QUICK, LongLists
from lmtune.laboratory.surrogates.sweeps import QUERIES, Case, Pair
from lmtune.measures.measure import exponential_ndcg
from lmtune.options import option
from lmtune.reporting.figures.style import short

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
        cases = []
        for name, labels in _LABELS.items():
            loss = name.lower()
            options = {"gamma": self.gamma} | ({"cutoff": self.cutoff} if loss == "k-song" else {})
            watched = "" if self.on_ratings else loss
            for label, epochs in zip(labels, (0, self.warm_up), strict=True):
                cases.append(self.song_case(label, options, loss=loss, warm_up=epochs, watched=watched))
        return cases

    def comparisons(self) -> list[list[Pair]]:
        """Compare both forms of each loss."""
        return [[(warm, cold) for cold, warm in _LABELS.values()]]

    def conclusions(self, found: Tables) -> list[str]:
        """Say what the warm-up brings."""
        said = []
        for queries in QUERIES:
            for name, (cold, warm) in _LABELS.items():
                means = [short(mean_of(found, own, self.main_cutoff, queries)) for own in (cold, warm)]
                said.append(
                    f"{exponential_ndcg(self.main_cutoff)} of {name} on the {queries} queries: "
                    f"{means[0]} without, {means[1]} with {self.warm_up} of {self.epochs} epochs of warm-up; "
                    f"with minus without: {compared(found, warm, cold, self.main_cutoff, queries)}."
                )
        return said
