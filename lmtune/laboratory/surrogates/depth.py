"""ApproxNDCG with deeper and wider networks (Bruch et al. 2019, section 3.4, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Tables, Unit
from lmtune.laboratory.surrogates.pictures import value_picture
from lmtune.laboratory.surrogates.sweep_words import difference_of, in_words, mean_of, verdict
from lmtune.laboratory.surrogates.sweeps import Common, network_case, tables, units
from lmtune.options import option
from lmtune.reporting.figures.style import Picture, short

CUTOFFS = (1, 5, 10)


@dataclass(frozen=True)
class Depth(Common):
    """What to sweep, and how."""

    name: ClassVar[str] = "depth"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:100",
        "networks": ("b64", "b256", "b512"),
        "trials": 3,
        "epochs": 8,
    }

    networks: tuple[str, ...] = option(
        ("b64", "b128", "b256", "b512", "b1024"), "from the shallowest to the deepest"
    )
    learning_rate: float = option(0.005, "Adam's rate; the paper's")
    alpha: float = option(10.0, "approxNDCG's")

    def units(self) -> list[Unit]:
        """Make one training a network and trial."""
        if len(self.networks) < 2:
            raise InputError("too few networks", value=self.networks, accepted="2 or more")
        cases = [
            network_case(
                self,
                own.upper(),
                own,
                "approxndcg",
                {"alpha": self.alpha},
                cutoffs=CUTOFFS,
                learning_rate=self.learning_rate,
            )
            for own in self.networks
        ]
        return units(cases, self.trials, self.seed)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Gather them; each network is compared with the shallowest and with the one before it."""
        return tables(
            [own.upper() for own in self.networks],
            results,
            trials=self.trials,
            cutoffs=CUTOFFS,
            pairs=[*_with_first(self), *_with_previous(self)],
        )

    def pictures(self, made: Tables) -> list[Picture]:
        """Draw what they reach."""
        return [
            value_picture(
                made, name="depth", title="nDCG by the network's depth", axis="network", cutoffs=CUTOFFS
            )
        ]

    def conclusions(self, made: Tables) -> list[str]:
        """Say whether deeper networks are better."""
        said = []
        for queries in ("validation", "test"):
            for cutoff in CUTOFFS:
                means = [
                    f"{own.upper()} {short(mean_of(made, own.upper(), cutoff, queries))}"
                    for own in self.networks
                ]
                said.append(f"nDCG@{cutoff} on the {queries} queries: {', '.join(means)}.")
                for a, b in [_with_first(self)[-1], *_with_previous(self)[-1:]]:
                    row = difference_of(made, a, b, cutoff, queries)
                    said.append(f"{a} minus {b}: {in_words(row)}, {verdict(row)}.")
        return said


def _with_first(settings: Depth) -> list[tuple[str, str]]:
    first, *rest = (own.upper() for own in settings.networks)
    return [(own, first) for own in rest]


def _with_previous(settings: Depth) -> list[tuple[str, str]]:
    """Pair neighbours, but for the first two, which are a pair already."""
    names = [own.upper() for own in settings.networks]
    return [(later, before) for before, later in pairwise(names[1:])]
