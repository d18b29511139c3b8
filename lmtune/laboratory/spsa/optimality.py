"""Optimality: is a trained net at a local optimum of a measure? Random directions say.

After Yue and Burges (2007, section 5.3), who find LambdaRank at a local optimum of NDCG. Linear and
two-layer nets are trained to convergence by several losses, in full, on all training queries. On the same
queries the measure is then taken

- at points a step away in random directions, at steps from a thousandth of the weights' norm to
  all of it: the one-sided Monte Carlo test of `lmtune.laboratory.directions`, with the directions
  of `lmtune.laboratory.spsa.flat_networks.FlatNetwork.scale`;
- with one weight at a time shifted by a percentage of its trained value.

LambdaRank has the measure's cutoff as its truncation, for it is to follow that measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lmtune.errors import InputError
from lmtune.laboratory.data import HELP, load
from lmtune.laboratory.directions import ascent_test, directions_needed, line_noise
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.laboratory.spsa.convergence import loss_for, train_to_convergence, without_idle_features
from lmtune.laboratory.spsa.flat_networks import NETWORKS, FlatNetwork, NetworkMeasure
from lmtune.laboratory.spsa.optimality_pictures import draw_directions, draw_sweeps
from lmtune.measures.measure import parse_list_measure
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reranking.losses.names import loss_names
from lmtune.reranking.settings import Settings

# Two-layer nets converge so much more slowly.
_MORE = 4


@dataclass(frozen=True)
class Optimality(Experiment):
    """What the experiment is asked; see the module's text."""

    name: ClassVar[str] = "optimality"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:300",
        "losses": ("lambdarank", "ranknet"),
        "steps": (0.01, 0.1, 1.0),
        "shifts": 11,
        "weights": 10,
        "epochs": 40,
        "batch_size": 60,
    }

    data: str = option("artificial:2000", HELP)
    measure: str = option("ndcg@10", "ndcg[@k], pairwise-error, mrr[@k], wta or ap")
    networks: tuple[str, ...] = option(NETWORKS, "linear, two-layer", choices=NETWORKS, fewest=1)
    losses: tuple[str, ...] = option(
        ("lambdarank", "ranknet", "approxndcg", "song"), "what to train by", choices=loss_names(), fewest=1
    )
    confidence: float = option(0.99, "of the bounds on the share of ascending directions", above=0, below=1)
    share: float = option(
        0.01, "the share to bound, which makes how many directions are needed", above=0, below=1
    )
    steps: tuple[float, ...] = option(
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), "steps, relative to the weights' norm", above=0, fewest=1
    )
    shift: float = option(50.0, "largest shift of a single weight, percent", above=0)
    shifts: int = option(21, "shifts of a single weight, an odd number", low=3)
    weights: int = option(50, "single weights a net, the largest of each layer first", low=1)
    epochs: int = option(100, "passes over the training queries, by a two-layer net four times that", low=1)
    learning_rate: float = option(0.03, "Adam's first rate, which falls to 0", above=0)
    batch_size: int = option(100, "queries a step", low=1)
    seed: int = option(0, "draws artificial data, first weights, batches and directions", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shifts % 2 == 0:
            raise InputError("bad shifts", value=self.shifts, accepted="an odd number")
        parse_list_measure(self.measure)

    def units(self) -> list[Unit]:
        """Return one piece of work a network and loss."""
        return [
            Unit(f"{network}-{loss}", self.examine, {"network": network, "loss": loss})
            for network in dict.fromkeys(self.networks)
            for loss in dict.fromkeys(self.losses)
        ]

    def examine(self, network: str, loss: str) -> dict[str, Any]:
        """Train a network by a loss, count ascending directions and shift single weights."""
        fold = load(self.data, self.seed)
        train, test = without_idle_features(fold.train, fold.test)
        measure = parse_list_measure(self.measure)
        settings = Settings(
            loss=loss_for(loss, measure),
            network=network,
            epochs=self.epochs if network == "linear" else _MORE * self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=self.seed,
        )
        trained = train_to_convergence(train, settings)
        flat, objective = trained.network, NetworkMeasure(trained.network, train, measure)
        place = (objective, flat.point, flat.scale(), self.steps)
        found = ascent_test(
            *place,
            directions_needed(self.confidence, self.share),
            self.seed,
            confidence=self.confidence,
            noise=line_noise(*place, seed=self.seed, along=objective.along).tolist(),
            along=objective.along,
        )
        sign = 1.0 if measure.higher_is_better else -1.0
        factors = 1 + np.array(self._shifts()) / 100
        return {
            "network": network,
            "loss": loss,
            "weights": flat.point.size,
            "train": sign * found.value,
            "test": sign * NetworkMeasure(flat, test, measure)(flat.point),
            "gradient": trained.gradient,
            "first_gradient": trained.first_gradient,
            "directions": found.directions,
            "steps": [asdict(step) for step in found.steps],
            "sweeps": {
                # Gains, so that more is better for costs as well.
                flat.name(weight): (
                    objective.at_weight(flat.point, weight, factors * flat.point[weight]) - found.value
                ).tolist()
                for weight in _largest(flat, self.weights)
            },
        }

    def _shifts(self) -> list[float]:
        shifts: list[float] = np.linspace(-self.shift, self.shift, self.shifts).tolist()
        return shifts

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Put nets, counts of directions, and single weights' gains in tables."""
        nets, directions, sweeps, shifts = [], [], [], self._shifts()
        for result in results.values():
            key = {"network": result["network"], "loss": result["loss"]}
            best = {name: max(gains) for name, gains in result["sweeps"].items()}
            top = max(best, key=best.__getitem__)
            nets.append(
                {
                    **{name: value for name, value in result.items() if name not in ("steps", "sweeps")},
                    "swept": len(best),
                    "best_as_trained": sum(gain <= 0.0 for gain in best.values()),
                    "best_shifted": top,
                    "best_shift": shifts[int(np.argmax(result["sweeps"][top]))],
                    "best_gain": best[top],
                }
            )
            directions += [
                {
                    **key,
                    "directions": result["directions"],
                    **step,
                    "fewer": step["bound"] < self.share,
                    "clearly_fewer": step["clear_bound"] < self.share,
                }
                for step in result["steps"]
            ]
            sweeps += [
                {**key, "weight": name, "shift": shift, "gain": gain}
                for name, gains in result["sweeps"].items()
                for shift, gain in zip(shifts, gains, strict=True)
            ]
        parts = {"nets": nets, "directions": directions, "sweeps": sweeps}
        return {name: pd.DataFrame(rows) for name, rows in parts.items()}

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw the share of directions that ascend by step size, and the gains of single weights."""
        title = parse_list_measure(self.measure).title
        return [
            draw_directions(found["directions"], title=title, share=self.share),
            draw_sweeps(found["sweeps"], title=title),
        ]

    def conclusions(self, tables: Tables) -> list[str]:
        """Say for each net from which step on it stands at the top, and what ascends before."""
        title, found = parse_list_measure(self.measure).title, []
        sure = f"{100.0 * self.confidence:g}%"
        for _, net in tables["nets"].iterrows():
            counts = tables["directions"]
            own = counts[(counts["network"] == net["network"]) & (counts["loss"] == net["loss"])]
            own = own.sort_values("step")
            text = (
                f"{net['network']} net by {net['loss']}: {title} {net['train']:.4f} in training, "
                f"{net['test']:.4f} in the test; the gradient's norm fell from "
                f"{net['first_gradient']:.3g} to {net['gradient']:.3g}. Of {net['directions']} "
                f"directions ascend "
                + ", ".join(f"{row.ascents} at {row.step:g}" for row in own.itertuples())
                + f". {_claim(own, self.share, sure)}"
            )
            if own["clear_ascents"].any():
                worst = own.loc[own["clear_ascents"].idxmax()]
                text += (
                    f" Ascents beyond what jumps come to: up to {worst['clear_ascents']}, at "
                    f"{worst['step']:g}, so at most {worst['clear_bound']:.1%} of all directions "
                    f"({sure} confidence)."
                )
            else:
                text += (
                    f" No ascent at any step is beyond what jumps come to, so at each at most "
                    f"{own['clear_bound'].max():.1%} of all directions ascend so clearly; the largest "
                    f"ascent is {max(own['largest'].max(), 0.0):.5f}."
                )
            text += (
                f" Of {net['swept']} single weights {net['best_as_trained']} are best as trained "
                f"among shifts of up to {self.shift:g}%; the best shift of one gains "
                f"{net['best_gain']:.5f}."
            )
            found.append(text)
        for network, own in tables["directions"].groupby("network", sort=False):
            begins = [f"{loss} {_begin(counts)}" for loss, counts in own.groupby("loss", sort=False)]
            found.append(
                f"{network} nets: steps from which fewer than {100.0 * self.share:g}% of "
                f"directions ascend ({sure} confidence): {', '.join(begins)}."
            )
        return found


def _largest(flat: FlatNetwork, count: int) -> list[int]:
    """Return weights: those to the score first, then the others, the largest of each first."""
    inner = np.arange(flat.point.size) < flat.last.start
    order = np.lexsort((-np.abs(flat.point), inner))
    return [int(weight) for weight in order[:count]]


def _begin(own: pd.DataFrame) -> str:
    """Return the least step from which on the claim can be made."""
    last = own.loc[~own["fewer"], "step"].max()
    steps = own["step"] if np.isnan(last) else own.loc[own["step"] > last, "step"]
    return f"{steps.min():g}" if len(steps) else "none"


def _claim(own: pd.DataFrame, share: float, sure: str) -> str:
    steps, few = own.loc[own["fewer"], "step"].tolist(), f"fewer than {100.0 * share:g}%"
    if not steps:
        return f"At no step can it be claimed that {few} ascend."
    smallest = own.loc[~own["fewer"], "step"].max()
    text = f"With {sure} confidence {few} of all directions ascend at "
    if np.isnan(smallest):
        return text + "every step."
    if min(steps) > smallest:
        worst = own.loc[own["step"] == smallest].iloc[0]
        return text + f"steps of {min(steps):g} and more; at {smallest:g} at most {worst['bound']:.1%}."
    return text + f"steps {', '.join(f'{step:g}' for step in steps)}."
