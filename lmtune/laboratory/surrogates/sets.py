"""Losses, or options of one, on several sets, paired by set (defaults; Qiu et al. 2022, table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Tables, Unit
from lmtune.laboratory.surrogates.sweeps import QUERIES, Case, Pair, Sweep, key
from lmtune.options import option
from lmtune.reranking.losses.names import parse_loss

_MEASURED = 10
_STEPS = 4
"""At least so many steps an epoch, however few queries a set has."""


@dataclass(frozen=True)
class Sets(Sweep):
    """What to compare, and on what."""

    name: ClassVar[str] = "sets"
    quick: ClassVar[Mapping[str, Any]] = {"data": "artificial:30,artificial:20x60", "epochs": 5}
    value_title: ClassVar[str] = "nDCG by loss, means over sets"
    repeated: ClassVar[str] = "sets"

    data: str = option(
        "artificial:60,artificial:100x20,artificial:20x300",
        "two or more, with commas between: artificial:QUERIES[xDOCUMENTS], LETOR folders",
    )
    losses: tuple[str, ...] = option(
        ("ranknet", "lambdarank", "listnet", "approxndcg", "song", "k-song"),
        "what to train by, each with options as NAME:OPTION=VALUE; the others are compared with the first",
        fewest=2,
    )
    network: str = option("b64", "the scorer of all but the trees")
    learning_rate: float = option(0.001, "Adam's rate", above=0)
    trials: int = option(2, "seeds a loss and set, which are averaged", low=1)
    epochs: int = option(30, "passes over the training queries", low=1)
    batch_size: int = option(64, "queries a step, at most a quarter of a set's", low=1)
    list_size: int = option(0, "documents of a query in a step, drawn anew each epoch; 0 takes all", low=0)

    @property
    def sets(self) -> list[str]:
        """The names of the data."""
        names = [own.strip() for own in self.data.split(",")]
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError("bad sets", value=self.data, accepted="two or more, each once")
        return names

    @property
    def measured_at(self) -> tuple[int, ...]:
        """The cutoffs of the NDCG."""
        return (_MEASURED,)

    @property
    def main_cutoff(self) -> int:
        """The cutoff that chooses the epoch."""
        return _MEASURED

    def cases(self) -> list[Case]:
        """Return one training a loss."""
        return [self._case(text) for text in self.losses]

    def comparisons(self) -> list[list[Pair]]:
        """Compare all losses with the first."""
        first, *others = self.losses
        return [[(own, first) for own in others]]

    def units(self) -> list[Unit]:
        """Make a unit of each set, loss and trial."""
        return [
            replace(unit, key=f"set{number}-{unit.key}")
            for number, name in enumerate(self.sets, 1)
            for unit in super(Sets, replace(self, data=name)).units()
        ]

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Average each set's trials; the sets then stand where other sweeps have trials."""
        means: dict[str, Any] = {}
        for number in range(len(self.sets)):
            for label in self.losses:
                own = [results[f"set{number + 1}-{key(label, trial)}"] for trial in range(self.trials)]
                means[key(label, number)] = _average(own)
        found = replace(self, trials=len(self.sets)).gathered(self.losses, means, self.comparisons())
        sets = found.pop("trials").rename(columns={"trial": "set"})
        sets["set"] = np.array(self.sets)[sets["set"] - 1]
        return {"sets": sets, **found}

    def _case(self, text: str) -> Case:
        loss = parse_loss(text)
        trained = {
            "loss": loss.name,
            "loss_options": dict(loss.options),
            "network": self.network,
            "learning_rate": self.learning_rate,
            "list_size": self.list_size or None,
        }
        return self.network_case(text, trained, least_steps=_STEPS)


def _average(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    parts = {name: np.mean([own[name] for own in results], axis=0).tolist() for name in QUERIES}
    return {**parts, "best_epoch": float(np.mean([own["best_epoch"] for own in results])), "courses": {}}
