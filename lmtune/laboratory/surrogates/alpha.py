"""ApproxNDCG's alpha, how steep its sigmoids are (Bruch et al. 2019, section 3.3, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from lmtune.errors import InputError
from lmtune.laboratory.surrogates.sweeps import Case, Pair, Sweep, number
from lmtune.options import option


@dataclass(frozen=True)
class Alpha(Sweep):
    """What to sweep, and how."""

    name: ClassVar[str] = "alpha"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:200",
        "alphas": (0.1, 1.0, 10.0, 100.0),
        "alike": (10.0,),
        "trials": 3,
        "epochs": 15,
    }
    axis: ClassVar[str] = "alpha"
    value_title: ClassVar[str] = "nDCG by ApproxNDCG's alpha"

    alphas: tuple[float, ...] = option((0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 40.0, 100.0), "above 0", above=0)
    alike: tuple[float, ...] = option((5.0, 10.0, 20.0, 40.0), "those of which the paper finds none better")
    reference: float = option(10.0, "the one that the others are compared with")
    learning_rate: float = option(0.005, "Adam's rate; the paper's", above=0)
    network: str = option("b:64", "the scorer: one hidden layer, batch norm before and after")

    def cases(self) -> list[Case]:
        """Return one training an alpha."""
        for own in (*self.alike, self.reference):
            if own not in self.alphas:
                accepted = ", ".join(map(number, self.alphas))
                raise InputError("an alpha to compare is not swept", value=own, accepted=accepted)
        trained = {"loss": "approxndcg", "network": self.network, "learning_rate": self.learning_rate}
        return [
            self.network_case(number(own), {**trained, "loss_options": {"alpha": own}}) for own in self.alphas
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare those said to be alike with each other, and the rest with the reference."""
        return [[*self._alike(), *self._others()]]

    def _alike(self) -> list[Pair]:
        return list(combinations(map(number, self.alike), 2))

    def _others(self) -> list[Pair]:
        rest = [own for own in self.alphas if own not in (*self.alike, self.reference)]
        return [(number(own), number(self.reference)) for own in rest]
