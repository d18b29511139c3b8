"""What can be chosen where NeuMF learns users' rankings of all items."""

from __future__ import annotations

from dataclasses import dataclass

from lmtune.errors import InputError
from lmtune.measures.measure import EXPONENTIAL, parse_list_measure
from lmtune.options import option, other_default
from lmtune.reranking.loss_names import Loss
from lmtune.reranking.settings import Settings


@dataclass(frozen=True)
class LongListSettings(Settings):
    """How NeuMF is trained: `Settings` with defaults for long lists; the network is no choice."""

    loss: Loss = other_default(Settings, "loss", Loss("song", family="song"))
    warm_up_loss: Loss = other_default(Settings, "warm_up_loss", Loss("cross-entropy", family="song"))
    warm_up: int = other_default(Settings, "warm_up", 10)
    list_size: int | None = other_default(Settings, "list_size", 40)
    list_relevant: int | None = other_default(Settings, "list_relevant", 10)
    learning_rate: float = other_default(Settings, "learning_rate", 0.003)
    weight_decay: float = other_default(Settings, "weight_decay", 1e-7)

    def __post_init__(self) -> None:
        super().__post_init__()
        cutoff_of(self.measure)
        relevant = self.relevant_of_sample
        if self.list_size is not None and not 0 < (relevant or 0) < self.list_size:
            raise InputError(
                "bad number of relevant items",
                value=relevant,
                accepted=f"1 or more, fewer than the {self.list_size} sampled",
            )
        if "trees" in (self.loss.family, self.warm_up_loss.family):
            raise InputError("trees need features of each item", accepted="losses of networks")


def cutoff_of(measure: str) -> int:
    """Return the k of ``ndcg@k``; raise InputError for other measures."""
    found = parse_list_measure(measure)
    if found.kind != "nDCG" or found.cutoff is None or found.dcg != EXPONENTIAL:
        raise InputError("no measure of held-out items", value=measure, accepted="ndcg@10, ndcg@K")
    return found.cutoff


LONG_LISTS = LongListSettings()
"""What long lists are trained with by default."""


@dataclass(frozen=True)
class RankingOptions:
    """What is learnt of ratings, and held out."""

    held_out: int = option(
        5, "Each user's last so many ratings are for tests, as many before them for validation.", low=1
    )
    graded: bool = option(False, "Take ratings for grades; else each rated item counts 1.")
    visits: int = option(4, "How often an epoch visits each user.", low=1)
    validation_users: int = option(
        10_000, "Measure each epoch on so many users at most, drawn once; tests take all.", low=1
    )
