"""SPSA against finite differences: a linear net's cross-entropy by function evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lmtune.errors import InputError
from lmtune.laboratory.data import HELP
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.laboratory.spsa.descents import check_gradient, count_evaluations, course, marks_of, rank_net
from lmtune.laboratory.spsa.spsa_pictures import draw_costs, draw_steps
from lmtune.options import option

if TYPE_CHECKING:
    from lmtune.reporting.figures.style import Picture

FDSA = "FDSA"

# Of the way from the start to the minimum.
_THERE = 0.95


@dataclass(frozen=True)
class SpsaVersusFdsa(Experiment):
    """What to run."""

    name: ClassVar[str] = "spsa"
    quick: ClassVar[Mapping[str, Any]] = {"data": "artificial:100", "runs": 5, "evaluations": 1500}

    data: str = option("artificial:1000", HELP)
    runs: int = option(10, "starts, the same for all methods", low=1)
    evaluations: int = option(2000, "function evaluations of a run", low=10)
    per_step: tuple[int, ...] = option((2, 4, 8), "F of SPSA:F", low=2, fewest=1)
    rates: tuple[float, ...] = option(
        (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
        "first rates to choose from, for each method",
        above=0,
        fewest=1,
    )
    width: float = option(0.01, "first distance c to the points that are compared", above=0)
    features: tuple[int, ...] = option(
        (10, 30, 100, 300, 1000, 3000, 10_000), "nets' sizes for the cost of a step", low=1, fewest=1
    )
    seed: int = option(0, "of artificial data, starts and perturbations", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, distinct in (("per step", self.per_step), ("features", self.features)):
            if len(set(distinct)) < len(distinct):
                raise InputError(f"bad {name}", value=distinct, accepted="different numbers")
        if any(evaluations % 2 for evaluations in self.per_step):
            raise InputError("bad per step", value=self.per_step, accepted="even numbers")

    @property
    def methods(self) -> dict[str, int | None]:
        """Evaluations a step by method; None for two a weight."""
        return {FDSA: None, **{f"SPSA:{f}": f for f in self.per_step}}

    def units(self) -> list[Unit]:
        """Return a unit for each method's choice of rate and runs, and two small ones."""
        counting = {"features": self.features, "methods": self.methods, "seed": self.seed}
        return [
            *(Unit(_key(name), self.descend, {"per_step": f}) for name, f in self.methods.items()),
            Unit("gradient", check_gradient, {"data": self.data, "seed": self.seed, "width": self.width}),
            Unit("steps", count_evaluations, counting),
        ]

    def descend(self, per_step: int | None) -> dict[str, Any]:
        """Choose a method's rate on a run of its own, and descend from each start.

        The chosen rate has the lowest mean cost over that run: the final cost cannot tell rates
        apart that have reached the minimum.
        """
        net = rank_net(self.data, self.seed)
        costs = partial(
            course, net, self.seed, evaluations=self.evaluations, width=self.width, per_step=per_step
        )
        tried = [costs(0, rate=rate) for rate in self.rates]
        means = [float(np.mean(own)) for own in tried]
        chosen = self.rates[int(np.argmin(means))]
        return {
            "rate": chosen,
            "rates": [
                {"rate": rate, "mean": mean, "final": own[-1]}
                for rate, mean, own in zip(self.rates, means, tried, strict=True)
            ],
            "runs": [costs(run, rate=chosen) for run in range(1, self.runs + 1)],
        }

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Return the mean costs with their ranges, what became of each method, and the checks."""
        import pandas as pd

        gradient = results["gradient"]
        marks = [0, *marks_of(self.evaluations)]
        curves, methods, rates = [], [], []
        for name in self.methods:
            own = results[_key(name)]
            runs = np.array(own["runs"])
            mean = runs.mean(axis=0)
            spread = {"cost": mean, "lowest": runs.min(axis=0), "highest": runs.max(axis=0)}
            curves.append(pd.DataFrame({"method": name, "evaluations": marks, **spread}))
            goal = mean[0] - _THERE * (mean[0] - gradient["minimum"])
            there = np.flatnonzero(mean <= goal)
            per_step = self.methods[name] or 2 * gradient["features"]
            methods.append(
                {
                    "method": name,
                    "evaluations_per_step": per_step,
                    "rate": own["rate"],
                    "start": mean[0],
                    "final": mean[-1],
                    "deviation": runs[:, -1].std(ddof=1) if len(runs) > 1 else math.nan,
                    "minimum": gradient["minimum"],
                    "evaluations_to_95": marks[there[0]] if there.size else math.nan,
                }
            )
            rates += [{"method": name, **row, "chosen": row["rate"] == own["rate"]} for row in own["rates"]]
        return {
            "costs": pd.concat(curves, ignore_index=True),
            "methods": pd.DataFrame(methods),
            "rates": pd.DataFrame(rates),
            "gradient": pd.DataFrame(gradient["rows"]),
            "steps": pd.DataFrame(results["steps"]),
        }

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw the costs by evaluations, and a step's evaluations by weights."""
        return [draw_costs(found["costs"], found["methods"], self.data), draw_steps(found["steps"])]

    def conclusions(self, found: Tables) -> list[str]:
        """Say whether SPSA converges faster, whether its variants are alike, and what a step costs."""
        methods = found["methods"].set_index("method")
        there = methods["evaluations_to_95"]
        spsa = [name for name in methods.index if name != FDSA]
        sentences = [
            f"Mean cost after {self.evaluations:,} evaluations over {self.runs} runs: "
            + ", ".join(f"{name} {methods['final'][name]:.4f}" for name in methods.index)
            + f"; the minimum is {methods['minimum'].iloc[0]:.4f}."
        ]
        sentences.append(_faster(there, spsa, self))
        sentences.append(_overtaken(found["costs"], methods["final"], spsa))
        reached = there[spsa].dropna()
        if len(reached) == len(spsa) > 1:
            ratio = reached.max() / reached.min()
            alike = "about alike" if ratio <= 1.5 else "not alike"
            sentences.append(
                f"The variants of SPSA are {alike}: the slowest takes {ratio:.2f} times as many "
                "evaluations as the fastest."
            )
        sentences.append(_one_rate(found["rates"], spsa[0]))
        check = found["gradient"]
        worst = (check["largest_difference"] / check["largest_slope"].max()).groupby(check["c"]).max()
        sentences.append(
            "FDSA's gradient is the closed form, within "
            + " and ".join(f"{value:.1e} of the largest slope at c = {c:g}" for c, value in worst.items())
            + "."
        )
        edges = [
            name for name in methods.index if methods["rate"][name] in (min(self.rates), max(self.rates))
        ]
        if edges and len(self.rates) > 1:
            sentences.append(f"The chosen rate is at the edge of what was tried: {', '.join(edges)}.")
        steps = found["steps"].pivot_table(index="features", columns="method", values="evaluations")
        first, last = steps.index[0], steps.index[-1]
        sentences.append(
            f"A step's evaluations from {first:,} to {last:,} weights: "
            + ", ".join(
                f"{name} {steps[name][first]:,.0f}"
                + (f" to {steps[name][last]:,.0f}" if steps[name].nunique() > 1 else " throughout")
                for name in methods.index
            )
            + "."
        )
        return sentences


