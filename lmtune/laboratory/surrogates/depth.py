"""ApproxNDCG with deeper and wider networks (Bruch et al. 2019, section 3.4, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.surrogates.findings import compared, mean_of
from lmtune.laboratory.surrogates.sweeps import QUERIES, Case, Pair, Sweep
from lmtune.measures.measure import exponential_ndcg
from lmtune.options import option
from lmtune.reporting.figures.style import short


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

    def conclusions(self, found: Tables) -> list[str]:
        """Say whether deeper networks are better."""
        said = []
        names = [own.upper() for own in self.networks]
        for queries in QUERIES:
            for cutoff in self.measured_at:
                means = [f"{own} {short(mean_of(found, own, cutoff, queries))}" for own in names]
                said.append(f"{exponential_ndcg(cutoff)} on the {queries} queries: {', '.join(means)}.")
                said += [
                    f"{a} minus {b}: {compared(found, a, b, cutoff, queries)}."
                    for a, b in (self._with_first()[-1], *self._with_previous()[-1:])
                ]
        return said

    def _with_first(self) -> list[Pair]:
        first, *rest = (own.upper() for own in self.networks)
        return [(own, first) for own in rest]

    def _with_previous(self) -> list[Pair]:
        """Pair neighbours, but for the first two, which are a pair already."""
        names = [own.upper() for own in self.networks]
        return [(later, before) for before, later in pairwise(names[1:])]
