"""Smoothness: a measure against one weight of a trained net, on more and more queries.

After Yue and Burges (2007, section 5.2, figures 2 and 3). A linear and a two-layer net are trained
to convergence by LambdaRank on all training queries. Then one weight at a time is shifted by a percentage
of its trained value, the others staying, and the measure's mean is taken over subsamples of the
training queries: of the linear net the weights of the largest absolute values, of the two-layer
net those from the hidden units to the output. The same grid of shifts serves all subsamples, so
that the numbers for roughness (`lmtune.laboratory.roughness`) can be compared. A second, finer
grid about the trained value, of the largest weight, shows the discontinuities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.laboratory.data import HELP, load
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.laboratory.roughness import jump_noise, roughness
from lmtune.laboratory.spsa.convergence import loss_for, train_to_convergence, without_idle_features
from lmtune.laboratory.spsa.flat_networks import NETWORKS, FlatNetwork, NetworkMeasure
from lmtune.laboratory.spsa.smoothness_pictures import draw_curves
from lmtune.measures.measure import parse_list_measure
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reranking.settings import Settings


@dataclass(frozen=True)
class Smoothness(Experiment):
    """What the experiment is asked; see the module's text."""

    name: ClassVar[str] = "smoothness"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:1000",
        "queries": (100, 300, 1000),
        "points": 201,
        "epochs": 40,
        "batch_size": 50,
    }

    data: str = option("artificial:10000", HELP)
    measure: str = option("ndcg@10", "ndcg[@k], pairwise-error, mrr[@k], wta or ap")
    queries: tuple[int, ...] = option((100, 1000, 10000), "sizes of the subsamples", low=1, fewest=1)
    networks: tuple[str, ...] = option(NETWORKS, "linear, two-layer", choices=NETWORKS, fewest=1)
    weights: int = option(5, "weights of the linear net", low=1)
    shift: float = option(100.0, "largest shift, percent of a weight", above=0)
    zoom: float = option(1.0, "largest shift of the section blown up, percent", above=0)
    points: int = option(401, "shifts on each grid, an odd number", low=5)
    epochs: int = option(100, "passes over the training queries", low=1)
    learning_rate: float = option(0.03, "Adam's first rate, which falls to 0", above=0)
    batch_size: int = option(200, "queries a step", low=1)
    seed: int = option(0, "draws artificial data, first weights, batches and subsamples", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points % 2 == 0:
            raise InputError("bad points", value=self.points, accepted="an odd number")
        parse_list_measure(self.measure)

    def units(self) -> list[Unit]:
        """Return one piece of work a network."""
        return [Unit(network, self.sweep, {"network": network}) for network in dict.fromkeys(self.networks)]

    def sweep(self, network: str) -> dict[str, Any]:
        """Train a network and take the measure as single weights are shifted."""
        [data] = without_idle_features(load(self.data, self.seed).train)
        measure = parse_list_measure(self.measure)
        settings = Settings(
            loss=loss_for("lambdarank", measure),
            network=network,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=self.seed,
        )
        trained = train_to_convergence(data, settings)
        flat = trained.network
        order = np.random.default_rng([self.seed, 52]).permutation(len(data.queries))
        sign = 1.0 if measure.higher_is_better else -1.0
        chosen = _weights(flat, self.weights)
        lines = [*(("shift", weight) for weight in chosen)]
        lines.insert(1, ("zoom", chosen[0]))
        curves = []
        for count in sorted({min(count, order.size) for count in self.queries}):
            objective = NetworkMeasure(flat, data.take(np.sort(order[:count])), measure)
            for part, weight in lines:
                factors = 1.0 + self._shifts(part) / 100.0
                values = objective.at_weight(flat.point, weight, factors * flat.point[weight])
                curves.append(
                    {
                        "part": part,
                        "queries": count,
                        "weight": flat.name(weight),
                        "trained": float(flat.point[weight]),
                        "values": (sign * values).tolist(),
                    }
                )
        return {
            "network": network,
            "queries": len(data.queries),
            "gradient": trained.gradient,
            "first_gradient": trained.first_gradient,
            "value": sign * NetworkMeasure(flat, data, measure)(flat.point),
            "curves": curves,
        }

    def _shifts(self, part: str) -> NDArray[np.float64]:
        """Return the whole grid's or the section's shifts, in percent."""
        far = getattr(self, part)
        return np.linspace(-far, far, self.points)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Put curves, numbers for their roughness, and the nets in tables."""
        sign = 1.0 if parse_list_measure(self.measure).higher_is_better else -1.0
        curves, rough, nets = [], [], []
        for result in results.values():
            nets.append({name: value for name, value in result.items() if name != "curves"})
            for curve in result["curves"]:
                key = {"network": result["network"]} | {
                    name: curve[name] for name in ("part", "queries", "weight")
                }
                shifts, values = self._shifts(curve["part"]), np.array(curve["values"])
                curves += [
                    {**key, "shift": shift, "value": value}
                    for shift, value in zip(shifts.tolist(), curve["values"], strict=True)
                ]
                numbers = roughness(sign * values)
                best = int(np.argmax(sign * values))
                rough.append(
                    {
                        **key,
                        "trained": curve["trained"],
                        "variation": numbers.ratio,
                        "excess": numbers.excess,
                        "optima": numbers.maxima,
                        # Of a shift by 1%, whatever the grid.
                        "noise": jump_noise(values) * np.sqrt((self.points - 1) / (2 * shifts[-1])),
                        "range": float(np.ptp(values)),
                        "best_shift": float(shifts[best]),
                        "gain": float(sign * (values[best] - values[self.points // 2])),
                    }
                )
        parts = {"curves": curves, "roughness": rough, "nets": nets}
        return {name: pd.DataFrame(rows) for name, rows in parts.items()}

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw the measure against the shifts of single weights."""
        title = parse_list_measure(self.measure).title
        return [draw_curves(found["curves"], found["roughness"], title=title)]

    def conclusions(self, tables: Tables) -> list[str]:
        """Say how roughness falls with the number of queries, and what is left of it."""
        title, found = parse_list_measure(self.measure).title, []
        for network, all_rough in tables["roughness"].groupby("network", sort=False):
            rough = all_rough[all_rough["part"] == "shift"]
            by_size = rough.groupby("queries")[["variation", "excess", "optima", "noise"]].median()
            sizes = [f"{size:,}" for size in by_size.index]
            falls = all(a > b for a, b in pairwise(by_size["variation"]))
            found.append(
                f"{network} net, {rough['weight'].nunique()} weights shifted by up to "
                f"{self.shift:g}%: total variation of mean {title} over its range is "
                f"{_listed(by_size['variation'], '.2f')} on {_joined(sizes)} queries (median over "
                f"weights; 2 for a symmetric hill), {_listed(by_size['excess'], '.1%')} more than a "
                f"single hill needs"
                + ("; smoother with every larger sample." if falls else "; not smoother every time.")
            )
            largest = rough[rough["queries"] == rough["queries"].max()]
            zoomed = all_rough[(all_rough["part"] == "zoom")]
            zoomed = zoomed[zoomed["queries"] == zoomed["queries"].max()].iloc[0]
            found.append(
                f"{network} net: local optima on the grid of {self.points} shifts are "
                f"{_listed(by_size['optima'], '.0f')} (median); on {sizes[-1]} queries there are "
                f"still up to {largest['optima'].max()}, and {zoomed['optima']} within "
                f"{self.zoom:g}% of the trained value of {zoomed['weight']}, where the measure "
                f"moves by {zoomed['range']:.5f}."
            )
            if len(by_size) > 1:
                slope = np.polyfit(np.log(by_size.index), np.log(by_size["noise"]), 1)[0]
                found.append(
                    f"{network} net: what the jumps of a shift by 1% amount to falls from "
                    f"{by_size['noise'].iloc[0]:.2g} to {by_size['noise'].iloc[-1]:.2g}, as the "
                    f"number of queries to the power {slope:.2f} (independent jumps: -0.50)."
                )
            gain = largest.loc[largest["gain"].idxmax()]
            found.append(
                f"{network} net on {sizes[-1]} queries: the best shift of a single weight "
                f"({gain['weight']}, {gain['best_shift']:+.3g}%) is worth {gain['gain']:.5f}, against "
                f"a range of {largest['range'].median():.3f} (median)."
            )
        return found


def _weights(flat: FlatNetwork, count: int) -> list[int]:
    """Return weights that the score is linear in, the largest first; of a two-layer net all."""
    last = flat.point[flat.last]
    order = np.argsort(-np.abs(last), kind="stable") + flat.last.start
    return [int(weight) for weight in (order if flat.hidden else order[:count])]


def _listed(values: pd.Series[float], form: str) -> str:
    return _joined([format(value, form) for value in values])


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
