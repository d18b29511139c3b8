"""K-SONG theoretical, practical, and bounding ranks instead (Qiu et al. 2022, 6, 7.3, figures 4, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.laboratory.surrogates.long_lists import QUICK, LongLists
from lmtune.laboratory.surrogates.sweeps import Case, Pair
from lmtune.options import option

_FORMS: dict[str, dict[str, Any]] = {
    "theoretical": {"theoretical": True},
    "practical": {"theoretical": False},
    "by rank": {"inside": "rank"},
}


@dataclass(frozen=True)
class KSongForms(LongLists):
    """What to compare, and how."""

    name: ClassVar[str] = "k-song"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "warm_up": 10, "cutoffs": (50,)}
    value_title: ClassVar[str] = "nDCG by the forms of K-SONG"
    course_title: ClassVar[str] = "The forms of K-SONG, by epoch"
    courses: ClassVar[tuple[str, ...]] = ("validation",)

    trials: int = option(10, "trials a value, with seeds that follow each other; 2 or more", low=2)
    warm_up: int = option(20, "of all epochs, those of cross-entropy", low=0)
    gamma: float = option(0.3, "of the running estimates", above=0, high=1)
    cutoffs: tuple[int, ...] = option((10, 50), "K-SONG's K; below the lists' length", low=1, fewest=1)

    def cases(self) -> list[Case]:
        """Return one training a form and K."""
        return [
            self.song_case(
                _label(form, cutoff), {"gamma": self.gamma, "cutoff": cutoff, **options}, loss="k-song"
            )
            for cutoff in self.cutoffs
            for form, options in _FORMS.items()
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare the theoretical form with the others at each K."""
        first, *others = _FORMS
        return [[(_label(first, cutoff), _label(own, cutoff)) for cutoff in self.cutoffs for own in others]]


def _label(form: str, cutoff: int) -> str:
    return f"{form}, K = {cutoff}"
