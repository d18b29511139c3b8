"""Shared options of the sweeps over long lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.common import Results
from experiments.sweep import Pair, loss_text, sweep

QUICK: dict[str, Any] = {
    "data": "artificial:40x500",
    "trials": 3,
    "epochs": 30,
    "batch_size": 10,
    "learning_rate": 0.005,
}
FULL: dict[str, Any] = {"list_size": None, "list_relevant": None}
"""Settings of training on all items."""


@dataclass(frozen=True)
class LongLists:
    """A sweep over long lists; each step uses a sample of the items.

    Attributes
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    least : int
        smallest relevant label; lower ones count as 0
    network : str
        the scorer
    trials : int
        trials for each value, with consecutive seeds
    epochs : int
        passes over the training lists, warm-up included
    batch_size : int
        queries in a step
    warm_up : int
        first epochs, with cross-entropy
    sampled : int
        items of a list in a step, sampled in each step
    relevant : int
        number of relevant items among them
    margin : float
        margin of the squared hinge; 1 gives the tightest bound
    learning_rate : float
        Adam's rate
    seed : int
        seed of artificial data and of the first trial
    """

    data: str = "artificial:100x1000"
    least: int = 3
    network: str = "mlp:64-32"
    trials: int = 5
    epochs: int = 60
    batch_size: int = 32
    warm_up: int = 0
    sampled: int = 20
    relevant: int = 10
    margin: float = 1.0
    learning_rate: float = 0.002
    seed: int = 0

    def case(self, loss: str, options: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """Return the settings of training with SONG, K-SONG or the warm-up's cross-entropy."""
        margin = {} if loss == "cross-entropy" else {"margin": self.margin}
        return {"loss": loss_text(loss, **margin, **options), **fields}

    def settings(self) -> dict[str, Any]:
        """Return the settings that all cases share."""
        return {
            "network": self.network,
            "warm_up": self.warm_up,
            "warm_up_loss": "cross-entropy",
            "list_size": self.sampled,
            "list_relevant": self.relevant,
            "learning_rate": self.learning_rate,
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "measure": "ndcg@10",
        }

    def run(
        self, name: str, cases: Mapping[str, Any], comparisons: Sequence[Sequence[Pair]], *, watched: bool
    ) -> Results:
        """Run the sweep."""
        trained: dict[str, Any] = {
            "data": self.data,
            "least": self.least,
            "watched": watched,
            "settings": self.settings(),
        }
        return sweep(cases, comparisons, trials=self.trials, seed=self.seed, name=name, **trained)
