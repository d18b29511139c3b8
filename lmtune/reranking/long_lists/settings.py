"""Options of trainings on long lists: users' rankings of all items, and of labels."""

from __future__ import annotations

from dataclasses import dataclass

from lmtune.errors import InputError
from lmtune.measures.kinds import EXPONENTIAL
from lmtune.measures.lists import parse_label_measure
from lmtune.measures.measure import Measure, parse_list_measure
from lmtune.options import option, other_default, usual
from lmtune.reranking.learners.networks import parse_network
from lmtune.reranking.losses.names import LEARNER, SONG, Loss
from lmtune.reranking.settings import Settings


@dataclass(frozen=True)
class LongListSettings(Settings):
    """How NeuMF is trained: `Settings` with defaults for long lists; the network is no choice."""

    loss: Loss = other_default(Settings, "loss", Loss("song", family=SONG))
    warm_up_loss: Loss = other_default(Settings, "warm_up_loss", Loss("cross-entropy", family=SONG))
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
        if LEARNER in (self.loss.family, self.warm_up_loss.family):
            raise InputError("trees need features of each item", accepted="losses of networks")


def cutoff_of(measure: str | Measure) -> int:
    """Return the k of ``ndcg@k``; raise InputError for other measures."""
    parsed = parse_list_measure(measure)
    if parsed.kind != "nDCG" or parsed.cutoff is None or parsed.dcg != EXPONENTIAL:
        raise InputError("no measure of held-out items", value=measure, accepted="ndcg@10, ndcg@K")
    return parsed.cutoff


LONG_LISTS = LongListSettings()
"""The defaults for long lists."""


@dataclass(frozen=True)
class RankingOptions:
    """Ratings learnt from and held out."""

    held_out: int = option(
        5, "Each user's last so many ratings are for tests, as many before them for validation.", low=1
    )
    graded: bool = option(False, "Take ratings for grades; else each rated item counts 1.")
    visits: int = option(4, "How often an epoch visits each user.", low=1)
    validation_users: int = option(
        10_000, "Measure each epoch on so many users at most, drawn once; tests take all.", low=1
    )


@dataclass(frozen=True)
class LabelSettings(LongListSettings):
    """How labels are ranked."""

    network: str = usual(
        "mlp:256", "linear, or mlp:256, mlp:512-256 ...: layers of these widths.", flag="--net"
    )
    epochs: int = other_default(LongListSettings, "epochs", 20)
    warm_up: int = other_default(LongListSettings, "warm_up", 5)
    list_size: int | None = other_default(LongListSettings, "list_size", 100)
    weight_decay: float = other_default(LongListSettings, "weight_decay", 0.0)
    measure: str = option("ndcg@5", "What validation chooses by: ndcg@K.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if parse_network(self.network)[0] not in ("mlp", "linear") or self.network == "two-layer":
            raise InputError(
                "no network for labels", value=self.network, accepted="linear, mlp:256, mlp:512-256"
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        return parse_network(self.network)[1]


@dataclass(frozen=True)
class LabelOptions:
    """Examples learnt from, and measures."""

    split: int = option(1, "Which column of split files.", low=1)
    test_share: float = option(
        0.3, "Of a single file: the share of its examples to test on.", above=0, below=1
    )
    validation: float = option(
        0.1, "The share of training examples that chooses the epoch.", above=0, below=1
    )
    visits: int = option(1, "How often an epoch visits each example.", low=1)
    reported: tuple[Measure, ...] = option(
        tuple(map(parse_label_measure, ("p@1", "p@5", "ndcg@3", "ndcg@5", "psp@5", "psndcg@5"))),
        "What is reported: p@K, ndcg@K; scored by propensities psp@K, psndcg@K.",
        read=lambda text: tuple(map(parse_label_measure, text.split(","))),
        flag="--report",
    )
    propensity_a: float = option(
        0.55, "A of the propensities: .5 for Wikipedia's sets, .6 for Amazon's.", low=0
    )
    propensity_b: float = option(
        1.5, "B of the propensities: .4 for Wikipedia's sets, 2.6 for Amazon's.", low=0
    )
