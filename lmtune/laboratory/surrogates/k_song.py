"""Theoretical against practical K-SONG (Qiu et al. 2022, sections 6 and 7.3, figure 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Experiment, Tables, Unit, option
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
from lmtune.reporting.figures.style import Picture, short

FORMS = {"theoretical": True, "practical": False}


@dataclass(frozen=True)
class Settings(LongLists):
    """What to compare, and how."""

    trials: int = option(10, "trials a value, with seeds that follow each other; 2 or more")
    warm_up: int = option(20, "of all epochs, those of cross-entropy")
    gamma: float = option(0.3, "of the running estimates")
    cutoffs: tuple[int, ...] = option((10, 50), "K-SONG's K; below the lists' length")


def make_units(settings: Settings) -> list[Unit]:
    """Make one training a form, K and trial."""
    if not settings.cutoffs or min(settings.cutoffs) < 1:
        raise InputError("bad K", value=settings.cutoffs, accepted="1 or more")
    check_gammas(settings.gamma)
    cases = [
        song_case(
            settings,
            _label(form, cutoff),
            {"gamma": settings.gamma, "cutoff": cutoff, "theoretical": theoretical},
            loss="k-song",
            watched="",
        )
        for cutoff in settings.cutoffs
        for form, theoretical in FORMS.items()
    ]
    return units(cases, settings.trials, settings.seed)


def make_tables(settings: Settings, results: Mapping[str, Any]) -> Tables:
    """Gather them; both forms are compared at each K."""
    return tables(
        [_label(form, cutoff) for cutoff in settings.cutoffs for form in FORMS],
        results,
        trials=settings.trials,
        cutoffs=cutoffs_of(settings),
        pairs=[(_label("theoretical", cutoff), _label("practical", cutoff)) for cutoff in settings.cutoffs],
    )


def make_pictures(settings: Settings, made: Tables) -> list[Picture]:
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
            cutoffs=cutoffs_of(settings),
            sideways=True,
        ),
    ]


def conclude(settings: Settings, made: Tables) -> list[str]:
    """Say how much the forms differ."""
    said = []
    for queries in ("validation", "test"):
        for cutoff in settings.cutoffs:
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


EXPERIMENT = Experiment(
    name="k-song",
    settings=Settings,
    quick={**QUICK, "warm_up": 10, "cutoffs": (50,)},
    units=make_units,
    tables=make_tables,
    pictures=make_pictures,
    conclusions=conclude,
)
