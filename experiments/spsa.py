"""SPSA against finite differences: descents, their evaluations, pictures and claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from experiments.data import HELP, load_split
from experiments.experiment import Claim, Experiment, Tables, Unit, choose_by_first, figures
from experiments.pictures import Chart
from experiments.spsa_kernels import pair_costs, pair_slopes
from lmtune.errors import InputError
from lmtune.gradient_free import Gains, fdsa_gradient, minimise
from lmtune.measures.lists import Measurer
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reranking.data import RankingData

Vector = NDArray[np.float64]


class LinearRankNet:
    r"""RankNet's cost of a linear net, :math:`s_i = w \cdot x_i`, as a function of its weights.

    .. math:: C(w) = \frac{1}{|P|} \sum_{(i, j) \in P} \ln\left(1 + e^{-(s_i - s_j)}\right)

    in nats, over the pairs P of one query's documents of which i has the higher label (Burges et
    al. 2005; Yue and Burges 2007, section 5.1). A mean over all pairs, so that long lists weigh
    more.

    Parameters
    ----------
    data : RankingData
        Queries; those whose documents all have one label have no pair.

    Attributes
    ----------
    features : int
        Weights of the net.
    pairs : int
        Pairs in the cost.

    Raises
    ------
    InputError
        Where there is no pair.
    """

    def __init__(self, data: RankingData) -> None:
        order = np.lexsort((-data.labels, data.query_of_row))
        self._x = np.ascontiguousarray(data.features[order], np.float32)
        labels = data.labels[order]
        self._starts = data.starts
        self._below = np.empty(order.size, np.int64)
        for q in range(len(data.queries)):
            rows = data.rows(q)
            rising = -labels[rows]
            self._below[rows] = rows.start + np.searchsorted(rising, rising, side="right")
        ends = np.repeat(data.starts[1:], data.lengths)
        self.features = self._x.shape[1]
        self.pairs = int((ends - self._below).sum())
        if not self.pairs:
            raise InputError("no pair of documents to tell apart", accepted="a query with different labels")

    def costs(self, points: ArrayLike) -> Vector:
        """Return the cost at points.

        Scores are computed in single precision, as nets do, and summed up in double.

        Parameters
        ----------
        points : array_like of float, shape (points, features)

        Returns
        -------
        numpy.ndarray of float64, shape (points,)
        """
        return self._costs(np.asarray(points, np.float32) @ self._x.T)

    def exact_costs(self, points: ArrayLike) -> Vector:
        """Return the same with scores in double precision, for differences over small steps."""
        return self._costs(np.asarray(points, np.float64) @ self._x.T.astype(np.float64))

    def _costs(self, scores: NDArray[np.floating]) -> Vector:
        out = np.empty(scores.shape[0])
        pair_costs(scores.astype(np.float64), self._starts, self._below, out)
        return out / self.pairs

    def gradient(self, w: ArrayLike) -> Vector:
        r"""Return the closed form of the cost's gradient.

        .. math:: \nabla C = \frac{1}{|P|} \sum_{(i, j) \in P} \frac{x_j - x_i}{1 + e^{s_i - s_j}}
        """
        x = self._x.astype(np.float64)
        slopes = np.empty(x.shape[0])
        pair_slopes(x @ np.asarray(w, np.float64), self._starts, self._below, slopes)
        gradient: Vector = slopes @ x / self.pairs
        return gradient


class LinearMeasure:
    """A measure of a linear net's rankings, as a function of its weights.

    Parameters
    ----------
    data : RankingData
        Queries.
    measure : str
        As `lmtune.measures.measure.parse_list_measure` takes.

    Attributes
    ----------
    features : int
        Weights of the net.
    """

    def __init__(self, data: RankingData, measure: str) -> None:
        self._x = np.ascontiguousarray(data.features, np.float32)
        self._measurer = Measurer(measure, data)
        self.features = self._x.shape[1]

    def means(self, points: ArrayLike) -> Vector:
        """Return the mean over queries at points, (points, features) to (points,)."""
        return self._measurer.means(np.asarray(points, np.float32) @ self._x.T)

    def values(self, point: ArrayLike) -> Vector:
        """Return each query's value at a point; NaN where it does not count."""
        return self._measurer.values(self._x @ np.asarray(point, np.float32))


