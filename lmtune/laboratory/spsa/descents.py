"""Descents of a linear net's cross-entropy by SPSA and FDSA, and what their estimates cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.gradient_free import Gains, fdsa_gradient, minimise
from lmtune.laboratory.data import load
from lmtune.laboratory.spsa.linear_net import LinearRankNet
from lmtune.reranking.data import RankingData

# Curves are drawn through so many points.
_MARKS = 60
_STABILITY, _ALPHA = 0.1, 0.602
_SMALL_WIDTH = 1e-4


@lru_cache(maxsize=1)
def rank_net(data: str, seed: int) -> LinearRankNet:
    """Return the cost on the training queries of `lmtune.laboratory.data.load`."""
    return LinearRankNet(load(data, seed).train)


def first_weights(features: int, seed: int, run: int) -> NDArray[np.float64]:
    """Draw a start as linear layers are: uniform within one over the root of the features."""
    edge = 1.0 / math.sqrt(features)
    return np.random.default_rng([seed, run]).uniform(-edge, edge, (features,))


def gains_of(rate: float, width: float, steps: int) -> Gains:
    """Return gains whose first rate and width are these, stable for a tenth of the steps."""
    stability = _STABILITY * steps
    return Gains(rate * (stability + 1.0) ** _ALPHA, width, stability)


def marks_of(evaluations: int) -> list[int]:
    """Return the evaluations at which costs are noted."""
    return [round(evaluations * k / _MARKS) for k in range(1, _MARKS + 1)]


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
        Draw the start and the perturbations.
    evaluations : int
        Of the cost.
    rate, width : float
        The first of each.
    per_step : int, optional
        Evaluations of a step of SPSA; FDSA if left out.

    Returns
    -------
    list of float
        Infinite from overflow on.
    """
    points: list[NDArray[np.float64]] = []
    marks = marks_of(evaluations)
    first = last = first_weights(net.features, seed, run)

    def observe(step: int, spent: int, x: NDArray[np.float64]) -> None:
        nonlocal last
        del step
        while len(points) < len(marks) and marks[len(points)] < spent:
            points.append(last)
        last = x

    steps = (evaluations - 2) // (per_step or 2 * net.features)
    minimise(
        net.costs,
        first,
        method="spsa" if per_step else "fdsa",
        evaluations_per_step=per_step,
        budget=evaluations,
        gains=gains_of(rate, width, steps),
        seed=seed * 1000 + run,
        together=True,
        gradient=None if per_step else net.gradient,
        observe=observe,
    )
    points += [last] * (len(marks) - len(points))
    costs: list[float] = net.exact_costs(np.stack([first, *points])).tolist()
    return costs


def check_gradient(data: str, seed: int, width: float) -> dict[str, Any]:
    """Find the minimum by the closed form, and compare that with finite differences."""
    from scipy.optimize import minimize

    net = rank_net(data, seed)
    start = first_weights(net.features, seed, 1)

    def both(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        return float(net.exact_costs(w[None])[0]), net.gradient(w)

    options: Any = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    found = minimize(both, start, jac=True, method="L-BFGS-B", options=options)
    rows = []
    for place, w in (("start", start), ("minimum", found.x)):
        closed = net.gradient(w)
        for c in (width, _SMALL_WIDTH):
            differences = fdsa_gradient(net.exact_costs, w, c, together=True)
            rows.append(
                {
                    "weights": place,
                    "c": c,
                    "largest_slope": float(np.abs(closed).max()),
                    "largest_difference": float(np.abs(differences - closed).max()),
                }
            )
    return {"minimum": float(found.fun), "features": net.features, "pairs": net.pairs, "rows": rows}


def count_evaluations(
    features: tuple[int, ...], methods: Mapping[str, int | None], seed: int
) -> list[dict[str, Any]]:
    """Count the cost's evaluations in one step of each method, net by net."""
    rows = []
    for d in features:
        rng = np.random.default_rng([seed, d])
        x = rng.uniform(-1.0, 1.0, (10, d)).astype(np.float32)
        net = LinearRankNet(RankingData.from_lengths(x, np.arange(10) % 3, [5, 5]))
        for name, per_step in methods.items():
            asked: list[int] = []

            def costs(points: NDArray[np.float64], net: LinearRankNet = net, asked: list[int] = asked) -> Any:
                asked.append(len(points))
                return net.costs(points)

            found = minimise(
                costs,
                np.zeros(d),
                method="spsa" if per_step else "fdsa",
                evaluations_per_step=per_step,
                budget=2 + (per_step or 2 * d),
                gains=Gains(0.1, 0.01),
                seed=seed,
                together=True,
            )
            # But for the two ends, which belong to no step.
            rows.append({"method": name, "features": d, "evaluations": (sum(asked) - 2) // found.steps})
    return rows
