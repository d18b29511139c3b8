"""Smoothness of a measure in single weights of a trained net, by number of queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.common import Results, chart, each, gather, main, power_law
from experiments.landscape import jump_noise, roughness
from experiments.networks import FlatNetwork, NetworkMeasure, Training

TRAINING = Training(data="artificial:10000", batch_size=200)
QUICK = {
    "data": "artificial:1000",
    "queries": (100, 300, 1000),
    "points": 201,
    "epochs": 40,
    "batch_size": 50,
}


def experiment(
    training: Training = TRAINING,
    *,
    queries: tuple[int, ...] = (100, 1000, 10000),
    networks: tuple[str, ...] = ("linear", "two-layer"),
    weights: int = 5,
    shift: float = 100.0,
    zoom: float = 1.0,
    points: int = 401,
) -> Results:
    """Shift single weights of nets trained by LambdaRank (Yue and Burges 2007, section 5.2, figures 2, 3).

    The shifted weights are those with the largest absolute values in the linear net, and those from the
    hidden units to the output in the two-layer net. All subsamples of queries use the same grid of shifts, so
    that their roughness can be compared. A finer grid around the largest weight shows the discontinuities.

    Parameters
    ----------
    training : Training
        options of the trainings; all nets are trained with LambdaRank
    queries : tuple of int
        sizes of the subsamples
    networks : tuple of str
        linear, two-layer
    weights : int
        number of shifted weights of the linear net

    shift : float
        largest shift, percent of a weight
    zoom : float
        largest shift of the finer grid, percent
    points : int
        shifts on each grid, an odd number
    """
    sizes = {"queries": queries, "weights": weights, "points": points}
    common = {"training": training, **sizes, "shifts": {"shift": shift, "zoom": zoom}}
    tables = gather(each(sweep, [{**common, "network": network} for network in networks]))
    whole = tables["roughness"].query("part == 'shift'")
    figures = ["variation", "excess", "optima", "noise", "range"]
    medians = whole.groupby(["network", "queries"], sort=False)[figures].median().reset_index()
    curves = tables["curves"]
    curves = curves.assign(
        panel=curves["network"] + ", " + curves["queries"].astype(str) + " queries, " + curves["part"]
    )
    return {
        "nets": tables["nets"],
        "medians": medians,
        # the power is -0.5 for independent jumps
        "noise": power_law(whole, ["network"], "queries", "noise"),
        "roughness": tables["roughness"],
        "curves": tables["curves"],
        "smoothness": chart(curves, "shift", "value", line="weight", panel="panel"),
    }


def sweep(
    *,
    training: Training,
    network: str,
    queries: tuple[int, ...],
    weights: int,
    points: int,
    shifts: Mapping[str, float],
) -> dict[str, Any]:
    """Train a net, and evaluate the measure with single weights shifted."""
    trained, (train, _) = training.train(network, "lambdarank")
    flat = trained.network
    # the objective is minus a cost: higher is better
    sign, measure = training.sign, training.measure
    order = np.random.default_rng([training.seed, 52]).permutation(len(train.queries))
    chosen = _weights(flat, weights)
    lines = [("shift", chosen[0]), ("zoom", chosen[0]), *(("shift", weight) for weight in chosen[1:])]
    curves, rough = [], []
    for count in sorted({min(count, order.size) for count in queries}):
        objective = NetworkMeasure(flat, train.take(np.sort(order[:count])), measure)
        for part, weight in lines:
            grid = np.linspace(-shifts[part], shifts[part], points)
            values = objective.at_weight(flat.point, weight, (1.0 + grid / 100.0) * flat.point[weight])
            key = {"network": network, "part": part, "queries": count, "weight": flat.name(weight)}
            curves += [
                {**key, "shift": at, "value": value}
                for at, value in zip(grid.tolist(), (sign * values).tolist(), strict=True)
            ]
            numbers, best = roughness(values), int(np.argmax(values))
            # the noise is that of a shift by 1%, for any grid
            noise = jump_noise(sign * values) * np.sqrt((points - 1) / (2 * grid[-1]))
            rough.append(
                {**key, "trained": float(flat.point[weight]), "variation": numbers.ratio}
                | {"excess": numbers.excess, "optima": numbers.maxima, "noise": float(noise)}
                | {"range": float(np.ptp(values)), "best_shift": float(grid[best])}
                | {"gain": float(values[best] - values[points // 2])}
            )
    net = {"network": network, "queries": len(train.queries), "gradient": trained.gradient}
    net |= {"first_gradient": trained.first_gradient}
    net["value"] = sign * NetworkMeasure(flat, train, measure)(flat.point)
    return {"curves": curves, "roughness": rough, "nets": [net]}


def _weights(flat: FlatNetwork, count: int) -> list[int]:
    """Return weights in which the score is linear, the largest first; all of them for a two-layer net."""
    last = flat.point[flat.last]
    order = np.argsort(-np.abs(last), kind="stable") + flat.last.start
    return [int(weight) for weight in (order if flat.hidden else order[:count])]


if __name__ == "__main__":
    main(__spec__)
