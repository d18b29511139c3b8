"""Sweeps of SONG over long lists, of which each step sees a sample: made lists, or ratings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmtune.errors import InputError
from lmtune.laboratory.surrogates.sweeps import Case, Sweep
from lmtune.laboratory.surrogates.trainings import train_on_ratings
from lmtune.options import option

QUICK: dict[str, Any] = {
    "data": "artificial:40x500",
    "trials": 3,
    "epochs": 30,
    "batch_size": 10,
    "learning_rate": 0.005,
}
"""What small runs have in common."""

_RATINGS = "movielens:"


@dataclass(frozen=True)
class LongLists(Sweep):
    """What sweeps over long lists have."""

    data: str = option(
        "artificial:100x1000", "artificial:QUERIES[xDOCUMENTS], a LETOR folder, or movielens:FILE of ratings"
    )
    least: int = option(3, "labels below this one count as 0 (not for ratings); 1 keeps all", low=1)
    network: str = option("mlp:64-32", "the scorer; not for ratings, which take NeuMF")
    trials: int = option(5, "trials a value, with seeds that follow each other; 2 or more", low=2)
    epochs: int = option(60, "passes over the training lists, warm-up included", low=1)
    warm_up: int = option(0, "epochs of cross-entropy first", low=0)
    sampled: int = option(20, "items a list and step, drawn anew each time", low=2)
    relevant: int = option(10, "how many of them are relevant", low=1)
    margin: float = option(1.0, "of the squared hinge; 1 gives the tightest bound", above=0)
    learning_rate: float = option(0.002, "Adam's rate", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relevant >= self.sampled:
            accepted = f"1 or more, fewer than the {self.sampled} sampled"
            raise InputError("bad number of relevant items", value=self.relevant, accepted=accepted)
        if self.warm_up >= self.epochs:
            accepted = f"fewer than the {self.epochs} epochs in all"
            raise InputError("no epoch is left after the warm-up", value=self.warm_up, accepted=accepted)

    @property
    def on_ratings(self) -> bool:
        """Whether the data are ratings."""
        return self.data.startswith(_RATINGS)

    @property
    def measured_at(self) -> tuple[int, ...]:
        """The cutoffs of the NDCG."""
        return (10, 20, 50) if self.on_ratings else (1, 5, 10)

    @property
    def main_cutoff(self) -> int:
        """The cutoff that chooses the epoch."""
        return 10

    def song_case(
        self,
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
        label : str
            The case's.
        options : mapping
            The loss's, besides the margin.
        loss : {"song", "k-song"}
            Which.
        whole : bool
            Whether steps see all items.
        warm_up : int, optional
            Instead of the sweep's own.
        watched : {"", "song", "k-song"}
            The objective to take after each epoch; costs a pass over all lists.

        Raises
        ------
        InputError
            For settings out of range.
        """
        own = {"margin": self.margin, **options}
        settings: dict[str, Any] = {
            "loss": loss,
            "loss_options": own,
            "network": self.network,
            "epochs": self.epochs,
            "warm_up": self.warm_up if warm_up is None else warm_up,
            "warm_up_loss": "cross-entropy",
            "batch_size": self.batch_size,
            "list_size": None if whole else self.sampled,
            "list_relevant": None if whole else self.relevant,
            "learning_rate": self.learning_rate,
        }
        watching = {"watched": watched, "margin": self.margin}
        if self.on_ratings:
            where = {"path": self.data.removeprefix(_RATINGS), "cutoffs": list(self.measured_at)}
            return Case(label, train_on_ratings, {**where, "settings": settings, **watching})
        return self.network_case(label, settings, least=self.least, **watching)
