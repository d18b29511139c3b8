"""SONG's gamma, the weight of the new value in its running estimates (Qiu et al. 2022, D.3)."""

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
from lmtune.laboratory.surrogates.sweep_words import at_end, difference_of, in_words, mean_of, verdict
from lmtune.laboratory.surrogates.sweeps import number, tables, units
from lmtune.reporting.figures.style import Picture, short


@dataclass(frozen=True)
class Settings(LongLists):
    """What to sweep, and how."""

    gammas: tuple[float, ...] = option((0.1, 0.3, 0.5, 0.7, 0.9, 1.0), "in (0, 1]; two or more")


def make_units(settings: Settings) -> list[Unit]:
    """Make one training a gamma and trial."""
    if len(settings.gammas) < 2:
        raise InputError("too few gammas", value=settings.gammas, accepted="2 or more")
    check_gammas(*settings.gammas)
    cases = [song_case(settings, number(own), {"gamma": own}) for own in settings.gammas]
    return units(cases, settings.trials, settings.seed)


def make_tables(settings: Settings, results: Mapping[str, Any]) -> Tables:
    """Gather them; every gamma is compared with the largest."""
    labels = [number(own) for own in settings.gammas]
    last = number(max(settings.gammas))
    return tables(
        labels,
        results,
        trials=settings.trials,
        cutoffs=cutoffs_of(settings),
        pairs=[(label, last) for label in labels if label != last],
    )


def make_pictures(settings: Settings, made: Tables) -> list[Picture]:
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
            made, name="gamma", title="nDCG by SONG's gamma", axis="gamma", cutoffs=cutoffs_of(settings)
        ),
    ]


def conclude(settings: Settings, made: Tables) -> list[str]:
    """Say which gamma is best, and whether the largest is worst."""
    labels = [number(own) for own in settings.gammas]
    last = number(max(settings.gammas))
    objective = {label: at_end(made, label, "objective") for label in labels}
    lowest, highest = min(labels, key=objective.__getitem__), max(labels, key=objective.__getitem__)
    said = [
        f"Objective over all training items after {settings.epochs} epochs, lower is better: "
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


EXPERIMENT = Experiment(
    name="gamma",
    settings=Settings,
    quick={**QUICK, "gammas": (0.3, 1.0)},
    units=make_units,
    tables=make_tables,
    pictures=make_pictures,
    conclusions=conclude,
)
