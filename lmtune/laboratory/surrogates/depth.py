"""ApproxNDCG with deeper and wider networks (Bruch et al. 2019, section 3.4, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from lmtune.laboratory.surrogates.sweeps import Case, Pair, Sweep
from lmtune.options import option


@dataclass(frozen=True)
class Depth(Sweep):
    """What to sweep, and how."""

    name: ClassVar[str] = "depth"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:100",
        "networks": ("b64", "b256", "b512"),
        "trials": 3,
        "epochs": 8,
    }
    axis: ClassVar[str] = "network"
    value_title: ClassVar[str] = "nDCG by the network's depth"

    networks: tuple[str, ...] = option(
        ("b64", "b128", "b256", "b512", "b1024"), "from the shallowest to the deepest", fewest=2
    )
    learning_rate: float = option(0.005, "Adam's rate; the paper's", above=0)
    alpha: float = option(10.0, "approxNDCG's", above=0)

    def cases(self) -> list[Case]:
        """Return one training a network."""
        trained = {
            "loss": "approxndcg",
            "loss_options": {"alpha": self.alpha},
            "learning_rate": self.learning_rate,
        }
        return [self.network_case(own.upper(), {**trained, "network": own}) for own in self.networks]

    def comparisons(self) -> list[list[Pair]]:
        """Compare each network with the shallowest and with the one before it."""
        return [[*self._with_first(), *self._with_previous()]]

    @property
    def told_at(self) -> tuple[int, ...]:
        """The cutoffs of which sentences tell."""
        return self.measured_at

    def _with_first(self) -> list[Pair]:
        first, *rest = (own.upper() for own in self.networks)
        return [(own, first) for own in rest]

    def _with_previous(self) -> list[Pair]:
        """Pair neighbours, but for the first two, which are a pair already."""
        names = [own.upper() for own in self.networks]
        return [(later, before) for before, later in pairwise(names[1:])]
