"""SPSA compared with finite differences: cross-entropy of a linear net by function evaluations."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Results, chart, each, main
from experiments.datasets import load_split
from experiments.spsa.gradients import fdsa_gradient
from experiments.spsa.linear import LinearRankNet, Vector, first_weights, gains_of
from lmtune.rerank import RankingData
from lmtune.tuning.gradient_free import Gains, minimise

QUICK = {"data": "artificial:100", "runs": 5, "evaluations": 1500}
MARKS = 60
"""Points of a curve."""
FDSA = "FDSA"


def experiment(
    *,
    data: str = "artificial:1000",
    runs: int = 10,
    evaluations: int = 2000,
    per_step: tuple[int, ...] = (2, 4, 8),
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    width: float = 0.01,
    features: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000),
    seed: int = 0,
) -> Results:
    """Descend by SPSA and by finite differences (Yue and Burges 2007, section 5.1).

    Parameters
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    runs : int
        number of starts, the same for all methods
    evaluations : int
        function evaluations of a run
    per_step : tuple of int
        F of SPSA:F, even
    rates : tuple of float
        initial rates to choose from, for each method
    width : float
        initial distance c of the evaluated points
    features : tuple of int
        numbers of weights, for the cost of a step
    seed : int
        seed of artificial data, starts and perturbations
    """
    methods = {FDSA: None, **{f"SPSA:{f}": f for f in per_step}}
    fixed = {"data": data, "seed": seed, "evaluations": evaluations, "width": width}
    calls = [{**fixed, "per_step": f, "runs": runs, "rates": rates} for f in methods.values()]
    descents = dict(zip(methods, each(descend, calls), strict=True))
    minimum, gradient = check_gradient(data, seed, width)
    weights = rank_net(data, seed).features
    marks = [0, *marks_of(evaluations)]
    curves, rows, tried = [], [], []
    for name, record in descents.items():
        reached = np.array(record["runs"])
        mean = reached.mean(axis=0)
        spread = {"cost": mean, "lowest": reached.min(axis=0), "highest": reached.max(axis=0)}
        curves.append(pd.DataFrame({"method": name, "evaluations": marks, **spread}))
        # 95% of the way from the start to the minimum.
        there = np.flatnonzero(mean <= mean[0] - 0.95 * (mean[0] - minimum))
        rows.append(
            {"method": name, "evaluations_per_step": methods[name] or 2 * weights, "rate": record["rate"]}
            | {"start": mean[0], "final": mean[-1], "minimum": minimum}
            | {"deviation": reached[:, -1].std(ddof=1) if runs > 1 else math.nan}
            | {"evaluations_to_95": marks[there[0]] if there.size else math.nan}
        )
        tried += [{"method": name, **row} for row in record["tried"]]
    costs = pd.concat(curves, ignore_index=True)
    steps = count_evaluations(methods, features, seed)
    between = ("lowest", "highest")
    return {
        "methods": pd.DataFrame(rows),
        "rates": pd.DataFrame(tried),
        "gradient": gradient,
        "steps": steps,
        "costs": costs,
        "costs-by-evaluations": chart(
            costs, "evaluations", "cost", line="method", between=between, levels=[minimum]
        ),
        "step": chart(steps, "features", "evaluations", line="method", log="xy"),
    }


@lru_cache(maxsize=1)
def rank_net(data: str, seed: int) -> LinearRankNet:
    """Return the cost on the training queries."""
    return LinearRankNet(load_split(data, seed).train)


def marks_of(evaluations: int) -> list[int]:
    """Return the numbers of evaluations at which costs are recorded."""
    return [round(evaluations * k / MARKS) for k in range(1, MARKS + 1)]


def descend(
    *,
    data: str,
    seed: int,
    evaluations: int,
    width: float,
    per_step: int | None,
    runs: int,
    rates: tuple[float, ...],
) -> dict[str, Any]:
    """Choose the rate with the lowest mean cost over a separate run, and descend from each start.

    The final cost would not distinguish rates that reach the minimum.
    """
    net = rank_net(data, seed)
    fixed: dict[str, Any] = {"evaluations": evaluations, "width": width, "per_step": per_step}
    firsts = [course(net, seed, 0, rate=rate, **fixed) for rate in rates]
    best = int(np.argmin([np.mean(costs) for costs in firsts]))
    tried = [
        {"rate": rate, "mean": float(np.mean(costs)), "final": costs[-1], "chosen": number == best}
        for number, (rate, costs) in enumerate(zip(rates, firsts, strict=True))
    ]
    courses = [course(net, seed, run, rate=rates[best], **fixed) for run in range(1, runs + 1)]
    return {"tried": tried, "rate": rates[best], "runs": courses}


def course(
    net: LinearRankNet,
    seed: int,
    run: int,
    *,
    evaluations: int,
    rate: float,
    width: float,
    per_step: int | None,
) -> list[float]:
    """Descend, and return the cost of the iterate at the start and at each mark.

    Parameters
    ----------
    net : LinearRankNet
        The cost.
    seed, run : int
        Seeds of the start and the perturbations.
    evaluations : int
        Evaluations of the cost.
        rate, width : float
        Initial rate and width.
    per_step : int, optional
        Evaluations in a step of SPSA; None for FDSA.
    """
    points: list[Vector] = []
    marks = marks_of(evaluations)
    first = last = first_weights(net.features, seed, run)

    def observe(_: int, spent: int, x: Vector) -> None:
        nonlocal last
        while len(points) < len(marks) and marks[len(points)] < spent:
            points.append(last)
        last = x

    minimise(
        net.costs,
        first,
        method="spsa" if per_step else "fdsa",
        evaluations_per_step=per_step,
        budget=evaluations,
        gains=gains_of(rate, width, (evaluations - 2) // (per_step or 2 * net.features)),
        seed=seed * 1000 + run,
        together=True,
        gradient=None if per_step else net.gradient,
        observe=observe,
    )
    points += [last] * (len(marks) - len(points))
    costs: list[float] = net.exact_costs(np.stack([first, *points])).tolist()
    return costs


def check_gradient(data: str, seed: int, width: float) -> tuple[float, pd.DataFrame]:
    """Find the minimum by the closed-form gradient, and compare this gradient with finite differences."""
    from scipy.optimize import minimize

    net = rank_net(data, seed)
    start = first_weights(net.features, seed, 1)

    def both(w: Vector) -> tuple[float, Vector]:
        return float(net.exact_costs(w[None])[0]), net.gradient(w)

    options: Any = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    optimum = minimize(both, start, jac=True, method="L-BFGS-B", options=options)
    rows = []
    for name, w in (("start", start), ("minimum", optimum.x)):
        closed = net.gradient(w)
        for c in (width, 1e-4):
            differences = fdsa_gradient(net.exact_costs, w, c, together=True)
            row = {"weights": name, "c": c, "largest_slope": np.abs(closed).max()}
            rows.append(row | {"largest_difference": np.abs(differences - closed).max()})
    return float(optimum.fun), pd.DataFrame(rows)


def count_evaluations(methods: dict[str, int | None], features: tuple[int, ...], seed: int) -> pd.DataFrame:
    """Count the evaluations of the cost in one step of each method, for each net."""
    rows = []
    for d in features:
        x = np.random.default_rng([seed, d]).uniform(-1.0, 1.0, (10, d)).astype(np.float32)
        net = LinearRankNet(RankingData.from_lengths(x, np.arange(10) % 3, [5, 5]))
        for name, per_step in methods.items():
            asked: list[int] = []

            def costs(points: Vector, net: LinearRankNet = net, asked: list[int] = asked) -> Vector:
                asked.append(len(points))
                return net.costs(points)

            descent = minimise(
                costs,
                np.zeros(d),
                method="spsa" if per_step else "fdsa",
                evaluations_per_step=per_step,
                budget=2 + (per_step or 2 * d),
                gains=Gains(0.1, 0.01),
                seed=seed,
                together=True,
            )
            # except for the two ends, which belong to no step
            rows.append({"method": name, "features": d, "evaluations": (sum(asked) - 2) // descent.steps})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main(__spec__)
