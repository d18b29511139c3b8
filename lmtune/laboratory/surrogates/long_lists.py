"""Sweeps of SONG over long lists, of which each step sees a sample: made lists, or ratings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.surrogates.findings import at_end
from lmtune.laboratory.surrogates.sweeps import Case, Sweep
from lmtune.laboratory.surrogates.trainings import train_on_ratings
from lmtune.options import option
from lmtune.reporting.figures.style import short

QUICK: dict[str, Any] = {
    "data": "artificial:40x500",
    "trials": 3,
    "epochs": 30,
    "batch_size": 10,
    "learning_rate": 0.005,
}
"""What small runs have in common."""

_RATINGS = "movielens:"
TRAINED = ("song", "k-song", "cross-entropy")
"""What sweeps may train by: the last is the warm-up's loss."""


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
    ) -> Case:
        """Make a case that trains SONG or a relative of it.

        Parameters
        ----------
        label : str
            The case's.
        options : mapping
            The loss's, besides the margin.
        loss : {"song", "k-song", "cross-entropy"}
            Which.
        whole : bool
            Whether steps see all items.
        warm_up : int, optional
            Instead of the sweep's own.

        Raises
        ------
        InputError
            For settings out of range.
        """
        settings: dict[str, Any] = {
            "loss": loss,
            "loss_options": {**({} if loss == "cross-entropy" else {"margin": self.margin}), **options},
            "network": self.network,
            "epochs": self.epochs,
            "warm_up": self.warm_up if warm_up is None else warm_up,
            "warm_up_loss": "cross-entropy",
            "batch_size": self.batch_size,
            "list_size": None if whole else self.sampled,
            "list_relevant": None if whole else self.relevant,
            "learning_rate": self.learning_rate,
        }
        # Courses on ratings have no measure of the training lists.
        watched = bool({"objective", "" if self.on_ratings else "training"} & set(self.courses))
        if self.on_ratings:
            where = {"path": self.data.removeprefix(_RATINGS), "cutoffs": list(self.measured_at)}
            return Case(label, train_on_ratings, {**where, "settings": settings, "watched": watched})
        return self.network_case(label, settings, least=self.least, watched=watched)

    def conclusions(self, found: Tables) -> list[str]:
        """Say where the objective ends, and what `Sweep` says."""
        if "objective" not in self.courses:
            return super().conclusions(found)
        values = ", ".join(
            f"{case.label} {short(at_end(found, case.label, 'objective'))}" for case in self.cases()
        )
        lead = f"Objective over all training items after {self.epochs} epochs, lower is better: {values}."
        return [lead, *super().conclusions(found)]