# Curves are drawn through so many points.
_MARKS = 60
_STABILITY, _ALPHA = 0.1, 0.602
_SMALL_WIDTH = 1e-4


@lru_cache(maxsize=1)
def rank_net(data: str, seed: int) -> LinearRankNet:
    """Return the cost on the training queries of `experiments.data.load_split`."""
    return LinearRankNet(load_split(data, seed).train)


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


FDSA = "FDSA"

# Of the way from the start to the minimum.
_THERE = 0.95


@dataclass(frozen=True)
class SpsaVersusFdsa(Experiment):
    """Experiment.

    SPSA against finite differences: a linear net's cross-entropy by function evaluations.
    """

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
        return [
            *(Unit(_key(name), self.descend, {"per_step": f}) for name, f in self.methods.items()),
            Unit("gradient", self.check_gradient, {}),
            Unit("steps", self.count_evaluations, {}),
        ]

    def descend(self, per_step: int | None) -> dict[str, Any]:
        """Choose a method's rate on a run of its own, and descend from each start.

        The chosen rate has the lowest mean cost over that run: the final cost cannot tell rates
        apart that have reached the minimum.
        """
        net = rank_net(self.data, self.seed)
        fixed: dict[str, Any] = {"evaluations": self.evaluations, "width": self.width, "per_step": per_step}

        def descent(run: int, rate: float) -> dict[str, Any]:
            costs = course(net, self.seed, run, rate=rate, **fixed)
            return {"costs": costs, "mean": float(np.mean(costs)), "final": costs[-1]}

        rates, runs = [{"rate": rate} for rate in self.rates], range(self.runs + 1)
        return choose_by_first(descent, rates, runs, "mean", ("mean", "final"), lowest=True)

    def check_gradient(self) -> dict[str, Any]:
        """Find the minimum by the closed form, and compare that with finite differences."""
        from scipy.optimize import minimize

        net = rank_net(self.data, self.seed)
        start = first_weights(net.features, self.seed, 1)

        def both(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            return float(net.exact_costs(w[None])[0]), net.gradient(w)

        options: Any = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
        optimum = minimize(both, start, jac=True, method="L-BFGS-B", options=options)
        rows = []
        for name, w in (("start", start), ("minimum", optimum.x)):
            closed = net.gradient(w)
            for c in (self.width, _SMALL_WIDTH):
                differences = fdsa_gradient(net.exact_costs, w, c, together=True)
                largest = {"slope": np.abs(closed).max(), "difference": np.abs(differences - closed).max()}
                rows.append(
                    {"weights": name, "c": c, **{f"largest_{of}": float(x) for of, x in largest.items()}}
                )
        return {"minimum": float(optimum.fun), "features": net.features, "pairs": net.pairs, "rows": rows}

    def count_evaluations(self) -> list[dict[str, Any]]:
        """Count the cost's evaluations in one step of each method, net by net."""
        rows = []
        for d in self.features:
            rng = np.random.default_rng([self.seed, d])
            x = rng.uniform(-1.0, 1.0, (10, d)).astype(np.float32)
            net = LinearRankNet(RankingData.from_lengths(x, np.arange(10) % 3, [5, 5]))
            for name, per_step in self.methods.items():
                asked: list[int] = []

                def costs(
                    points: NDArray[np.float64], net: LinearRankNet = net, asked: list[int] = asked
                ) -> Any:
                    asked.append(len(points))
                    return net.costs(points)

                descent = minimise(
                    costs,
                    np.zeros(d),
                    method="spsa" if per_step else "fdsa",
                    evaluations_per_step=per_step,
                    budget=2 + (per_step or 2 * d),
                    gains=Gains(0.1, 0.01),
                    seed=self.seed,
                    together=True,
                )
                # But for the two ends, which belong to no step.
                rows.append({"method": name, "features": d, "evaluations": (sum(asked) - 2) // descent.steps})
        return rows

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Return the mean costs with their ranges, what became of each method, and the checks."""
        gradient = results["gradient"]
        marks = [0, *marks_of(self.evaluations)]
        curves, methods, rates = [], [], []
        for name in self.methods:
            record = results[_key(name)]
            runs = np.array([run["costs"] for run in record["runs"][1:]])
            [chosen] = [row for row in record["tried"] if row["chosen"]]
            mean = runs.mean(axis=0)
            spread = {"cost": mean, "lowest": runs.min(axis=0), "highest": runs.max(axis=0)}
            curves.append(pd.DataFrame({"method": name, "evaluations": marks, **spread}))
            goal = mean[0] - _THERE * (mean[0] - gradient["minimum"])
            there = np.flatnonzero(mean <= goal)
            per_step = self.methods[name] or 2 * gradient["features"]
            row = {"method": name, "evaluations_per_step": per_step, "rate": chosen["rate"]}
            row |= {"start": mean[0], "final": mean[-1]}
            row["deviation"] = runs[:, -1].std(ddof=1) if len(runs) > 1 else math.nan
            row["minimum"] = gradient["minimum"]
            methods.append(row | {"evaluations_to_95": marks[there[0]] if there.size else math.nan})
            rates += [{"method": name, **row} for row in record["tried"]]
        return {
            "costs": pd.concat(curves, ignore_index=True),
            "methods": pd.DataFrame(methods),
            "rates": pd.DataFrame(rates),
            "gradient": pd.DataFrame(gradient["rows"]),
            "steps": pd.DataFrame(results["steps"]),
        }

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw the costs by evaluations, and a step's evaluations by weights."""
        x, y, step = "function evaluations", "pair-wise cross-entropy (nats)", "function evaluations a step"
        minimum = {"": tables["methods"]["minimum"].iloc[:1].tolist()}
        costs = Chart(x, y, "method", low="lowest", high="highest", levels=minimum, late=True)
        caption = f"Cross-entropy of a linear net on {self.data}: mean of the runs, and their range"
        axes, names = {"evaluations": x, "cost": y}, {"features": "weights", "evaluations": step}
        descents, steps = tables["costs"].rename(columns=axes), tables["steps"].rename(columns=names)
        drawn = Chart("weights", step, "method").draw(steps, "steps", step.capitalize())
        return [costs.draw(descents, "costs", caption), drawn]

    def claims(self) -> Sequence[Claim]:
        """Return whether SPSA converges faster, and the work of a step."""
        ends = f"evaluations_to_{_THERE:.0%}=evaluations_to_95 final start minimum rate evaluations_per_step"
        return (
            Claim(
                f"After {self.evaluations:,} evaluations, {self.runs} runs",
                figures("methods", "method", ends),
            ),
            Claim(
                f"SPSA is {_THERE:.0%} of the way to the minimum in fewer evaluations than FDSA",
                _to_minimum,
                lambda rows: rows["evaluations"] < rows["FDSA"],
            ),
            Claim("Evaluations for the cost at which the other ends", _overtaken),
            Claim(
                "The rate chosen, and the costs of its run",
                figures("rates", "method", "rate mean final", where="chosen"),
            ),
            Claim(
                "FDSA's gradient against the closed form, by c",
                figures("gradient", "weights c", "largest_difference largest_slope"),
            ),
            Claim(
                "Evaluations of a step, by weights",
                figures("steps", "method", "fewest=evaluations", "min", most=("evaluations", "max")),
            ),
        )


def _key(method: str) -> str:
    return method.replace(":", "").lower()


def _to_minimum(tables: Tables) -> pd.DataFrame:
    """Return the variants' evaluations, and FDSA's; where one does not get there, infinitely many."""
    needed = tables["methods"].set_index("method")["evaluations_to_95"].fillna(math.inf)
    return pd.DataFrame({"evaluations": needed, "FDSA": needed[FDSA]}).drop(index=FDSA)


def _overtaken(tables: Tables) -> pd.DataFrame:
    """Find when each method has the cost at which another ends, of SPSA's best and FDSA."""
    costs = tables["costs"].pivot(index="evaluations", columns="method", values="cost")
    leader = costs.iloc[-1].drop(FDSA).idxmin()
    pairs = {leader: FDSA, FDSA: leader}
    reached = {method: costs.index[costs[method] <= costs[other].iloc[-1]] for method, other in pairs.items()}
    return pd.DataFrame({"evaluations": {method: at[0] for method, at in reached.items() if len(at)}})
