"""Test by random directions whether a trained net is at a local optimum of a measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from experiments.common import Results, chart, each, gather, main
from experiments.landscape import count_ascents, directions_needed
from experiments.networks import FlatNetwork, NetworkMeasure, Training

TRAINING = Training()
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
"""Factor on the epochs of two-layer nets, which converge more slowly."""


def experiment(
    training: Training = TRAINING,
    *,
    networks: tuple[str, ...] = ("linear", "two-layer"),
    losses: tuple[str, ...] = ("lambdarank", "ranknet", "approxndcg", "song"),
    confidence: float = 0.99,
    share: float = 0.01,
    steps: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    shift: float = 50.0,
    shifts: int = 21,
    weights: int = 50,
) -> Results:
    """Test nets trained to convergence with several losses (Yue and Burges 2007, section 5.3).

    The measure is evaluated on the training queries at two kinds of points. The first are a step away in
    random directions (the one-sided Monte Carlo test of `experiments.landscape`). In the second, one weight
    is shifted by a percentage of its trained value. LambdaRank is truncated at the measure's cutoff.

    Parameters
    ----------
    training : Training
        options of the trainings; two-layer nets have four times the epochs
    networks : tuple of str
        linear, two-layer
    losses : tuple of str
        training losses
    confidence : float
        confidence of the bounds on the share of ascending directions
    share : float
        the share to bound; it determines the number of directions
    steps : tuple of float
        steps, relative to the weights' norm
    shift : float
        largest shift of a single weight, percent
    shifts : int
        shifts of a single weight, an odd number
    weights : int
        shifted weights of a net, the largest of each layer first
    """
    test = {"confidence": confidence, "share": share, "steps": steps}
    grid = {"shift": shift, "shifts": shifts, "weights": weights}
    calls = [
        {"training": own, "network": network, "loss": loss, "test": test, "grid": grid}
        for network in networks
        for own in [training if network == "linear" else replace(training, epochs=LONGER * training.epochs)]
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
    *, training: Training, network: str, loss: str, test: Mapping[str, Any], grid: Mapping[str, Any]
) -> dict[str, Any]:
    """Train a network with a loss, count ascending directions, and shift single weights."""
    trained, (train, held_out) = training.train(network, loss)
    sign, measure = training.sign, training.measure
    flat, objective = trained.network, NetworkMeasure(trained.network, train, measure)
    confidence, share = test["confidence"], test["share"]
    directions = directions_needed(confidence, share)
    found = count_ascents(
        objective, flat.point, flat.scale(), test["steps"], directions, training.seed, confidence=confidence
    )
    shifts = np.linspace(-grid["shift"], grid["shift"], grid["shifts"])
    # gains: higher is better for costs too
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
    """Return indices of weights: those of the last layer first, then the others, each by falling size."""
    inner = np.arange(flat.point.size) < flat.last.start
    order = np.lexsort((-np.abs(flat.point), inner))
    return [int(weight) for weight in order[:count]]


if __name__ == "__main__":
    main(__spec__)
