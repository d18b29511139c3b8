"""Optimality: is a trained net at a local optimum of a measure? Random directions say.

After Yue and Burges (2007, section 5.3), who find LambdaRank at a local optimum of NDCG. Linear and
two-layer nets are trained to rest by several losses, in full, on all training queries. On the same
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
from lmtune.laboratory.spsa.flat_networks import NETWORKS, FlatNetwork, NetworkMeasure
from lmtune.laboratory.spsa.optimality_pictures import draw
from lmtune.laboratory.spsa.rested import Training, train_to_rest, without_idle_features
from lmtune.measures.measure import Measure, parse_list_measure
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reranking.loss_names import loss_names

# Two-layer nets come to rest so much more slowly.
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
    networks: tuple[str, ...] = option(NETWORKS, "linear, two-layer")
    losses: tuple[str, ...] = option(("lambdarank", "ranknet", "approxndcg", "song"), "what to train by")
    confidence: float = option(0.99, "of the bounds on the share of ascending directions")
    share: float = option(0.01, "the share to bound, which makes how many directions are needed")
    steps: tuple[float, ...] = option(
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), "steps, relative to the weights' norm"
    )
    shift: float = option(50.0, "largest shift of a single weight, percent")
    shifts: int = option(21, "shifts of a single weight, an odd number")
    weights: int = option(50, "single weights a net, the largest of each layer first")
    epochs: int = option(100, "passes over the training queries, by a two-layer net four times that")
    learning_rate: float = option(0.03, "Adam's first rate, which falls to 0")
    batch_size: int = option(100, "queries a step")
    seed: int = option(0, "draws artificial data, first weights, batches and directions")

    def units(self) -> list[Unit]:
        """Return one piece of work a network and loss."""
        parse_list_measure(self.measure)
        directions_needed(self.confidence, self.share)
        for given, known in ((self.networks, NETWORKS), (self.losses, loss_names())):
            for name in given:
                if name not in known:
                    raise InputError("unknown name", value=name, accepted=", ".join(known))
        if min(self.steps) <= 0.0:
            raise InputError("bad steps", value=min(self.steps), accepted="positive numbers")
        for name, low in {"shifts": 3, "weights": 1, "epochs": 1, "batch_size": 1}.items():
            value = getattr(self, name)
            if value < low or (name == "shifts" and value % 2 == 0):
                accepted = f"{low} or more" + (", an odd number" if name == "shifts" else "")
                raise InputError(f"bad {name}", value=value, accepted=accepted)
        if not 0.0 < self.shift < np.inf:
            raise InputError("bad shift", value=self.shift, accepted="a positive number")
        return [
            Unit(f"{network}-{loss}", examine, {"settings": self, "network": network, "loss": loss})
            for network in dict.fromkeys(self.networks)
            for loss in dict.fromkeys(self.losses)
        ]

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Put nets, counts of directions, and single weights' gains in tables."""
        nets, directions, sweeps = [], [], []
        shifts = np.linspace(-self.shift, self.shift, self.shifts).tolist()
        for result in results.values():
            key = {"network": result["network"], "loss": result["loss"]}
            best = {name: max(gains) for name, gains in result["sweeps"].items()}
            top = max(best, key=lambda name: best[name])
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
            for step in result["steps"]:
                row = {**key, "directions": result["directions"], **step}
                row["fewer"] = step["bound"] < self.share
                row["clearly_fewer"] = step["clear_bound"] < self.share
                directions.append(row)
            for name, gains in result["sweeps"].items():
                sweeps += [
                    {**key, "weight": name, "shift": shift, "gain": gain}
                    for shift, gain in zip(shifts, gains, strict=True)
                ]
        return {
            "nets": pd.DataFrame(nets),
            "directions": pd.DataFrame(directions),
            "sweeps": pd.DataFrame(sweeps),
        }

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw the tables."""
        return draw(self, found)

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
                + f". {_claim(own, 'fewer', self.share, sure)}"
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


def examine(settings: Optimality, network: str, loss: str) -> dict[str, Any]:
    """Train a network by a loss, count ascending directions and shift single weights."""
    fold = load(settings.data, settings.seed)
    train, test = without_idle_features(fold.train, fold.test)
    measure = parse_list_measure(settings.measure)
    epochs = settings.epochs if network == "linear" else _MORE * settings.epochs
    training = Training(
        loss,
        _options(loss, measure),
        network,
        epochs,
        settings.batch_size,
        settings.learning_rate,
        settings.seed,
    )
    rested = train_to_rest(train, training)
    flat, objective = rested.network, NetworkMeasure(rested.network, train, measure)
    place = (objective, flat.point, flat.scale(), settings.steps)
    noise = line_noise(*place, seed=settings.seed, along=objective.along)
    found = ascent_test(
        *place,
        directions_needed(settings.confidence, settings.share),
        settings.seed,
        confidence=settings.confidence,
        noise=noise.tolist(),
        along=objective.along,
    )
    sign = 1.0 if measure.higher_is_better else -1.0
    shifts = np.linspace(-settings.shift, settings.shift, settings.shifts)
    return {
        "network": network,
        "loss": loss,
        "weights": flat.point.size,
        "train": sign * found.value,
        "test": sign * NetworkMeasure(flat, test, measure)(flat.point),
        "gradient": rested.gradient,
        "first_gradient": rested.first_gradient,
        "directions": found.directions,
        "steps": [asdict(step) for step in found.steps],
        "sweeps": {
            # Gains, so that more is better for costs as well.
            flat.name(weight): (
                objective.at_weight(flat.point, weight, (1 + shifts / 100) * flat.point[weight]) - found.value
            ).tolist()
            for weight in _chosen(flat, settings.weights)
        },
    }


def _options(loss: str, measure: Measure) -> dict[str, Any]:
    follows = loss == "lambdarank" and measure.kind == "nDCG" and measure.cutoff is not None
    return {"k": measure.cutoff} if follows else {}


def _chosen(flat: FlatNetwork, count: int) -> list[int]:
    """Return weights: those to the score first, then the others, the largest of each first."""
    size = np.abs(flat.point)
    inner = np.arange(flat.point.size) < flat.last.start
    order = np.lexsort((-size, inner))
    return [int(weight) for weight in order[:count]]


def _begin(own: pd.DataFrame) -> str:
    """Return the least step from which on the claim can be made."""
    last = own.loc[~own["fewer"], "step"].max()
    steps = own["step"] if np.isnan(last) else own.loc[own["step"] > last, "step"]
    return f"{steps.min():g}" if len(steps) else "none"


def _claim(own: pd.DataFrame, column: str, share: float, sure: str) -> str:
    steps = own.loc[own[column], "step"].tolist()
    if not steps:
        return f"At no step can it be claimed that fewer than {100.0 * share:g}% ascend."
    smallest = own.loc[~own[column], "step"].max()
    text = f"With {sure} confidence fewer than {100.0 * share:g}% of all directions ascend at "
    if np.isnan(smallest):
        return text + "every step."
    if min(steps) > smallest:
        worst = own.loc[own["step"] == smallest].iloc[0]
        return text + f"steps of {min(steps):g} and more; at {smallest:g} at most {worst['bound']:.1%}."
    return text + f"steps {', '.join(f'{step:g}' for step in steps)}."
