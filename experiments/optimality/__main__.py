"""Whether a trained net is at a local optimum of a measure, by random directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.common import Results, chart, each, gather, main
from experiments.landscape import count_ascents, directions_needed
from experiments.networks import FlatNetwork, NetworkMeasure, trained_network
from lmtune.measures.measure import parse_list_measure

QUICK = {
    "data": "artificial:300",
    "losses": ("lambdarank", "ranknet"),
    "steps": (0.01, 0.1, 1.0),
    "shifts": 11,
    "weights": 10,
    "epochs": 40,
    "batch_size": 60,
}
LONGER = 4
"""Two-layer nets converge so much more slowly: so many times the epochs."""


def experiment(
    *,
    data: str = "artificial:2000",
    measure: str = "ndcg@10",
    networks: tuple[str, ...] = ("linear", "two-layer"),
    losses: tuple[str, ...] = ("lambdarank", "ranknet", "approxndcg", "song"),
    confidence: float = 0.99,
    share: float = 0.01,
    steps: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    shift: float = 50.0,
    shifts: int = 21,
    weights: int = 50,
    epochs: int = 100,
    learning_rate: float = 0.03,
    batch_size: int = 100,
    seed: int = 0,
) -> Results:
    """Test nets trained to convergence by several losses (Yue and Burges 2007, section 5.3).

    On the training queries the measure is taken at points a step away in random directions (the
    one-sided Monte Carlo test of `experiments.landscape`), and with one weight at a time shifted by a
    percentage of its trained value. LambdaRank is truncated at the measure's cutoff, for it is to follow
    that measure.

    Parameters
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    measure : str
        ndcg[@k], pairwise-error, mrr[@k], wta or ap
    networks : tuple of str
        linear, two-layer
    losses : tuple of str
        losses to train by
    confidence : float
        confidence of the bounds on the share of ascending directions
    share : float
        the share to bound, which makes how many directions are needed
    steps : tuple of float
        steps, relative to the weights' norm
    shift : float
        largest shift of a single weight, percent
    shifts : int
        shifts of a single weight, an odd number
    weights : int
        single weights a net, the largest of each layer first
    epochs : int
        passes over the training queries, by a two-layer net four times that
    learning_rate : float
        Adam's first rate, which falls to 0
    batch_size : int
        queries a step
    seed : int
        seed of artificial data, first weights, batches and directions
    """
    how = {"learning_rate": learning_rate, "batch_size": batch_size, "seed": seed}
    test = {"confidence": confidence, "share": share, "steps": steps}
    grid = {"shift": shift, "shifts": shifts, "weights": weights}
    calls = [
        {"data": data, "measure": measure, "network": network, "loss": loss, "test": test, "grid": grid}
        | {"how": {**how, "epochs": epochs * (1 if network == "linear" else LONGER)}}
        for network in networks
        for loss in losses
    ]
    tables = gather(each(examine, calls))
    counts = tables["directions"].assign(
        percent=lambda rows: 100.0 * rows["ascents"] / (rows["directions"] - rows["outside"])
    )
    sweeps = tables["sweeps"].assign(panel=lambda rows: rows["network"] + ", " + rows["loss"])
    highest = sweeps.groupby(["panel", "shift"], sort=False)["gain"].max().reset_index()
    return {
        **tables,
        "ascents": chart(
            counts, "step", "percent", line="loss", panel="network", log="x", levels=[100.0 * share]
        ),
        "highest": chart(highest, "shift", "gain", panel="panel", levels=[0.0]),
    }


def examine(
    *,
    data: str,
    measure: str,
    network: str,
    loss: str,
    test: Mapping[str, Any],
    grid: Mapping[str, Any],
    how: Mapping[str, Any],
) -> dict[str, Any]:
    """Train a network by a loss, count ascending directions and shift single weights."""
    trained, (train, held_out) = trained_network(data, measure, network, loss, **how)
    sign = 1.0 if parse_list_measure(measure).higher_is_better else -1.0
    flat, objective = trained.network, NetworkMeasure(trained.network, train, measure)
    confidence, share = test["confidence"], test["share"]
    directions = directions_needed(confidence, share)
    found = count_ascents(
        objective, flat.point, flat.scale(), test["steps"], directions, how["seed"], confidence=confidence
    )
    shifts = np.linspace(-grid["shift"], grid["shift"], grid["shifts"])
    # Gains, so that more is better for costs as well.
    gains = {
        flat.name(weight): objective.at_weight(flat.point, weight, values) - found.value
        for weight in _largest(flat, grid["weights"])
        for values in [(1 + shifts / 100) * flat.point[weight]]
    }
    top = max(gains, key=lambda name: gains[name].max())
    key = {"network": network, "loss": loss}
    net = key | {
        **{"weights": flat.point.size, "train": sign * found.value},
        "test": sign * NetworkMeasure(flat, held_out, measure)(flat.point),
        **{"gradient": trained.gradient, "first_gradient": trained.first_gradient},
        **{"directions": found.directions, "swept": len(gains)},
        "best_as_trained": sum(bool((gain <= 0.0).all()) for gain in gains.values()),
        **{"best_shifted": top, "best_shift": float(shifts[np.argmax(gains[top])])},
        "best_gain": float(gains[top].max()),
    }
    counts = [
        {**key, "directions": found.directions, **step}
        | {"fewer": step["bound"] < share, "clearly_fewer": step["clear_bound"] < share}
        for step in map(asdict, found.steps)
    ]
    sweeps = [
        {**key, "weight": name, "shift": at, "gain": value}
        for name, gain in gains.items()
        for at, value in zip(shifts.tolist(), gain.tolist(), strict=True)
    ]
    return {"nets": [net], "directions": counts, "sweeps": sweeps}


def _largest(flat: FlatNetwork, count: int) -> list[int]:
    """Return weights: those to the score first, then the others, the largest of each first."""
    inner = np.arange(flat.point.size) < flat.last.start
    order = np.lexsort((-np.abs(flat.point), inner))
    return [int(weight) for weight in order[:count]]


if __name__ == "__main__":
    main(__spec__)
