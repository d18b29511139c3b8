"""Sweeps of SONG over long lists, of which each step sees a sample: made lists, or ratings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmtune.errors import InputError
from lmtune.laboratory.surrogates.sweeps import Case, Common
from lmtune.laboratory.surrogates.trainings import train, train_on_ratings
from lmtune.options import option
from lmtune.reranking.settings import Settings

MAIN = 10
RATINGS = "movielens:"
_DATA = "artificial:QUERIES[xDOCUMENTS], a LETOR folder, or movielens:FILE of ratings"


@dataclass(frozen=True)
class LongLists(Common):
    """What sweeps over long lists have."""

    data: str = option("artificial:100x1000", _DATA)
    least: int = option(3, "labels below this one count as 0 (not for ratings); 1 keeps all")
    network: str = option("mlp:64-32", "the scorer; not for ratings, which take NeuMF")
    trials: int = option(5, "trials a value, with seeds that follow each other; 2 or more")
    epochs: int = option(60, "passes over the training lists, warm-up included")
    warm_up: int = option(0, "epochs of cross-entropy first")
    sampled: int = option(20, "items a list and step, drawn anew each time")
    relevant: int = option(10, "how many of them are relevant")
    margin: float = option(1.0, "of the squared hinge; 1 gives the tightest bound")
    learning_rate: float = option(0.002, "Adam's rate")


QUICK: dict[str, Any] = {
    "data": "artificial:40x500",
    "trials": 3,
    "epochs": 30,
    "batch_size": 10,
    "learning_rate": 0.005,
}
"""What small runs have in common."""


def cutoffs_of(settings: LongLists) -> tuple[int, ...]:
    """Return the cutoffs to measure at; the epoch is chosen at `MAIN`."""
    return (10, 20, 50) if settings.data.startswith(RATINGS) else (1, 5, 10)


def check_gammas(*gammas: float, most: float = 1.0) -> None:
    """Raise InputError unless all are above 0, and at most `most`."""
    for own in gammas:
        if not 0.0 < own <= most:
            accepted = "above 0, at most 1" if most == 1.0 else "above 0, below 1"
            raise InputError("gamma out of range", value=own, accepted=accepted)


def song_case(
    settings: LongLists,
    label: str,
    options: Mapping[str, Any],
    *,
    loss: str = "song",
    whole: bool = False,
    warm_up: int | None = None,
    watched: str = "song",
) -> Case:
    """Make a case that trains SONG or K-SONG.

    Parameters
    ----------
    settings : LongLists
        Of the experiment.
    label : str
        The case's.
    options : mapping
        The loss's, besides the margin.
    loss : {"song", "k-song"}
        Which.
    whole : bool
        Whether steps see all items.
    warm_up : int, optional
        Instead of the settings' own.
    watched : {"", "song", "k-song"}
        The objective to take after each epoch; costs a pass over all lists.

    Raises
    ------
    InputError
        For settings out of range.
    """
    if not 0 < settings.relevant < settings.sampled:
        raise InputError(
            "bad number of relevant items",
            value=settings.relevant,
            accepted=f"1 or more, fewer than the {settings.sampled} sampled",
        )
    if settings.least < 1:
        raise InputError("bad least label", value=settings.least, accepted="1 or more")
    warm = settings.warm_up if warm_up is None else warm_up
    given = {"margin": settings.margin, **options}
    common: dict[str, Any] = {
        "cutoffs": list(cutoffs_of(settings)),
        "watched": watched,
        "margin": settings.margin,
    }
    trained = {
        "loss": loss,
        "loss_options": given,
        "network": settings.network,
        "epochs": settings.epochs,
        "warm_up": warm,
        "warm_up_loss": "cross-entropy",
        "batch_size": settings.batch_size,
        "list_size": None if whole else settings.sampled,
        "list_relevant": None if whole else settings.relevant,
        "learning_rate": settings.learning_rate,
    }
    Settings.from_record(trained)
    if settings.data.startswith(RATINGS):
        path = settings.data.removeprefix(RATINGS)
        return Case(label, train_on_ratings, {"path": path, "settings": trained, **common})
    where = {"data": settings.data, "data_seed": settings.seed, "least": settings.least}
    return Case(label, train, {**where, "settings": trained, **common})
