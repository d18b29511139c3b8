"""Test whether RankNet's and Direct's lambda and mu are local optima of MAP."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.common import Results, chart, each, gather, main
from experiments.datasets import load_pool
from experiments.landscape import count_ascents, directions_needed, random_directions
from lmtune import CandidatePool, ParameterSpace, Plan, run_experiment
from lmtune.collections.folds import Fold
from lmtune.measures import Measure, parse_measure
from lmtune.measures.evaluate import measure_settings

QUICK = {"topics": 200, "steps": (0.01, 0.1, 1.0)}
CONFIDENCE, SHARE = 0.99, 0.01
SCALE = (1.0, 1.0)
BATCH = 250

Vector = NDArray[np.float64]


def experiment(
    *,
    dataset: str = "pydocs",
    topics: int = 0,
    measure: str = "AP",
    directions: int = directions_needed(CONFIDENCE, SHARE),
    steps: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0),
    seed: int = 0,
) -> Results:
    """Look for ascents of a measure from the settings of RankNet and of direct search.

    Metzler (SIGIR 2007) minimises the RankNet cost instead of a measure. The measure is examined at RankNet's
    setting as Yue and Burges (2007) examine NDCG at LambdaRank's weights: by random directions in
    (logit lambda, log mu), the space of RankNet's search. Direct's setting is the control.

    Parameters
    ----------
    dataset : str
        collection: a name or path for lmtune.load
    topics : int
        number of topics, sampled with the seed; 0 for all
    measure : str
        AP, P@k, Bpref, nDCG@k
    directions : int
        random directions from each setting
    steps : tuple of float
        step sizes in (logit lambda, log mu)
    seed : int
        seed of topics, directions and the methods' starts
    """
    common = {"dataset": dataset, "topics": topics, "measure": measure}
    common |= {"directions": directions, "steps": steps, "seed": seed}
    tables = gather(each(examine, [{**common, "method": method} for method in ("RankNet", "Direct")]))
    ascents = tables["ascents"].assign(percent=lambda rows: 100.0 * rows["ascents"] / rows["inside"])
    levels = [100.0 * SHARE]
    return {**tables, "by-step": chart(ascents, "step", "percent", line="method", log="x", levels=levels)}


def examine(
    *,
    dataset: str,
    topics: int,
    measure: str,
    directions: int,
    steps: tuple[float, ...],
    seed: int,
    method: str,
) -> dict[str, Any]:
    """Tune on all topics; return rows of ``points``, the setting, and of ``ascents``, by step."""
    pool, judged_by = load_pool(dataset, topics=topics, seed=seed), parse_measure(measure)
    plan = Plan((judged_by,), approx=False, bag=False, final=False, seed=seed)
    result = run_experiment(pool, [Fold(pool.topics, pool.topics)], plan)
    [fit] = next(row.fits for row in result.rows if row.method == method)
    mean = MeanOnPool(pool, judged_by, plan.space, plan.depth)
    at = plan.space.to_unbounded(plan.space.vector(fit.params))
    drawn = random_directions(directions, SCALE, seed=seed)
    sizes = sorted(steps)
    mean.remember(np.concatenate([at + np.array(sizes)[:, None] * direction for direction in drawn]))
    test = count_ascents(mean, at, SCALE, sizes, directions, seed, confidence=CONFIDENCE)
    point = {"method": method, **fit.params, "value": test.value, "at_edge": ", ".join(fit.at_edge)}
    rows = [
        {"method": method, "step": step["step"], "inside": directions - step["outside"], **step}
        for step in map(asdict, test.steps)
    ]
    return {"points": [point | {"evaluations": fit.evaluations}], "ascents": rows}


@dataclass(frozen=True)
class MeanOnPool:
    """The mean of a measure over a pool's topics, as a function of (logit lambda, log mu).

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    measure : Measure
        The measure.
    space : ParameterSpace
        The domain; the mean is NaN outside its `unbounded_box`.
    depth : int
        Run depth.
    known : dict
        Cached values, by the bytes of the point.
    """

    pool: CandidatePool
    measure: Measure
    space: ParameterSpace
    depth: int
    known: dict[bytes, float] = field(default_factory=dict)

    def __call__(self, point: Vector) -> float:
        """Return the mean at a point."""
        return float(self._means(point[None])[0])

    def along(self, point: Vector, direction: Vector, steps: Vector) -> Vector:
        """Return the means at ``point + step * direction``, shape (steps,)."""
        return self._means(point + steps[:, None] * direction)

    def remember(self, points: Vector) -> None:
        """Evaluate points, shape (points, 2), and cache the values; many at once take half the time."""
        for first in range(0, len(points), BATCH):
            self._means(points[first : first + BATCH])

    def _means(self, points: Vector) -> Vector:
        low, high = np.array(self.space.unbounded_box).T
        inside = ((points >= low) & (points <= high)).all(axis=1)
        new = [point for point in points[inside] if point.tobytes() not in self.known]
        if new:
            settings = np.array([self.space.from_unbounded(point) for point in new])
            values = measure_settings(self.pool, settings, [self.measure], depth=self.depth)
            # a row for each setting, so that its sum does not depend on the number of settings
            means = np.ascontiguousarray(values[:, :, 0].T).mean(axis=1)
            for point, mean in zip(new, means.tolist(), strict=True):
                self.known[point.tobytes()] = mean
        return np.array([self.known.get(point.tobytes(), math.nan) for point in points], np.float64)


if __name__ == "__main__":
    main(__spec__)