def _key(method: str) -> str:
    return method.replace(":", "").lower()


def _faster(there: Any, spsa: list[str], settings: SpsaVersusFdsa) -> str:
    goal = f"{_THERE:.0%} of the way to the minimum, each with the best of its rates"
    shown = ", ".join(
        f"{name} {'never' if math.isnan(count) else f'{count:,.0f}'}" for name, count in there.items()
    )
    text = f"Evaluations for {goal}: {shown}."
    best = there[spsa].min()
    if math.isnan(best) and math.isnan(there[FDSA]):
        return text
    if math.isnan(there[FDSA]):
        return f"{text} SPSA converges faster, more than {settings.evaluations / best:.1f} times."
    if math.isnan(best):
        return f"{text} SPSA does not converge faster."
    ratio = there[FDSA] / best
    if ratio > 1.0:
        return f"{text} SPSA converges faster, {ratio:.1f} times."
    return f"{text} SPSA does not converge faster: FDSA takes {ratio:.2f} times as many."


def _overtaken(costs: Any, final: Any, spsa: list[str]) -> str:
    """Say when SPSA's best variant is where FDSA ends, or the other way round."""
    leader = str(final[spsa].idxmin())
    ahead, behind = (leader, FDSA) if final[leader] <= final[FDSA] else (FDSA, leader)
    course = costs[costs["method"] == ahead]
    reached = course.loc[course["cost"] <= final[behind], "evaluations"].iloc[0]
    total = costs["evaluations"].max()
    return f"{ahead} has by {reached:,} evaluations the cost at which {behind} ends after {total:,}."


def _one_rate(rates: Any, leader: str) -> str:
    """Compare all methods at the rate that the first SPSA has chosen."""
    rate = rates[(rates["method"] == leader) & rates["chosen"]]["rate"].iloc[0]
    same = rates[rates["rate"] == rate]
    return (
        f"At one rate for all, {rate:g}, the final costs of a run are "
        + ", ".join(f"{row['method']} {row['final']:.4f}" for row in same.to_dict("records"))
        + "."
    )
