"""Theoretical against practical K-SONG (Qiu et al. 2022, sections 6 and 7.3, figure 4)."""

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
from lmtune.laboratory.surrogates.sweep_words import difference_of, in_words, mean_of, verdict
from lmtune.laboratory.surrogates.sweeps import tables, units
from lmtune.options import option
from lmtune.reporting.figures.style import Picture, short

FORMS = {"theoretical": True, "practical": False}


@dataclass(frozen=True)
class KSongForms(LongLists):
    """What to compare, and how."""

    name: ClassVar[str] = "k-song"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "warm_up": 10, "cutoffs": (50,)}

    trials: int = option(10, "trials a value, with seeds that follow each other; 2 or more")
    warm_up: int = option(20, "of all epochs, those of cross-entropy")
    gamma: float = option(0.3, "of the running estimates")
    cutoffs: tuple[int, ...] = option((10, 50), "K-SONG's K; below the lists' length")

    def units(self) -> list[Unit]:
        """Make one training a form, K and trial."""
        if not self.cutoffs or min(self.cutoffs) < 1:
            raise InputError("bad K", value=self.cutoffs, accepted="1 or more")
        check_gammas(self.gamma)
        cases = [
            song_case(
                self,
                _label(form, cutoff),
                {"gamma": self.gamma, "cutoff": cutoff, "theoretical": theoretical},
                loss="k-song",
                watched="",
            )
            for cutoff in self.cutoffs
            for form, theoretical in FORMS.items()
        ]
        return units(cases, self.trials, self.seed)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Gather them; both forms are compared at each K."""
        return tables(
            [_label(form, cutoff) for cutoff in self.cutoffs for form in FORMS],
            results,
            trials=self.trials,
            cutoffs=cutoffs_of(self),
            pairs=[(_label("theoretical", cutoff), _label("practical", cutoff)) for cutoff in self.cutoffs],
        )

    def pictures(self, made: Tables) -> list[Picture]:
        """Draw courses, and what they reach."""
        return [
            course_picture(
                made,
                name="k-song-courses",
                title="Both forms of K-SONG, by epoch",
                courses=("validation",),
                cutoff=MAIN,
            ),
            value_picture(
                made,
                name="k-song",
                title="nDCG by both forms of K-SONG",
                axis="",
                cutoffs=cutoffs_of(self),
                sideways=True,
            ),
        ]

    def conclusions(self, made: Tables) -> list[str]:
        """Say how much the forms differ."""
        said = []
        for queries in ("validation", "test"):
            for cutoff in self.cutoffs:
                a, b = (_label(form, cutoff) for form in FORMS)
                row = difference_of(made, a, b, MAIN, queries)
                means = [short(mean_of(made, own, MAIN, queries)) for own in (a, b)]
                said.append(
                    f"nDCG@{MAIN} on the {queries} queries with K = {cutoff}: theoretical {means[0]}, "
                    f"practical {means[1]}; difference {in_words(row)}, {verdict(row)}."
                )
        return said


def _label(form: str, cutoff: int) -> str:
    return f"{form}, K = {cutoff}"
