"""What can be chosen where labels of examples are ranked."""

from __future__ import annotations

from dataclasses import dataclass

from lmtune.errors import InputError
from lmtune.measures.label_measures import parse_label_measure
from lmtune.measures.measure import Measure
from lmtune.options import option, other_default, usual
from lmtune.reranking.long_list_settings import LongListSettings
from lmtune.reranking.networks import parse_network


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
    """What is learnt of examples, and measured."""

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
