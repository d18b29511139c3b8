"""ApproxNDCG's alpha, how steep its sigmoids are (Bruch et al. 2019, section 3.3, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Tables, Unit
from lmtune.laboratory.surrogates.pictures import value_picture
from lmtune.laboratory.surrogates.sweep_words import LEVEL, difference_of, in_words, mean_of, verdict
from lmtune.laboratory.surrogates.sweeps import Common, network_case, number, tables, units
from lmtune.options import option
from lmtune.reporting.figures.style import Picture, short

CUTOFFS = (1, 5, 10)


@dataclass(frozen=True)
class Alpha(Common):
    """What to sweep, and how."""

    name: ClassVar[str] = "alpha"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:200",
        "alphas": (0.1, 1.0, 10.0, 100.0),
        "alike": (10.0,),
        "trials": 3,
        "epochs": 15,
    }

    alphas: tuple[float, ...] = option((0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 40.0, 100.0), "above 0")
    alike: tuple[float, ...] = option((5.0, 10.0, 20.0, 40.0), "those of which the paper finds none better")
    reference: float = option(10.0, "the one that the others are compared with")
    learning_rate: float = option(0.005, "Adam's rate; the paper's")
    network: str = option("b:64", "the scorer: one hidden layer, batch norm before and after")

    def units(self) -> list[Unit]:
        """Make one training an alpha and trial."""
        for own in (*self.alike, self.reference):
            if own not in self.alphas:
                raise InputError(
                    "an alpha to compare is not swept",
                    value=own,
                    accepted=", ".join(map(number, self.alphas)),
                )
        cases = [
            network_case(
                self,
                number(own),
                self.network,
                "approxndcg",
                {"alpha": own},
                cutoffs=CUTOFFS,
                learning_rate=self.learning_rate,
            )
            for own in self.alphas
        ]
        return units(cases, self.trials, self.seed)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Gather them; those said to be alike are compared with each other, all with the reference."""
        return tables(
            [number(own) for own in self.alphas],
            results,
            trials=self.trials,
            cutoffs=CUTOFFS,
            pairs=[*_alike(self), *_others(self)],
        )

    def pictures(self, made: Tables) -> list[Picture]:
        """Draw what they reach."""
        return [
            value_picture(
                made, name="alpha", title="nDCG by ApproxNDCG's alpha", axis="alpha", cutoffs=CUTOFFS
            )
        ]

    def conclusions(self, made: Tables) -> list[str]:
        """Say which alphas differ."""
        said = []
        for queries in ("validation", "test"):
            means = {own: mean_of(made, number(own), 5, queries) for own in self.alphas}
            best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
            said.append(
                f"nDCG@5 on the {queries} queries: best with alpha {best:g} ({short(means[best])}), "
                f"worst with {worst:g} ({short(means[worst])})."
            )
            pairs = _alike(self)
            rows = [
                (difference_of(made, a, b, cutoff, queries), a, b, cutoff)
                for a, b in pairs
                for cutoff in CUTOFFS
            ]
            if rows:
                apart = [f"{a} and {b} at {c}" for row, a, b, c in rows if row["p_holm"] < LEVEL]
                row, a, b, cutoff = max(rows, key=lambda own: abs(own[0]["difference"]))
                which = f" ({', '.join(apart)})" if apart else ""
                said.append(
                    f"Of {len(rows)} comparisons among alphas {', '.join(map(number, self.alike))}"
                    f" at nDCG@1, 5 and 10 on the {queries} queries, {len(apart)} are significant"
                    f"{which}; the largest difference: {a} minus {b} at {cutoff}, {in_words(row)}."
                )
            for a, b in _others(self):
                row = difference_of(made, a, b, 5, queries)
                said.append(
                    f"nDCG@5 on the {queries} queries, alpha {a} minus {b}: {in_words(row)}, {verdict(row)}."
                )
        return said


def _alike(settings: Alpha) -> list[tuple[str, str]]:
    return list(combinations(map(number, settings.alike), 2))


def _others(settings: Alpha) -> list[tuple[str, str]]:
    """Pair the rest with the reference."""
    rest = [own for own in settings.alphas if own not in (*settings.alike, settings.reference)]
    return [(number(own), number(settings.reference)) for own in rest]
