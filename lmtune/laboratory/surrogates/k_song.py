"""Theoretical against practical K-SONG (Qiu et al. 2022, sections 6 and 7.3, figure 4)."""

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


@dataclass(frozen=True)
class KSongForms(LongLists):
    """What to compare, and how."""

    name: ClassVar[str] = "k-song"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "warm_up": 10, "cutoffs": (50,)}
    value_title: ClassVar[str] = "nDCG by both forms of K-SONG"
    course_title: ClassVar[str] = "Both forms of K-SONG, by epoch"
    courses: ClassVar[tuple[str, ...]] = ("validation",)

    trials: int = option(10, "trials a value, with seeds that follow each other; 2 or more", low=2)
    warm_up: int = option(20, "of all epochs, those of cross-entropy", low=0)
    gamma: float = option(0.3, "of the running estimates", above=0, high=1)
    cutoffs: tuple[int, ...] = option((10, 50), "K-SONG's K; below the lists' length", low=1, fewest=1)

    def cases(self) -> list[Case]:
        """Return one training a form and K."""
        return [
            self.song_case(
                label,
                {"gamma": self.gamma, "cutoff": cutoff, "theoretical": theoretical},
                loss="k-song",
                watched="",
            )
            for cutoff, pair in zip(self.cutoffs, self._pairs(), strict=True)
            for label, theoretical in zip(pair, (True, False), strict=True)
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare both forms at each K."""
        return [self._pairs()]

    def conclusions(self, found: Tables) -> list[str]:
        """Say how much the forms differ."""
        said = []
        for queries in QUERIES:
            for cutoff, pair in zip(self.cutoffs, self._pairs(), strict=True):
                theoretical, practical = (
                    short(mean_of(found, own, self.main_cutoff, queries)) for own in pair
                )
                said.append(
                    f"{exponential_ndcg(self.main_cutoff)} on the {queries} queries with K = {cutoff}: "
                    f"theoretical {theoretical}, practical {practical}; difference "
                    f"{compared(found, *pair, self.main_cutoff, queries)}."
                )
        return said

    def _pairs(self) -> list[Pair]:
        return [(f"theoretical, K = {cutoff}", f"practical, K = {cutoff}") for cutoff in self.cutoffs]
